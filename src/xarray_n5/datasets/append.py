"""Write Datasets to existing arrays: after the end of a dimension, or to a part of them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.marker import claiming
from xarray_n5.arrays.open import open_group
from xarray_n5.arrays.spec import ArraySpec
from xarray_n5.datasets.build import build
from xarray_n5.datasets.conventions import convention_of
from xarray_n5.datasets.encoding import encode_like
from xarray_n5.datasets.grow import (
    check_blank,
    check_place,
    complete_others,
    grow,
    grow_alone,
    growth,
    outdated,
    remove_coordinate,
    widen,
)
from xarray_n5.datasets.ngff import updated_images
from xarray_n5.datasets.other_appends import wait_for_others
from xarray_n5.datasets.overwrite import ExistingGroup, check_not_scene
from xarray_n5.datasets.region import (
    check_axis_coordinate,
    check_encoding,
    check_not_appended,
    check_types,
    region_slices,
    select_written,
    without_unchanged,
)
from xarray_n5.errors import NodeExistsError, NodeNotFoundError
from xarray_n5.images.select import select_images
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.resume import find_append, remember_append
from xarray_n5.writing.self_reads import check_independent
from xarray_n5.writing.transaction import Transaction, resume_end
from xarray_n5.writing.write import provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.datasets.region import Region
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """A dataset to write to the arrays of a group, checked against them."""

    how: WriteOptions
    group: Group
    stored: xr.Dataset
    """The arrays as a Dataset."""
    arrays: Mapping[str, Array]
    """The array of each variable."""
    dataset: xr.Dataset
    written: xr.Dataset
    """The variables of the dataset to write."""
    slices: Mapping[str, slice]
    """The part of the stored Dataset to write."""
    append_dim: str | None
    in_axes: Sequence[str]
    """The dimensions whose coordinate is stored in axes only."""
    encoded: Mapping[str, EncodedVariable]
    """The variables, encoded like the stored ones."""


def update(
    dataset: xr.Dataset,
    path: str,
    how: WriteOptions,
    *,
    append_dim: str | None = None,
    region: Region | None = None,
    names: Sequence[str] | None = None,
) -> Transaction:
    """Return the transaction that writes a dataset to the arrays of a group.

    Without `append_dim` and `region`, each variable replaces the values of its array. Everything
    else is kept. If `names` are passed, other arrays of the group are ignored.

    Raises
    ------
    ValueError
        If the dataset does not fit.
    """
    _open_group(path, how, append_dim)  # a lock creates the folder of a group that is missing
    with nullcontext() if append_dim is None else claiming(how.store, path):
        if append_dim is not None and how.store.concurrency == 1:  # object stores have no locks
            how = replace(how, container=how.container.uncached().cached())
        group = _open_group(path, how, append_dim)
        marker = how.marker(path, dataset, append_dim, region)
        if append_dim is not None and wait_for_others(group, marker, how):
            how = replace(how, container=how.container.uncached().cached())
            group = _open_group(path, how, append_dim)
        began = (marker.facts() or marker.planned() if how.resume else None) or {}
        if began.get("done"):
            return resume_end(marker, began, _closing(marker, began, how))
        others = [] if append_dim is None else complete_others(group, marker, how)
        check_place(group, began)
        before = grow(group, began, how)
        if append_dim is not None and began:
            complete_others(group, marker, how)  # those that begin behind this one
        each = _plan_update(
            dataset, ExistingGroup(group, names=names), how, append_dim, region, began
        )
        if append_dim is not None and how.resume and not began:
            known = find_append(marker)
            check_not_appended(each.dataset, each.stored, append_dim, group.url, known)
        facts: dict[str, Any] = provenance()
        if append_dim is not None:
            where, moves = each.slices[append_dim], append_dim in each.in_axes
            facts |= growth(each.dataset, each.stored, each.arrays, append_dim, where, moves=moves)
        facts |= {key: began[key] for key in ("places",) if key in began}
        plans = _plan_writes(each, facts.get("grows", {}))
        if began:
            if not began.get("grown") and not any(plan.resumed for plan in plans.values()):
                check_blank(group, began, before)  # another program may have resized them
            facts["grown"] = True
        # All checks have passed.
        begin = partial(marker.begin, facts, planned=bool(began))
        if began:
            begin()
        else:
            grow_alone(group, facts, how, begin, marker, others)
        widen(each.arrays, each.encoded)
        _remove_outdated(each)
        named = {
            each.arrays[name].path.removeprefix(path).strip("/"): plans[name] for name in plans
        }
        ending: dict[str, Any] = {key: facts[key] for key in ("start", "grows") if key in facts}
        closing = _closing(marker, facts, how)
        waited = "grows" in facts and not began and how.store.concurrency > 1
        shown = [partial(marker.update, facts | {"grown": True})] if waited else []
        transaction = Transaction(named, marker, closing=closing, ending=ending).begin(*shown)
        how.consolidate(path, default=append_dim is not None)
        return transaction


def _closing(
    marker: WriteMarker, facts: Mapping[str, Any], how: WriteOptions
) -> Callable[[], None] | None:
    """Return the record of a finished append that may be resumed again; None for others."""
    sizes = [size for _, size in facts.get("grows", {}).values()]
    if not how.resume or not sizes:
        return None
    return partial(remember_append, marker, facts["start"], sizes[0])


def _open_group(path: str, how: WriteOptions, append_dim: str | None) -> Group:
    try:
        found = open_group(how.container, path, mode="r+")
    except NodeNotFoundError as error:
        if append_dim is None:
            raise
        hint = "there is nothing to append to: omit append_dim in the first write"
        raise NodeNotFoundError(error.url, error.path, error.expected, hint) from error
    check_not_scene(found)
    return found


def _plan_update(
    dataset: xr.Dataset,
    existing: ExistingGroup,
    how: WriteOptions,
    append_dim: str | None,
    region: Region | None,
    began: Mapping[str, Any],
) -> _Update:
    """Check a dataset against the arrays of a group, and encode it like them."""
    group, dataset = existing.group, existing.renamed(dataset)
    stored, arrays = _open(existing)
    if append_dim is not None and began:
        stored = stored.isel({append_dim: slice(0, began["start"])})
    slices = region_slices(dataset, stored, region, append_dim)
    whole = append_dim is None and region is None
    written = select_written(dataset, stored, slices, append_dim, whole=whole)
    if region is not None:
        written = without_unchanged(written, stored, slices)
    check_types(written, stored)
    in_axes = [dim for dim in slices if dim in dataset.variables and dim not in arrays]
    for dim in in_axes:
        check_axis_coordinate(dataset, stored, dim, slices[dim], grows=dim == append_dim)
        if dim in group.groups():
            raise NodeExistsError(group.url, dim, "a group", "the coordinate has its name")
    encoded = _encode(written.drop_vars(in_axes, errors="ignore"), stored, arrays, how)
    if append_dim is None:
        _check_sources(encoded, arrays)
    return _Update(
        how=how,
        group=group,
        stored=stored,
        arrays=arrays,
        dataset=dataset,
        written=written,
        slices=slices,
        append_dim=append_dim,
        in_axes=in_axes,
        encoded=encoded,
    )


def _encode(
    written: xr.Dataset, stored: xr.Dataset, arrays: Mapping[str, Array], how: WriteOptions
) -> dict[str, EncodedVariable]:
    """Encode variables like the stored ones; raise if that is impossible."""
    convention, parents = convention_of(how.format), _bounded(stored, arrays)
    found = {}
    for name, encoded in encode_like(written, stored, convention).items():
        found[name] = convention.fit(name, encoded, arrays[name])
        check_encoding(name, found[name], arrays[name], parents.get(name))
    return found


def _check_sources(encoded: Mapping[str, EncodedVariable], arrays: Mapping[str, Array]) -> None:
    """Raise if a variable is computed from values that are overwritten."""
    replaced = [arrays[name].node.identity for name in encoded]
    for each in encoded.values():
        if is_dask_collection(each.data):
            check_independent(each.data, replaced)


def _open(existing: ExistingGroup) -> tuple[xr.Dataset, Mapping[str, Array]]:
    """Return the arrays of a group as a Dataset, and by variable.

    All must be readable: an array that is left out would not grow with the others.
    """
    if existing.arrays:
        return existing.dataset, existing.arrays
    group = existing.group
    images = select_images(group)
    if stacked := [name for name, image in images.items() if image.base.numbers]:
        raise ValueError(
            f"{stacked} in {group.url!r} are several arrays each, as in BigDataViewer's files; "
            "write to them one by one with xarray_n5.open_array"
        )
    stored = build(images, dict(group.attrs))
    return stored, {name: image.base.first for name, image in images.items()}


def _bounded(stored: xr.Dataset, arrays: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """Return the attributes of the variables that have bounds, by the names of the bounds."""
    found = {}
    for name, variable in stored.variables.items():
        attributes = {**variable.encoding, **variable.attrs}
        for key in ("bounds", "climatology"):
            if key in attributes and name in arrays:
                found[str(attributes[key])] = dict(arrays[str(name)].attrs)
    return found


def _plan_writes(update: _Update, growth: Mapping[str, Sequence[int]]) -> dict[str, WritePlan]:
    """Return the checked writes by variable, to resized arrays."""
    return {
        name: plan_write(_request(name, encoded, update, growth.get(name)))
        for name, encoded in update.encoded.items()
    }


def _request(
    name: str, encoded: EncodedVariable, update: _Update, growth: Sequence[int] | None
) -> WriteRequest:
    array, data, append_dim = update.arrays[name], encoded.data, update.append_dim
    shape = list(array.shape)
    if growth is not None:
        axis, size = growth
        shape[axis] = max(shape[axis], size)  # others may have appended behind it
    if encoded.is_string:
        shape[-1] = max(shape[-1], data.shape[-1])
    dims = update.stored.variables[name].dims
    region = [
        update.slices.get(str(d), slice(0, n)) for d, n in zip(dims, data.shape, strict=False)
    ]
    region += [slice(0, size) for size in shape[len(region) :]]
    # Where arrays grow, one task merges the last chunk.
    how = update.how if append_dim is None else replace(update.how, partial_chunks="merge")
    return WriteRequest.of(
        data,
        ArraySpec(path=array.path),
        how,
        region=region,
        target=Array(array.node.with_shape(tuple(shape))),
        dims=encoded.dims if len(encoded.dims) == data.ndim else None,
        appends=append_dim is not None,
        deferred=how.deferred and is_dask_collection(data),
    )


def _remove_outdated(update: _Update) -> None:
    """Remove metadata of axes and images that new coordinate arrays will contradict."""
    moved = outdated(update.stored, update.written, update.slices, update.in_axes)
    changed = updated_images(
        update.group.attrs,
        update.stored,
        update.written,
        update.slices,
        moved,
        update.how.format.ngff_version,
    )
    stale = [key for key, value in changed.items() if value is None]
    if changed:
        update.group.attrs.change({k: v for k, v in changed.items() if k not in stale}, stale)
    for dim in moved:
        for array in update.arrays.values():
            remove_coordinate(array.refresh(), dim, update.how)
