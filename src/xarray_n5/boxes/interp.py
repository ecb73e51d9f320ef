"""Interpolate stored arrays on other grids, each block from the box that it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import uuid4

import numpy as np
import xarray as xr
from dask.base import tokenize

from xarray_n5.boxes.interpolation import AlongAxes, ByMatrix, check_scipy
from xarray_n5.boxes.neighbours import Method, Neighbours
from xarray_n5.boxes.placement import Placement, Target, are_equal, inverse
from xarray_n5.boxes.sources import stored_source
from xarray_n5.dask.boxes import from_blocks_of, from_boxes
from xarray_n5.datasets.world import AFFINE, AXES
from xarray_n5.datasets.xarray_internals import is_in_memory
from xarray_n5.graph import as_graph, normalize_chunks
from xarray_n5.model.chunking import group_chunks
from xarray_n5.model.json import check_option, near

if TYPE_CHECKING:
    from collections.abc import Hashable

    from xarray_n5.boxes.interpolation import Box, Interpolation
    from xarray_n5.boxes.placement import Targets
    from xarray_n5.model.halos import Blocks

Sampled = TypeVar("Sampled", xr.DataArray, xr.Dataset)

_BLOCK = 1 << 25
"""The maximum size of a block of the result and the box for it, together: 32 MiB."""

_SIDE = 64
"""The side of a stored chunk where neither the target nor the source has chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to interpolate."""

    method: Method = "linear"
    fill_value: object = None
    chunks: Blocks = None
    stored: Mapping[Hashable, int] | None = None
    """The sides of the target's stored chunks, by dimension."""

    def __post_init__(self) -> None:
        check_option("method", self.method, "linear", "nearest")

    @property
    def extrapolates(self) -> bool:
        """Whether samples outside are those at the end."""
        return isinstance(self.fill_value, str) and self.fill_value == "extrapolate"


def sample(source: Sampled, targets: Targets, options: Options) -> Sampled:
    """Return an array or a Dataset on another grid; see the accessors' `interp`."""
    for dim in targets:
        if dim not in source.dims:
            known = [str(name) for name in source.dims]
            raise ValueError(f"there is no dimension {dim!r} in {known}{near(dim, known)}")
    if isinstance(source, xr.DataArray):
        sampled = _interp(source, None, targets, options)
        return sampled.isel(dict.fromkeys(_scalars(targets), 0))
    arrays: dict[Hashable, xr.DataArray] = {}
    for name, array in source.data_vars.items():
        of_array = {dim: target for dim, target in targets.items() if dim in array.dims}
        arrays[name] = _interp(array, source, of_array, options) if of_array else array
    moved = not targets.keys().isdisjoint(AXES)
    coords = {
        name: coord.variable
        for name, coord in source.coords.items()
        if not _depends(coord, targets) and not (moved and name in _PLACES)
    }
    for array in arrays.values():
        coords |= {dim: array.coords[dim].variable for dim in array.dims if dim in array.coords}
    variables = {name: array.variable for name, array in arrays.items()}
    dataset = xr.Dataset(variables, coords, source.attrs)
    dataset.encoding = dict(source.encoding)
    return dataset.isel(dict.fromkeys(_scalars(targets), 0))


_PLACES = ("affine", "registration", "axis", "column", *(f"origin_{axis}" for axis in AXES))
"""The coordinates that place the samples of views, which a result on another grid has not."""


def _interp(
    source: xr.DataArray, dataset: xr.Dataset | None, targets: Targets, options: Options
) -> xr.DataArray:
    """Return an array on another grid; targets of one number keep their dimension."""
    placement = Placement.of(source, dataset)
    converted = {str(dim): placement.target(str(dim), given) for dim, given in targets.items()}
    if (dtype := source.dtype).kind not in "biufc":
        raise TypeError(f"{source.name!r} has values of {dtype}; expected numbers; use sel")
    if options.method == "linear" and dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    by_matrix = placement.matrices is not None and not converted.keys().isdisjoint(AXES)
    if options.extrapolates and (by_matrix or options.method != "nearest"):
        raise ValueError(
            "fill_value='extrapolate' is for method='nearest' and samples that no matrix places; "
            "xarray extrapolates linearly: array.interp(..., kwargs={'fill_value': 'extrapolate'})"
        )
    fill = _fill_for(dtype, None if options.extrapolates else options.fill_value)
    last = AXES if by_matrix else ()
    turned = source.transpose(*(dim for dim in source.dims if dim not in last), *last)
    planned = _by_matrix if by_matrix else _along_axes
    plan: Interpolation = planned(turned, placement, converted, options, dtype, fill)
    sizes = [converted[d].values.size if d in converted else n for d, n in turned.sizes.items()]
    data, sides = _compute(turned, source.dims, plan, sizes, options)
    kept = {n: c.variable for n, c in source.coords.items() if not _depends(c, converted)}
    attrs = dict(source.attrs)
    if not converted.keys().isdisjoint(AXES):
        kept = {name: coord for name, coord in kept.items() if name not in _PLACES}
        kept |= {dim: placement.coordinate(dim) for dim in placement.samples}
        attrs.pop(AFFINE, None)
    coords = kept | {
        dim: target.coordinate if target.coordinate.dims else target.coordinate.expand_dims(dim)
        for dim, target in converted.items()
    }
    result = xr.DataArray(data, coords, turned.dims, source.name, attrs).transpose(*source.dims)
    by_dim = dict(zip(turned.dims, sides, strict=True))
    result.encoding["chunks"] = tuple(by_dim[dim] for dim in source.dims)
    return result


