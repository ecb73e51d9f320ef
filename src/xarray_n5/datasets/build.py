"""Build a Dataset from images: variables that are read lazily, and their coordinates."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.coordinates import Room, coords_of
from xarray_n5.arrays.open import open_array
from xarray_n5.codecs import to_json
from xarray_n5.datasets.encoded import NAMELESS, cf_attributes, decode_attributes, is_native
from xarray_n5.datasets.lazy import LazyArray, LazyCharacters, LazyStack
from xarray_n5.datasets.world import AFFINE, AFFINE_SIZES
from xarray_n5.datasets.xarray_internals import LazilyIndexedArray, decode_cf_variables
from xarray_n5.dialects.ngff_systems import described_problems
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.axes import SAME, names
from xarray_n5.model.chunking import limit_blocks
from xarray_n5.model.metadata import coords_from_axes, is_text, note_of, user_attributes
from xarray_n5.model.paths import join
from xarray_n5.model.system_graph import SYSTEM, SYSTEMS
from xarray_n5.model.units import check_time_units, ratio, same_unit

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping

    from xarray_n5.arrays.node import LabelMultisets, Missing
    from xarray_n5.dialects.protocol import AttributeOrder, DialectChoice
    from xarray_n5.images.select import LevelChoice
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.image import Image, Level

AXIS_UNITS = "axis_units"
"""The encoding's key for the units of all axes, if an affine matrix positions the variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetOptions:
    """The options of the xarray engine, besides what to open."""

    attribute_order: AttributeOrder = "auto"
    dialect: DialectChoice | None = None
    missing: Missing = "fill"
    label_multisets: LabelMultisets = "error"
    level: LevelChoice | None = None
    drop: Collection[str] = frozenset()
    """The names of variables to leave out."""
    decoders: Mapping[str, bool | None] = field(default_factory=dict)
    """The decoders of xarray that the user enabled or disabled."""
    storage_options: Mapping[str, Any] | None = None
    format: str | None = None

    @property
    def opening(self) -> dict[str, Any]:
        """The options of :func:`open_node` for arrays."""
        names = ("attribute_order", "missing", "label_multisets")
        return {name: getattr(self, name) for name in names}

    @property
    def selection(self) -> dict[str, Any]:
        """The options of :func:`select_images`."""
        return {"without": self.drop, "dialect": self.dialect}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A level of an image, and the names under which it becomes a variable."""

    name: str
    level: Level[Array]
    geometry: Geometry
    """The level's axes, all of them named."""
    dims: tuple[str, ...]
    """The dimensions; none for a scalar."""
    is_string: bool
    """Whether the last dimension is that of characters."""


def build(
    images: Mapping[str, Image[Array]],
    attributes: dict[str, Any],
    options: DatasetOptions | None = None,
    budget: Room | None = None,
) -> xr.Dataset:
    """Return images as variables of one Dataset.

    Parameters
    ----------
    images, attributes
        The images by name, and the attributes of their group.
    options
        The options of the engine.
    budget
        The budget of samples with coordinates.

    Raises
    ------
    ValueError
        If the images differ in sizes or coordinates.
    """
    options = DatasetOptions() if options is None else options
    budget = Room() if budget is None else budget
    sources = {name: s for name, s in _sources(images).items() if name not in options.drop}
    _check_sizes(sources.values())
    coords: dict[str, xr.Variable] = {}
    for source in sources.values():
        _add_coordinates(source, coords, budget)
    encoded = {name for name, s in sources.items() if "_ARRAY_DIMENSIONS" in s.level.attributes}
    if encoded:  # Zarr v3 has no names of no dimensions
        encoded |= {name for name, s in sources.items() if not s.level.shape}
    decoded, kept, coordinates = _decode(
        {name: _variable(source, options) for name, source in sources.items()},
        decode_attributes(attributes, "the group") if attributes else {},
        options.decoders,
        encoded=encoded,
    )
    arrays = {name for name, variable in decoded.items() if variable.dims == (name,)}
    dataset = xr.Dataset({**coords, **decoded}, attrs=kept)
    for name in [name for name in coords if name in arrays]:
        _warn_if_moved(sources[name], dataset.variables[name], coords[name])
    return dataset.set_coords((arrays | set(coordinates)) & set(dataset.variables))


def _sources(images: Mapping[str, Image[Array]]) -> dict[Any, _Source]:
    """Return images by the names of their variables."""
    sources: dict[Any, _Source] = {}
    # A default name of an axis must not be the name of an array.
    taken = {name for name, image in images.items() if not image.name}
    for name, image in images.items():
        level = image.base
        geometry = level.named(taken)
        attributes, array = level.attributes, level.first
        # N5 has no arrays without axes.
        scalar = level.shape == (1,) and attributes.get("_ARRAY_DIMENSIONS") == []
        dims = () if scalar else names(geometry.axes)
        key: Any = image.name or name
        if not image.name and (note_of(attributes) or is_native(array, attributes)):
            key = None if name == NAMELESS else name
        elif key in dims and (image.name or dims != (name,)):
            # Otherwise, xarray would treat it as a coordinate.
            key = f"{key}_data"
            while key in images:
                key += "_"
        string = is_text(attributes) and array.dtype == np.uint8 and array.ndim > 0
        sources[key] = _Source(
            name=name, level=level, geometry=geometry, dims=dims, is_string=string
        )
    return sources


