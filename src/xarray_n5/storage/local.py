"""Files of the local system, shared mounts included, by plain calls of the operating system."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from xarray_n5.paths import join, meant_by, partial_key
from xarray_n5.storage.filesystems import local_path
from xarray_n5.storage.found import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.compression import Buffer
    from xarray_n5.storage import Listing

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | _FLAGS
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


_LOCAL = re.compile(r"(?:file|local)://")


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A directory.

    A write goes to a hidden neighbour with a name of its own, which then replaces the file:
    who reads sees the old bytes or the new ones, and a killed write leaves the old. Renaming
    works on network mounts that refuse links.
    """

    root: str
    """The directory's absolute path."""
    fsync: bool = False
    """Whether a write waits until it would outlive a power cut."""
    batch: ClassVar[int] = 1
    """How many keys are worth asking for at once: files come one by one."""
    formats: ClassVar[tuple[str, ...]] = ("n5", "zarr2")
    one_writer: ClassVar[bool] = False

    @classmethod
    def at(cls, place: object, options: Mapping[str, Any]) -> Self | None:  # noqa: ARG003
        """Return the store at a path, a ``file://`` URL, or what fsspec calls a local file."""
        if isinstance(place, cls):
            return place
        path = _LOCAL.sub("", place) if isinstance(place, str) else local_path(place)
        if isinstance(place, str) and path and ("::" in path or "://" in path):
            return None
        if path is None and isinstance(place, os.PathLike):
            path = os.fsdecode(place)
        if path is None:
            return None
        # The same place has one name, however it is reached: tokens depend on it.
        return cls(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111

    @property
    def url(self) -> str:
        """The directory's path."""
        return self.root

    @property
    def name(self) -> str:
        """What the directory is called."""
        return os.path.basename(self.root)  # noqa: PTH119

    def place(self, path: str) -> object:
        """Return what tells a node from others."""
        return ("local", os.path.realpath(self._path(path)))

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}" if key else self.root

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`: one open, one read."""
        try:
            file = os.open(self._path(key), _READ)
        except _MISSING:
            return None
        try:
            size = os.fstat(file).st_size
            data = os.read(file, size)
            while len(data) < size and (more := os.read(file, size - len(data))):
                data += more
        except IsADirectoryError:
            return None
        finally:
            os.close(file)
        return data

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key."""
        return [self.get(key) for key in keys]

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:  # noqa: ARG002
        """Iterate over keys and the bytes there, one by one."""
        return ((key, self.get(key)) for key in keys)

    def peek(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first bytes at `key`, and how many there are."""
        try:
            file = os.open(self._path(key), _READ)
        except _MISSING:
            return None
        try:
            return os.read(file, count), os.fstat(file).st_size
        except IsADirectoryError:
            return None
        finally:
            os.close(file)

    def durable(self) -> Self:
        """Return the store with :attr:`fsync`."""
        return replace(self, fsync=True)

    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key`, whole or not at all."""
        path = self._path(key)
        folder = path.rpartition("/")[0]
        # Unique per attempt: a task that runs twice at once must not share it.
        temporary = partial_key(path)
        try:
            file = os.open(temporary, _CREATE, 0o666)
        except FileNotFoundError:
            _make_folders(folder, flush=self.fsync)
            file = os.open(temporary, _CREATE, 0o666)
        except NotADirectoryError as error:
            raise NotADirectoryError(
                error.errno, "it lies in a file, not in a directory", path
            ) from error
        try:
            try:
                view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
                while view:
                    view = view[os.write(file, view) :]
                if self.fsync:
                    os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, path)  # noqa: PTH105
            if self.fsync:
                _flush_folder(folder)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            if isinstance(error, OSError) and error.filename is None:
                error.filename = path  # a full disk does not say which file was too much
            raise

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        found = self._stat(key)
        return found is not None and not stat.S_ISDIR(found.st_mode)

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        return os.path.isdir(self._path(prefix))  # noqa: PTH112

    def _stat(self, key: str) -> os.stat_result | None:
        try:
            return os.stat(self._path(key))  # noqa: PTH116
        except _MISSING:
            return None

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files. Directories stay: a writer may be about to use them."""
        for key in keys:
            with contextlib.suppress(*_MISSING):
                os.unlink(self._path(key))  # noqa: PTH108

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove the directory at `prefix` and all in it, `first` first; of a link, the link."""
        path = self._path(prefix)
        if os.path.islink(path):  # noqa: PTH114
            os.unlink(path)  # noqa: PTH108
            return
        name = prefix.rpartition("/")[2]
        if not prefix:
            # What lies in a root goes out of sight, and what makes it a node last of all.
            for each in self.list("")[0]:
                if not each.startswith("."):
                    self.delete_tree(each, first)
        elif not name.startswith("."):
            # Out of sight at once: what is killed on the way leaves no half array.
            path, whole = partial_key(path), path
            try:
                os.rename(whole, path)  # noqa: PTH104
            except _MISSING:
                return
        self.delete([join(prefix, first)])
        with contextlib.suppress(*_MISSING):
            shutil.rmtree(path)

    def list(self, prefix: str) -> Listing:
        """Return the names of directories and of files in the directory at `prefix`."""
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(self._path(prefix)) as entries:
                for entry in entries:
                    (folders if entry.is_dir() else files).append(entry.name)
        except _MISSING:
            return (), ()
        return tuple(sorted(folders)), tuple(sorted(files))

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return what lies directly under each prefix."""
        return [self.list(prefix) for prefix in prefixes]

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the files under `prefix`, relative to it; links that turn back are left."""
        above = frozenset({os.path.realpath(self._path(prefix))})
        return self._walk(prefix, above)

    def _walk(self, prefix: str, above: frozenset[str]) -> Iterator[str]:
        folders, files = self.list(prefix)
        yield from files
        for folder in folders:
            inner = join(prefix, folder)
            real = os.path.realpath(self._path(inner))
            if real not in above:
                for key in self._walk(inner, above | {real}):
                    yield f"{folder}/{key}"

    def survey(self, prefix: str) -> Iterator[Found]:
        """Iterate over the files under `prefix`, with their sizes and times."""
        for key in self.walk(prefix):
            found = self._stat(join(prefix, key))
            if found is not None:
                yield Found(key, found.st_size, found.st_mtime)

    def partials(self, prefix: str) -> Iterator[str]:
        """Iterate over hidden files that killed writes left."""
        return (key for key in self.walk(prefix) if meant_by(key))

    def above(self) -> LocalStore | None:
        """Return the directory around this one."""
        parent = os.path.dirname(self.root)  # noqa: PTH120
        return None if parent == self.root else LocalStore(parent)

    def stamp(self, key: str) -> object:
        """Return the file's time and size: a file that replaced another has a new one."""
        found = self._stat(key)
        return None if found is None else (found.st_mtime_ns, found.st_size)


def _make_folders(folder: str, *, flush: bool) -> None:
    """Make a folder and those above it; with `flush`, their names outlive a power cut."""
    missing = []
    above = folder
    while flush and above and not os.path.isdir(above):  # noqa: PTH112
        above = above.rpartition("/")[0]
        missing.append(above)
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    for each in missing:
        _flush_folder(each or "/")


def _flush_folder(folder: str) -> None:
    """Make a rename outlive a power cut, where the system lets folders be flushed."""
    if os.name == "nt":
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
