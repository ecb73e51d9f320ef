"""Datasets into groups: every variable an array, every regular coordinate axes metadata."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from xarray_n5.array import Array
from xarray_n5.attributes import as_json
from xarray_n5.batches import end_again, together
from xarray_n5.beginning import start
from xarray_n5.building import Options, build
from xarray_n5.creation import as_dtype, check_storable, chunk_shape, is_left_over, stranger
from xarray_n5.dialects import write_geometry
from xarray_n5.encoding import check_name, plan
from xarray_n5.errors import MetadataError, NodeExistsError, NodeNotFoundError
from xarray_n5.formats import get_format
from xarray_n5.graphs import check_independent
from xarray_n5.group import create_group, open_existing, open_group
from xarray_n5.metadata import ArrayMetadata
from xarray_n5.packing import NOTE, told_by
from xarray_n5.paths import join
from xarray_n5.picking import pick
from xarray_n5.planning import align
from xarray_n5.storage import open_container
from xarray_n5.underway import all_underway
from xarray_n5.writes import now, writer_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

    from xarray_n5.batches import Batch, Writing
    from xarray_n5.beginning import Begun
    from xarray_n5.encoding import Encoding, Plan, Stored
    from xarray_n5.group import Group
    from xarray_n5.underway import Underway


def write(datasets: Sequence[tuple[xr.Dataset, str, Encoding | None]], how: Writing) -> Batch:
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
    groups = [_existing(path, how) for _, path, _ in datasets]
    gone: list[object] = []
    mark = how.mark(datasets[0][1], datasets)
    began = mark.facts() if how.resume else None
    again = began is not None
    if began and began.get("done"):
        return end_again(mark, began)
    plans = []
    for (dataset, path, encoding), group in zip(datasets, groups, strict=True):
        stays = group is not None and how.mode == "a"
        whole = _with_places(dataset, group) if group is not None and stays else dataset
        plans.append(plan(whole, path, encoding, beside=stays))
        _check(plans[-1], how)
        if group is not None:
            gone += _check_room(plans[-1], group, how, again=again)
        elif path:
            _check_free(path, how)
    for each in plans:
        for stored in each.variables.values():
            if gone and is_dask_collection(stored.packed.data):
                check_independent(stored.packed.data, gone)
    return _begin(plans, groups, mark, how)


def _begin(
    plans: Sequence[Plan], groups: Sequence[Group | None], mark: Underway, how: Writing
) -> Batch:
    """Create what is planned, all checked, beneath a mark."""
    root = plans[0].path
    for each, group in zip(plans, groups, strict=True):
        # What goes on must not meet another write halfway.
        for name, stored in each.variables.items() if how.resume and group is not None else ():
            if open_existing(how.url, join(each.path, name), "a", **how.place) is not None:
                _write_variable(join(each.path, name), stored, how, only_check=True)
    if groups[0] is None:
        create_group(how.url, root, mode="a", **how.place)
    elif how.mode in {"w-", "w"}:
        for other in all_underway(mark.store, mark.path):
            if other != mark:
                other.end()  # of what is replaced, or was never made
    mark.begin({"by": writer_name(), "began": now()})
    begun: dict[str, Begun] = {}
    for each, group in zip(plans, groups, strict=True):
        begun |= _write_group(each, group, how)
    return together(begun, root, mark)


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


def _check(plan: Plan, how: Writing) -> None:
    """Raise where creating an array would raise, before the first is created."""
    for name, stored in plan.variables.items():
        data = stored.packed.data
        where = f"variable {name!r}"
        if any(math.isnan(size) for size in data.shape):
            raise MetadataError(
                f"{where} has blocks of unknown size; call its compute_chunk_sizes() first"
            )
        check_storable(_metadata(stored, where, how), get_format(how.format), where)
        if any(axis.scale is not None for axis in stored.geometry.axes):
            try:
                write_geometry(stored.geometry, data.shape, how.dialect)
            except ValueError as error:
                raise MetadataError(f"{where}: {error}") from error
        if not how.align_chunks and is_dask_collection(data):
            for axis, (sizes, side) in enumerate(zip(data.chunks, _sides(stored), strict=True)):
                align(sizes, side, 0, axis=axis, strict=True)


def _metadata(stored: Stored, where: str, how: Writing) -> ArrayMetadata:
    metadata = ArrayMetadata(
        shape=stored.packed.data.shape,
        chunks=_sides(stored),
        dtype=as_dtype(stored.packed.data.dtype, where),
        compression=stored.compression,
        attributes=as_json(stored.packed.attributes, where),
    )
    return get_format(how.format).complete(metadata)


def _is_left_over(plan: Plan, name: str, how: Writing) -> bool:
    """Return whether a folder that looks like a group is what a stopped write left."""
    store, path = open_container(how.url, join(plan.path, name), how.storage_options)
    stored = plan.variables.get(name)
    planned = _metadata(stored, name, how) if stored else None
    return is_left_over(store, path, get_format(how.format), planned)


def _sides(stored: Stored) -> tuple[int, ...]:
    """Return the shape of the chunks that a variable will have."""
    data = stored.packed.data
    if stored.chunks is None and is_dask_collection(data):
        return tuple(max(1, *sizes) for sizes in data.chunks)
    return stored.chunks or chunk_shape("auto", data.shape)


def _write_group(plan: Plan, group: Group | None, how: Writing) -> dict[str, Begun]:
    """Create a group and its arrays, and its own attributes last; return the writes by path."""
    if group is not None and how.mode == "w":
        for name in group.arrays():
            if not (how.resume and name in plan.variables):
                group.delete(name)
        group.attrs.clear()
    if group is None:
        group = create_group(how.url, plan.path, mode="a", **how.place)
    paths = {join(plan.path, name): each for name, each in plan.variables.items()}
    begun = {path: _write_variable(path, each, how) for path, each in paths.items()}
    group = open_group(how.url, plan.path, mode="r+", **how.place)
    attributes = dict(plan.attributes)
    if how.mode == "a" and isinstance(before := group.attrs.get(NOTE), dict):
        attributes[NOTE] = _joined(before, attributes)
        if both := [
            each["coordinates"] for each in (group.attrs, attributes) if "coordinates" in each
        ]:
            attributes["coordinates"] = " ".join(dict.fromkeys(" ".join(both).split()))
    group.attrs.update(attributes)
    return begun


def _joined(before: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the note of a group with what was in it before, but for what is `written` now."""
    note = written[NOTE]
    kept = {k: v for k, v in before.get("attributes", {}).items() if k not in written}
    attributes = {**kept, **note.get("attributes", {})}
    before = {key: value for key, value in before.items() if key != "attributes"}
    return {**before, **note, **({"attributes": attributes} if attributes else {})}