def _check_sizes(sources: Collection[_Source]) -> None:
    sizes: dict[str, int] = {}
    for source in sources:
        # The length of strings is different in each variable.
        shared = source.dims[:-1] if source.is_string else source.dims
        for dim, size in zip(shared, source.level.shape, strict=False):
            if sizes.setdefault(dim, size) != size:
                why = f"their {dim!r} has {sizes[dim]} and {size} samples"
                raise ValueError(_clash(source.level.first, why))


def _add_coordinates(source: _Source, coords: dict[str, xr.Variable], budget: Room) -> None:
    """Add the coordinates of an image's axes, or check that they equal the existing ones."""
    level, dims = source.level, source.dims
    if dims in {(), (source.name,)}:
        return
    along = {
        dim: xr.Variable((dim,), np.array(numbers))
        for dim, numbers in zip(dims, level.numbers, strict=False)
    }
    # Coordinates that images share are stored in memory once.
    shared = sum(coords[dim].size for dim in dims if dim in coords)
    along |= coords_of(source.geometry, level.shape, Room(budget.left + shared))
    listed = coords_from_axes(level.attributes)
    if listed is not None:
        # The writer of the Dataset recorded which axes had a coordinate.
        along = {dim: values for dim, values in along.items() if dim in listed}
    for dim, kind in note_of(level.attributes).get("types", {}).items():
        if dim in along:
            along[dim] = along[dim].astype(kind, keep_attrs=True)
        elif dim in (listed or ()) and dim in dims:
            along[dim] = xr.Variable((dim,), np.arange(level.shape[dims.index(dim)], dtype=kind))
    budget.take(sum(along[dim].size for dim in along.keys() - coords.keys()))
    for dim, values in along.items():
        if not _are_same(coords.setdefault(dim, values), values):
            raise ValueError(_clash(level.first, f"their coordinates {dim!r} differ"))


def _warn_if_moved(source: _Source, stored: xr.Variable, described: xr.Variable) -> None:
    """Warn if an array of coordinates, which is loaded, contradicts attributes of other arrays."""
    if not stored.size or stored.dtype.kind not in "iuf" or described.dtype.kind != "f":
        return
    times = ratio(described.attrs.get("units"), stored.attrs.get("units"))
    ends, others = (values.to_numpy()[[0, -1]].astype("f8") for values in (stored, described))
    others *= times or 1
    near = SAME * abs(described.encoding.get("step", 0))
    if np.allclose(ends, others, rtol=SAME, atol=near) or source.level.first.node.is_unfinished():
        return
    (a, b), (c, d) = ends, others
    warn(
        f"{source.level.first.path}: the coordinates {a:g} to {b:g} disagree with attributes of "
        f"other arrays, {c:g} to {d:g} (drop_variables={source.name!r} uses these)"
    )


def _are_same(one: xr.Variable, other: xr.Variable) -> bool:
    """Return whether coordinates are equal, even if their units are spelt differently."""
    if one is other:
        return True
    same = same_unit(one.attrs.get("units"), other.attrs.get("units"))
    return same and bool(one.equals(other))  # type: ignore[no-untyped-call]


def _variable(source: _Source, options: DatasetOptions) -> xr.Variable:
    level, array = source.level, source.level.first
    lazy: LazyArray | LazyStack
    if level.numbers or level.parts[()].indices:
        lazy = LazyStack(level, options.missing)
    else:
        lazy = (LazyCharacters if source.is_string else LazyArray)(Array(array.node.bare()))
    # A scalar is an array with one sample along each axis.
    axes = source.dims or ("_",) * len(lazy.shape)
    variable = xr.Variable(
        axes,
        LazilyIndexedArray(lazy),
        _attributes(source),
        {
            "source": array.url,
            "chunks": level.chunks[: len(level.chunks) - source.is_string],
            **({"shards": level.shards} if level.shards else {}),
            "preferred_chunks": dict(
                zip(source.dims, limit_blocks(level.chunks, level.shape), strict=False)
            ),
            "n5_compression": to_json(array.compression),
            "dtype": lazy.dtype,
            "dialect": dict(source.geometry.sources),
            **_facts_of_matrix(source, lazy.shape),
            **_facts_of_systems(source),
        },
    )
    return variable.isel(dict.fromkeys(axes, 0)) if axes and not source.dims else variable


