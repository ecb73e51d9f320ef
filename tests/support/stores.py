"""Stores for tests: one of each kind, and one that counts its requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote

import pytest

from tests.support.memory_store import MemoryStore
from xarray_n5.formats.containers import open_store
from xarray_n5.stores import FsspecStore, LocalStore, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from xarray_n5.model.metadata import Buffer
    from xarray_n5.stores.base import Listing, ObjectInfo


def _in_fsspec_memory(folder: Path) -> Store:
    return open_store(f"memory://{folder.name}/store")


def _in_fsspec_directory(folder: Path) -> FsspecStore:
    from fsspec.implementations.local import LocalFileSystem

    return FsspecStore(LocalFileSystem(), str(folder / "store"))


def _in_obstore(folder: Path) -> Store:
    fsspec = pytest.importorskip("obstore.fsspec")
    return FsspecStore(fsspec.FsspecStore("memory"), f"{folder.name}/store")


def keys_below(store: Store, prefix: str) -> list[str]:
    """The keys of all files under a prefix, relative to it."""
    return [info.key for info in store.list_info(prefix, sizes=False)]


@dataclass(frozen=True)
class MinimalStore(Store):
    """The seven members of a store and nothing else; keys are names in one directory."""

    root: str

    @property
    def url(self) -> str:
        return f"minimal:{self.root}"

    @property
    def _inner(self) -> LocalStore:
        return LocalStore(self.root)

    def identity(self, path: str) -> object:
        return "minimal", self.root, path

    def parent(self) -> None:
        return None

    def get(self, key: str, most: int | None = None) -> bytes | None:
        return self._inner.get(quote(key, safe=""), most)

    def set(self, key: str, data: Buffer) -> None:
        self._inner.set(quote(key, safe=""), data)

    def delete(self, keys: Iterable[str]) -> None:
        self._inner.delete(quote(key, safe="") for key in keys)

    def list(self, prefix: str) -> Listing:
        start = f"{prefix}/" if prefix else ""
        keys = [unquote(name) for name in self._inner.list("")[1]]
        names = [key.removeprefix(start) for key in keys if key.startswith(start)]
        folders = {name.partition("/")[0] for name in names if "/" in name}
        return tuple(sorted(folders)), tuple(sorted(name for name in names if "/" not in name))


STORES: dict[str, Callable[[Path], Store]] = {
    "local": lambda folder: LocalStore(str(folder / "store")),
    "memory": lambda _: MemoryStore(),
    "fsspec-memory": _in_fsspec_memory,
    "fsspec-directory": _in_fsspec_directory,
    "obstore": _in_obstore,
    "minimal": lambda folder: MinimalStore(str(folder / "store")),
}


def _counted(name: str, called: str = "") -> Any:
    """A method of the store inside, whose calls are counted."""

    def method(self: CountingStore, *arguments: Any) -> Any:
        with self.lock:
            self.counts[called or name] += 1
        return getattr(self.inner, name)(*arguments)

    return method


@dataclass(frozen=True, eq=False)
class CountingStore(Store):
    """A store in memory that counts what is asked of it."""

    concurrency: ClassVar[int] = 64
    inner: MemoryStore = field(default_factory=MemoryStore)
    counts: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def name(self) -> str:
        return self.inner.name

    def identity(self, path: str) -> object:
        return self.inner.identity(path)

    def requests(self) -> dict[str, int]:
        """What was asked since the last time."""
        seen = dict(self.counts)
        self.counts.clear()
        return seen

    def get(self, key: str, most: int | None = None) -> bytes | None:
        self.counts["get"] += 1
        self._note([key])
        return self.inner.get(key, most)

    def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        self.counts["get" if len(keys) == 1 else "get_many"] += 1
        self._note(keys)
        return self.inner.get_many(keys)

    def fetch(
        self, keys: Iterable[str], ahead: int, most: int | None = None
    ) -> Iterator[tuple[str, bytes | None]]:
        assert ahead > 0
        self.counts["get_many"] += 1
        keys = list(keys)
        self._note(keys)
        return self.inner.fetch(keys, ahead, most)

    def _note(self, keys: Iterable[str]) -> None:
        with self.lock:
            self.read.update(keys)

    def chunks_read(self) -> set[tuple[int, ...]]:
        """The indices, in the order of N5, of the chunks that were read since the last time."""
        names = [key.split("/") for key in self.read]
        self.read.clear()
        return {tuple(int(n) for n in name if n.isdigit()) for name in names if name[-1].isdigit()}

    head = _counted("head", "peek")
    exists = _counted("exists")
    delete = _counted("delete")
    is_folder = _counted("is_folder")
    delete_tree = _counted("delete_tree")
    list = _counted("list")

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        self.counts["list" if len(prefixes) == 1 else "list_many"] += 1
        return self.inner.list_many(prefixes)

    def set(self, key: str, data: Buffer) -> None:
        with self.lock:
            self.counts["set"] += 1
            self.written[key] += 1
        self.inner.set(key, data)

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        self.counts["survey" if sizes else "walk"] += 1
        return self.inner.list_info(prefix, sizes=sizes)

    def parent(self) -> None:
        return None

    def etag(self, key: str, *, free: bool = False) -> object:
        self.counts["stamp"] += not free
        return self.inner.etag(key, free=free)


class LoggingStore(LocalStore):
    """A directory of which every process notes what it wrote."""

    __slots__ = ("log",)
    log: str

    def __init__(self, root: str, log: str) -> None:
        super().__init__(root)
        object.__setattr__(self, "log", log)

    def __reduce__(self) -> tuple[object, ...]:
        return LoggingStore, (self.root, self.log)

    def set(self, key: str, data: Buffer) -> None:
        # One write of less than a page, at the file's end, is whole.
        with open(self.log, "a") as file:  # noqa: PTH123
            file.write(f"{key}\n")
        super().set(key, data)

    def written(self) -> list[str]:
        """The keys that were written, as often as they were."""
        with open(self.log) as file:  # noqa: PTH123
            return file.read().split()

    def forget(self) -> None:
        """Begin the log anew."""
        open(self.log, "w").close()  # noqa: PTH123


@dataclass(frozen=True, eq=False)
class ReadingStore(CountingStore):
    """A store whose listings are complete, and which notes the keys that are read."""

    complete_listings: ClassVar[bool] = True
    keys: list[str] = field(default_factory=list)

    def get(self, key: str, most: int | None = None) -> bytes | None:
        self.keys.append(key)
        return super().get(key, most)

    def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        self.keys.extend(keys)
        return super().get_many(keys)

    def fetch(
        self, keys: Iterable[str], ahead: int, most: int | None = None
    ) -> Iterator[tuple[str, bytes | None]]:
        several = list(keys)
        self.keys.extend(several)
        return super().fetch(several, ahead, most)
