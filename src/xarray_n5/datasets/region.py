"""Whether a Dataset fits behind what is stored, or into a part of it: checked before a write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from dask.base import is_dask_collection

from xarray_n5.arrays.group import open_group
from xarray_n5.datasets.attributes import decode_attributes
from xarray_n5.datasets.encoded import cf_attributes
from xarray_n5.errors import NodeExistsError, NodeNotFoundError
from xarray_n5.model.chunking import align, check_region

if TYPE_CHECKING:
    from collections.abc import Hashable

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.writing.request import WriteOptions

_SCALED = frozenset({"scale_factor", "add_offset"})
"""What makes other numbers of a variable's values."""

_ENCODED = _SCALED | {"_FillValue", "missing_value", "_Unsigned", "_Encoding"}
"""What numbers mean."""

_TIME = re.compile(r"(?<=\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d*?)0*)?$")
"""What a time of the day looks like, behind that from which others are counted."""

Region: TypeAlias = "Mapping[str, slice | Literal['auto']] | Literal['auto']"


def group_to_fill(path: str, how: WriteOptions, append_dim: str | None) -> Group:
    """Return the group that a dataset goes into; NodeNotFoundError where there is none."""
    try:
        return open_group(how.container, path, mode="r+", format=how.format.name)
    except NodeNotFoundError as error:
        if append_dim is None:
            raise
        hint = "there is nothing to append to: leave append_dim out of the first write"
        raise NodeNotFoundError(error.url, error.path, error.expected, hint) from error


def _appended(dataset: xr.Dataset, stored: xr.Dataset, dim: str) -> dict[str, slice]:
    """Return where along a dimension a dataset goes, behind what is stored."""
    if dim not in dataset.dims or dim not in stored.dims:
        known = sorted(map(str, {*dataset.dims} & {*stored.dims}))
        raise ValueError(f"append_dim={dim!r} is no dimension of both datasets; those are {known}")
    start = stored.sizes[dim]
    return {dim: slice(start, start + dataset.sizes[dim])}


def check_not_there(dataset: xr.Dataset, stored: xr.Dataset, dim: str, url: str) -> None:
    """Raise where what is to go on has been appended already, as far as its places tell."""
    if dim not in dataset.indexes or dim not in stored.indexes:
        return
    ours, theirs = dataset.indexes[dim], stored.indexes[dim]
    if len(ours) and ours.equals(theirs[-len(ours) :]):
        hint = "it has been appended; without resume it would be once more"
        raise NodeExistsError(url, dim, f"{len(ours)} places at the end, the very same", hint)


def places_of(
    dataset: xr.Dataset, stored: xr.Dataset, region: Region | None, append_dim: str | None
) -> dict[str, slice]:
    """Return where a dataset goes along the dimensions of a region, of all, or behind what is."""
    if append_dim is not None:
        return _appended(dataset, stored, append_dim)
    if region is None:
        return {str(dim): slice(0, size) for dim, size in dataset.sizes.items()}
    if not isinstance(region, Mapping) and region != "auto":
        raise TypeError(f"region is {region!r}; slices by dimension or 'auto' are needed")
    wanted = dict.fromkeys(map(str, dataset.dims), "auto") if region == "auto" else dict(region)
    if not wanted:
        raise ValueError(f"region={region!r}: the Dataset has no dimensions; name one to write to")
    places: dict[str, slice] = {}
    for dim, where in wanted.items():
        if dim not in dataset.dims or dim not in stored.dims:
            one, other = dataset.sizes, stored.sizes
            whose = "of the Dataset to be written" if dim not in one else "of what is stored"
            known = sorted(map(str, {*one} & {*other}))
            raise ValueError(
                f"region is for {dim!r}: {dim!r} is not a dimension {whose}; both have {known}"
            )
        if where == "auto":
            places[dim] = _found(dataset, stored, dim)
            continue
        if not isinstance(where, slice) or where.step not in {None, 1}:
            raise ValueError(f"the region of {dim!r} is {where!r}; a slice of step 1 is needed")
        start, stop, _ = where.indices(stored.sizes[dim])
        if stop - start != dataset.sizes[dim]:
            raise ValueError(
                f"the region {where} of {dim!r}, which has {stored.sizes[dim]} samples, is for "
                f"{max(0, stop - start)}, not for {dataset.sizes[dim]}"
            )
        places[dim] = slice(start, stop)
    return places