def _write_variable(path: str, stored: Stored, how: Writing, *, only_check: bool = False) -> Begun:
    packed = stored.packed
    attributes, note = dict(packed.attributes), dict(packed.attributes.get(NOTE, {}))
    placed = any(axis.scale is not None for axis in stored.geometry.axes)
    if placed and "units" in attributes:
        # N5's units are those of the axes.
        note["attributes"] = {**note.get("attributes", {}), "units": attributes.pop("units")}
    note["axes"] = list(stored.told)
    order = how.order(
        mode="w-" if how.mode == "w-" else "w",
        chunks=stored.chunks,
        compression=stored.compression,
        attributes={**attributes, NOTE: note, "_ARRAY_DIMENSIONS": list(packed.dims)},
        axes=stored.geometry if placed else None,
        dialect=how.dialect if placed else None,
        dims=packed.dims if len(packed.dims) == packed.data.ndim else (),
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


def _existing(path: str, how: Writing) -> Group | None:
    try:
        return open_group(how.url, path, mode="r+", **how.place)
    except NodeNotFoundError:
        return None


def _check_free(path: str, how: Writing) -> None:
    """Raise where a group cannot be made, for what is there or above."""
    parts = path.split("/")
    for depth in range(len(parts) + 1):
        inner = "/".join(parts[:depth])
        array = open_existing(how.url, inner, "r+", **how.place)
        if array is not None:
            raise NodeExistsError(array.url, "", "an array", "it cannot hold other nodes")
    above = _existing("/".join(parts[:-1]), how)
    for array in above.arrays().values() if above else ():
        if parts[-1] in told_by(array.attrs):
            hint = "a group cannot be called like it"
            raise NodeExistsError(array.url, parts[-1], "a coordinate, told by its axes", hint)


def _check_room(plan: Plan, group: Group, how: Writing, *, again: bool) -> list[object]:
    """Return the places of arrays that are replaced; raise where there is no room."""
    nodes = group.nodes(iter(group), strict=how.mode != "w-")
    arrays = {name: node for name, node in nodes.items() if isinstance(node, Array)}
    told = {dim for stored in plan.variables.values() for dim in stored.told}
    others = (nodes.keys() - arrays.keys()) & (plan.variables.keys() | told)
    if taken := sorted(name for name in others if not _is_left_over(plan, name, how)):
        raise NodeExistsError(group.url, taken[0], "a group", "call the variable otherwise")
    if how.mode == "w-" and not again and (arrays or group.attrs):
        what = f"it holds {', '.join(arrays) or 'attributes'}; use mode='w' or mode='a'"
        raise NodeExistsError(group.url, "", "a group that is not empty", what)
    replaced = [each for n, each in arrays.items() if how.mode == "w" or n in plan.variables]
    for array in replaced:
        if other := stranger(array):
            hint = f"it holds {other!r}, which would go with it; move that away first"
            raise NodeExistsError(group.url, array.name, "an array with more in it", hint)
    if how.mode == "a":
        _check_sizes(plan, group, arrays)
    return [array.place for array in replaced]


def _check_sizes(plan: Plan, group: Group, arrays: Mapping[str, Array]) -> None:
    """Raise where a dimension has another size in the arrays that are there."""
    sizes: dict[str, int] = {}
    for stored in plan.variables.values():
        packed = stored.packed
        shared = packed.dims[:-1] if packed.is_text else packed.dims
        sizes |= dict(zip(shared, packed.data.shape, strict=False))
    if not arrays:
        return
    images = pick(group, level=None, dialect=None, inherit=False)
    there = build(images, {}, (), {}, Options())
    for dim, size in there.sizes.items():
        if sizes.get(str(dim), size) != size:
            raise ValueError(
                f"Unable to update size for existing dimension {dim!r} of {list(there.variables)} "
                f"in {group.url!r}: it is {size}, not {sizes[str(dim)]}; write all with mode='w'"
            )
