"""Writers that are killed at one of the changes that they make to a store."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

import h5py
import pytest

from tests.support.containers import contents
from tests.support.stores import CountingStore, keys_below
from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from xarray_n5.model.metadata import Buffer

NEVER = 1 << 60


class StoppedError(BaseException):
    """The process was killed."""


_STORES: WeakValueDictionary[str, FailingStore] = WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class FailingStore(CountingStore):
    """A store in memory whose process is killed at one of its changes; it can be pickled."""

    left: list[int] = field(default_factory=lambda: [NEVER])

    def __reduce__(self) -> Any:
        _STORES[self.name] = self
        return _STORES.__getitem__, (self.name,)

    @property
    def steps(self) -> int:
        """The number of changes that were made."""
        return NEVER - self.left[0]

    def _step(self) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise StoppedError

    def set(self, key: str, data: Buffer) -> None:
        self._step()
        super().set(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._step()
            super().delete([key])

    def delete_tree(self, prefix: str, first: str) -> None:
        self.delete([f"{prefix}/{first}"] if first else [])
        self.delete([f"{prefix}/{key}" for key in keys_below(self.inner, prefix)])

    # What a test needs of it and of a folder alike

    @property
    def url_to_write(self) -> Any:
        return self

    def stop_after(self, steps: int) -> None:
        """Let a number of changes happen, but no more."""
        self.left[0] = steps

    def copied(self) -> FailingStore:
        """Return a store with the same content."""
        store = FailingStore()
        store.inner.items.update(self.inner.items)
        return store

    def outcome(self) -> dict[str, Any]:
        """Return all that is stored, without the content of the rows of finished writes."""
        return _shown_files(self.inner.items)


def _shown_files(files: Mapping[str, Any]) -> dict[str, Any]:
    """Return files without the content of rows, and documents whatever the order of members."""
    rows = {key: b"" if ".xn5/done/" in key else data for key, data in files.items()}
    documents = {key: json.loads(data) for key, data in rows.items() if _DOCUMENT.search(key)}
    for document in documents.values():
        if document.get("attributes") == {}:
            del document["attributes"]  # which Zarr v3 may leave out
    return {**rows, **documents}


_DOCUMENT = re.compile(r"(^|/)(attributes.json|zarr.json|\.z\w+)$")


@dataclass(frozen=True, eq=False)
class FailingFolder:
    """A folder of a local disk whose writer is killed at one of its changes."""

    folder: Path
    name: str
    """The name of the container in the folder."""
    left: list[int] = field(default_factory=lambda: [NEVER])
    number: Iterator[int] = field(default_factory=itertools.count)

    @property
    def steps(self) -> int:
        return NEVER - self.left[0]

    @property
    def url_to_write(self) -> Any:
        return self.folder / self.name

    def stop_after(self, steps: int) -> None:
        self.left[0] = steps

    def copied(self) -> FailingFolder:
        folder = self.folder.with_name(f"copy{next(self.number)}")
        if self.folder.exists():
            shutil.copytree(self.folder, folder, symlinks=True)
        return FailingFolder(folder, self.name, self.left, self.number)

    def outcome(self) -> dict[str, Any]:
        files: dict[str, Any] = _shown_files(contents(self.folder))
        if self.name.endswith(".h5") and self.name in files:
            del files[self.name]  # and what was to become one
            files = {key: data for key, data in files.items() if not key.endswith(".partial")}
            with h5py.File(self.folder / self.name) as file:
                file.visititems(lambda name, node: files.update({name: _shown(node)}))
        return files

    @classmethod
    @contextmanager
    def at(cls, folder: Path, name: str) -> Iterator[Self]:
        """Stop at changes of all local stores until the end of the block."""
        failing = cls(folder, name)

        def stops(method: Callable[..., None]) -> Callable[..., None]:
            def call(*arguments: Any) -> None:
                failing.left[0] -= 1
                if failing.left[0] < 0:
                    raise StoppedError
                method(*arguments)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for changes in ("set", "delete", "delete_tree", "clear_folder"):
                patch.setattr(LocalStore, changes, stops(getattr(LocalStore, changes)))
            yield failing


def _shown(node: Any) -> Any:
    """Return the elements and attributes of an HDF5 node, as they can be compared."""
    attributes = {key: repr(value) for key, value in node.attrs.items() if key[0] != "_"}
    return attributes, str(node[()].tolist()) if isinstance(node, h5py.Dataset) else None
