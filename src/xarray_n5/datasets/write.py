"""Datasets into groups: every variable an array, every regular coordinate axes metadata."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import check_storable
from xarray_n5.arrays.group import create_group, open_existing, open_group
from xarray_n5.arrays.marker import begun_and_planned, revoke
from xarray_n5.arrays.overwrite import check_alone
from xarray_n5.datasets.build import Options, build
from xarray_n5.datasets.conventions import packing_of
from xarray_n5.datasets.encoding import plan
from xarray_n5.datasets.naming import check_name
from xarray_n5.datasets.ngff import check_dialect, images_of, nested
from xarray_n5.datasets.overwrite import check_free, check_room, existing, held, metadata, sides
from xarray_n5.datasets.select import pick
from xarray_n5.dialects import write_geometry
from xarray_n5.errors import MetadataError
from xarray_n5.model.chunking import align
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import note_of
from xarray_n5.writing.finished import is_finished
from xarray_n5.writing.plan import start
from xarray_n5.writing.self_reads import check_independent
from xarray_n5.writing.transaction import end_again, together
from xarray_n5.writing.writes import now, writer_name

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.datasets.encoding import Encoding, Plan, Stored
    from xarray_n5.writing.plan import Begun
    from xarray_n5.writing.transaction import Transaction, WriteOptions


def write(
    datasets: Sequence[tuple[xr.Dataset, str, Encoding | None]], how: WriteOptions
) -> Transaction:
    """Create groups and arrays, and make ready to write the data of all of them.

    Parameters
    ----------
    datasets
        Datasets, the paths of their groups, and the encodings of their variables.
    how
        Where and how they are written.

    Returns
    -------
    Batch
        What computes to the receipts of all variables, in a tree.

    Raises
    ------
    NodeExistsError
        If there is something that the mode does not allow to replace.
    ValueError
        If a dimension has another size in the arrays that stay.
    """
    for _, path, _ in datasets:
        for part in path.split("/") if path else []:
            check_name(part, "group")
        check_alone(*how.around(path), how.form)
    groups = [existing(path, how) for _, path, _ in datasets]
    gone: list[object] = []
    mark = how.mark(datasets[0][1], datasets)
    began = mark.facts() or mark.planned() if how.resume else None
    ended = began is None and how.resume and how.mode == "w-" and is_finished(mark)
    again = began is not None or bool(ended)
    if began and began.get("done"):
        return end_again(mark, began)
    plans = []
    for (dataset, path, encoding), group in zip(datasets, groups, strict=True):
        stays = group is not None and how.mode == "a"
        whole = _with_places(dataset, group) if group is not None and stays else dataset
        plans.append(
            held(plan(whole, path, packing_of(how.form.name), encoding, beside=stays), how)
        )
        there = group.attrs if group is not None and stays else {}
        plans[-1] = _checked(plans[-1], how, there)
        if group is not None:
            gone += check_room(plans[-1], group, how, again=again)
        elif path:
            check_free(path, how)
    replaced = [group.place for group in groups if group is not None and how.mode == "w"]
    for each in plans:
        for stored in each.variables.values():
            if gone and is_dask_collection(stored.packed.data):
                check_independent(stored.packed.data, gone, groups=replaced)
    return _begin(plans, groups, mark, how, began)


def _begin(
    plans: Sequence[Plan],
    groups: Sequence[Group | None],
    mark: WriteMarker,
    how: WriteOptions,
    began: Mapping[str, Any] | None,
) -> Transaction:
    """Create what is planned, all checked, beneath a mark."""
    written = (began or {}).get("written", [])
    root = plans[0].path
    if how.resume:
        _check_unfinished(plans, groups, how, written)
    create_group(how.url, root, mode="a", **how.place)
    if groups[0] is not None and how.mode in {"w-", "w"}:
        _end_others(mark)
    facts = {"by": writer_name(), "began": now(), "written": written}
    mark.begin(facts, planned=began is not None)
    begun: dict[str, Begun] = {}
    for each, group in zip(plans, groups, strict=True):
        begun |= _write_group(each, group, replace(how, whole=mark), written)
    how.consolidate(root, usual=True)
    remembered = bool(how.resume) and how.mode == "w-"
    return replace(together(begun, root, mark), remembered=remembered)


def _check_unfinished(
    plans: Sequence[Plan],
    groups: Sequence[Group | None],
    how: WriteOptions,
    written: Container[str],
) -> None:
    """Raise where another write is unfinished, before anything of this one is resumed."""
    for each, group in zip(plans, groups, strict=True):
        for name, stored in each.variables.items() if group is not None else ():
            path = join(each.path, name)
            if path in written:
                continue
            if open_existing(how.url, path, "a", **how.place) is not None:
                _write_variable(path, stored, how, only_check=True)


def _end_others(mark: WriteMarker) -> None:
    """Remove the marks of writes of what is replaced, or was never made."""
    others, planned = begun_and_planned(mark.store, mark.path)
    for other in others:
        if other != mark:
            other.end()
    for other in planned:
        if other != mark:
            revoke(other)


def _with_places(dataset: xr.Dataset, group: Group) -> xr.Dataset:
    """Return a dataset with the coordinates that the axes of arrays tell, which it may replace."""
    nodes = group.nodes(iter(group), strict=True)
    arrays = {name: node for name, node in nodes.items() if isinstance(node, Array)}
    if not arrays:
        return dataset
    images = pick(group, level=None, dialect=None, inherit=False)
    stored = build(images, {}, (), {}, Options())
    places = {
        dim: stored.variables[dim]
        for dim in stored.dims
        if dim in stored.coords and dim not in arrays and dim not in dataset.variables
        if dataset.sizes.get(dim, stored.sizes[dim]) == stored.sizes[dim]
    }
    return dataset.assign_coords(places) if places else dataset


def _checked(plan: Plan, how: WriteOptions, there: Mapping[str, Any]) -> Plan:
    """Return a plan with the layout of its images.

    Raises where creating an array would raise, before the first is created.
    """
    if not packing_of(how.form.name).in_axes:
        check_dialect(how.dialect)
        plan = nested(plan, images_of(plan, there, how.dialect))
    for name, stored in plan.variables.items():
        data = stored.packed.data
        where = f"variable {name!r}"
        if any(math.isnan(size) for size in data.shape):
            raise MetadataError(
                f"{where} has blocks of unknown size; call its compute_chunk_sizes() first"
            )
        check_storable(metadata(stored, where, how), how.form, where)
        if packing_of(how.form.name).in_axes and any(
            axis.scale is not None for axis in stored.geometry.axes
        ):
            try:
                write_geometry(stored.geometry, data.shape, how.dialect)
            except ValueError as error:
                raise MetadataError(f"{where}: {error}") from error
        if not how.align_chunks and is_dask_collection(data):
            for axis, (sizes, side) in enumerate(zip(data.chunks, sides(stored), strict=True)):
                align(sizes, side, 0, axis=axis, strict=True)
    return plan


def _write_group(
    plan: Plan, group: Group | None, how: WriteOptions, written: Container[str]
) -> dict[str, Begun]:
    """Create a group and its arrays, and its own attributes last; return the writes by path."""
    there, group = group, create_group(how.url, plan.path, mode="a", **how.place)
    if there is not None and how.mode == "w":
        for name in group.arrays():
            if not (how.resume and name in plan.variables):
                group.delete(name)
        group.attrs.clear()
    paths = {join(plan.path, name): each for name, each in plan.variables.items()}
    anew = replace(how, mode="w", resume=False)
    begun = {
        path: _write_variable(path, each, anew if path in written else how)
        for path, each in paths.items()
    }
    group = open_group(how.url, plan.path, mode="r+", **how.place)
    attributes = dict(plan.attributes)
    if how.mode == "a":
        if note := _joined(note_of(group.attrs), attributes):
            attributes[packing_of(how.form.name).note] = note
        if both := [
            each["coordinates"] for each in (group.attrs, attributes) if "coordinates" in each
        ]:
            attributes["coordinates"] = " ".join(dict.fromkeys(" ".join(both).split()))
    if not packing_of(how.form.name).in_axes:
        attributes |= images_of(plan, group.attrs, how.dialect)
    gone = [key for key in ("multiscales",) if attributes.get(key, key) is None]
    group.attrs.change({k: v for k, v in attributes.items() if k not in gone}, gone)
    return begun


def _joined(before: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the note of a group with what was in it before, but for what is `written` now."""
    note = note_of(written)
    kept = {k: v for k, v in before.get("attributes", {}).items() if k not in written}
    attributes = {**kept, **note.get("attributes", {})}
    own = sorted({*before.get("own", ()), *note.get("own", ())})
    before = {key: value for key, value in before.items() if key != "attributes"}
    told = {"attributes": attributes} if attributes else {}
    return {**before, **note, **told, **({"own": own} if own else {})}


def _write_variable(
    path: str, stored: Stored, how: WriteOptions, *, only_check: bool = False
) -> Begun:
    packed = stored.packed
    placed = packing_of(how.form.name).in_axes and any(
        axis.scale is not None for axis in stored.geometry.axes
    )
    order = how.order(
        mode="w-" if how.mode == "w-" else "w",
        chunks=stored.chunks,
        compression=stored.compression,
        attributes=packing_of(how.form.name).described(packed, stored.told, placed=placed),
        layout=stored.layout or None,
        axes=stored.geometry if placed else None,
        dialect=how.dialect if placed else None,
        dims=packed.dims if len(packed.dims) == packed.data.ndim else (),
        deferred=how.deferred and is_dask_collection(packed.data),
    )
    return start(
        packed.data,
        how.url,
        path,
        order,
        storage_options=how.storage_options,
        fsync=how.fsync,
        only_check=only_check,
    )
