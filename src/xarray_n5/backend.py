"""The xarray engine's work: nodes of a container as Datasets, indexed lazily."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from xarray_n5.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from xarray_n5.array import Array, AxisOrder
    from xarray_n5.axes import Geometry
    from xarray_n5.chunks import Missing
    from xarray_n5.coordinates import Origin
    from xarray_n5.group import Group
    from xarray_n5.nodes import LabelMultisets


class LazyArray(BackendArray):
    """An array that reads what xarray asks for, when it asks for it."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects: each chunk that it touches is read once."""
        if isinstance(key, indexing.VectorizedIndexer):
            return np.asarray(self.array.vindex[key.tuple])
        return np.asarray(self.array[key.tuple])

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects, read in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the arrays of a container become variables."""

    axis_order: AxisOrder = "C"
    dialect: str | None = None
    origin: Origin = "center"
    missing: Missing = "fill"
    label_multisets: LabelMultisets = "error"
    level: int | None = None


def open_dataset(
    url: object,
    path: str,
    *,
    storage_options: Mapping[str, Any] | None,
    form: str | None,
    drop: Iterable[str],
    decoders: Mapping[str, bool | None],
    options: Options,
) -> xr.Dataset:
    """Return an array, or the arrays directly in a group, as a Dataset.

    Raises
    ------
    NodeNotFoundError
        If there is nothing at `path`, or a group without arrays.
    ValueError
        If the arrays of a group cannot share a Dataset.
    """
    node = _open(url, path, storage_options, form, options)
    unwanted = frozenset(drop)
    arrays, attributes = _arrays(node, options.level, unwanted)
    dataset = _build(arrays, attributes, unwanted, decoders, options)
    dataset.encoding["source"] = node.url
    return dataset


def open_groups(
    url: object,
    path: str,
    *,
    storage_options: Mapping[str, Any] | None,
    form: str | None,
    drop: Iterable[str],
    decoders: Mapping[str, bool | None],
    options: Options,
) -> dict[str, xr.Dataset]:
    """Return every array below a node as a Dataset of its own, by path, and groups' attributes.

    Levels of a pyramid differ in size under the same names, so no two arrays share a Dataset.
    Groups without arrays or attributes are left out: in N5 any directory is one.

    Raises
    ------
    NodeNotFoundError
        If there is nothing at `path`.
    """
    from xarray_n5.array import Array

    root = _open(url, path, storage_options, form, options)
    unwanted = frozenset(drop)

    def visit(node: Array | Group, place: str) -> dict[str, xr.Dataset]:
        if isinstance(node, Array):
            dataset = _build({node.name: node}, {}, unwanted, decoders, options)
            dataset.encoding["source"] = node.url
            return {place: dataset}
        below: dict[str, xr.Dataset] = {}
        for name, child in node.children(without=unwanted).items():
            below |= visit(child, f"{place.rstrip('/')}/{name}")
        attributes = dict(node.attrs)
        return {place: xr.Dataset(attrs=attributes), **below} if attributes or below else {}

    return visit(root, "/") or {"/": xr.Dataset()}


def _open(
    url: object,
    path: str,
    storage_options: Mapping[str, Any] | None,
    form: str | None,
    options: Options,
) -> Array | Group:
    from xarray_n5.group import open_node

    return open_node(
        url,
        path,
        storage_options=storage_options,
        format=form,
        axis_order=options.axis_order,
        missing=options.missing,
        label_multisets=options.label_multisets,
    )


def _arrays(
    node: Array | Group, level: int | None, drop: Container[str]
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays to open, by name, and the Dataset's attributes."""
    from xarray_n5.array import Array
    from xarray_n5.errors import NodeNotFoundError

    if isinstance(node, Array):
        if level is not None:
            raise ValueError(f"level= is for a group of arrays; {node.url!r} is one array")
        return {node.name: node}, {}
    if level is not None:
        chosen = node.get(f"s{level}")
        if not isinstance(chosen, Array):
            hint = "level= picks s0, s1, ... of a pyramid"
            raise NodeNotFoundError(node.url, f"s{level}", "array", hint)
        return {chosen.name: chosen}, dict(node.attrs)
    arrays = node.arrays(without=drop)
    if not arrays:
        inner = ", ".join(node) or "nothing"
        hint = f"the group holds {inner}; name an array or its group with group="
        raise NodeNotFoundError(node.url, "", "array", hint)
    return arrays, dict(node.attrs)


