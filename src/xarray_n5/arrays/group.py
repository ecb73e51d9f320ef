"""Groups: mappings of names to arrays and groups."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.arrays.array import Array, NodeAttributes
from xarray_n5.arrays.create import check_overwrite, complete_group
from xarray_n5.arrays.describe import Description, summary
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.records import read_appends, state_of
from xarray_n5.dialects.groups import are_described, is_label_image
from xarray_n5.errors import N5Error, PathError, ReadOnlyError
from xarray_n5.formats.containers import open_container
from xarray_n5.formats.protocol import Node
from xarray_n5.formats.structure import unfinished, warn_unfinished
from xarray_n5.model.alerts import warn
from xarray_n5.model.json import as_json, check_option
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import join, new_path, normalize_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from xarray_n5.formats import FormatName
    from xarray_n5.formats.containers import Container as FileContainer
    from xarray_n5.model.metadata import Attributes

_MOST_SHOWN = 40
"""The maximum number of nodes of a group that are shown."""


class Group(Mapping[str, "Array | Group"]):
    """A group in a container, as :func:`open_group` and :func:`create_group` return it.

    A mapping of names to the arrays and groups in it; names may be paths. Nothing is cached: each
    access reads what the container holds now. ``del group[name]`` removes an array or a group with
    everything in it.

    Examples
    --------
    >>> group = xarray_n5.create_group("cells.n5")
    >>> raw = xarray_n5.create_array(
    ...     "cells.n5", "em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
    ... )
    >>> list(group), "em/raw" in group
    (['em'], True)
    >>> group["em"]
    <xarray_n5.Group '.../cells.n5/em'>
        raw  4 x 6 uint8, chunks 2 x 3, gzip
    >>> group["em/raw"].shape
    (4, 6)
    >>> del group["em"]
    >>> len(group)
    0
    """

    def __init__(self, container: FileContainer, node: Node, options: OpenOptions) -> None:
        self._container, self._node, self._options = container, node, options
        self._counted: tuple[str, ...] | None = None

    @property
    def container(self) -> FileContainer:
        """The container of the group, for extensions."""
        return self._container

    @property
    def node(self) -> Node:
        """The group as its container describes it, for extensions."""
        return self._node

    @property
    def path(self) -> str:
        """The path of the group in its container; "" if it is the root."""
        return self.node.path

    @property
    def url(self) -> str:
        """The location of the container and the path of the group, joined."""
        return join(self.container.url, self.path)

    @property
    def format(self) -> str:
        """The name of the format of the container: "n5", "zarr2", "zarr3" or "hdf5"."""
        return self.container.format.name

    @property
    def attrs(self) -> NodeAttributes:
        """The attributes of the user, as a mutable mapping; changes are written immediately.

        Values are JSON.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> group.attrs["species"] = "mouse"
        >>> dict(xarray_n5.open_group("cells.n5").attrs)
        {'species': 'mouse'}
        """
        return NodeAttributes(
            self.container, self.node, self._attributes_changed, writable=self._options.writable
        )

    def _attributes_changed(self, attributes: Attributes) -> None:
        self._node = replace(self._node, metadata=GroupMetadata(attributes=attributes))

    def __repr__(self) -> str:
        return repr(describe_group(self))

    def __iter__(self) -> Iterator[str]:
        self._counted = None
        return self._names()

    def __len__(self) -> int:
        # Python calls this to make a list, just after an iterator: one listing is enough.
        self._counted = self.container.children(self.path)
        return len(self._counted)

    def _names(self) -> Iterator[str]:
        names, self._counted = self._counted, None
        yield from self.container.children(self.path) if names is None else names

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not self._is_inside(name):
            return False
        (node,) = self.container.nodes([self._inner(name)], verify=False)
        # A refused link, or an unreadable node, exists, and can be deleted.
        return isinstance(node, N5Error) or self.container.exists(node)

    def __getitem__(self, name: str) -> Array | Group:
        node = self.container.node(self._inner(name))
        if not self.container.exists(node):
            raise KeyError(name)
        if isinstance(node.metadata, ArrayMetadata) and not self._options.writable:
            warn_unfinished(self.container.store, [node.path])
        return self._opened(node)

    def _is_inside(self, name: str) -> bool:
        with suppress(PathError):
            return self._inner(name) is not None
        return False

    def _inner(self, name: str) -> str:
        return join(self.path, normalize_path(name))

    def _opened(self, node: Node) -> Array | Group:
        if isinstance(node.metadata, GroupMetadata):
            return Group(self.container, node, self._options)
        return Array(self._options.node(self.container, node.path, node.metadata))

    def nodes(
        self,
        paths: Iterable[str] | None = None,
        *,
        without: Container[str] = (),
        strict: bool = False,
        errors: dict[str, N5Error] | None = None,
    ) -> dict[str, Array | Group]:
        """Return nodes in the group, with one batch of reads.

        Parameters
        ----------
        paths : iterable of str, optional
            Names of nodes, or their paths in the group; by default those directly in it, which are
            listed.
        without : container of str, default: ()
            The names of nodes to leave out, which are not read.
        strict : bool, default: False
            Whether unreadable nodes raise; otherwise they are left out, with a warning.
        errors : dict, optional
            Where to add the errors of unreadable nodes, by name, instead of warnings.

        Returns
        -------
        dict of str to Array or Group
            The nodes that exist, by path.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = xarray_n5.create_array("cells.n5", "em/raw", shape=(4, 6), dtype="uint8")
        >>> list(group.nodes()), list(group.nodes(["em", "em/raw"]))
        (['em'], ['em', 'em/raw'])
        """
        names = (name for name in (iter(self) if paths is None else paths) if name not in without)
        inside = {name: self._inner(name) for name in names if self._is_inside(name)}
        nodes: dict[str, Array | Group] = {}
        for name, node in zip(inside, self.container.nodes(list(inside.values())), strict=True):
            if not isinstance(node, N5Error):
                nodes[name] = self._opened(node)
            elif strict:
                raise node
            elif errors is None:
                warn(f"{name!r} is left out: {node}")
            else:
                errors[name] = node
        if self._options.writable:
            return nodes
        arrays = [node.path for node in nodes.values() if isinstance(node, Array)]
        store, path = self.container.store, self.path
        hidden = warn_unfinished(store, [path, *arrays] if arrays else ())
        attempts = state_of(((), hidden.get(path, ()))).appends
        return as_before(nodes, read_appends(store, path, attempts).values())

    def arrays(self, without: Container[str] = ()) -> dict[str, Array]:
        """Return the arrays directly in the group, with one listing and one batch of reads.

        Parameters
        ----------
        without : container of str, default: ()
            The names of nodes to leave out, which are not read.

        Returns
        -------
        dict of str to Array
            The arrays by name. Arrays whose metadata cannot be read are left out, with a warning.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = xarray_n5.create_array("cells.n5", "em/raw", shape=(4, 6), dtype="uint8")
        >>> {name: array.shape for name, array in group["em"].arrays().items()}
        {'raw': (4, 6)}
        """
        nodes = self.nodes(without=without).items()
        return {name: node for name, node in nodes if isinstance(node, Array)}

    def __delitem__(self, name: str) -> None:
        """Remove an array or a group with everything in it.

        Raises
        ------
        KeyError
            If the node does not exist.
        """
        self._check_writable()
        path = self._inner(name)
        if path == self.path:
            raise ValueError("a group cannot delete itself; delete it from its parent")
        if name not in self:
            raise KeyError(name)
        self.container.delete(path)

    def _check_writable(self) -> None:
        if not self._options.writable:
            raise ReadOnlyError(self.container.url, self.path)


def as_before(
    nodes: Mapping[str, Array | Group], records: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the nodes of a group, with arrays that appends are resizing as they were before.

    An append resizes its arrays when all its data are stored; in HDF5, which stores no chunks
    beyond the end of a dataset, before that.
    """
    shown: dict[str, Any] = dict(nodes)
    for facts in records:
        for name, (old, new) in facts.get("grows", {}).items():
            array = nodes.get(name)
            if not isinstance(array, Array) or array.node.metadata.shape != tuple(new):
                continue
            if facts.get("commit") or array.node.format.one_writer:
                shown[name] = Array(array.node.with_shape(tuple(old)))
    return shown


