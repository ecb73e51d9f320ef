"""Convert groups and datasets of HDF5 to metadata of the model, and back.

In BigDataViewer's files, the factors of levels are in a separate dataset. Source:
bigdataviewer-core, Hdf5ImageLoader.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.format import drop_metadata

from xarray_n5.codecs.hdf5 import FAILURES, check_type, plugins_of
from xarray_n5.errors import MetadataError, PathError
from xarray_n5.formats.hdf5.attributes import (
    VERSION,
    is_empty_scale,
    read_attributes,
    write_attributes,
)
from xarray_n5.formats.hdf5.chunks import Chunks
from xarray_n5.formats.hdf5.format import (
    DEFLATE,
    ENCODABLE,
    SHUFFLE,
    FilterLayout,
    compression_of,
    filters_of,
)
from xarray_n5.model.json import check_json
from xarray_n5.model.metadata import ArrayMetadata, Content, GroupMetadata
from xarray_n5.model.paths import join, level_table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xarray_n5.formats.hdf5.files import OpenFile
    from xarray_n5.model.metadata import Attributes, Metadata

FOLLOW = "follow_external"
"""The storage option that allows other files to be read."""

_HIDDEN = frozenset({"__DATA_TYPES__"})
"""Groups that JHDF5 reserves in every file."""

_MAX_SOFT_LINKS = 16
"""The maximum number of soft links that HDF5 follows to an object."""

Address: TypeAlias = "tuple[int, int, int]"
"""An object: the device and number of its file, which may be another one, and where it is there."""

_OPT_IN = f"if you trust the file, set the storage option {FOLLOW!r} to True to read it"


def node_in(file: Any, path: str, *, follow: bool = False) -> Any:
    """Return the group or dataset at a path of an h5py file or group; None if there is none.

    Raises
    ------
    PathError
        If the path leads to another file, unless `follow` is set.
    """
    import h5py

    if follow:
        try:
            node = file[path or "/"]
        except (KeyError, RuntimeError):
            return None  # no such object, or a cycle of links
        return node if isinstance(node, h5py.Group | h5py.Dataset) else None
    node = _walk(file.file, file.id, path, [])
    if isinstance(node, h5py.h5g.GroupID):
        return h5py.Group(node)
    return h5py.Dataset(node) if isinstance(node, h5py.h5d.DatasetID) else None


def _walk(file: Any, start: Any, path: str, soft_links: list[str]) -> Any:
    """Return the identifier of the object at a path from a group, link by link within a file.

    It is None if there is none. The soft links on the way are added to `soft_links`.
    """
    import h5py

    root = h5py.h5o.open(file.id, b"/")
    node = root if path.startswith("/") or start == file.id else start
    for part in path.encode("utf-8", "surrogateescape").split(b"/"):
        if part in {b"", b"."}:
            continue
        if not isinstance(node, h5py.h5g.GroupID) or not node.links.exists(part):
            return None
        kind = node.links.get_info(part).type
        if kind == h5py.h5l.TYPE_HARD:
            node = h5py.h5o.open(node, part)
        elif kind == h5py.h5l.TYPE_SOFT:
            soft_links.append(node.links.get_val(part).decode("utf-8", "surrogateescape"))
            if len(soft_links) > _MAX_SOFT_LINKS:
                return None
            node = _walk(file, node, soft_links[-1], soft_links)
        else:
            raise PathError(f"{os.fsdecode(file.filename)}: {path!r} {_refusal(node, part)}")
    return node


def _refusal(group: Any, name: bytes) -> str:
    """Return why a link that is neither hard nor soft is not followed."""
    import h5py

    if group.links.get_info(name).type != h5py.h5l.TYPE_EXTERNAL:
        return "is a user-defined link, which cannot be followed; read it with h5py"
    other, target = (os.fsdecode(part) for part in group.links.get_val(name))
    return (
        f"is an external link to {target!r} in {other!r}, which is not followed; "
        f"{_OPT_IN}, and open that file to write to it"
    )


def outside(dataset: Any) -> str | None:
    """Return why a dataset's elements may be outside its file; None if they are inside."""
    if dataset.external:
        names = sorted({os.fsdecode(name) for name, *_ in dataset.external})
        return f"its elements are in other files ({', '.join(names)}); {_OPT_IN}"
    if not dataset.is_virtual:
        return None
    for source in dataset.virtual_sources():
        if source.file_name != "." or not _is_plain(dataset.file, source.dset_name):
            return (
                "it is a virtual dataset of other files or virtual datasets "
                f"({source.dset_name!r} in {source.file_name!r}); {_OPT_IN}"
            )
    return None