def _fill_for(dtype: np.dtype[Any], fill_value: object) -> Any:
    """Return the value of samples outside, of the type of the result."""
    if fill_value is None:
        fill_value = np.nan if dtype.kind in "fc" else 0
    given = np.asarray(fill_value)
    with np.errstate(invalid="ignore", over="ignore"):
        same = given.astype(dtype)
    inexact = dtype.kind in "fc" and given.dtype.kind in "biufc"
    if given.ndim or not (inexact or np.array_equal(same, given)):
        raise ValueError(
            f"fill_value is {fill_value!r}; expected one value that arrays of {dtype} can hold; "
            "choose another value, or convert the array with astype first"
        )
    return same[()]


def _depends(coordinate: xr.DataArray, targets: Mapping[Any, object]) -> bool:
    return not targets.keys().isdisjoint(coordinate.dims)


def _scalars(targets: Targets) -> list[Hashable]:
    return [dim for dim, target in targets.items() if not np.ndim(cast("Any", target))]


def _along_axes(
    source: xr.DataArray,
    placement: Placement,
    targets: Mapping[str, Target],
    options: Options,
    dtype: np.dtype[Any],
    fill: Any,
) -> AlongAxes:
    """Return the interpolation of an array whose samples have coordinates along each axis."""
    axes: list[Neighbours | None] = []
    for dim in source.dims:
        if dim not in targets:
            axes.append(None)
            continue
        samples, values = placement.along(source, str(dim)), targets[str(dim)].values
        if options.extrapolates and samples.size:
            values = values.clip(samples.min(), samples.max())
        same = are_equal(samples, values)
        axes.append(None if same else Neighbours.of(samples, values, options.method))
    return AlongAxes(tuple(axes), dtype, fill)


def _by_matrix(
    source: xr.DataArray,
    placement: Placement,
    targets: Mapping[str, Target],
    options: Options,
    dtype: np.dtype[Any],
    fill: Any,
) -> ByMatrix:
    """Return the interpolation of an array whose last axes are placed by matrices."""
    if targets.keys() != set(AXES) or not set(placement.dims) <= set(source.dims):
        raise ValueError(
            f"matrices along {list(placement.dims)} place the samples along z, y, x, but the "
            f"targets are {list(targets)}; give z, y and x, and interpolate other dimensions before"
        )
    check_scipy()
    others = [dim for dim in source.dims if dim not in AXES]
    placed = [dim for dim in placement.dims if dim in others]
    order = [placement.dims.index(str(dim)) for dim in others if dim in placed]
    count = len(placement.dims)
    matrices = inverse(cast("np.ndarray", placement.matrices)).transpose(*order, count, count + 1)
    shape = [source.sizes[dim] if dim in placed else 1 for dim in others]
    return ByMatrix(
        matrices.reshape(*shape, *matrices.shape[-2:]),
        tuple(targets[axis].values.astype(np.float64) for axis in AXES),
        tuple(source.sizes[axis] for axis in AXES),
        options.method,
        dtype,
        fill,
    )


class _Boxes(Protocol):
    """A source that is read box by box."""

    def read(self, box: Box) -> np.ndarray:
        """Return the values in a box."""


@dataclass(frozen=True, slots=True, eq=False)
class _LazySource:
    """A lazily indexed variable, as of another engine, or of packed values."""

    variable: xr.Variable

    def read(self, box: Box) -> np.ndarray:
        """Return the values in a box."""
        return self.variable[box].to_numpy()


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """The task of a block: it reads its box, and interpolates."""

    source: _Boxes
    plan: Interpolation

    def __call__(self, where: Box) -> np.ndarray:
        return self.plan.block(self.source.read, where)


