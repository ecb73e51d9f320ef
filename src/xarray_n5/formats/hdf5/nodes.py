"""Groups and datasets of an HDF5 file as documents, and documents as groups and datasets."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import MetadataError, PathError
from xarray_n5.formats.hdf5.attributes import (
    LEVEL,
    VERSION,
    read_attributes,
    write_attributes,
)
from xarray_n5.formats.hdf5.chunk_writing import clear_chunk as _clear_chunk
from xarray_n5.formats.hdf5.chunk_writing import write_chunk as _write_chunk
from xarray_n5.formats.hdf5.filters import DEFLATE, SHUFFLE, filters_of
from xarray_n5.formats.hdf5.links import check_inside, node_in, outside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xarray_n5.formats.hdf5.files import CachedFile
    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import Index

ARRAY, GROUP, ATTRIBUTES = ".dataset.json", ".group.json", ".attributes.json"

DOCUMENTS = (ARRAY, GROUP, ATTRIBUTES)

_VIEW = re.compile(r"(?:(.*)/)?t\d{5,}/(s\d{2,})/(\d+)/cells", re.DOTALL)
"""The path of a level in a file of BigDataViewer."""

_OPTIONAL = 1
"""HDF5's flag of a filter that may be passed over for a chunk."""

_H5PY = "read it with h5py"

_KEY = re.compile(r"\d+(?:\.\d+)*")

_TABLE = 2
"""How many axes a table has."""


def document_of(file: CachedFile, path: str, name: str) -> bytes | None:
    """Return one of a node's documents, or None where it has no such one."""
    try:
        node = file.node(path)
    except PathError as error:
        file.node(path.rpartition("/")[0])  # a path through such a link is an error by itself
        return json.dumps({"unreadable": str(error)}).encode() if name == ARRAY else None
    if node is None:
        return None
    is_array = hasattr(node, "shape")
    if name == ATTRIBUTES:
        found = {**_of_view(file.node, path), **read_attributes(node)}
        return json.dumps(found).encode() if found else None
    if (name == ARRAY) != is_array:
        return None
    if is_array:
        return json.dumps(_describe(file, path, node)).encode()
    told = {VERSION: _version(node)} if VERSION in node.attrs and not path else {}
    return json.dumps(told).encode()


def _version(root: Any) -> str:
    value = root.attrs[VERSION]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _describe(file: CachedFile, path: str, dataset: Any) -> dict[str, Any]:
    """Return what a format must know of a dataset, or why it cannot be read."""
    try:
        why = _unreadable(dataset) or (None if file.follow else outside(dataset))
        return {"unreadable": why} if why else _members(file, path, dataset)
    except FAILURES as error:
        return {"unreadable": f"HDF5 cannot describe it ({error}); {_H5PY}"}


def _unreadable(dataset: Any) -> str | None:
    if dataset.shape is None:
        return f"it holds nothing, not even a shape; {_H5PY}"
    dtype = dataset.dtype
    if dtype.hasobject:
        import h5py

        if h5py.check_string_dtype(dtype) is None:
            return f"elements of type {dtype} are neither numbers nor strings; {_H5PY}"
    if dataset.id.dtype.subdtype is not None:
        return f"each of its elements is an array ({dataset.id.dtype}); {_H5PY}"
    return None


def _members(file: CachedFile, path: str, dataset: Any) -> dict[str, Any]:
    dtype = dataset.dtype
    plain = np.dtype(f"{dtype.str[0]}u2") if _is_unsigned(file.node, path, dtype) else dtype
    index = file.chunks(path)
    filters = filters_of(dataset)
    return {
        "shape": list(dataset.shape),
        "chunks": list(index.layout.chunks if index else dataset.shape),
        "dtype": "O" if dtype.hasobject else _dtype_to_json(plain),
        "filters": [[number, values] for number, values in filters],
        "direct": bool(index and index.layout.direct) and not (filters and _is_modern(dataset)),
        "chunked": dataset.chunks is not None,
        "fill": None if dtype.hasobject else _fill(dataset, plain),
        "maxshape": list(dataset.maxshape),
    }


def _is_modern(dataset: Any) -> bool:
    """Return whether chunks at the ends may have no filters, which h5py does not tell."""
    superblock, *_ = dataset.file.id.get_create_plist().get_version()
    return bool(superblock)


def _dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """Return a type as numpy's own lists and texts, without HDF5's notes."""
    return json.loads(json.dumps(np.lib.format.dtype_to_descr(_bare(dtype))))