def _is_plain(file: Any, path: str) -> bool:
    """Return whether the elements of a virtual dataset's source are in the same file, or absent."""
    if "%" in path:
        return False  # HDF5 replaces it with a number
    try:
        source = node_in(file, path)
    except PathError:
        return False
    return not hasattr(source, "shape") or not (source.external or source.is_virtual)


def check_inside(dataset: Any) -> None:
    """Raise if writing to a dataset would change other files, or other datasets.

    Raises
    ------
    PathError
        If it has external storage or is virtual.
    """
    if dataset.external or dataset.is_virtual:
        raise PathError(
            f"{os.fsdecode(dataset.file.filename)}: cannot write to {dataset.name!r}, whose "
            "elements are in other files or datasets (external storage, or a virtual dataset); "
            "write to those instead"
        )


@dataclass(slots=True)
class Members:
    """The nodes in each group of a walk that begins at one; each group is a member once.

    Of several links to a group, only the one on the shortest path counts, and of equally short
    paths the first in sorted order: the number of paths may grow exponentially with that of links.
    Links are read level by level, no deeper than needed, and once.
    """

    top: str
    """The path of the group at which the walk begins."""
    names: dict[Address, list[str]] = field(default_factory=dict)
    """The names of the nodes in a group whose links have been read; hidden ones are left out."""
    known: set[Address] = field(default_factory=set)
    """The groups that are members, and the ones around them."""
    level: list[str] = field(default_factory=list)
    """The paths of the groups whose links are read next."""

    def children(self, find: Callable[[str], Any], path: str, *, follow: bool) -> list[str]:
        """Return the sorted names of the nodes in a group; `find` returns the node at a path."""
        group = find(path)
        if not self.known:
            self.known, self.level = groups_around(find, self.top), [self.top]
        while (address := address_of(group)) not in self.names and self.level:
            paths, self.level = self.level, []
            for inner in paths:
                with contextlib.suppress(*FAILURES):  # groups that are damaged
                    self._read(find(inner), inner, follow=follow)
        return self.names[address] if address in self.names else children(find, path, follow=follow)

    def _read(self, group: Any, path: str, *, follow: bool) -> None:
        links = list(links_in(group, follow=follow))
        names = self.names[address_of(group)] = []
        for name, address in links:
            if address in self.known or name.startswith("."):
                continue
            names.append(name)
            if address is not None:
                self.known.add(address)
                self.level.append(join(path, name))


def children(find: Callable[[str], Any], path: str, *, follow: bool) -> list[str]:
    """Return the sorted names of the nodes in a group; hidden ones and circles are left out."""
    around, links = groups_around(find, path), links_in(find(path), follow=follow)
    return [name for name, to in links if to not in around and not name.startswith(".")]


def groups_around(find: Callable[[str], Any], path: str) -> set[Address]:
    """Return the group at a path and those above it; `find` returns the node at a path."""
    parts = path.split("/") if path else []
    paths = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    return {address_of(node) for node in map(find, paths) if node is not None}


