"""The XML that a project is written to: its content, and its update at the end."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.bdv.combine import document_of, updated
from xarray_n5.bdv.loaders import XmlPath, absolute_of, reference_of, uri_of
from xarray_n5.bdv.location import ProjectFile, check_location, container_of
from xarray_n5.bdv.project import Project, read_project
from xarray_n5.bdv.xml import LOOK, looks_like_project
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.formats.containers import find_scene, open_store
from xarray_n5.model.alerts import warn
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.stores import FsspecStore, LocalStore, uncached
from xarray_n5.writing.options import WriteOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.stores import Store


def write_options(
    xml: object,
    data: object | None,
    *,
    storage_options: Mapping[str, Any] | None,
    **options: Any,
) -> WriteOptions:
    """Open the container of a project for a write.

    Without `data`, it is that of the existing project, or one next to the XML with its name.
    """
    if data is None:
        file = find_scene(xml, options_of_xml(xml, storage_options))
        if file is not None:
            data = file.container(storage_options).url
        elif isinstance(xml, str | os.PathLike):
            data = f"{re.sub(r'[.]xml$', '', os.fspath(xml), flags=re.IGNORECASE)}.n5"
        else:
            raise TypeError(f"data is required if the XML is a {type(xml).__name__}")
    return WriteOptions.into(data, storage_options=storage_options, **options)


def options_of_xml(
    xml: object, storage_options: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the options of the filesystem of an XML: the container's if it is a URL."""
    return storage_options if isinstance(xml, str) and "://" in xml else None


@dataclass(frozen=True)
class ProjectTarget:
    """The XML of a project, and the container that it refers to."""

    folder: Store
    """The directory of the XML."""
    name: str
    """The name of the XML in it."""
    url: str
    place: XmlPath
    """The container's path in a new XML."""
    project: Project | None
    """The existing project; None if there is none yet."""

    @classmethod
    def at(
        cls, project: object, how: WriteOptions, storage_options: Mapping[str, Any] | None
    ) -> ProjectTarget:
        """Return the XML at a location, if it may be that of the container.

        Raises
        ------
        MetadataError
            If the container is not N5, or the XML is that of another container.
        NodeExistsError
            If the file is not the XML of a project.
        """
        if how.format.name != "n5":
            raise MetadataError(
                f"{how.container.url}: a project is written as N5, but this is {how.format.name}; "
                "name a container that ends with .n5"
            )
        if how.root:
            raise MetadataError(
                f"{how.container.url}: the views of a project are at the root of its container; "
                f"omit the group {how.root!r}"
            )
        own_options = options_of_xml(project, storage_options)
        store = open_store(project, own_options)
        folder = store.parent()
        if folder is None or not store.name or store.is_folder(""):
            raise MetadataError(f"{store.url} is a directory; expected the path of an XML file")
        if store.name.endswith((".n5", ".zarr", ".h5")):
            raise MetadataError(
                f"{store.url} is the name of a container; expected the path of an XML file, and "
                "that of the container after it"
            )
        if how.store.with_fsync() == how.store:  # it waits until data are on disk
            folder = folder.with_fsync()
        place = _place_of(folder, how.container.store)
        check_location(store, project, place)
        document = folder.get(store.name, MOST_BYTES)
        found = None if document is None else _read(document, store.url)
        if found is not None:
            _check_container(ProjectFile(store, found, project), how, own_options)
        elif place.is_encoded and (place.relative or place.target.startswith("file:")):
            warn(
                f"{store.url}: the container's path is written as the URI {place.target!r}, which "
                "BigDataViewer before 10.6 and programs that expect a plain path cannot open; for "
                'those, choose names without white space, brackets and any of "#%<>?\\^`{|}'
            )
        return cls(folder, store.name, store.url, place, found)

    def update(self, added: Project) -> ProjectUpdate:
        """Return the update of the XML; raise if it is impossible."""
        found = ProjectUpdate(self.folder, self.name, added)
        found.document(self.folder.get(self.name, MOST_BYTES))
        return found


@dataclass(frozen=True)
class ProjectUpdate:
    """The update of a project's XML after all data are written; it is idempotent."""

    folder: Store
    name: str
    added: Project

    def __call__(self) -> None:
        """Write the XML, if it changes: as a hidden file that is renamed, on local disks."""
        with self.folder.exclusive(""):
            before = self.folder.get(self.name, MOST_BYTES)
            after = self.document(before)
            if after != before:
                self.folder.set(self.name, after)

    def document(self, before: bytes | None) -> bytes:
        """Return the XML that replaces another one, or none."""
        where = f"{self.folder.url.rstrip('/')}/{self.name}"
        try:
            if before is None:
                return document_of(self.added)
            return updated(before, self.added)
        except ValueError as error:
            raise MetadataError(f"{where}: the project cannot be updated: {error}") from error


def _check_container(
    file: ProjectFile, how: WriteOptions, storage_options: Mapping[str, Any] | None
) -> None:
    """Raise if an XML is that of another container, or has another layout than is written."""
    loader = file.project.loader
    place = how.container.identity("")
    known = loader is not None and loader.kind == "n5" and loader.problem is None
    if loader is None or not known or container_of(file, storage_options).identity("") != place:
        raise MetadataError(
            f"{file.url}: the project's container is {file.project.container!r} "
            f"({loader.format if loader else 'no loader'}), expected {how.container.url!r}; write "
            "to the project's container, or name another XML"
        )


def _read(document: bytes, url: str) -> Project:
    if not looks_like_project(document[:LOOK]):
        hint = "name another file"
        raise NodeExistsError(url, "", "a file that is not the XML of a project", hint)
    try:
        return read_project(document)
    except ValueError as error:
        raise MetadataError(f"{url}: the project cannot be read: {error}") from error


def _place_of(folder: Store, container: Store) -> XmlPath:
    """Return the container's path for an XML: relative to it, if it is not above it."""
    store = uncached(container)
    if isinstance(folder, LocalStore) and isinstance(store, LocalStore):
        try:
            path = os.path.relpath(os.path.realpath(store.root), os.path.realpath(folder.root))
        except ValueError:  # another drive
            path = os.pardir
        if path != os.pardir and not path.startswith(os.pardir + os.sep):
            return XmlPath(reference_of(path.replace(os.sep, "/")), relative=True)
        return XmlPath(absolute_of(store.root), relative=False)
    base, url = folder.url.rstrip("/") + "/", store.url
    path = url.removeprefix(base) if url.startswith(base) else ""
    if isinstance(store, FsspecStore) and re.search("[?#]", store.root):
        # URLs are shown without what may be a query.
        if not path or not isinstance(folder, FsspecStore):
            raise MetadataError(
                f"{url}: the container's name has '?' or '#', which the URLs of a project cannot "
                "have; write the XML into the container's directory, or choose another name"
            )
        path = store.root[len(folder.root.rstrip("/")) + 1 :]
    if path and "" not in path.split("/"):  # readers would skip empty parts
        return XmlPath(reference_of(path), relative=True)
    return XmlPath(uri_of(url), relative=False)