def _build(
    arrays: Mapping[str, Array],
    attributes: dict[str, Any],
    drop: Container[str],
    decoders: Mapping[str, bool | None],
    options: Options,
) -> xr.Dataset:
    from xarray_n5.coordinates import coords_of, dims_of

    around = next(iter(arrays.values())).parents() if arrays else ()
    # An axis that nobody named must not take the name of an array.
    geometries = {
        name: array.geometry(options.dialect, around).with_names(avoid=arrays.keys())
        for name, array in arrays.items()
    }
    dims = {name: dims_of(geometry) for name, geometry in geometries.items()}
    keys = {name: _key(name, dims, arrays) for name in arrays}
    arrays = {name: array for name, array in arrays.items() if keys[name] not in drop}
    _check_sizes(arrays, dims)
    variables: dict[str, xr.Variable] = {}
    coords: dict[str, xr.Variable] = {}
    for name, array in arrays.items():
        variables[keys[name]] = _variable(array, dims[name], geometries[name])
        if dims[name] == (name,):
            continue
        for dim, values in coords_of(geometries[name], array.shape, options.origin).items():
            if not coords.setdefault(dim, values).identical(values):  # type: ignore[no-untyped-call]
                raise ValueError(_clash(array, f"their {dim!r} lies at different places"))
    encoded = any("_ARRAY_DIMENSIONS" in array.attrs for array in arrays.values())
    decoded, kept, named = decode(variables, attributes, decoders, encoded=encoded)
    own = {name for name, variable in decoded.items() if variable.dims == (name,)}
    dataset = xr.Dataset({**coords, **decoded}, attrs=kept)
    return dataset.set_coords((own | set(named)) & set(dataset.variables))


def _key(name: str, dims: Mapping[str, tuple[str, ...]], taken: Container[str]) -> str:
    """Return what a variable is called: its array's name, unless one of several axes has that."""
    if name not in dims[name] or dims[name] == (name,):
        return name
    key = f"{name}_data"
    while key in taken:
        key += "_"
    return key


def _variable(array: Array, dims: tuple[str, ...], geometry: Geometry) -> xr.Variable:
    from xarray_n5.compression import to_json
    from xarray_n5.dialects import DIALECTS

    known = {key for name in geometry.spoken for key in DIALECTS[name].keys}
    metadata = array.metadata
    return xr.Variable(
        dims,
        indexing.LazilyIndexedArray(LazyArray(array.bare())),
        {key: value for key, value in array.attrs.items() if key not in known},
        {
            "source": array.url,
            "chunks": array.chunks,
            "preferred_chunks": dict(zip(dims, array.chunks, strict=True)),
            "n5_compression": to_json(metadata.compression),
            "dtype": array.dtype,
            "dialect": dict(geometry.sources),
        },
    )


def _check_sizes(arrays: Mapping[str, Array], dims: Mapping[str, tuple[str, ...]]) -> None:
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        for dim, size in zip(dims[name], array.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ValueError(
                    _clash(array, f"their {dim!r} has {sizes[dim]} and {size} samples")
                )


def _clash(array: Array, why: str) -> str:
    parent = array.url.rpartition("/")[0]
    level = re.fullmatch(r"s\d+", array.name)
    advice = "one level of a pyramid with level=0" if level else f"one with group={array.path!r}"
    return (
        f"the arrays in {parent!r} do not fit into one Dataset ({why}); open {advice}, or all of "
        "them with xarray.open_datatree"
    )