def _found(dataset: xr.Dataset, stored: xr.Dataset, dim: str) -> slice:
    """Return where the coordinate of a dataset lies in the stored one."""
    instead = f"give region={{{dim!r}: slice(start, stop)}}"
    for each, where in ((dataset, "in the Dataset to be written"), (stored, "that is stored")):
        if dim not in each.indexes:
            raise ValueError(
                f"region='auto' compares coordinates, and {dim!r} has no coordinate {where}; "
                f"{instead}"
            )
    ours, theirs = dataset.indexes[dim], stored.indexes[dim]
    if not theirs.is_unique:
        raise ValueError(f"region='auto': the stored coordinate {dim!r} repeats values; {instead}")
    at = theirs.get_indexer(ours)
    if (at < 0).any():
        lost = ours[at < 0][0]
        raise ValueError(
            f"region='auto': {lost} along {dim!r} is not among the {len(theirs)} stored ones "
            f"({theirs[0]} to {theirs[-1]}); use append_dim={dim!r} for new ones, or {instead}"
            if len(theirs)
            else f"region='auto': nothing is stored along {dim!r}; use append_dim={dim!r}"
        )
    if not at.size or (np.diff(at) != 1).any():
        raise ValueError(
            f"region='auto': the {len(ours)} places along {dim!r} are not next to each other, in "
            "this order, in what is stored; write parts that are"
        )
    return slice(int(at[0]), int(at[-1]) + 1)


def fitting(
    dataset: xr.Dataset,
    stored: xr.Dataset,
    places: Mapping[str, slice],
    append_dim: str | None,
    *,
    whole: bool = False,
) -> xr.Dataset:
    """Return the variables that are to be written; those without the region's dimensions stay.

    Where the dataset goes into all of what is there, all of its variables are.
    """
    for dim, size in dataset.sizes.items():
        if (whole or dim not in places) and stored.sizes.get(dim) != size:
            raise ValueError(f"{dim!r} has {stored.sizes.get(dim)} samples there, not {size}")
    apart = [
        name
        for name, each in dataset.variables.items()
        if not whole and not set(each.dims) & set(places)
    ]
    if append_dim is None and apart:
        raise ValueError(
            f"the variables {apart} have no dimension of the region {list(places)}; drop them, or "
            "write them on their own"
        )
    for name in dataset.variables:
        if name not in stored.variables:
            raise ValueError(
                f"there is no variable {name!r} to write into: {list(stored.variables)}"
            )
        if dataset[name].dims != stored[name].dims:
            raise ValueError(
                f"{name!r} has the dimensions {stored[name].dims} there, not {dataset[name].dims}"
            )
        if name in apart and not _same(dataset, stored, name):
            raise ValueError(
                f"{name!r} is another there, and has no dimension {append_dim!r}; drop it, or "
                "write it with mode='a'"
            )
    if append_dim is not None:
        missing = [
            name
            for name, each in stored.variables.items()
            if append_dim in each.dims and name not in dataset.variables
        ]
        if missing:
            raise ValueError(
                f"{missing} have the dimension {append_dim!r}, too; append to all of them"
            )
    return dataset.drop_vars(apart)


def without_unchanged(
    dataset: xr.Dataset, stored: xr.Dataset, places: Mapping[str, slice]
) -> xr.Dataset:
    """Return a dataset without the indexes that are the same in the part of what is stored."""
    unchanged = [
        dim
        for dim in dataset.indexes
        if dim in stored.indexes
        if dataset.indexes[dim].equals(stored.indexes[dim][places.get(str(dim), slice(None))])
    ]
    return dataset.drop_vars(unchanged)


def _same(dataset: xr.Dataset, stored: xr.Dataset, name: Hashable) -> bool:
    return bool(dataset.variables[name].equals(stored.variables[name]))  # type: ignore[no-untyped-call]


