"""Find where a Dataset is in a stored one, and the variables to write there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from xarray_n5.errors import printable

if TYPE_CHECKING:
    import xarray as xr

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


def select_written(
    dataset: xr.Dataset,
    stored: xr.Dataset,
    slices: Mapping[str, slice],
    append_dim: str | None,
    *,
    whole: bool,
) -> xr.Dataset:
    """Return the variables to write: those with a dimension of the region, or all if `whole`.

    Of a region, indexes that are stored already are left out.

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
    unchanged = [
        dim
        for dim, index in dataset.indexes.items()
        if append_dim is None and not whole and dim in stored.indexes
        if index.equals(stored.indexes[dim][slices.get(str(dim), slice(None))])
    ]
    return dataset.drop_vars([*apart, *unchanged])


def _size(where: slice | None, size: int) -> int:
    return size if where is None else where.stop - where.start


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
        return find_samples(dataset, stored, dim)
    if not isinstance(where, slice) or where.step not in {None, 1}:
        raise ValueError(f"the region of {dim!r} is {where!r}; expected a slice of step 1")
    start, stop, _ = where.indices(stored.sizes[dim])
    if stop - start != dataset.sizes[dim]:
        raise ValueError(
            f"the region {where} of {dim!r}, which has {stored.sizes[dim]} samples, selects "
            f"{max(0, stop - start)}, expected {dataset.sizes[dim]}"
        )
    return slice(start, stop)


def find_samples(dataset: xr.Dataset, stored: xr.Dataset, dim: str) -> slice:
    """Find the samples of a dataset in the stored one, by their coordinate; raise ValueError."""
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
