"""Copy into one ZIP archive, ``.ozx`` (RFC-9 of OME-NGFF): by way of a container next to it."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from xarray_n5.errors import MetadataError, NodeExistsError, PathError
from xarray_n5.formats import FORMATS, Zarr3
from xarray_n5.formats.containers import Container, open_store
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.model.paths import is_partial
from xarray_n5.stores import LocalStore
from xarray_n5.stores.archive import OZX
from xarray_n5.writing.options import current_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.stores.base import Store

_DOCUMENT = Zarr3.documents[0]

_PIECE = 1 << 22

_UNIX = 3
"""The system whose permissions entries have."""

_MODE = 0o100644 << 16
"""The permissions of files that are unpacked."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive that a copy becomes.

    The copy is prepared in a hidden directory next to it, so that it can be resumed if it is
    interrupted. The archive appears under its name when it is complete.
    """

    target: str
    """The absolute path of the archive."""

    @classmethod
    def at(cls, url: str) -> Self:
        """Return the local archive that a URL names."""
        location = url.partition("?")[0]
        store = LocalStore.at(location, {})
        if store is None:
            raise PathError(
                f"{location!r}: {OZX} archives are written to local paths; write it there, and "
                "upload it"
            )
        return cls(store.url)

    @property
    def folder(self) -> str:
        """The directory of the container in which the copy is prepared."""
        folder, name = os.path.split(self.target)
        return os.path.join(folder, f".{name}.copying")

    @property
    def container(self) -> Container:
        """The container in which the copy is prepared."""
        return _container(LocalStore(self.folder))

    def is_complete(self, *, mode: str, format: str | None, resume: bool | str) -> bool:
        """Return whether the copy to resume has ended, after checking what is there.

        Raises
        ------
        NodeExistsError
            If there is an archive that must stay, or an interrupted copy to it.
        """
        begun, exists = os.path.lexists(self.folder), os.path.lexists(self.target)
        if format not in {None, Zarr3.name}:
            raise MetadataError(f"{self.target}: {OZX} archives contain Zarr v3, not {format}")
        if begun and not resume:
            hint = "resume it with resume=True, or remove this directory"
            raise NodeExistsError(self.folder, "", f"an interrupted copy to {self.target}", hint)
        if exists and (os.path.isdir(self.target) or os.path.islink(self.target)):
            what = "not a file; choose another name"
            raise NodeExistsError(self.target, "", "a directory or a link", what)
        if not exists or begun:
            return False
        if not resume and mode != "w":
            hint = "nothing can be added to it; use mode='w' to replace it"
            raise NodeExistsError(self.target, "", "an archive", hint)
        return bool(resume)

    def pack(self) -> Container:
        """Write the archive, remove the directory, and return the archive as a container."""
        partial, old = f"{self.folder}.zip", f"{self.folder}.old"
        try:
            write_archive(self.folder, partial)
            os.replace(partial, self.target)
        except OSError:
            if os.path.exists(partial):
                os.unlink(partial)
            raise
        if current_options()["fsync"] and os.name == "posix":
            _flush(os.path.dirname(self.target))
        # A directory that is removed in part must not be resumed.
        shutil.rmtree(old, ignore_errors=True)
        os.rename(self.folder, old)
        shutil.rmtree(old)
        return _container(open_store(self.target))


def _container(store: Store) -> Container:
    return KeyedContainer(store, FORMATS[Zarr3.name])  # type: ignore[arg-type]


def _flush(path: str) -> None:
    """Write a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_archive(folder: str, target: str) -> None:
    """Write all files of a Zarr v3 container to a new archive.

    Entries are not compressed, documents come first and breadth first, and the comment says so.
    """
    keys = [info.key for info in LocalStore(folder).list_info("") if not is_partial(info.key)]
    documents = [key for key in keys if key.rpartition("/")[2] == _DOCUMENT]
    documents.sort(key=lambda key: (key.count("/"), key))
    with zipfile.ZipFile(target, "w") as archive:
        archive.comment = _comment(folder, documents)
        for key in (*documents, *sorted({*keys} - {*documents})):
            entry = zipfile.ZipInfo(key)  # of the earliest time: equal containers, equal archives
            entry.create_system, entry.external_attr = _UNIX, _MODE
            with (
                open(os.path.join(folder, key), "rb") as source,
                archive.open(entry, "w", force_zip64=True) as file,
            ):
                shutil.copyfileobj(source, file, _PIECE)
    if current_options()["fsync"]:
        _flush(target)


def _comment(folder: str, documents: Iterable[str]) -> bytes:
    """Return the comment of an archive, with the version of its first OME-Zarr node."""
    about: dict[str, Any] = {"zipFile": {"centralDirectory": {"jsonFirst": True}}}
    for key in documents:
        with open(os.path.join(folder, key), "rb") as file:
            match json.load(file):
                case {"attributes": {"ome": {"version": str(version)}}}:
                    about = {"version": version, **about}
                    break
    return json.dumps({"ome": about}).encode()