def _asked(chunks: Any, dims: tuple[Hashable, ...], order: tuple[Hashable, ...]) -> list[Any]:
    """Return the blocks that a user chose for dimensions, in another order."""
    if isinstance(chunks, tuple):
        if len(chunks) != len(dims):
            raise ValueError(f"chunks is {chunks}; expected one for each of the dimensions {dims}")
        chunks = dict(zip(dims, chunks, strict=True))
    elif not isinstance(chunks, Mapping):
        chunks = dict.fromkeys(dims, chunks)
    if unknown := [dim for dim in chunks if dim not in dims]:
        known = list(map(str, dims))
        raise ValueError(
            f"there is no dimension {unknown[0]!r} in {known}{near(unknown[0], known)}"
        )
    return [chunks.get(dim) for dim in order]


def _compute(
    source: xr.DataArray,
    dims: tuple[Hashable, ...],
    plan: Interpolation,
    sizes: list[int],
    options: Options,
) -> tuple[Any, tuple[int, ...]]:
    """Return the result, lazily unless the source is in memory, and the sides of its chunks.

    The dimensions of the source are in another order than `dims`, in which users give blocks.
    """
    samples = _ratio(plan, sizes)
    stored = stored_source(source)
    sides = _sides(source, sizes, options)
    size = plan.dtype.itemsize + math.ceil(source.dtype.itemsize * samples)
    default = group_chunks(sides, sizes, size, _BLOCK)
    asked = [
        side if wanted is None else wanted
        for wanted, side in zip(_asked(options.chunks, dims, source.dims), default, strict=True)
    ]
    chunks: Any = normalize_chunks(tuple(asked), tuple(sizes), dtype=plan.dtype)
    if stored is not None:
        token = tokenize(stored.token, plan)
        return from_boxes(_Task(stored, plan), chunks, plan.dtype, token, verb="interp"), sides
    if source.chunks is not None:
        data = as_graph(source.data)
        token = tokenize(data.name, plan)
        return from_blocks_of(data, plan, chunks, plan.dtype, f"interp-{token}"), sides
    if not is_in_memory(source.variable):
        task = _Task(_LazySource(source.variable), plan)
        # A token of the values would have to read them.
        return from_boxes(task, chunks, plan.dtype, uuid4().hex, verb="interp"), sides
    values = source.to_numpy()
    return plan.block(values.__getitem__, tuple(slice(0, size) for size in sizes)), sides


def stored_sides(array: xr.DataArray) -> dict[Hashable, int]:
    """Return the sides of the stored chunks of an array, by dimension; none if it has none."""
    stored = stored_source(array)
    if stored is not None:
        along = zip(array.dims, stored.order, strict=True)
        return {dim: stored.array.chunks[axis] for dim, axis in along}
    # Encodings do not follow selections and transpositions, but engines add the dimensions' names.
    chunks = array.encoding.get("chunks") or ()
    named = array.encoding.get("preferred_chunks") or ()
    dims = named if set(named).issuperset(array.dims) else array.dims
    return dict(zip(dims, chunks, strict=True)) if len(chunks) == len(dims) else {}


def _sides(source: xr.DataArray, sizes: list[int], options: Options) -> tuple[int, ...]:
    """Return the sides of the result's stored chunks: the target's, or else the source's."""
    chosen = stored_sides(source) | dict(options.stored or {})
    along = zip(source.dims, sizes, strict=True)
    return tuple(max(1, min(n, chosen.get(dim, _SIDE if dim in AXES else 1))) for dim, n in along)


def _ratio(plan: Interpolation, sizes: list[int]) -> float:
    """Return about how many samples of the source a sample of the result needs."""
    if isinstance(plan, ByMatrix):
        matrices = plan.matrices.reshape(-1, *plan.matrices.shape[-2:])
        steps = math.prod(np.ptp(t) / max(1, t.size - 1) or 1.0 for t in plan.targets if t.size)
        known = matrices[np.isfinite(matrices).all((-2, -1))]
        return float(np.abs(np.linalg.det(known[..., :-1])).max(initial=0.0) * steps)
    ratio = 1.0
    for axis, size in zip(cast("AlongAxes", plan).axes, sizes, strict=True):
        span = None if axis is None or not size else axis.within(slice(0, size))
        if span is not None:
            ratio *= (span[0].stop - span[0].start) / (span[1].stop - span[1].start)
    return ratio
