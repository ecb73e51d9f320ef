"""Apply a function to blocks of arrays and the samples around them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from dask.base import is_dask_collection, tokenize
from dask.utils import has_keyword

from xarray_n5.boxes.blocks import blocks_of, check_amplification, encoded_chunks
from xarray_n5.boxes.crop import coordinate_of
from xarray_n5.boxes.functions import Call, identity_of, meta_of, name_of
from xarray_n5.boxes.sources import stored_source
from xarray_n5.boxes.tasks import IndexedBlocks, OverlapTask
from xarray_n5.dask.boxes import from_boxes
from xarray_n5.graph import as_graph, dask_map_overlap, label, normalize_chunks, spell
from xarray_n5.model.axes import ROUNDING
from xarray_n5.model.halos import by_axis, halos_of
from xarray_n5.model.units import quantity_of, ratio, written_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import dask.array as da
    from numpy.typing import ArrayLike, DTypeLike

    from xarray_n5.dask.boxes import StoredSource
    from xarray_n5.model.halos import Blocks, Boundary, Depth, Halo

_REFUSED = frozenset(
    {"align_arrays", "allow_rechunk", "drop_axis", "enforce_ndim", "name", "new_axis", "token"}
    | {"as_dataarray"}
)
"""Options, most of them of :func:`dask.array.map_overlap`, that the function would get instead."""

_KEPT = ("n5_compression", "dialect", "axis_units")
"""The encodings that a result has from the first array."""


def map_overlap(
    func: Callable[..., ArrayLike],
    *arrays: xr.DataArray,
    depth: Depth | list[Depth],
    boundary: Boundary | list[Boundary] = None,
    trim: bool = True,
    chunks: Blocks = None,
    dtype: DTypeLike | None = None,
    meta: np.ndarray | None = None,
    **kwargs: object,
) -> xr.DataArray:
    """Apply a function to blocks of an array and the samples around them, lazily.

    Names, meanings and results are those of :func:`dask.array.map_overlap`. But of arrays that were
    opened by this package, each task reads the box that it needs, so that there is one task per
    block, and 10 million blocks are as easy as 10. The result can be stored block by block, and an
    interrupted write resumed: ``result.n5.to_n5(url, resume=True)``.

    Parameters
    ----------
    func : callable
        The function. It gets a NumPy array for each of `arrays`: a block with the samples around
        it. It may take ``block_id`` or ``block_info``, as in :func:`dask.array.map_blocks`.
    *arrays : xarray.DataArray
        Arrays with the same dimensions, shape and coordinates. Those opened here, lazily or with
        ``chunks=``, selected by slices and integers and transposed, are read box by box. If any of
        them was computed, :func:`dask.array.map_overlap` does the work, with the same result.
    depth : int, str, tuple, dict or list
        The number of samples around a block, for all dimensions, for each in order, or by name or
        number of the dimension. A distance with its unit, such as "2 um", stands for the samples
        that cover it; a single one is for all dimensions with coordinates in such a unit. A pair is
        the depths before and after; it needs boundary "none". Larger depths than blocks are
        possible. A list has one of these for each of `arrays`.
    boundary : None, str, number, tuple, dict or list, optional
        What blocks at the ends of the array get beyond these: nothing ("none", the default), or
        samples that "reflect", "nearest", "periodic" or a number provide. As `depth`, it may be
        given by dimension and by array.
    trim : bool, default: True
        Whether to remove the samples around blocks from the results. With False, `func` does it:
        it returns blocks without them.
    chunks : int, str, tuple or dict, optional
        The shape of blocks, also by dimension; those of fewer dimensions keep their default. By
        default, blocks are enough whole stored chunks (or shards) that less than 1.5 times their
        samples are read, ``prod((block + before + after) / block)``, if such a box fits into Dask's
        setting ``array.chunk-size``.
    dtype : dtype, optional
        The type of the results; by default, `func` is called with a tiny array.
    meta : numpy.ndarray, optional
        An empty array of the type of the results, instead of `dtype`.
    **kwargs
        Further arguments of `func`.

    Returns
    -------
    xarray.DataArray
        The result, lazily, with the name, dimensions, coordinates, attributes and chunks of the
        first array. With ``trim=False``, dimensions with a depth have no coordinates.

    Raises
    ------
    ValueError
        If the arrays differ in shape or coordinates, or an argument is invalid. When it is
        computed: if `func` returns a block of the wrong shape. Errors of `func` have a note with
        the index of the block, and where it is.
    TypeError
        When it is computed, or without `dtype` and `meta` at once: if `func` does not return an
        array.
    NotImplementedError
        If an asymmetric depth has a boundary.

    Warns
    -----
    dask.array.PerformanceWarning
        If more than 3 times the samples of blocks are read.

    Examples
    --------
    >>> array = xarray_n5.create_array("a.n5", "raw", shape=(6, 8), dtype="uint8", chunks=2)
    >>> array[:] = 1
    >>> raw = xr.open_dataset("a.n5", engine="n5", group="raw")["raw"]
    >>> def total(block):
    ...     return block + np.roll(block, 1, axis=0) + np.roll(block, -1, axis=0)
    >>> summed = xarray_n5.map_overlap(total, raw, depth={"y": 1}, boundary=0, chunks=4)
    >>> summed.chunks
    ((4, 2), (4, 4))
    >>> summed[:, 0].values
    array([2, 3, 3, 3, 3, 2], dtype=uint8)
    >>> _ = summed.n5.to_n5("a.n5", "sums", resume=True)
    """
    _check(func, arrays, kwargs)
    first = arrays[0]
    halos = _halos(depth, boundary, arrays)
    arrays = tuple(array.transpose(*first.dims) for array in arrays)
    known = tuple(stored_source(array) for array in arrays)
    sources = tuple(array for array in known if array is not None)
    wanted = frozenset(name for name in ("block_id", "block_info") if has_keyword(func, name))
    call = Call(func, kwargs, wanted - kwargs.keys())
    how: dict[str, Any] = {"trim": trim, "dtype": dtype, "meta": meta}
    if len(sources) == len(arrays):
        blocks = blocks_of(chunks, sources[0], first.dims, _widest(halos))
        check_amplification(blocks, first.shape, _widest(halos))
        data = _from_stored(call, first.dims, sources, halos, blocks, **how)
    else:
        blocks = _blocks_of_dask(chunks, arrays, halos)
        data = _from_dask(call, arrays, halos, blocks, **how)
    return _labelled(data, first, halos[0], blocks, known[0], trim=trim)


def _check(func: object, arrays: Sequence[object], kwargs: dict[str, object]) -> None:
    """Raise for arguments that are of the wrong type, or do not fit each other."""
    if not callable(func):
        raise TypeError(f"expected a function first, got {type(func).__name__}")
    if not arrays or not all(isinstance(array, xr.DataArray) for array in arrays):
        kinds = ", ".join(type(array).__name__ for array in arrays) or "none"
        raise TypeError(f"expected one or more DataArrays after the function, got {kinds}")
    if refused := sorted(_REFUSED & kwargs.keys()):
        raise TypeError(
            f"{', '.join(refused)} cannot be used here: functions get NumPy arrays, and return one "
            "with the dimensions of the first; pass array.data to dask.array.map_overlap, or other "
            "names to the function"
        )
    if lazy := sorted(name for name, value in kwargs.items() if is_dask_collection(value)):
        raise TypeError(
            f"{', '.join(lazy)} is a Dask collection, which would be computed in each task; "
            "compute it first, or pass it as one of the arrays"
        )
    first, *others = arrays
    for other in others:
        _check_alike(first, other)


def _check_alike(first: Any, other: Any) -> None:
    """Raise if two arrays differ in their dimensions, shape or coordinates."""
    if dict(first.sizes) != dict(other.sizes):
        raise ValueError(
            f"the arrays have different sizes, {dict(first.sizes)} and {dict(other.sizes)}; "
            "select the same part of each"
        )
    try:
        xr.align(first, other, join="exact", copy=False)
    except ValueError as error:
        raise ValueError(
            f"the arrays have different coordinates: {error}; put them on one grid, or if they "
            "are on one, copy the coordinates with labels.assign_coords(raw.coords)"
        ) from error


def _halos(
    depth: Any, boundary: Any, arrays: Sequence[xr.DataArray]
) -> tuple[tuple[Halo, ...], ...]:
    """Return the halo of each array along the dimensions of the first one."""
    dims = arrays[0].dims
    several = [
        given if isinstance(given, list) else [given] * len(arrays) for given in (depth, boundary)
    ]
    for name, given in zip(("depth", "boundary"), several, strict=True):
        if len(given) != len(arrays):
            raise ValueError(
                f"{name} is a list of {len(given)}; expected one item for each of the "
                f"{len(arrays)} arrays"
            )
    halos_of_all = []
    for array, wanted, kind in zip(arrays, *several, strict=True):
        counts = in_samples(wanted, array)
        by_dim = dict(zip(array.dims, halos_of(counts, kind, array.dims), strict=True))
        halos_of_all.append(tuple(by_dim[dim] for dim in dims))
    for halos, array in zip(halos_of_all, arrays, strict=True):
        for halo in halos:
            if halo.is_constant:
                np.full((), halo.boundary, array.dtype)  # raises if it cannot hold the value
    return tuple(halos_of_all)


def in_samples(depth: Any, array: xr.DataArray) -> tuple[Any, ...]:
    """Return a depth along each dimension, with distances as the samples that cover them.

    >>> x = xr.Variable("x", [0.0, 0.5, 1.0], {"units": "um"})
    >>> image = xr.DataArray(np.zeros((2, 3)), {"x": x}, ("t", "x"))
    >>> in_samples("1200 nm", image), in_samples({"t": 1, "x": ("0.5 um", 0)}, image)
    ((0, 3), (1, (1, 0)))

    Raises
    ------
    ValueError
        If a distance has no unit, or one that does not fit the coordinates.
    """
    if isinstance(depth, str):
        units = {
            dim: array.coords[dim].attrs.get("units") for dim in array.dims if dim in array.coords
        }
        given = (quantity_of(depth) or (0, None))[1]
        along = [d for d, unit in units.items() if ratio(given, written_unit(unit)) is not None]
        if not along:
            raise ValueError(
                f"depth is {depth!r}; expected a number of samples, or a distance in a unit like "
                f"those of the coordinates, {units}"
            )
        depth = dict.fromkeys(along, depth)
    return tuple(
        tuple(_count(side, dim, array) for side in sides)
        if isinstance(sides, tuple)
        else _count(sides, dim, array)
        for dim, sides in zip(array.dims, by_axis(depth, array.dims, "depth", 0), strict=True)
    )


def _count(depth: Any, dim: Hashable, array: xr.DataArray) -> Any:
    """Return the number of samples that cover a distance along a dimension; others as they are."""
    if not isinstance(depth, str):
        return depth
    coordinate, values = coordinate_of(array, str(dim))
    distance, given = quantity_of(depth) or (0, None)
    unit = written_unit(coordinate.attrs.get("units"))
    factor = ratio(given, unit)
    if factor is None or values.size < 2:  # noqa: PLR2004
        raise ValueError(
            f"depth is {depth!r} along {dim!r}, which has {values.size} coordinates in {unit!r}; "
            "expected a number of samples, or a distance in such a unit, such as '2 um'"
        )
    return math.ceil(distance * factor / np.abs(np.diff(values)).min() - ROUNDING)


def _widest(halos: Sequence[Sequence[Halo]]) -> list[Halo]:
    """Return the halo of the largest box along each dimension."""
    return [
        max(along, key=lambda halo: halo.before + halo.after) for along in zip(*halos, strict=True)
    ]


def _from_stored(
    call: Call,
    dims: tuple[Hashable, ...],
    sources: tuple[StoredSource, ...],
    halos: tuple[tuple[Halo, ...], ...],
    blocks: tuple[tuple[int, ...], ...],
    *,
    trim: bool,
    dtype: Any,
    meta: Any,
) -> da.Array:
    """Return the result of a function whose tasks read boxes of stored arrays."""
    meta = meta_of(call, len(dims), [source.dtype for source in sources], dtype, meta)
    task = OverlapTask(call, dims, sources, halos, tuple(map(len, blocks)), trim, meta.dtype)
    facts = (identity_of(call.func), call.kwargs, halos, trim, spell(blocks), meta.dtype)
    return from_boxes(
        task,
        blocks,
        meta.dtype,
        tokenize(facts, [source.token for source in sources]),
        meta,
        where=IndexedBlocks(blocks),
        verb=label("map_overlap", name_of(call.func)),
    )


def _blocks_of_dask(
    chunks: Any, arrays: Sequence[xr.DataArray], halos: Sequence[Sequence[Halo]]
) -> tuple[tuple[int, ...], ...]:
    """Return the blocks for Dask: those of the first Dask array, none smaller than a depth."""
    first = arrays[0]
    chunked = (array.chunks for array in arrays if array.chunks is not None)
    present = next(chunked, ("auto",) * first.ndim)
    asked = by_axis(chunks, first.dims, "chunks", None)
    wanted = tuple(b if a is None else a for a, b in zip(asked, present, strict=True))
    sizes_along = normalize_chunks(wanted, first.shape, dtype=first.dtype)
    depths = [max(max(h.before, h.after) for h in along) for along in zip(*halos, strict=True)]
    return tuple(at_least(depth, sizes) for depth, sizes in zip(depths, sizes_along, strict=True))


def at_least(depth: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return blocks merged until each has `depth` samples, if there are so many.

    >>> at_least(3, (2, 2, 5, 1)), at_least(3, (4, 3)), at_least(3, (1, 1))
    ((4, 6), (4, 3), (2,))
    """
    merged = [0]
    for size in sizes:
        if merged[-1] >= depth and merged[-1]:
            merged.append(0)
        merged[-1] += size
    if len(merged) > 1 and merged[-1] < depth:
        last = merged.pop()
        merged[-1] += last
    return tuple(merged)


