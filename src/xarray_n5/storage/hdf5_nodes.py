"""Groups and datasets of an HDF5 file as documents, and documents as groups and datasets."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.storage.hdf5_attributes import LEVEL, VERSION, read_attributes, write_attributes
from xarray_n5.storage.hdf5_chunks import DEFLATE, SHUFFLE, filters_of
from xarray_n5.storage.hdf5_files import node_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.storage.hdf5_files import KnownFile

ARRAY, GROUP, ATTRIBUTES = ".dataset.json", ".group.json", ".attributes.json"

DOCUMENTS = (ARRAY, GROUP, ATTRIBUTES)

HIDDEN = frozenset({"__DATA_TYPES__"})
"""What JHDF5 keeps in every file for itself."""

_VIEW = re.compile(r"(?:(.*)/)?t\d{5,}/(s\d{2,})/(\d+)/cells")
"""The path of a level in a file of BigDataViewer."""

_OPTIONAL = 1
"""HDF5's flag of a filter that may be passed over for a chunk."""

_TABLE = 2
"""How many axes a table has."""


def document_of(file: KnownFile, path: str, name: str) -> bytes | None:
    """Return one of a node's documents, or None where it has no such one."""
    node = file.node(path)
    if node is None:
        return None
    is_array = hasattr(node, "shape")
    if name == ATTRIBUTES:
        found = {**_of_view(file, path), **read_attributes(node)}
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


def _describe(file: KnownFile, path: str, dataset: Any) -> dict[str, Any]:
    """Return what a format must know of a dataset."""
    if dataset.shape is None:
        return {"unreadable": "it holds nothing, not even a shape"}
    dtype = dataset.dtype
    if dtype.hasobject:
        import h5py

        if h5py.check_string_dtype(dtype) is None:
            return {"unreadable": f"elements of type {dtype} are no numbers or texts"}
    plain = np.dtype(f"{dtype.str[0]}u2") if _is_unsigned(file, path, dtype) else dtype
    stored = file.stored(path)
    return {
        "shape": list(dataset.shape),
        "chunks": list(stored.chunks if stored else dataset.shape),
        "dtype": "O" if dtype.hasobject else _dtype_to_json(plain),
        "filters": [[number, values] for number, values in filters_of(dataset)],
        "direct": bool(stored and stored.direct),
        "chunked": dataset.chunks is not None,
        "fill": None if dtype.hasobject else _fill(dataset, plain),
        "maxshape": list(dataset.maxshape),
    }


def _dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """Return a type as numpy's own lists and texts, without HDF5's notes."""
    return json.loads(json.dumps(dtype.descr if dtype.names else dtype.str))


def _fill(dataset: Any, dtype: np.dtype[Any]) -> str | None:
    fill = np.asarray(dataset.fillvalue, dataset.dtype).tobytes()
    return base64.b64encode(fill).decode() if any(fill) and len(fill) == dtype.itemsize else None


def _resolutions(file: KnownFile, path: str) -> tuple[int, Any] | None:
    """Return which level of BigDataViewer is at a path, and the table of all levels' factors."""
    found = _VIEW.fullmatch(path)
    if found is None:
        return None
    table = file.node("/".join(filter(None, [found[1], found[2], "resolutions"])))
    return None if getattr(table, "ndim", 0) != _TABLE else (int(found[3]), table)


def _is_unsigned(file: KnownFile, path: str, dtype: np.dtype[Any]) -> bool:
    """Return whether numbers are uint16 in int16: BigDataViewer's, of a time that had no other."""
    return dtype.str[1:] == "i2" and _resolutions(file, path) is not None


def _of_view(file: KnownFile, path: str) -> dict[str, Any]:
    """Return the factors of a level of BigDataViewer, in the order of x, y, z."""
    level, table = _resolutions(file, path) or (0, None)
    if table is None or level >= table.shape[0] or table.dtype.kind not in "iuf":
        return {}
    return {LEVEL: [float(factor) for factor in table[level]]}


def members_of(node: Any) -> list[str]:
    """Return the names of the groups and datasets in a group."""
    import h5py

    found = []
    for name in node:
        try:
            kind = node.get(name, getclass=True)
        except (KeyError, OSError, RuntimeError):
            continue  # a link that leads nowhere
        if name not in HIDDEN and kind in {h5py.Group, h5py.Dataset}:
            found.append(name)
    return sorted(found)


def write_document(file: Any, path: str, name: str, data: bytes) -> None:
    """Make what a document says of a node true.

    Raises
    ------
    MetadataError
        If the file cannot be changed so.
    """
    members = json.loads(data)
    node = node_in(file, path)
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
        write_attributes(node, members)
    elif "attributes" in members:
        write_attributes(node, members["attributes"])
    if name == GROUP and not path and VERSION in members:
        node.attrs[VERSION] = members[VERSION]


def _resize(dataset: Any, shape: tuple[int, ...]) -> None:
    if dataset.shape == shape:
        return
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
