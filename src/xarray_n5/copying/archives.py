"""Copy into one ZIP archive, ``.ozx`` (RFC-9 of OME-NGFF): by way of a container next to it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from xarray_n5.errors import MetadataError, NodeExistsError, PathError, ReadOnlyError
from xarray_n5.formats import FORMATS, Zarr3
from xarray_n5.formats.containers import Container, open_store
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.model.paths import final_key, is_partial, partial_key
from xarray_n5.stores import LocalStore
from xarray_n5.stores.archive import OZX
from xarray_n5.writing.options import current_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.spec import Mode

_DOCUMENT = Zarr3.documents[0]

_PIECE = 1 << 22

_UNIX = 3
"""The system whose permissions entries have."""

_MODE = 0o100644 << 16
"""The permissions of files that are unpacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The archive that a copy becomes, and the container in which it is prepared.

    The container is a hidden directory next to the archive, so that a copy that was interrupted
    can be resumed. The archive appears under its name when it is complete.
    """

    target: str
    """The absolute path of the archive."""
    path: str
    """The path in it that the user's URL leads to."""
    ended: bool
    """Whether the copy to resume had ended."""

    @classmethod
    def of(
        cls,
        url: object,
        options: Mapping[str, Any] | None,
        *,
        mode: Mode,
        format: str | None,
        resume: bool | str,
    ) -> Self | None:
        """Return the archive that a URL names, after all checks; None if it names none.

        Raises
        ------
        NodeExistsError
            If it exists, or an interrupted copy to it.
        """
        found = _named(url, options)
        if found is None:
            return None
        target, path = found
        folder, name = os.path.split(target)
        if format not in {None, Zarr3.name}:
            raise MetadataError(f"{target}: {OZX} archives contain Zarr v3, not {format}")
        if len(os.fsencode(partial_key(name))) > 255:  # noqa: PLR2004 - of file systems
            raise PathError(f"{target}: the name is too long for a temporary file next to it")
        packing = cls(target=target, path=path, ended=False)
        begun, exists = os.path.lexists(packing.folder), os.path.lexists(target)
        if begun and not resume:
            hint = "resume it with resume=True, or remove this directory"
            raise NodeExistsError(packing.folder, "", f"an interrupted copy to {name}", hint)
        if exists and (os.path.isdir(target) or os.path.islink(target)):
            what = "not a file; choose another name"
            raise NodeExistsError(target, "", "a directory or a link", what)
        if exists and resume and not begun:
            return cls(target=target, path=path, ended=True)
        if exists and mode == "a":
            raise ReadOnlyError(target, path, "is an archive, to which nothing can be added")
        if exists and mode == "w-" and not begun:
            raise NodeExistsError(target, "", "an archive", "use mode='w' to replace all of it")
        if not os.access(folder, os.W_OK) and os.path.isdir(folder):
            raise PermissionError(errno.EACCES, "no file can be created in it", folder)
        return packing

    @property
    def folder(self) -> str:
        """The directory of the container."""
        folder, name = os.path.split(self.target)
        return os.path.join(folder, f".{name}.copying")

    @property
    def container(self) -> Container:
        """The container in which the copy is prepared."""
        return KeyedContainer(LocalStore(self.folder), FORMATS[Zarr3.name])  # type: ignore[arg-type]

    def check_unverified(self, *, verify: bool) -> None:
        """Raise if a finished copy is to be compared: its container is gone."""
        if verify:
            raise ValueError(
                f"{self.target!r} is a finished copy, which cannot be compared again with "
                "verify=True; compare the digests of its arrays: xarray_n5.digest(url, path)"
            )

    def finish(self) -> Container:
        """Write the archive, remove the container, and return the archive as a container."""
        folder, name = os.path.split(self.target)
        for other in os.listdir(folder):
            if final_key(other) == name:
                _remove(os.path.join(folder, other))
        partial = os.path.join(folder, partial_key(name))
        try:
            write_archive(self.folder, partial)
            os.replace(partial, self.target)
        finally:
            _remove(partial)
        if current_options()["fsync"] and os.name == "posix":
            _flush(folder)
        # A directory that is removed in part must not be resumed.
        os.rename(self.folder, partial)
        _remove(partial)
        return KeyedContainer(open_store(self.target), FORMATS[Zarr3.name])  # type: ignore[arg-type]


def _flush(path: str) -> None:
    """Write a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _named(url: object, options: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Return the local archive that a URL names, and the path in it; None if it names none."""
    given = {name: value for name, value in (options or {}).items() if name == "follow_links"}
    store = LocalStore.at(url, given)
    if store is None:
        if isinstance(url, str) and url.partition("?")[0].lower().endswith(OZX):
            raise PathError(
                f"{url.partition('?')[0]!r}: {OZX} archives are written to local paths; write it "
                "there, and upload it"
            )
        return None
    inner: list[str] = []
    path = store.url
    while not path.lower().endswith(OZX):
        path, name = os.path.split(path)
        if not name:
            return None
        inner.insert(0, name)
    return None if os.path.isdir(path) and inner else (path, "/".join(inner))


def write_archive(folder: str, target: str) -> None:
    """Write all files of a Zarr v3 container to a new archive.

    Entries are not compressed, documents come first and breadth first, and the comment says so.
    """
    infos = (each for each in LocalStore(folder).list_info("") if not is_partial(each.key))
    sizes = {each.key: each.size for each in infos}
    _check_room(target, sum(sizes.values()))
    documents = [key for key in sizes if key.rpartition("/")[2] == _DOCUMENT]
    documents.sort(key=lambda key: (key.count("/"), key))
    others = sorted(sizes.keys() - {*documents})
    with zipfile.ZipFile(target, "x") as archive:
        archive.comment = _comment(folder, documents)
        for key in (*documents, *others):
            entry = zipfile.ZipInfo(key)  # of the earliest time: equal containers, equal archives
            entry.create_system, entry.external_attr = _UNIX, _MODE
            with (
                open(os.path.join(folder, key), "rb") as source,
                archive.open(entry, "w", force_zip64=True) as file,
            ):
                shutil.copyfileobj(source, file, _PIECE)
    if current_options()["fsync"]:
        _flush(target)


def _check_room(target: str, size: int) -> None:
    folder = os.path.dirname(target)
    if shutil.disk_usage(folder).free < size:
        why = f"the archive needs {size} bytes; free them, and resume the copy with resume=True"
        raise OSError(errno.ENOSPC, why, target)


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