def links_in(group: Any, *, follow: bool = False) -> Iterator[tuple[str, Address | None]]:
    """Iterate over the names of the nodes in a group, in sorted order, with addresses of groups.

    Links to other files are included unless `follow` is set: reading them raises an error that
    explains the refusal.
    """
    import h5py

    names = group if isinstance(group, h5py.Group) else ()
    for name in sorted(name for name in names if isinstance(name, str)):
        try:
            node = node_in(group, name, follow=follow)
        except PathError:
            yield name, None
            continue
        except FAILURES:
            continue  # a link to nothing
        if isinstance(node, h5py.Group):
            if name not in _HIDDEN:
                yield name, address_of(node)
        elif node is not None and not is_empty_scale(node):
            yield name, None


def address_of(node: Any) -> Address:
    """Return the identity of an object, which does not depend on the link that leads to it."""
    import h5py

    file = os.stat(node.file.filename)
    return file.st_dev, file.st_ino, int(h5py.h5o.get_info(node.id).addr)


# Metadata

_OPTIONAL = 1
"""HDF5's flag of filters that chunks may skip."""

_TABLE = 2
"""The number of axes of the dataset with the factors: levels, and x, y, z."""

_USE_H5PY = "read it with h5py"


def read(file: OpenFile, path: str, where: str) -> Metadata | None:
    """Return the metadata of the node at a path; None if there is none.

    Raises
    ------
    MetadataError
        If a dataset's elements are in other files, or have no NumPy equivalent.
    PathError
        If the path leads to another file.
    """
    node = file.node(path)
    if node is None:
        return None
    if not is_dataset(node):
        return GroupMetadata(attributes=_attributes(file.node, path, node))
    try:
        why = _unreadable(node) or (None if file.follow else outside(node))
        if why is None:
            return _read_array(file, path, node)
    except FAILURES as error:
        why = f"HDF5 cannot describe it ({error}); {_USE_H5PY}"
    raise MetadataError(f"{where}: {why}")


def is_dataset(node: Any) -> bool:
    """Return whether a node is a dataset; others are groups."""
    return hasattr(node, "shape")


def _attributes(find: Callable[[str], Any], path: str, node: Any) -> dict[str, Any]:
    """Return a node's attributes, with factors that BigDataViewer stores elsewhere."""
    return {**_level_factors(find, path), **read_attributes(node)}


def _read_array(file: OpenFile, path: str, dataset: Any) -> ArrayMetadata:
    strings, filters = dataset.dtype.hasobject, filters_of(dataset)
    chunks = Chunks(dataset)
    if strings:
        dtype = np.dtype(object)
    elif dataset.dtype.str[1:] == "i2" and _resolutions(file.node, path) is not None:
        # BigDataViewer stores uint16 as int16.
        dtype = np.dtype(f"{dataset.dtype.str[0]}u2")
    else:
        dtype = drop_metadata(dataset.dtype)
    direct = chunks.direct and ENCODABLE.issuperset(number for number, _ in filters)
    # Chunks at the array's ends may be unfiltered in newer files, which h5py does not report.
    superblock, *_ = dataset.file.id.get_create_plist().get_version()
    direct = direct and not (filters and superblock)
    return ArrayMetadata(
        shape=dataset.shape,
        chunks=chunks.grid.chunks,
        dtype=dtype.newbyteorder("="),
        compression=compression_of(filters),
        attributes=_attributes(file.node, path, dataset),
        content=Content.STRINGS if strings else Content.NUMBERS,
        fill=None if strings else _fill(dataset, dtype),
        layout=FilterLayout(dtype, filters, direct),
    )


def _unreadable(dataset: Any) -> str | None:
    """Return why a dataset's elements cannot be read; None if they can."""
    check_type(dataset.id.get_type())
    if dataset.shape is None:
        return f"it is a null dataset, without elements and shape; {_USE_H5PY}"
    if dataset.dtype.hasobject:
        import h5py

        if h5py.check_string_dtype(dataset.dtype) is None:
            return f"elements of type {dataset.dtype} are neither numbers nor strings; {_USE_H5PY}"
    if dataset.id.dtype.subdtype is not None:
        return f"each of its elements is an array ({dataset.id.dtype}); {_USE_H5PY}"
    return None


