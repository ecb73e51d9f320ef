"""Files of the local system, shared mounts included, by plain calls of the operating system."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.compression import Buffer

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A directory.

    A write goes to a hidden neighbour with a name of its own, which then replaces the file:
    who reads sees the old bytes or the new ones, and a killed write leaves the old. Renaming
    works on network mounts that refuse links.
    """

    root: str
    """The directory's absolute path."""
    batch: ClassVar[int] = 1
    """How many keys are worth one call of :meth:`get_many`: files come one by one."""

    @property
    def url(self) -> str:
        """The directory's path."""
        return self.root

    @property
    def token(self) -> object:
        """What tells this store from others."""
        return ("local", self.root)

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}" if key else self.root

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`: one open, one read."""
        try:
            file = os.open(self._path(key), _READ)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            size = os.fstat(file).st_size
            data = os.read(file, size)
            while len(data) < size and (more := os.read(file, size - len(data))):
                data += more
        finally:
            os.close(file)
        return data

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key."""
        return [self.get(key) for key in keys]

    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key`, whole or not at all."""
        path = self._path(key)
        folder, _, name = path.rpartition("/")
        # Unique per attempt: a task that runs twice at once must not share it.
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.partial"
        try:
            file = os.open(temporary, _CREATE, 0o666)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            file = os.open(temporary, _CREATE, 0o666)
        try:
            try:
                view = memoryview(data).cast("B")
                while view:
                    view = view[os.write(file, view) :]
            finally:
                os.close(file)
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            raise

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        try:
            os.stat(self._path(key))  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files. Directories stay: a writer may be about to use them."""
        for key in keys:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._path(key))  # noqa: PTH108

    def delete_tree(self, prefix: str) -> None:
        """Remove the directory at `prefix` and all in it."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(self._path(prefix))

    def list(self, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of directories and of files in the directory at `prefix`."""
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(self._path(prefix)) as entries:
                for entry in entries:
                    (folders if entry.is_dir() else files).append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return (), ()
        return tuple(sorted(folders)), tuple(sorted(files))

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the files under `prefix`, relative to it."""
        folders, files = self.list(prefix)
        yield from files
        for folder in folders:
            inner = f"{prefix}/{folder}" if prefix else folder
            for key in self.walk(inner):
                yield f"{folder}/{key}"

    def stamp(self, key: str) -> object:
        """Return the file's identity: a file that replaced another has a new one."""
        try:
            found = os.stat(self._path(key))  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        return (found.st_mtime_ns, found.st_size)
