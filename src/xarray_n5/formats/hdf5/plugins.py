"""Decode chunks by HDF5's plugins in another process.

HDF5 passes them the bytes of the file. If these are damaged, some plugins crash or never return.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import RequestError
from xarray_n5.formats.hdf5 import plugin_reader
from xarray_n5.formats.hdf5.plugin_reader import ERROR, HEAD, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 60.0
"""The time limit for a chunk; there is another second for each MiB of its elements."""

_START = 60.0
"""The time limit, in seconds, for the start of the process."""


class _NoAnswerError(RuntimeError):
    """The process ended without an answer, or answered another request."""


class Decoder:
    """A process that decodes, which is started when it is needed, and again after it ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Any = None
        self._number = 0

    def read(
        self, file: str, path: str, where: Sequence[slice], dtype: np.dtype[Any]
    ) -> np.ndarray:
        """Return a part of a dataset; strings are bytes.

        Raises
        ------
        OSError
            If HDF5 cannot decode it.
        RuntimeError
            If a plugin ends the process, or takes too long.
        RequestError
            If the process does not start.
        """
        starts, stops = [each.start for each in where], [each.stop for each in where]
        shape = tuple(np.subtract(stops, starts))
        nbytes = int(np.prod(shape)) * dtype.itemsize
        seconds = SECONDS + nbytes / (1 << 20)
        request = (file, path, starts, stops, nbytes, seconds)
        with self._lock:
            answer = self._ask_running(request, seconds)
            if answer is None:
                self._start(file, path)
                answer = self._ask("a filter", request, seconds)
        kind, content = answer
        if kind == ERROR:
            raise OSError(content.decode())
        if kind == STRINGS:
            found = np.empty(nbytes // dtype.itemsize, object)
            found[:] = [each.encode("latin-1") for each in json.loads(content)]
            return found.reshape(shape)
        return np.frombuffer(content, dtype).reshape(shape)

    def _ask_running(self, request: Sequence[object], seconds: float) -> tuple[bytes, bytes] | None:
        """Return the answer of a process that runs already; None if there is none.

        It may have ended before the request, as by the system's lack of memory.
        """
        if self._process is None:
            return None
        try:
            return self._ask("a filter", request, seconds)
        except _NoAnswerError:
            return None

    def _ask(self, what: str, request: Sequence[object], seconds: float) -> tuple[bytes, bytes]:
        """Return the kind and the content of the answer; end the process if it does not come."""
        process, late = self._process, threading.Event()
        self._number += 1
        number = self._number.to_bytes(8, "little")
        head, content, size = b"", b"", 0

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        try:
            timer.start()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(f"{json.dumps([self._number, *request])}\n".encode())
                process.stdin.flush()
                head = process.stdout.read(HEAD)
                if head[1:9] == number:
                    size = int.from_bytes(head[9:], "little")
                    content = process.stdout.read(size)
        except BaseException:
            self.stop()  # the next request must not get the answer of this one
            raise
        finally:
            timer.cancel()
        if len(head) == HEAD and head[1:9] == number and len(content) == size:
            return head[:1], content
        self.stop()
        if late.is_set():
            raise RuntimeError(f"{what} did not return within {seconds:.0f} seconds")
        if len(head) == HEAD and head[1:9] != number:
            raise _NoAnswerError(f"{what} answered another request")
        raise _NoAnswerError(f"{what} ended its process, with status {process.returncode}")

    def _start(self, file: str, path: str) -> None:
        why = "its filter needs another Python process"
        if not sys.executable:
            advice = "set sys.executable to the path of Python"
            raise RequestError("read", file, path, f"{why}, and sys.executable is empty", advice)
        command = [sys.executable, "-P", plugin_reader.__file__]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a program of this package
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for this process only
            )
            self._ask("Python", [sys.path], _START)
        except (OSError, RuntimeError) as error:
            advice = f"check that sys.executable, {sys.executable!r}, is Python"
            why = f"{why}, which did not start ({error})"
            raise RequestError("read", file, path, why, advice) from error

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_decoder = Decoder()
_abandoned: list[Decoder] = []


def decoder() -> Decoder:
    """Return the decoder of this process."""
    return _decoder


@atexit.register
def _stop() -> None:
    _decoder.stop()


def _leave_to_parent() -> None:
    """Start afresh in a forked process."""
    global _decoder  # noqa: PLW0603 - as the cache of files
    _abandoned.append(_decoder)
    _decoder = Decoder()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