def check_places(
    dataset: xr.Dataset, stored: xr.Dataset, dim: str, place: slice, *, grows: bool
) -> None:
    """Raise where a coordinate that the axes tell is another there."""
    kinds = {dataset[dim].dtype.kind, stored[dim].dtype.kind}
    units = dataset[dim].attrs.get("units"), stored[dim].attrs.get("units")
    if not kinds <= set("iuf") or units[0] != units[1]:
        raise ValueError(
            f"the coordinate {dim!r} has the type {stored[dim].dtype} and the unit {units[1]!r} "
            f"there, not {dataset[dim].dtype} and {units[0]!r}"
        )
    if not grows and not np.array_equal(dataset[dim].to_numpy(), stored[dim].to_numpy()[place]):
        raise ValueError(f"the coordinate {dim!r} is another than that of the region")


def check_types(dataset: xr.Dataset, stored: xr.Dataset) -> None:
    """Raise where values have another type than those that are there."""
    for name in dataset.variables:
        ours, theirs = dataset[name].dtype, stored[name].dtype
        kinds = {ours.kind, theirs.kind}
        encoding = stored[name].encoding
        # Whether their numbers can tell the values is seen when these are encoded.
        packed = encoding.get("dtype", theirs) != theirs or _SCALED & encoding.keys()
        numbers = packed and kinds <= set("iuf")
        times = len(kinds) == 1 and ours.kind in "Mm"
        if ours != theirs and not (kinds <= set("USO") or numbers or times):
            raise ValueError(f"{name!r} has the type {theirs} there, not {ours}; use astype()")
        if "calendar" in encoding and ours.kind == "O" and dataset[name].size:
            calendar = dataset[name].dt.calendar
            if calendar != encoding["calendar"]:
                raise ValueError(
                    f"{name!r} has the calendar {encoding['calendar']!r} there, not {calendar!r}; "
                    "use convert_calendar()"
                )


def check_numbers(
    name: str, packed: EncodedVariable, array: Array, parent: Mapping[str, Any] | None = None
) -> None:
    """Raise where numbers would mean something else in the array that is there.

    Bounds without units of their own have those of their `parent`.
    """
    if packed.data.dtype != array.dtype:
        raise ValueError(f"{name!r} is stored as {array.dtype}, not as {packed.data.dtype}")
    before = decode_attributes(cf_attributes(array), array.url)
    after = decode_attributes(packed.cf_attributes, name)
    for key in (*sorted(_ENCODED), "units", "calendar", "dtype"):
        have, want = (_plain(each.get(key)) for each in (before, after))
        if parent and key in {"units", "calendar"} and "None" in {have, want}:
            have, want = (
                each if each != "None" else _plain(parent.get(key)) for each in (have, want)
            )
        if have != want:
            raise ValueError(
                f"{name!r} is stored with {key} {have!r}, which cannot tell the new values "
                f"({want!r} would); {_cure(name, key, want)}"
            )


def _cure(name: str, key: str, want: str) -> str:
    if want == "None" or (key == "units" and " since " not in want):
        return "write all of it anew, or with the same attributes"
    return (
        f"the first write chooses it for all: write that anew, with encoding={{{name!r}: "
        f"{{{key!r}: {want!r}}}}}"
    )


def check_alignment(
    packed: EncodedVariable, array: Array, start: list[int], how: WriteOptions
) -> None:
    """Raise where the region, or Dask's blocks, cut stored chunks, if they must not."""
    if how.partial_chunks == "error":
        sides = (packed.data.shape, array.shape, array.chunks)
        shape, sizes, chunks = (side[: len(start)] for side in sides)
        names = tuple(map(str, packed.dims))
        check_region(start, shape, sizes, chunks, url=array.url, names=names)
    if how.align_chunks or not is_dask_collection(packed.data):
        return
    start = [*start, *[0] * (array.ndim - len(start))]
    for axis, (blocks, side, first) in enumerate(
        zip(packed.data.chunks, array.chunks, start, strict=True)
    ):
        align(blocks, side, first, axis=axis, strict=True)


def _plain(value: Any) -> str:
    """Return an attribute to be compared; a list of units is that of the axes."""
    return "None" if isinstance(value, list) else _TIME.sub(_time, str(value))


def _time(found: re.Match[str]) -> str:
    time, fraction = found.groups("")
    if time == "00:00:00" and not fraction:
        return ""
    return f" {time}.{fraction}" if fraction else f" {time}"
