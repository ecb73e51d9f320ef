"""Read parts of HDF5 datasets for another process: a program, which that process runs.

It imports nothing of this package, so that it starts quickly.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import BinaryIO

_ROOM = 1 << 30
"""The number of bytes that HDF5 and its plugins may use besides the elements."""

_COPIES = 8
"""The number of copies of the elements that they may make."""

ELEMENTS, STRINGS, ERROR = b"=", b'"', b"!"
"""The first byte of an answer, which says what follows.

The number of the request and the size of what follows, in eight bytes each, are next.
"""

HEAD = 17
"""The number of bytes before the content of an answer."""


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests, a line each, until there are no more; the first has the search path."""
    number, sys.path[:] = json.loads(requests.readline())
    import h5py

    with contextlib.suppress(ImportError):
        import hdf5plugin

        found = hdf5plugin.get_config().registered_filters
        if strange := tuple(name for name, path in found.items() if path == "unknown"):
            hdf5plugin.register(strange, force=True)  # as in codecs/hdf5.py
    used = _memory()
    _answer(answers, ELEMENTS, number, b"")
    for line in requests:
        number, file, path, starts, stops, nbytes, seconds = json.loads(line)
        _limit_time(seconds + 2)
        _limit_memory(used + _ROOM + _COPIES * nbytes)
        try:
            kind, content = _read(h5py, file, path, tuple(map(slice, starts, stops)))
        except Exception as error:  # noqa: BLE001 - plugins fail in any way
            kind, content = ERROR, (str(error) or repr(error)).encode("utf-8", "replace")
        _answer(answers, kind, number, content)
        _limit_time(0)


def _answer(answers: BinaryIO, kind: bytes, number: int, content: bytes) -> None:
    answers.write(kind + number.to_bytes(8, "little") + len(content).to_bytes(8, "little"))
    answers.write(content)
    answers.flush()


def _read(h5py: Any, file: str, path: str, where: tuple[slice, ...]) -> tuple[bytes, bytes]:
    try:
        opened = h5py.File(file, "r")
    except OSError:
        opened = h5py.File(file, "r", swmr=True, libver="latest")
    with opened:
        found = opened[path][where]
    if found.dtype.hasobject:
        return STRINGS, json.dumps([each.decode("latin-1") for each in found.flat]).encode()
    return ELEMENTS, found.tobytes()


def _memory() -> int:
    """Return the number of bytes of address space in use, where that is known."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - without further imports
            return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 1 << 32


def _limit_time(seconds: float) -> None:
    """End this process after a time, also if the one that asks is gone; 0 means never."""
    if hasattr(signal, "alarm"):
        signal.alarm(int(seconds))


def _limit_memory(nbytes: int) -> None:
    try:
        import resource
    except ImportError:
        return  # Windows
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    allowed = nbytes if most == resource.RLIM_INFINITY else min(nbytes, most)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks handles it
    private = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # plugins print
    main(sys.stdin.buffer, private)
