"""Read parts of HDF5 datasets for another process: a program, which that process runs.

It imports nothing of this package, so that it starts quickly.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import BinaryIO

_ROOM = 1 << 30
"""The number of bytes that HDF5 and its plugins may use besides the elements."""

_COPIES = 8
"""The number of copies of the elements that they may make."""

ELEMENTS, STRINGS, ERROR = b"=", b'"', b"!"
"""The first byte of an answer, which says what follows; its size, in eight bytes, is next."""

HEAD = 9
"""The number of bytes before the content of an answer."""


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests, a line each, until there are no more."""
    sys.path[:] = json.loads(requests.readline())
    import h5py

    with contextlib.suppress(ImportError):
        import hdf5plugin

        found = hdf5plugin.get_config().registered_filters
        if strange := tuple(name for name, path in found.items() if path == "unknown"):
            hdf5plugin.register(strange, force=True)  # as in codecs/hdf5.py
    used = _memory()
    for line in requests:
        file, path, starts, stops, nbytes = json.loads(line)
        _limit_memory(used + _ROOM + _COPIES * nbytes)
        try:
            kind, content = _read(h5py, file, path, tuple(map(slice, starts, stops)))
        except Exception as error:  # noqa: BLE001 - plugins fail in any way
            kind, content = ERROR, (str(error) or repr(error)).encode("utf-8", "replace")
        answers.write(kind + len(content).to_bytes(8, "little"))
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
    private = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # plugins print
    main(sys.stdin.buffer, private)
