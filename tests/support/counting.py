"""A filesystem of fsspec that counts the calls of its public operations."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

_OPERATIONS = frozenset(
    {
        *("cat", "cat_file", "cat_ranges", "created", "du", "exists", "find", "get", "get_file"),
        *("glob", "head", "info", "isdir", "isfile", "ls", "makedirs", "mkdir", "modified", "mv"),
        *("open", "pipe", "pipe_file", "put", "put_file", "read_block", "rm", "rm_file", "rmdir"),
        *("size", "sizes", "tail", "touch", "ukey", "walk", "_rm", "rename", "copy", "cp_file"),
    }
)


class CountingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory; what an operation calls itself is not counted."""

    protocol = "counting"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]
        self.calls: Counter[str] = Counter()
        self.requests = 0
        """The calls, and one more for each further file that a call reads."""
        self._busy = False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _OPERATIONS or self._busy:
            return found

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._busy = True
            self.calls[name] += 1
            self.requests += len(args[0]) if args and isinstance(args[0], list) else 1
            try:
                return found(*args, **kwargs)
            finally:
                self._busy = False

        return counted