def _bare(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type without what HDF5 notes on it."""
    if dtype.subdtype is not None:
        return np.dtype((_bare(dtype.subdtype[0]), dtype.shape))
    if dtype.names is None or dtype.fields is None:
        return np.dtype(dtype.str)
    fields = [dtype.fields[name] for name in dtype.names]
    return np.dtype(
        {
            "names": list(dtype.names),
            "formats": [_bare(field[0]) for field in fields],
            "offsets": [field[1] for field in fields],
            "itemsize": dtype.itemsize,
        }
    )


def _fill(dataset: Any, dtype: np.dtype[Any]) -> str | None:
    fill = np.asarray(dataset.fillvalue, dataset.dtype).tobytes()
    return base64.b64encode(fill).decode() if any(fill) and len(fill) == dtype.itemsize else None


def _resolutions(find: Callable[[str], Any], path: str) -> tuple[int, Any] | None:
    """Return which level of BigDataViewer is at a path, and the table of all levels' factors."""
    found = _VIEW.fullmatch(path)
    if found is None:
        return None
    table = find("/".join(filter(None, [found[1], found[2], "resolutions"])))
    return None if getattr(table, "ndim", 0) != _TABLE else (int(found[3]), table)


def _is_unsigned(find: Callable[[str], Any], path: str, dtype: np.dtype[Any]) -> bool:
    """Return whether numbers are uint16 in int16: BigDataViewer's, of a time that had no other."""
    return dtype.str[1:] == "i2" and _resolutions(find, path) is not None


def _of_view(find: Callable[[str], Any], path: str) -> dict[str, Any]:
    """Return the factors of a level of BigDataViewer, in the order of x, y, z."""
    level, table = _resolutions(find, path) or (0, None)
    if table is None or level >= table.shape[0] or table.dtype.kind not in "iuf":
        return {}
    return {LEVEL: [float(factor) for factor in table[level]]}


def write_document(file: Any, path: str, name: str, data: bytes) -> None:
    """Make what a document says of a node true.

    Raises
    ------
    MetadataError
        If the file cannot be changed so.
    """
    members = json.loads(data)

    def find(path: str) -> Any:
        return node_in(file, path)

    node = find(path)
    if name == ARRAY and node is not None and hasattr(node, "shape"):
        _resize(node, tuple(members["shape"]))
        return
    if name == ARRAY:
        if node is not None:
            del file[path]  # an empty group: whoever creates has made room
        node = _create(file, path, tuple(members["shape"]), members)
    elif node is None:
        node = file.create_group(path)
    if name == ATTRIBUTES:
        told = _of_view(find, path).items()
        write_attributes(node, {k: v for k, v in members.items() if (k, v) not in told})
    elif "attributes" in members:
        write_attributes(node, members["attributes"])
    if name == GROUP and not path and VERSION in members:
        node.attrs[VERSION] = members[VERSION]


def _resize(dataset: Any, shape: tuple[int, ...]) -> None:
    if dataset.shape == shape:
        return
    check_inside(dataset)
    most = dataset.maxshape
    fits = all(m is None or n <= m for n, m in zip(shape, most, strict=True))
    if dataset.chunks is None or not fits:
        raise MetadataError(
            f"{dataset.file.filename}: {dataset.name!r} was made for shapes up to {most}; copy it "
            "into a new array to have it larger"
        )
    dataset.resize(shape)


def _create(file: Any, path: str, shape: tuple[int, ...], members: Mapping[str, Any]) -> Any:
    """Create a dataset; with its links and attributes it is in the file when that is closed."""
    import h5py

    dtype = dtype_of(members["dtype"])
    if not shape:
        return file.create_dataset(path, shape, dtype)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(tuple(members["chunks"]))
    for number, values in members["filters"]:
        if number == DEFLATE:
            plist.set_deflate(*values)
        elif number == SHUFFLE:
            plist.set_shuffle()
        else:
            plist.set_filter(number, _OPTIONAL, tuple(values))
    space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape))
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    links.set_char_encoding(h5py.h5t.CSET_UTF8)
    kind = h5py.h5t.py_create(dtype, logical=True)
    made = h5py.h5d.create(file.id, None, kind, space, plist)
    h5py.h5o.link(made, file.id, path.encode(), lcpl=links)
    return h5py.Dataset(made)


def dtype_of(members: Any) -> np.dtype[Any]:
    """Return a type of its JSON."""
    return np.dtype(np.lib.format.descr_to_dtype(_tuples(members)))


def _tuples(members: Any) -> Any:
    if isinstance(members, str):
        return members
    return [(name, _tuples(kind), *map(tuple, shape)) for name, kind, *shape in members]


def write_chunk(file: Any, path: str, name: str, data: Buffer) -> None:
    """Store a chunk of the dataset at a path, under the last part of its key.

    Raises
    ------
    PathError
        If the dataset's elements are in other files.
    """
    index, node = index_of(name), node_in(file, path)
    if index is None or not hasattr(node, "shape"):
        raise OSError(f"there is no array at {path!r} to hold {name!r}")
    check_inside(node)
    _write_chunk(node, index[: len(node.shape)], data)


def clear_chunk(file: Any, path: str, name: str) -> None:
    """Make a chunk hold the fill value: HDF5 keeps chunks once they are stored.

    Raises
    ------
    PathError
        If the dataset's elements are in other files.
    """
    index, node = index_of(name), node_in(file, path)
    if index is not None and hasattr(node, "shape"):
        check_inside(node)
        _clear_chunk(node, index[: len(node.shape)])


def delete_node(file: Any, path: str) -> None:
    """Remove the node at a path with all in it; of a link, the link. The root is emptied."""
    if path:
        above, _, name = path.rpartition("/")
        del node_in(file, above)[name]
        return
    for name in list(file):
        del file[name]
    for name in list(file.attrs):
        del file.attrs[name]


def index_of(name: str) -> Index | None:
    """Return the chunk that the last part of a key names; None where it names none."""
    return tuple(map(int, name.split("."))) if _KEY.fullmatch(name) else None
