"""The xarray engine's work: nodes of a container as Datasets, indexed lazily."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.core import indexing

from xarray_n5.decoding import decode
from xarray_n5.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from xarray.backends import BackendArray

    from xarray_n5.array import Array, AxisOrder
    from xarray_n5.axes import Geometry
    from xarray_n5.chunks import Missing
    from xarray_n5.coordinates import Origin
    from xarray_n5.group import Group
    from xarray_n5.images import Image
    from xarray_n5.nodes import LabelMultisets
    from xarray_n5.picking import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the arrays of a container become variables."""

    axis_order: AxisOrder = "C"
    dialect: str | Sequence[str] | None = None
    origin: Origin = "center"
    missing: Missing = "fill"
    label_multisets: LabelMultisets = "error"
    level: Level | None = None
    dims: Sequence[str] | None = None
    inherit: bool = False

    @property
    def looking(self) -> dict[str, Any]:
        """How arrays are asked for their axes."""
        return {"dialect": self.dialect, "inherit": self.inherit}


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
    from xarray_n5.array import Array
    from xarray_n5.coordinates import dims_of
    from xarray_n5.picking import pick

    node = _open(url, path, storage_options, form, options)
    unwanted = frozenset(drop)
    images = pick(node, level=options.level, dims=options.dims, without=unwanted, **options.looking)
    if options.dims is not None and all(len(options.dims) != len(i.shape) for i in images.values()):
        axes = (", ".join(dims_of(image.named())) for image in images.values())
        raise ValueError(
            f"dims has {len(options.dims)} names for the axes {' or '.join(axes)} in {node.url!r}"
        )
    attributes = {} if isinstance(node, Array) else dict(node.attrs)
    dataset = _build(images, attributes, unwanted, decoders, options)
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

    Levels of a pyramid differ in size under the same names, so no two arrays share a Dataset;
    but views of BigDataViewer and channels that are alike are one image, a Dataset a level.
    Groups without arrays or attributes are left out: in N5 any directory is one.

    Raises
    ------
    NodeNotFoundError
        If there is nothing at `path`.
    """
    from xarray_n5.array import Array
    from xarray_n5.images import PART, together
    from xarray_n5.picking import alone

    if options.level is not None:
        raise ValueError("level= is for open_dataset; a tree has all levels")
    root = _open(url, path, storage_options, form, options)
    unwanted = frozenset(drop)

    def dataset(name: str, image: Image) -> xr.Dataset:
        built = _build({name: image}, {}, unwanted, decoders, options)
        built.encoding["source"] = image.first.url
        return built

    done: set[str] = set()

    def visit(node: Array | Group, place: str, *, part: bool) -> dict[str, xr.Dataset]:
        if isinstance(node, Array):
            if node.path in done:
                return {}
            return {place: dataset(node.name, alone(node, **options.looking))}
        stem = place.rstrip("/")
        below: dict[str, xr.Dataset] = {}
        joined = {} if part else together(node, without=unwanted, **options.looking)
        for name, levels in joined.items():
            at = f"{stem}/{name}".rstrip("/")
            below |= {f"{at}/{level}": dataset(level, image) for level, image in levels.items()}
            done.update(a.path for image in levels.values() for a in image.arrays.values())
        for name, child in node.children(without=unwanted).items():
            inner = name in joined or ("" in joined and PART.fullmatch(name) is not None)
            below |= visit(child, f"{stem}/{name}", part=part or inner)
        attributes = dict(node.attrs)
        # Of the groups that an image was made of, those that hold nothing else are no nodes.
        own = {place: xr.Dataset(attrs=attributes)} if below or not part else {}
        return {**own, **below} if attributes or below else {}

    return visit(root, "/", part=False) or {"/": xr.Dataset()}


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


def _build(
    images: Mapping[str, Image],
    attributes: dict[str, Any],
    drop: Container[str],
    decoders: Mapping[str, bool | None],
    options: Options,
) -> xr.Dataset:
    from xarray_n5.coordinates import coords_of, dims_of

    # An axis that nobody named must not take the name of an array.
    geometries = {name: image.named(options.dims, images.keys()) for name, image in images.items()}
    dims = {name: dims_of(geometry) for name, geometry in geometries.items()}
    keys = {name: _key(name, dims, images) for name in images}
    images = {name: image for name, image in images.items() if keys[name] not in drop}
    _check_sizes(images, dims)
    variables: dict[str, xr.Variable] = {}
    coords: dict[str, xr.Variable] = {}
    for name, image in images.items():
        variables[keys[name]] = _variable(image, dims[name], geometries[name], options)
        if dims[name] == (name,):
            continue
        outer = dims[name][::-1] if image.turned else dims[name]
        places = {
            dim: xr.Variable((dim,), np.array(numbers))
            for dim, numbers in zip(outer, image.numbers, strict=False)
        }
        places |= coords_of(geometries[name], image.shape, options.origin)
        for dim, values in places.items():
            if not _at_one_place(coords.setdefault(dim, values), values):
                raise ValueError(_clash(image.first, f"their {dim!r} lies at different places"))
    encoded = any("_ARRAY_DIMENSIONS" in image.first.attrs for image in images.values())
    decoded, kept, named = decode(variables, attributes, decoders, encoded=encoded)
    own = {name for name, variable in decoded.items() if variable.dims == (name,)}
    dataset = xr.Dataset({**coords, **decoded}, attrs=kept)
    return dataset.set_coords((own | set(named)) & set(dataset.variables))


def _at_one_place(one: xr.Variable, other: xr.Variable) -> bool:
    """Return whether coordinates are the same, be their unit spelt in two ways."""
    units = [unit_of(each.attrs.get("units")) or each.attrs.get("units") for each in (one, other)]
    return units[0] == units[1] and bool(one.equals(other))  # type: ignore[no-untyped-call]


def _key(name: str, dims: Mapping[str, tuple[str, ...]], taken: Container[str]) -> str:
    """Return what a variable is called: its array's name, unless one of several axes has that."""
    if name not in dims[name] or dims[name] == (name,):
        return name
    key = f"{name}_data"
    while key in taken:
        key += "_"
    return key