def _facts_of_matrix(source: _Source, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the units and sizes of axes that only a matrix positions: they have no coordinates."""
    if source.geometry.affine is None:
        return {}
    units = [axis.unit for axis in source.geometry.axes]
    return {AXIS_UNITS: units, AFFINE_SIZES: dict(zip(source.dims, shape, strict=False))}


def _facts_of_systems(source: _Source) -> dict[str, Any]:
    """Return the coordinate systems of an image, and the matrices that lead to them."""
    systems, array = source.geometry.systems, source.level.first
    if systems is None:
        return {}

    def load(path: str) -> Array:
        try:
            return open_array(array.node.container, join(systems.path, path))
        except (N5Error, OSError) as error:
            raise MetadataError(f"{path!r} cannot be opened: {error}") from error

    placements, problems = systems.placements(load if systems.needs_arrays else None)
    if systems.needs_arrays and (text := described_problems(systems, problems)) is not None:
        warn(text)
    renamed = dict(zip((a.name for a in source.level.geometry.axes), source.dims, strict=False))
    placed = {
        name: {
            "axes": list(placement.axes),
            "units": list(placement.units),
            "dims": [renamed.get(dim, dim) for dim in placement.dims],
            AFFINE: [list(row) for row in placement.rows],
        }
        for name, placement in placements.items()
    }
    return {SYSTEM: systems.intrinsic.name} | ({SYSTEMS: placed} if placed else {})


def _attributes(source: _Source) -> dict[str, Any]:
    """Return a variable's decoded attributes, without those that became coordinates."""
    array, stored, geometry = source.level.first, source.level.attributes, source.geometry
    used = geometry.keys if geometry.affine is None else frozenset[str]()
    used -= {*user_attributes(stored)}
    used -= {"units"} if units_of_values(stored) else set()
    used |= {"_ARRAY_DIMENSIONS"}
    kept = {key: value for key, value in stored.items() if key not in used}
    if geometry.affine is not None:
        kept.setdefault("affine", [number for row in geometry.affine for number in row])
    decoded = decode_attributes(kept, array.path or "/")
    if (fill := cf_attributes(array, stored).get("_FillValue")) is not None:
        decoded.setdefault("_FillValue", fill)
    return decoded


def _clash(array: Array, why: str) -> str:
    parent = array.url.rpartition("/")[0]
    return (
        f"the arrays in {parent!r} cannot share a Dataset ({why}); open one with "
        f"group={array.path!r}, a level of a pyramid with level=0, or all of them with "
        "xarray.open_datatree"
    )


def _decode(
    variables: Mapping[str, xr.Variable],
    attributes: dict[str, Any],
    decoders: Mapping[str, bool | None],
    *,
    encoded: Container[str],
) -> tuple[dict[str, xr.Variable], Mapping[str, Any], set[Any]]:
    """Decode variables; return them, the remaining attributes and the names of coordinates.

    By default, only variables that xarray wrote (`encoded`) are decoded: in others, ``_FillValue``
    and ``scale_factor`` may have other meanings. Variables that cannot be decoded are returned as
    stored, with a warning, unless a decoder was requested.
    """
    decoded, coordinates = dict(variables), set[Any]()
    kept: Any = attributes
    usual = ("concat_characters", "mask_and_scale", "decode_times", "decode_coords")
    for written in (True, False):
        chosen: dict[str, Any] = {
            **dict.fromkeys(usual, written),
            "use_cftime": None,
            "decode_timedelta": None if written else False,
            **{key: value for key, value in decoders.items() if value is not None},
        }
        part = {key: value for key, value in variables.items() if (key in encoded) is written}
        if any(chosen.values()) and part:
            part = _decodable(part, chosen, requested=any(decoders.values()))
            values, kept, named = decode_cf_variables(part, kept, **chosen)
            decoded |= values
            coordinates |= named
    return decoded, kept, coordinates


def _decodable(
    variables: Mapping[str, xr.Variable], chosen: dict[str, Any], *, requested: bool
) -> dict[str, xr.Variable]:
    """Return the variables that can be decoded; warn of others, or raise if it was requested."""
    decodable = dict(variables)
    for name, variable in variables.items():
        try:
            _check_numbers(variable.attrs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about references to other variables
                decode_cf_variables({name: variable.copy(deep=False)}, {}, **chosen)
        except ODD as error:
            if requested:
                raise
            del decodable[name]
            warn(
                f"{name!r} is not decoded: its attributes {list(variable.attrs)} are invalid "
                f"({error})"
            )
    return decodable


def _check_numbers(attributes: Mapping[str, Any]) -> None:
    """Raise for attributes that xarray would pass on to NumPy, then or when values are read."""
    dtype = attributes.get("dtype")
    if isinstance(dtype, str) and dtype.startswith("timedelta64"):
        check_time_units(dtype)
    for key in ("scale_factor", "add_offset"):
        if np.asarray(attributes.get(key, 1)).dtype.kind not in "biuf":
            raise ValueError(f"{key!r} is {attributes[key]!r:.100}; expected a number")
