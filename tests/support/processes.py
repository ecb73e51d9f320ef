"""Python processes that need not import the package: each is forked off a process that has.

They share no memory, file or lock with the tests, as if they were started by ``subprocess``, which
takes a second of processor more. What must find nothing imported, or is asked about its memory,
its environment or the end of its interpreter, is started by ``subprocess``.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from subprocess import DEVNULL, PIPE, TimeoutExpired
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

START = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
"""How multiprocessing, Dask and its clusters start processes in tests."""

_IMPORTED = ["xarray_n5", "dask.array", "distributed", "h5py", "pytest", "hypothesis", "zarr"]
"""What many of these processes import; none of it starts a thread."""


def prepare() -> None:
    """Start the process that others are forked off, unless it runs."""
    if START == "forkserver":
        from multiprocessing import forkserver

        get_context("forkserver").set_forkserver_preload(_IMPORTED)
        forkserver.ensure_running()


class Python:
    """A Python process with the arguments of a command line, ``-c code`` or ``-m module``.

    It has the methods of ``subprocess.Popen`` that tests use, and a session of its own. Its
    streams are pipes of text where PIPE is asked for, and files where these are given.
    """

    def __init__(
        self,
        *command: object,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        prepare()
        ours: list[Any] = [None, None, None]
        theirs: dict[int, int] = {}
        for number, asked in enumerate((stdin, stdout, stderr)):
            if asked == PIPE:
                reads, writes = os.pipe()
                theirs[number] = writes if number else reads
                ours[number] = os.fdopen(reads) if number else os.fdopen(writes, "w")
            elif asked is not None:
                theirs[number] = (
                    os.open(os.devnull, os.O_RDWR) if asked == DEVNULL else os.dup(asked)
                )
        self.stdin, self.stdout, self.stderr = ours
        what = ([*map(str, command)], _Streams(theirs), cwd, {**os.environ, **(env or {})})
        context: Any = get_context(START)
        self._process = context.Process(target=_main, args=what)
        self._process.start()
        for stream in theirs.values():
            os.close(stream)
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        found: int | None = self._process.exitcode
        return found

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutExpired("python", timeout or 0)
        return self.returncode

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def communicate(self, text: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Write to the process, and return what it prints until it ends."""
        if self.stdin is not None:
            self.stdin.write(text)
            self.stdin.close()
        with ThreadPoolExecutor(2) as threads:
            found = [*threads.map(_rest, (self.stdout, self.stderr))]
        self.wait(timeout)
        return found[0], found[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


def _rest(stream: IO[str] | None) -> str:
    if stream is None:
        return ""
    with stream:
        return stream.read()


class _Streams:
    """Open files that become the standard streams of a process."""

    def __init__(self, streams: dict[int, int]) -> None:
        self.streams = streams

    def __getstate__(self) -> Any:
        from multiprocessing.reduction import DupFd  # Windows has none

        return {number: DupFd(stream) for number, stream in self.streams.items()}

    def __setstate__(self, state: Any) -> None:
        self.streams = {number: stream.detach() for number, stream in state.items()}


def _main(
    command: Sequence[str], streams: _Streams, cwd: Path | None, env: Mapping[str, str]
) -> None:
    """Run a command as ``python`` does."""
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    if cwd is not None:
        os.chdir(cwd)
        sys.path.insert(0, str(cwd))
    for number, stream in streams.streams.items():
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - multiprocessing closed it
    how, what, *arguments = command
    sys.argv = [how, *arguments]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
