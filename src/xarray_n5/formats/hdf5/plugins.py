"""Decode chunks by HDF5's plugins in another process.

HDF5 passes them the bytes of the file. If these are damaged, some plugins crash or never return.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.formats.hdf5 import plugin_reader
from xarray_n5.formats.hdf5.plugin_reader import ERROR, HEAD, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 60.0
"""The time limit for a chunk; there is another second for each MiB of its elements."""


class Decoder:
    """A process that decodes, which is started when it is needed, and again after it crashed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Any = None

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
        """
        starts, stops = [each.start for each in where], [each.stop for each in where]
        shape = tuple(np.subtract(stops, starts))
        nbytes = int(np.prod(shape)) * dtype.itemsize
        request = json.dumps([file, path, starts, stops, nbytes])
        with self._lock:
            kind, content = self._ask(request, SECONDS + nbytes / (1 << 20))
        if kind == ERROR:
            raise OSError(content.decode())
        if kind == STRINGS:
            found = np.empty(nbytes // dtype.itemsize, object)
            found[:] = [each.encode("latin-1") for each in json.loads(content)]
            return found.reshape(shape)
        return np.frombuffer(content, dtype).reshape(shape)

    def _ask(self, request: str, seconds: float) -> tuple[bytes, bytes]:
        if self._process is None:
            self._process = _start()
        process, late = self._process, threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            process.stdin.write(f"{request}\n".encode())
            process.stdin.flush()
            head = process.stdout.read(HEAD)
            size = int.from_bytes(head[1:], "little")
            content = process.stdout.read(size)
        except BrokenPipeError:
            head = b""
        finally:
            timer.cancel()
        if len(head) == HEAD and len(content) == size:
            return head[:1], content
        self.stop()
        if late.is_set():
            raise RuntimeError(f"a filter did not return within {seconds:.0f} seconds")
        raise RuntimeError(f"a filter ended its process, with status {process.returncode}")

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _start() -> Any:
    command = [sys.executable, "-P", plugin_reader.__file__]
    process = subprocess.Popen(  # noqa: S603 - a program of this package
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    process.stdin.write(f"{json.dumps(sys.path)}\n".encode())  # type: ignore[union-attr]
    return process


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