def describe_group(group: Group) -> Description:
    """Return the description of a group: the nodes directly in it, in a line each."""
    names = list(group)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # opening them warns separately
        nodes = group.nodes(names[:_MOST_SHOWN])
    arrays = [node.path for node in nodes.values() if isinstance(node, Array)]
    stopped = unfinished(group.container.store, arrays)
    rows = [
        (name, summary(node, unfinished=node.path in stopped))
        if isinstance(node, Array)
        else (f"{name}/", "group")
        for name, node in nodes.items()
    ]
    if len(names) > _MOST_SHOWN:
        rows.append(("...", f"{len(names) - _MOST_SHOWN} more"))
    return Description(f"<xarray_n5.Group {group.url!r}>", rows, tuple(group.attrs))


def create_group(
    url: object,
    path: str = "",
    *,
    attributes: Mapping[str, Any] | None = None,
    mode: Literal["w-", "a"] = "w-",
    format: FormatName | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group, or open one.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, default: ""
        The path of the group in the container; missing groups on the way are created.
    attributes : mapping, optional
        The attributes of the user; JSON values.
    mode : {"w-", "a"}, default: "w-"
        "w-" raises if an array, or a group that is not empty, exists; "a" opens an existing group,
        and adds `attributes` to its own.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; by default that of an existing container. For a new one, it is
        guessed from the suffix (``.zarr``, ``.h5``); otherwise N5.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.

    Returns
    -------
    Group
        The group, open for writing.

    Raises
    ------
    NodeExistsError
        If something exists that `mode` does not allow.
    MetadataError
        If the attributes are not JSON.

    Examples
    --------
    >>> group = xarray_n5.create_group("cells.n5", "em", attributes={"species": "mouse"})
    >>> dict(group.attrs)
    {'species': 'mouse'}
    """
    check_option("mode", mode, "w-", "a")
    container, path = open_container(url, path, storage_options, format)
    path = new_path(path, container.documents)
    at = container.where(path)
    metadata = GroupMetadata(attributes=as_json(attributes or {}, at))
    node = container.node(path)
    existing, options = node.metadata, OpenOptions(writable=True)
    if mode == "a" and isinstance(existing, GroupMetadata) and container.exists(node):
        complete_group(container, node)
        group = Group(container, node, options)
        if metadata.attributes:
            group.attrs.update(metadata.attributes)
        return group
    container.format.check(metadata, at)
    check_overwrite(container, node).create(metadata)
    return Group(container, Node(path=path, metadata=metadata), options)


# Groups ``labels`` of images


_LABELS, _SOURCE = "labels", {"source": {"image": "../../"}}
"""The group of an image of OME-NGFF with images of labels, which it lists: readers find them by
that only. Source: "labels" and "image-label" of versions 0.4 to 0.6."""


def is_label(path: str, dtype: np.dtype[Any], container: FileContainer) -> bool:
    """Return whether a new pyramid is one of labels: integers, in ``labels`` of an image."""
    above, _, _ = path.rpartition("/")
    if dtype.kind not in "iu" or not _is_labels(above):
        return False
    (image,) = container.nodes([above.rpartition("/")[0]], verify=False)
    return isinstance(image, Node) and are_described(image.metadata.attributes)


def with_source(
    attributes: Mapping[str, Any], path: str, dtype: np.dtype[Any], container: FileContainer
) -> dict[str, Any]:
    """Return the attributes of a pyramid's group, with ``image-label`` if it is one of labels.

    The source is the image two groups up, unless the attributes have another one.
    """
    new = are_described(attributes) and not is_label_image(attributes)
    if not new or not is_label(path, dtype, container):
        return dict(attributes)
    if "ome" in attributes:
        return {**attributes, "ome": {**attributes["ome"], "image-label": _SOURCE}}
    return {**attributes, "image-label": {"version": "0.4", **_SOURCE}}


def list_labels(container: FileContainer, pyramids: Mapping[str, Mapping[str, Any]]) -> None:
    """Add images of labels to the lists of the groups ``labels`` around them.

    Parameters
    ----------
    container
        Their container.
    pyramids
        The attributes of groups by their paths; others than those of labels are ignored.
    """
    for path, attributes in pyramids.items():
        above, _, name = path.rpartition("/")
        if not _is_labels(above) or not is_label_image(attributes):
            continue
        labels = create_group(container, above, mode="a")
        names = _listed_in(labels.attrs)
        if name not in names:
            version = attributes.get("ome", {}).get("version")
            labels.attrs.update(_with_labels(labels.attrs, [*names, name], version))


def relisted(attributes: Attributes, labels: Mapping[str, Attributes]) -> dict[str, Any]:
    """Return the list of a group ``labels`` in the version of its images; empty if it has none.

    Parameters
    ----------
    attributes
        The group's attributes.
    labels
        The new attributes of images in the group, by their names.
    """
    names = _listed_in(attributes)
    images = [image for name, image in labels.items() if name in names and are_described(image)]
    versions = [image.get("ome", {}).get("version") for image in images]
    return _with_labels(attributes, names, versions[0]) if images else {}


def _listed_in(attributes: Attributes) -> list[Any]:
    """Return the images of labels that a group ``labels`` lists: in ``ome`` since version 0.5."""
    ome = attributes.get("ome")
    holder = ome if isinstance(ome, dict) and _LABELS in ome else attributes
    listed = holder.get(_LABELS)
    return listed if isinstance(listed, list) else []


def _with_labels(attributes: Attributes, names: list[Any], version: str | None) -> dict[str, Any]:
    """Return the attributes of a group ``labels`` that list images of a version."""
    if version is None:
        return {_LABELS: names}
    ome = attributes.get("ome")
    members = ome if isinstance(ome, dict) else {}
    return {"ome": {**members, "version": version, _LABELS: names}}


def _is_labels(path: str) -> bool:
    return path.rpartition("/")[2] == _LABELS