def _fill(dataset: Any, dtype: np.dtype[Any]) -> Any:
    """Return a dataset's fill value, None for zero."""
    fill = np.asarray(dataset.fillvalue, dataset.dtype).tobytes()
    return np.frombuffer(fill, dtype)[0] if any(fill) and len(fill) == dtype.itemsize else None


def create(file: Any, path: str, metadata: Metadata, where: str) -> None:
    """Create a group or a dataset, replacing an empty group at its path."""
    node = node_in(file, path)
    if isinstance(metadata, ArrayMetadata):
        if node is not None and not is_dataset(node) and not len(node):
            del file[path]
        node = _create_dataset(file, path, metadata)
    elif node is None:
        node = file.create_group(path)
    write_attributes(node, metadata.attributes, where)


def _create_dataset(file: Any, path: str, metadata: ArrayMetadata) -> Any:
    """Create a dataset that can be resized."""
    import h5py

    layout: FilterLayout = metadata.layout
    if not metadata.shape:
        return file.create_dataset(path, (), layout.dtype)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(metadata.chunks)
    for number, values in layout.filters:
        if number == DEFLATE:
            properties.set_deflate(*values)
        elif number == SHUFFLE:
            properties.set_shuffle()
        else:
            properties.set_filter(number, _OPTIONAL, values)
    space = h5py.h5s.create_simple(metadata.shape, (h5py.h5s.UNLIMITED,) * len(metadata.shape))
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    links.set_char_encoding(h5py.h5t.CSET_UTF8)
    kind = h5py.h5t.py_create(layout.dtype, logical=True)
    dataset = h5py.h5d.create(file.id, None, kind, space, properties)
    h5py.h5o.link(dataset, file.id, path.encode(), lcpl=links)
    return h5py.Dataset(dataset)


def change_attributes(
    file: Any, path: str, node: Any, change: Callable[[Attributes], Attributes], where: str
) -> dict[str, Any]:
    """Replace a node's attributes by the result of `change`; return those."""
    find = partial(node_in, file)
    before, elsewhere = _attributes(find, path, node), _level_factors(find, path).items()
    after = dict(change(before))
    check_json(after, where, before)
    write_attributes(node, {k: v for k, v in after.items() if (k, v) not in elsewhere}, where)
    return after


def resize(dataset: Any, shape: tuple[int, ...], where: str) -> None:
    """Change a dataset's shape.

    Raises
    ------
    MetadataError
        If its maximal shape is smaller, or it has no chunks.
    """
    if dataset.shape == shape:
        return
    check_inside(dataset)
    most = dataset.maxshape
    fits = all(m is None or n <= m for n, m in zip(shape, most, strict=True))
    if dataset.chunks is None or not fits:
        raise MetadataError(
            f"{where}: the dataset cannot be resized: its maximal shape is {most}, and datasets "
            "without chunks are fixed; copy it to a new array"
        )
    dataset.resize(shape)


def delete(file: Any, path: str) -> None:
    """Remove the node at a path and everything below it; of a link, the link; empty the root."""
    if path:
        above, _, name = path.rpartition("/")
        del node_in(file, above)[name]
        return
    for name in list(file):
        del file[name]
    for name in set(file.attrs) - {VERSION}:
        del file.attrs[name]


def _level_factors(find: Callable[[str], Any], path: str) -> dict[str, list[float]]:
    """Return the attribute with a level's factors in the order x, y, z; nothing for other nodes.

    `find` returns the node at a path.
    """
    level, table = _resolutions(find, path) or (0, None)
    if table is None or level >= table.shape[0] or table.dtype.kind not in "iuf":
        return {}
    return {"downsamplingFactors": [float(factor) for factor in table[level]]}


def _resolutions(find: Callable[[str], Any], path: str) -> tuple[int, Any] | None:
    """Return the number of a level and the dataset with the factors of all, or None."""
    level = level_table_of(path)
    if level is None:
        return None
    table = find(level[0])
    if getattr(table, "ndim", 0) != _TABLE or plugins_of(table):
        return None
    check_type(table.id.get_type())
    return level[1], table
