"""Find the part of a stored Dataset that a region selects, and check that new data fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from xarray_n5.datasets.encoded import cf_attributes, decode_attributes
from xarray_n5.errors import printable
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.model.axes import Axis

_SCALES = frozenset({"scale_factor", "add_offset"})
"""Attributes that distinguish numbers from values."""

_ENCODED = _SCALES | {"_FillValue", "missing_value", "_Unsigned", "_Encoding"}
"""Attributes that determine the meaning of numbers."""

_TIME = re.compile(r"(?<=\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d*+))?$")
"""The time of day at the end of a unit of times."""

Region: TypeAlias = "Mapping[str, slice | Literal['auto']] | Literal['auto']"


def region_slices(
    dataset: xr.Dataset, stored: xr.Dataset, region: Region | None, append_dim: str | None
) -> dict[str, slice]:
    """Return the slices of the stored Dataset to write, by dimension.

    They are those of `region`, those after the end of `append_dim`, or whole dimensions.

    Raises
    ------
    ValueError
        If the region does not match the dataset, or cannot be found.
    """
    if append_dim is not None:
        _check_dim(append_dim, dataset, stored)
        start = stored.sizes[append_dim]
        return {append_dim: slice(start, start + dataset.sizes[append_dim])}
    if region is None:
        return {str(dim): slice(0, size) for dim, size in stored.sizes.items()}
    if not isinstance(region, Mapping) and region != "auto":
        raise TypeError(f"region is {region!r}; expected slices by dimension or 'auto'")
    wanted = dict.fromkeys(map(str, dataset.dims), "auto") if region == "auto" else dict(region)
    if not wanted:
        raise ValueError(f"region={region!r}: the Dataset has no dimensions; name one to write to")
    return {dim: _slice_along(dim, where, dataset, stored) for dim, where in wanted.items()}


def stored_samples(dataset: xr.Dataset, stored: xr.Dataset, dim: str) -> slice | None:
    """Return where the samples of a Dataset are stored already, by their coordinate."""
    if dim not in dataset.indexes or dim not in stored.indexes:
        return None
    ours, theirs = dataset.indexes[dim], stored.indexes[dim]
    for start in map(int, np.flatnonzero(theirs.isin(ours[:1]))):
        if ours.equals(theirs[start : start + len(ours)]):
            return slice(start, start + len(ours))
    return None


def select_written(
    dataset: xr.Dataset,
    stored: xr.Dataset,
    slices: Mapping[str, slice],
    append_dim: str | None,
    *,
    whole: bool,
) -> xr.Dataset:
    """Return the variables to write: those with a dimension of the region, or all if `whole`.

    Raises
    ------
    ValueError
        If they do not fit into the stored Dataset.
    """
    apart = [
        name
        for name, variable in dataset.variables.items()
        if not whole and slices.keys().isdisjoint(variable.dims)
    ]
    if append_dim is None and apart:
        raise ValueError(
            f"the variables {apart} have no dimension of the region {list(slices)}; drop them, or "
            "write them separately"
        )
    for name, variable in dataset.variables.items():
        if name not in stored.variables:
            raise ValueError(
                f"no variable {name!r} is stored; expected one of {list(stored.variables)}"
            )
        existing = stored.variables[name]
        sizes = {dim: _size(slices.get(str(dim)), size) for dim, size in existing.sizes.items()}
        if [*variable.sizes.items()] != [*sizes.items()]:
            raise ValueError(
                f"expected {name!r} with the dimensions {sizes}, as it is stored, got "
                f"{dict(variable.sizes)}"
            )
        if name in apart and not variable.equals(existing):  # type: ignore[no-untyped-call]
            raise ValueError(
                f"{name!r} differs from the stored one, and lacks the dimension {append_dim!r}; "
                "drop it, or write it with mode='a'"
            )
    missing = [
        name
        for name, variable in stored.variables.items()
        if append_dim in variable.dims and name not in dataset.variables
    ]
    if missing:
        raise ValueError(f"{missing} also have the dimension {append_dim!r}; append to all of them")
    return dataset.drop_vars(apart)


def _size(where: slice | None, size: int) -> int:
    return size if where is None else where.stop - where.start


def without_unchanged(
    dataset: xr.Dataset, stored: xr.Dataset, slices: Mapping[str, slice]
) -> xr.Dataset:
    """Return a dataset without indexes that are stored already."""
    unchanged = [
        dim
        for dim in dataset.indexes
        if dim in stored.indexes
        if dataset.indexes[dim].equals(stored.indexes[dim][slices.get(str(dim), slice(None))])
    ]
    return dataset.drop_vars(unchanged)


def check_unit(dataset: xr.Dataset, stored: xr.Dataset, dim: str) -> None:
    """Raise if a coordinate has another type or unit than the one in the axes of arrays."""
    ours, theirs = dataset[dim], stored[dim]
    units = ours.attrs.get("units"), theirs.attrs.get("units")
    if not {ours.dtype.kind, theirs.dtype.kind} <= set("iuf") or not same_unit(
        *map(_comparable, units)
    ):
        raise ValueError(
            f"the coordinate {dim!r} is stored as {theirs.dtype} with the unit {units[1]!r}, got "
            f"{ours.dtype} with {units[0]!r}"
        )


def check_axis(
    dataset: xr.Dataset, stored: xr.Dataset, dim: str, where: slice, axis: Axis | None
) -> None:
    """Raise if a coordinate does not continue that of an axis, or differs from the stored one."""
    expected = stored[dim].to_numpy()[where]
    if axis is not None:
        expected = axis.offset + axis.step * np.arange(where.start, where.stop)
    if not np.array_equal(expected, dataset[dim].to_numpy()):
        described = f"the axes of arrays describe as {axis}" if axis else "is stored"
        raise ValueError(
            f"the coordinate {dim!r} differs from the one that {described}; a first write with "
            f"encoding={{{dim!r}: {{}}}} stores any coordinate, as an array"
        )


def check_types(dataset: xr.Dataset, stored: xr.Dataset) -> None:
    """Raise if a variable has another type or calendar than the stored one."""
    for name in dataset.variables:
        ours, theirs = dataset[name].dtype, stored[name].dtype
        kinds = {ours.kind, theirs.kind}
        encoding = stored[name].encoding
        # Packed numbers are checked for overflow when they are encoded.
        packed = encoding.get("dtype", theirs) != theirs or _SCALES & encoding.keys()
        numbers = packed and kinds <= set("iuf")
        times = len(kinds) == 1 and ours.kind in "Mm"
        if ours != theirs and not (kinds <= set("USO") or numbers or times):
            raise ValueError(
                f"{name!r} has the type {theirs}, got {ours}; convert it with astype()"
            )
        if "calendar" in encoding and ours.kind == "O" and dataset[name].size:
            calendar = dataset[name].dt.calendar
            if calendar != encoding["calendar"]:
                raise ValueError(
                    f"{name!r} is stored with the calendar {encoding['calendar']!r}, got "
                    f"{calendar!r}; use convert_calendar()"
                )


def check_encoding(
    name: str, encoded: EncodedVariable, array: Array, parent: Mapping[str, Any] | None = None
) -> None:
    """Raise if encoded numbers would have another meaning in an existing array.

    Bounds without units have those of their `parent`.
    """
    if encoded.data.dtype != array.dtype:
        raise ValueError(f"{name!r} is stored as {array.dtype}, got {encoded.data.dtype}")
    before = decode_attributes(cf_attributes(array), array.url)
    after = decode_attributes(encoded.cf_attributes, name)
    for key in (*sorted(_ENCODED), "units", "calendar", "dtype"):
        have, want = (_comparable(value.get(key)) for value in (before, after))
        if parent and key in {"units", "calendar"} and "None" in {have, want}:
            inherited = _comparable(parent.get(key))
            have, want = (value if value != "None" else inherited for value in (have, want))
        if have != want and not (key == "units" and same_unit(have, want)):
            raise ValueError(
                f"{name!r} is stored with {key} {have!r}, which cannot represent the new values "
                f"({want!r} would); {_advice(name, key, want)}"
            )


def _check_dim(dim: str, dataset: xr.Dataset, stored: xr.Dataset) -> None:
    if dim not in dataset.dims or dim not in stored.dims:
        known = sorted(map(str, {*dataset.dims} & {*stored.dims}))
        raise ValueError(
            f"{dim!r} is not a dimension of both the Dataset to be written and the stored one; "
            f"expected one of {known}"
        )


def _slice_along(dim: str, where: slice | str, dataset: xr.Dataset, stored: xr.Dataset) -> slice:
    """Return the start and stop of a region along a dimension."""
    _check_dim(dim, dataset, stored)
    if where == "auto":
        return _find(dataset, stored, dim)
    if not isinstance(where, slice) or where.step not in {None, 1}:
        raise ValueError(f"the region of {dim!r} is {where!r}; expected a slice of step 1")
    start, stop, _ = where.indices(stored.sizes[dim])
    if stop - start != dataset.sizes[dim]:
        raise ValueError(
            f"the region {where} of {dim!r}, which has {stored.sizes[dim]} samples, selects "
            f"{max(0, stop - start)}, expected {dataset.sizes[dim]}"
        )
    return slice(start, stop)


def _find(dataset: xr.Dataset, stored: xr.Dataset, dim: str) -> slice:
    """Find the coordinate of a dataset in the stored one."""
    instead = f"pass region={{{dim!r}: slice(start, stop)}}"
    for whose, where in ((dataset, "in the Dataset to be written"), (stored, "that is stored")):
        if dim not in whose.indexes:
            raise ValueError(
                f"region='auto' compares coordinates, and {dim!r} has no coordinate {where}; "
                f"{instead}"
            )
    ours, theirs = dataset.indexes[dim], stored.indexes[dim]
    if not theirs.is_unique:
        raise ValueError(f"region='auto': the stored coordinate {dim!r} repeats values; {instead}")
    at = theirs.get_indexer(ours)
    if (at < 0).any():
        lost = printable(str(ours[at < 0][0]))
        ends = printable(f"{theirs[0]} to {theirs[-1]}") if len(theirs) else "none"
        raise ValueError(
            f"region='auto': {lost} along {dim!r} is not among the {len(theirs)} stored "
            f"coordinates ({ends}); use append_dim={dim!r} for new ones, or {instead}"
        )
    if not at.size or (np.diff(at) != 1).any():
        raise ValueError(
            f"region='auto': the {len(ours)} coordinates along {dim!r} are not adjacent and in "
            "this order in the stored Dataset; write parts that are"
        )
    return slice(int(at[0]), int(at[-1]) + 1)


def _advice(name: str, key: str, want: str) -> str:
    if want == "None" or (key == "units" and " since " not in want):
        return "rewrite all of it, or use the same attributes"
    return (
        f"the first write chooses it for all: rewrite that with encoding={{{name!r}: "
        f"{{{key!r}: {want!r}}}}}"
    )


def _comparable(value: Any) -> str:
    """Return an attribute as a string to compare; a list of units is that of axes."""
    return "None" if isinstance(value, list) else _TIME.sub(_short_time, str(value))


def _short_time(match: re.Match[str]) -> str:
    time, fraction = match[1], (match[2] or "").rstrip("0")
    if time == "00:00:00" and not fraction:
        return ""
    return f" {time}.{fraction}" if fraction else f" {time}"
