"""Write views as a project: after all checks, data are written, and the XML last.

Source of the attributes: N5ApiTools.setupBdvDatasetsN5 of multiview-reconstruction.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.create import hint_of
from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.records import look
from xarray_n5.bdv.combine import combined, document_of, updated
from xarray_n5.bdv.loaders import Loader, XmlPath, absolute_of, reference_of, uri_of
from xarray_n5.bdv.location import ProjectFile, check_location, container_of
from xarray_n5.bdv.project import Project, read_project
from xarray_n5.bdv.xml import LOOK, looks_like_project
from xarray_n5.codecs import to_json
from xarray_n5.errors import MetadataError, N5Error, NodeExistsError
from xarray_n5.formats.containers import open_store
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import ROUNDING
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.model.metadata import GroupMetadata, lists_levels
from xarray_n5.model.paths import numbered, setup_name, view_path
from xarray_n5.stores import FsspecStore, LocalStore, uncached
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.request import planned_node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.bdv.project import ViewSetup
    from xarray_n5.bdv.write import ViewImage
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.stores import Store
    from xarray_n5.writing.options import WriteOptions
    from xarray_n5.writing.request import WriteRequest


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
        existing = None if document is None else _read(document, store.url)
        if existing is not None:
            _check_container(ProjectFile(store, existing, project), how, own_options)
        elif place.is_encoded and (place.relative or place.target.startswith("file:")):
            warn(
                f"{store.url}: the container's path is written as the URI {place.target!r}, which "
                "BigDataViewer before 10.6 and programs that expect a plain path cannot open; for "
                'those, choose names without white space, brackets and any of "#%<>?\\^`{|}'
            )
        return cls(folder, store.name, store.url, place, existing)

    def update(self, added: Project) -> ProjectUpdate:
        """Return the update of the XML; raise if it is impossible."""
        update = ProjectUpdate(self.folder, self.name, added)
        update.document(self.folder.get(self.name, MOST_BYTES))
        return update


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


def write_views(
    images: Sequence[ViewImage], target: ProjectTarget, how: WriteOptions, *, in_turn: bool = False
) -> GroupWrite:
    """Return the write of views, and of the XML after them.

    Parameters
    ----------
    images
        The images.
    target
        The XML.
    how
        The container and the options of the views.
    in_turn
        Whether each level is computed from the one before.

    Raises
    ------
    MetadataError
        If the container cannot store a view, or a setup differs from that of the project.
    NodeExistsError
        If something exists that the mode does not allow to replace.
    """
    added = reduce(combined, (image.described.project for image in images))
    loader = Loader("bdv.n5", "1.1" if target.place.is_encoded else "1.0", "n5", target.place)
    added = replace(added, loader=loader)
    existing = Existing.of(how, added, target)
    closing = target.update(added)
    requests: dict[str, WriteRequest] = {}
    for image in images:
        requests |= image.requests()

    def check(resumes: bool) -> None:
        if how.mode == "w-" and not resumes:
            existing.check_nothing()
        check_setups(existing, images)

    def prepare() -> None:
        create_group(how.container, "", mode="a")
        for path in existing.levels_beyond(images):
            how.container.delete(path)
        for image in images:
            _create_groups(image, requests, how.container)

    return GroupWrite(
        options=how,
        path="",
        requests=requests,
        attributes={"project": repr(added), "xml": [target.name, repr(target.place)]},
        check=check,
        prepare=prepare,
        closing=closing,
        closes_early=False,  # viewers show what an XML lists
        in_turn=in_turn,
        exclusive=how.mode == "w-",
    )


def _create_groups(
    image: ViewImage, requests: Mapping[str, WriteRequest], container: Container
) -> None:
    """Create the groups of setups, which look like arrays, and those of their views."""
    views = list(image.described.views)
    base = planned_node(requests[view_path(views[0].setup, views[0].timepoint, 0)]).metadata
    facts = {
        "dataType": base.dtype.name,
        "blockSize": list(base.chunks[::-1]),
        "dimensions": list(base.shape[::-1]),
        "compression": to_json(base.compression),
        "downsamplingFactors": [list(factors[::-1]) for factors in image.factors],
    }
    for number in sorted({view.setup for view in views}):
        create_group(container, setup_name(number), mode="a")
        node = container.node(setup_name(number))
        attributes = {**node.metadata.attributes, **facts}
        container.create(node, GroupMetadata(attributes=attributes))
    of_view = {"resolution": [1.0, 1.0, 1.0], "saved_completely": True, "multiScale": True}
    for view in views:
        path = view_path(view.setup, view.timepoint)
        create_group(container, path, mode="a", attributes=of_view)


@dataclass(frozen=True, kw_only=True)
class Existing:
    """The existing content of a container."""

    how: WriteOptions
    target: ProjectTarget
    names: Sequence[str]
    """The names of the nodes in its root."""
    setups: Mapping[int, Attributes]
    """The attributes of the existing setups that are written to."""
    timepoints: Mapping[int, frozenset[int]]
    """The time points that are stored for each of them."""

    @classmethod
    def of(cls, how: WriteOptions, added: Project, target: ProjectTarget) -> Existing:
        """Return the existing content, with one listing per setup."""
        container = how.container
        names = list(container.children("")) if container.exists(container.node("")) else []
        stored = [number for number in added.setups if setup_name(number) in names]
        paths = [setup_name(number) for number in stored]
        setups: dict[int, Attributes] = {}
        times: dict[int, frozenset[int]] = {}
        nodes = container.nodes(paths) if paths else []
        for number, path, node in zip(stored, paths, nodes, strict=True):
            if isinstance(node, N5Error):
                raise node
            setups[number] = node.metadata.attributes
            times[number] = frozenset(numbered(container.children(path), "timepoint"))
        return cls(how=how, target=target, names=names, setups=setups, timepoints=times)

    def check_nothing(self) -> None:
        """Raise NodeExistsError if there is a project, or anything in its container."""
        how = self.how
        hint = hint_of(
            "use mode='a' to add views, or mode='w' to replace them",
            unfinished=bool(look(how.store, "").opens),
            resume=bool(how.resume),
        )
        if self.target.project is not None:
            raise NodeExistsError(self.target.url, "", "a project", hint)
        if self.names:
            shown = f"a container with {', '.join(self.names[:4])}"
            raise NodeExistsError(how.container.url, "", shown, hint)

    def levels_beyond(self, images: Sequence[ViewImage]) -> list[str]:
        """Return the paths of levels of replaced views that the new ones do not have."""
        beyond = []
        for image in images:
            for view in image.described.views:
                if view.timepoint in self.timepoints.get(view.setup, ()):
                    path, count = view_path(view.setup, view.timepoint), len(image.factors)
                    levels = numbered(self.how.container.children(path), "level")
                    beyond += [f"{path}/{name}" for n, name in levels.items() if n >= count]
        return beyond


def check_setups(existing: Existing, images: Sequence[ViewImage]) -> None:
    """Raise if a setup differs from the remaining one with its id.

    In mode "w" a setup may differ, if all its views are replaced.

    Raises
    ------
    NodeExistsError
        If it differs.
    """
    target, replaces = existing.target, existing.how.mode == "w"
    before = target.project.setups if target.project is not None else {}
    for image in images:
        project = image.described.project
        for number, setup in project.setups.items():
            stored = existing.timepoints.get(number, frozenset())
            written = {view.timepoint for view in image.described.views if view.setup == number}
            left = ", ".join(map(str, sorted(stored - written)[:4]))
            if (replaces and not left) or not (stored or number in before):
                continue
            differs = difference_of(before.get(number), setup)
            differs = differs or _stored_difference(existing.setups.get(number, {}), image)
            if differs is None:
                continue
            hint = "use mode='w' to replace all its views"
            if replaces:
                hint = f"its time points {left} are not replaced: write all of them"
            hint += ", or give it another id (the coordinate 'setup')"
            raise NodeExistsError(target.url, setup_name(number), differs, hint)


def difference_of(before: ViewSetup | None, setup: ViewSetup) -> str | None:
    """Return how a setup of a project differs from another one with its id."""
    if before is None:
        return None
    if before.size is not None and before.size != setup.size:
        return f"a setup of size {before.size}; the new one has {setup.size}"
    one, other = before.voxel_size, setup.voxel_size
    if one is not None and other is not None and not np.allclose(one, other, rtol=ROUNDING, atol=0):
        return f"a setup with voxel size {one} {before.unit}; the new one has {other} {setup.unit}"
    for kind, number in setup.attributes.items():
        if before.attributes.get(kind, number) != number:
            return f"a setup of {kind} {before.attributes[kind]}; the new one has {number}"
    return None


def _stored_difference(attributes: Attributes, image: ViewImage) -> str | None:
    """Return how the stored views of a setup differ from the new ones."""
    dtype = attributes.get("dataType")
    new = image.described.levels[0].dtype.name
    if dtype is not None and dtype != new:
        return f"a setup of type {dtype}; the new one has {new}"
    factors = [list(of_level[::-1]) for of_level in image.factors]
    listed = attributes.get("downsamplingFactors")
    if lists_levels(attributes) and listed != factors:
        return f"a setup with factors {listed} (x, y, z); the new one has {factors}"
    return None
