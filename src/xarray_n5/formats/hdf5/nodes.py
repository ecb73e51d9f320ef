"""Convert groups and datasets of HDF5 to metadata of the model, and back.

In BigDataViewer's files, the factors of levels are in a separate dataset. Source:
bigdataviewer-core, Hdf5ImageLoader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.format import drop_metadata

from xarray_n5.codecs.hdf5 import FAILURES, check_type, plugins_of
from xarray_n5.errors import MetadataError
from xarray_n5.formats.hdf5.attributes import VERSION, read_attributes, write_attributes
from xarray_n5.formats.hdf5.chunks import Chunks
from xarray_n5.formats.hdf5.format import (
    DEFLATE,
    ENCODABLE,
    SHUFFLE,
    FilterLayout,
    compression_of,
    filters_of,
)
from xarray_n5.formats.hdf5.links import check_inside, node_in, outside
from xarray_n5.model.json import check_json
from xarray_n5.model.metadata import ArrayMetadata, Content, GroupMetadata
from xarray_n5.model.paths import level_table_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5.formats.hdf5.files import OpenFile
    from xarray_n5.model.metadata import Attributes, Metadata

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
    elif _is_unsigned(file.node, path, dataset.dtype):
        dtype = np.dtype(f"{dataset.dtype.str[0]}u2")
    else:
        dtype = drop_metadata(dataset.dtype)
    direct = chunks.direct and ENCODABLE.issuperset(number for number, _ in filters)
    direct = direct and not (filters and _may_skip_filters(dataset))
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


def _may_skip_filters(dataset: Any) -> bool:
    """Return whether chunks at the array's ends may be unfiltered, which h5py does not report."""
    superblock, *_ = dataset.file.id.get_create_plist().get_version()
    return bool(superblock)


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
    file: Any,
    path: str,
    node: Any,
    change: Callable[[Attributes], Attributes],
    where: str,
) -> dict[str, Any]:
    """Replace a node's attributes by the result of `change`; return those."""

    def find(path: str) -> Any:
        return node_in(file, path)

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


def _is_unsigned(find: Callable[[str], Any], path: str, dtype: np.dtype[Any]) -> bool:
    """Return whether a dataset stores uint16 as int16, as BigDataViewer does."""
    return dtype.str[1:] == "i2" and _resolutions(find, path) is not None


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