def _variable(
    image: Image, dims: tuple[str, ...], geometry: Geometry, options: Options
) -> xr.Variable:
    from xarray_n5.compression import to_json
    from xarray_n5.dialects import DIALECTS
    from xarray_n5.dialects.node import units_of_values
    from xarray_n5.lazy import LazyArray, LazyStack

    array = image.first
    lazy: BackendArray = LazyArray(array.bare())
    if image.numbers:
        lazy = LazyStack(image, options.missing)
    # What is not in the coordinates stays in the attributes.
    told = geometry.spoken if geometry.affine is None else ()
    known = {key for name in told for key in DIALECTS[name].keys}
    if units_of_values(array.attrs):
        known -= {"units"}
    attributes = {key: value for key, value in image.attributes.items() if key not in known}
    if geometry.affine is not None:
        attributes.setdefault("affine", [number for row in geometry.affine for number in row])
    return xr.Variable(
        dims,
        indexing.LazilyIndexedArray(lazy),
        attributes,
        {
            "source": array.url,
            "chunks": image.chunks,
            "preferred_chunks": dict(zip(dims, image.chunks, strict=True)),
            "n5_compression": to_json(array.metadata.compression),
            "dtype": array.dtype,
            "dialect": dict(geometry.sources),
        },
    )


def _check_sizes(images: Mapping[str, Image], dims: Mapping[str, tuple[str, ...]]) -> None:
    sizes: dict[str, int] = {}
    for name, image in images.items():
        for dim, size in zip(dims[name], image.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ValueError(
                    _clash(image.first, f"their {dim!r} has {sizes[dim]} and {size} samples")
                )


def _clash(array: Array, why: str) -> str:
    parent = array.url.rpartition("/")[0]
    level = re.fullmatch(r"s\d+", array.name)
    advice = "one level of a pyramid with level=0" if level else f"one with group={array.path!r}"
    return (
        f"the arrays in {parent!r} do not fit into one Dataset ({why}); open {advice}, or all of "
        "them with xarray.open_datatree"
    )
