"""Store Datasets as groups: every variable an array, regular coordinates as axes metadata."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import check_storable
from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.marker import WriteMarker, find_markers, revoke
from xarray_n5.arrays.overwrite import check_alone
from xarray_n5.datasets.build import Options, build
from xarray_n5.datasets.conventions import packing_of
from xarray_n5.datasets.encoding import plan as plan_group
from xarray_n5.datasets.naming import check_name
from xarray_n5.datasets.ngff import check_dialect, images_of, nested
from xarray_n5.datasets.overwrite import check_free, check_room, existing, held, metadata, sides
from xarray_n5.datasets.select import pick
from xarray_n5.dialects import write_geometry
from xarray_n5.errors import MetadataError
from xarray_n5.formats.protocol import Node
from xarray_n5.model.chunking import align
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import note_of
from xarray_n5.writing.completed import is_finished
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_independent
from xarray_n5.writing.transaction import Transaction, resume_end
from xarray_n5.writing.write import now, writer_name

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.conventions import Packing
    from xarray_n5.datasets.encoding import Encoding, Plan, Stored
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupWrite:
    """A group to be written, checked: its attributes, and the writes of its arrays."""

    plan: Plan
    existing: Group | None
    writes: Mapping[str, WritePlan]
    """By the paths of the arrays."""


def write(
    datasets: Sequence[tuple[xr.Dataset, str, Encoding | None]], how: WriteOptions
) -> Transaction:
    """Create groups and arrays, and return the transaction that writes their data.

    Parameters
    ----------
    datasets
        Datasets, the paths of their groups, and the encodings of their variables.
    how
        Where and how they are written.

    Raises
    ------
    NodeExistsError
        If something exists that the mode does not allow to replace.
    ValueError
        If a dimension has another size in the arrays that stay.
    """
    root = datasets[0][1]
    for _, path, _ in datasets:
        check_path(path, how)
    marker = marker_of(how, root, datasets)
    began = (marker.facts() or marker.planned()) if how.resume else None
    if began and began.get("done"):
        return resume_end(marker, began)
    may_have_ended = began is None and how.resume and how.mode == "w-"
    again = began is not None or bool(may_have_ended and is_finished(marker))
    written = (began or {}).get("written", [])
    plans = _plans(datasets, how, again=again)
    groups = [
        _GroupWrite(plan=plan, existing=group, writes=_plan_writes(plan, how, written))
        for plan, group in plans
    ]
    return _begin(groups, root, marker, how, began)


def check_path(path: str, how: WriteOptions) -> None:
    """Raise where a group's path cannot be one, or leads through a node of another format."""
    inner = path.removeprefix(how.root).strip("/")
    for part in inner.split("/") if inner else []:
        check_name(part, "group")
    parts = path.split("/") if path else []
    paths = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    nodes = how.container.nodes(paths, verify=False)
    check_alone(how.container, [node for node in nodes if isinstance(node, Node)])


def marker_of(how: WriteOptions, path: str, *facts: Any) -> WriteMarker:
    """Return the marker of a write into a group, whose token is made of what is written."""
    told = how.resume if isinstance(how.resume, str) else facts
    options = (how.mode, how.align_chunks, how.write_empty_chunks, how.checksums)
    return WriteMarker(store=how.store, path=path, token=tokenize(told, path, options))


def _plans(
    datasets: Sequence[tuple[xr.Dataset, str, Encoding | None]], how: WriteOptions, *, again: bool
) -> list[tuple[Plan, Group | None]]:
    """Return what is written into each group, checked against what the group holds."""
    packing, gone, replaced, found = packing_of(how.format), [], [], []
    for dataset, path, encoding in datasets:
        group = existing(path, how)
        stays = group is not None and how.mode == "a"
        whole = _with_coordinates(dataset, group) if group is not None and stays else dataset
        plan = held(plan_group(whole, path, packing, encoding, beside=stays), how)
        plan = _checked(plan, how, packing, group.attrs if group is not None and stays else {})
        if group is not None:
            gone += check_room(plan, group, how, again=again)
            replaced += [group.place] if how.mode == "w" else []
        elif path:
            check_free(path, how)
        found.append((plan, group))
    for plan, _ in found if gone else ():
        for stored in plan.variables.values():
            if is_dask_collection(stored.packed.data):
                check_independent(stored.packed.data, gone, groups=replaced)
    return found


def _plan_writes(plan: Plan, how: WriteOptions, written: Container[str]) -> dict[str, WritePlan]:
    """Return the checked writes of a group's arrays by path; the `written` ones start anew."""
    anew = replace(how, mode="w", resume=False)
    paths = {join(plan.path, name): stored for name, stored in plan.variables.items()}
    return {
        path: plan_write(_request(path, stored, anew if path in written else how))
        for path, stored in paths.items()
    }