def _from_dask(
    call: Call,
    arrays: Sequence[xr.DataArray],
    halos: Sequence[Sequence[Halo]],
    blocks: tuple[tuple[int, ...], ...],
    **how: Any,
) -> da.Array:
    """Return the result of Dask's own function, for arrays that were computed."""
    sides = dict(zip(arrays[0].dims, blocks, strict=True))
    data = [as_graph(array.chunk(sides).data) for array in arrays]
    depths = [
        {i: h.before if h.before == h.after else (h.before, h.after) for i, h in enumerate(along)}
        for along in halos
    ]
    boundaries = [{i: halo.boundary for i, halo in enumerate(along)} for along in halos]
    result: da.Array = dask_map_overlap(
        call.func, *data, depth=depths, boundary=boundaries, **how, **call.kwargs
    )
    return result


def _labelled(
    data: da.Array,
    first: xr.DataArray,
    halos: Sequence[Halo],
    blocks: tuple[tuple[int, ...], ...],
    source: StoredSource | None,
    *,
    trim: bool,
) -> xr.DataArray:
    """Return a result with the name, coordinates, attributes and encodings of the first array."""
    overlapped = {
        dim for dim, h in zip(first.dims, halos, strict=True) if not trim and h.before + h.after
    }
    coords = {
        name: coord
        for name, coord in first.coords.items()
        if not overlapped.intersection(coord.dims)
    }
    result = xr.DataArray(data, coords, first.dims, first.name, first.attrs)
    result.encoding = {key: first.encoding[key] for key in _KEPT if key in first.encoding}
    if source is not None:
        stored = tuple(source.array.chunks[axis] for axis in source.order)
        units = source.units
        if (fitting := encoded_chunks(blocks, stored)) is not None:
            result.encoding["chunks"] = fitting
        if source.array.shards is not None and encoded_chunks(blocks, units) == units:
            result.encoding["shards"] = units
    return result