def _request(path: str, stored: Stored, how: WriteOptions) -> WriteRequest:
    packed, packing = stored.packed, packing_of(how.format)
    placed = packing.in_axes and any(axis.scale is not None for axis in stored.geometry.axes)
    return WriteRequest.of(
        packed.data,
        path,
        how,
        mode="w-" if how.mode == "w-" else "w",
        chunks=stored.chunks,
        compression=stored.compression,
        attributes=packing.described(packed, stored.told, placed=placed),
        layout=stored.layout or None,
        axes=stored.geometry if placed else None,
        dialect=how.dialect if placed else None,
        dims=packed.dims if len(packed.dims) == packed.data.ndim else (),
        deferred=how.deferred and is_dask_collection(packed.data),
    )


def _begin(
    groups: Sequence[_GroupWrite],
    root: str,
    marker: WriteMarker,
    how: WriteOptions,
    began: Mapping[str, Any] | None,
) -> Transaction:
    """Create groups and arrays beneath a marker, and the attributes of each group last."""
    written = (began or {}).get("written", [])
    create_group(how.container, root, mode="a", format=how.format.name)
    if groups[0].existing is not None and how.mode in {"w-", "w"}:
        _end_others(marker)
    facts = {"by": writer_name(), "began": now(), "written": written}
    marker.begin(facts, planned=began is not None)
    begun: dict[str, WritePlan] = {}
    for each in groups:
        group = create_group(how.container, each.plan.path, mode="a", format=how.format.name)
        if each.existing is not None and how.mode == "w":
            for name in each.existing.arrays():
                if name not in each.plan.variables:
                    each.existing.delete(name)
            group.attrs.clear()
        begun |= {path: plan.begin(marker) for path, plan in each.writes.items()}
        _write_attributes(each.plan, group, how)
    how.consolidate(root, default=True)
    named = {path.removeprefix(root).strip("/"): plan for path, plan in begun.items()}
    return Transaction(named, marker, remembered=bool(how.resume) and how.mode == "w-")


def _end_others(marker: WriteMarker) -> None:
    """Remove the markers of writes of what is replaced, or was never made."""
    others, planned = find_markers(marker.store, marker.path)
    for other in others:
        if other != marker:
            other.end()
    for other in planned:
        if other != marker:
            revoke(other)


def _with_coordinates(dataset: xr.Dataset, group: Group) -> xr.Dataset:
    """Add the coordinates in the axes of a group's arrays, which the dataset may replace."""
    nodes = group.nodes(iter(group), strict=True)
    arrays = {name: node for name, node in nodes.items() if isinstance(node, Array)}
    if not arrays:
        return dataset
    images = pick(group, level=None, dialect=None, inherit=False)
    stored = build(images, {}, (), {}, Options())
    coordinates = {
        dim: stored.variables[dim]
        for dim in stored.dims
        if dim in stored.coords and dim not in arrays and dim not in dataset.variables
        if dataset.sizes.get(dim, stored.sizes[dim]) == stored.sizes[dim]
    }
    return dataset.assign_coords(coordinates) if coordinates else dataset


def _checked(
    plan: Plan, how: WriteOptions, packing: Packing, attributes: Mapping[str, Any]
) -> Plan:
    """Return a plan with the layout of its images; raise where an array could not be created."""
    if not packing.in_axes:
        check_dialect(how.dialect)
        plan = nested(plan, images_of(plan, attributes, how.dialect))
    for name, stored in plan.variables.items():
        data = stored.packed.data
        where = f"variable {name!r}"
        if any(math.isnan(size) for size in data.shape):
            raise MetadataError(
                f"{where} has blocks of unknown size; call its compute_chunk_sizes() first"
            )
        check_storable(metadata(stored, where, how), how.format, where)
        if packing.in_axes and any(axis.scale is not None for axis in stored.geometry.axes):
            try:
                write_geometry(stored.geometry, data.shape, how.dialect)
            except ValueError as error:
                raise MetadataError(f"{where}: {error}") from error
        if not how.align_chunks and is_dask_collection(data):
            for axis, (sizes, side) in enumerate(zip(data.chunks, sides(stored), strict=True)):
                align(sizes, side, 0, axis=axis, strict=True)
    return plan


def _write_attributes(plan: Plan, group: Group, how: WriteOptions) -> None:
    """Set the attributes of a group; in mode "a" they are added to those that it has."""
    packing, attributes = packing_of(how.format), dict(plan.attributes)
    if how.mode == "a":
        if note := _joined(note_of(group.attrs), attributes):
            attributes[packing.note] = note
        named = [each["coordinates"] for each in (group.attrs, attributes) if "coordinates" in each]
        if named:
            attributes["coordinates"] = " ".join(dict.fromkeys(" ".join(named).split()))
    if not packing.in_axes:
        attributes |= images_of(plan, group.attrs, how.dialect)
    gone = [key for key in ("multiscales",) if attributes.get(key, key) is None]
    group.attrs.change({k: v for k, v in attributes.items() if k not in gone}, gone)


def _joined(before: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the note of a group with what was in it before, but for what is `written` now."""
    note = note_of(written)
    kept = {k: v for k, v in before.get("attributes", {}).items() if k not in written}
    attributes = {**kept, **note.get("attributes", {})}
    own = sorted({*before.get("own", ()), *note.get("own", ())})
    before = {key: value for key, value in before.items() if key != "attributes"}
    told = {"attributes": attributes} if attributes else {}
    return {**before, **note, **told, **({"own": own} if own else {})}
