"""Resize arrays along a dimension, and store a coordinate that their axes no longer describe."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.create import create_array
from xarray_n5.arrays.marker import find_markers
from xarray_n5.arrays.resize import resize
from xarray_n5.dask.to_n5 import to_n5
from xarray_n5.datasets.conventions import convention_of
from xarray_n5.datasets.encoding import regular_axis
from xarray_n5.datasets.other_appends import Alone, note, other_append, other_appends
from xarray_n5.errors import NodeExistsError, ResumeError
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.paths import UNFINISHED, join
from xarray_n5.model.roundtrip_attrs import NOTES, coords_from_axes, note_of
from xarray_n5.stores import together

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.model.grid import Index
    from xarray_n5.writing.request import WriteOptions


def growth(
    dataset: xr.Dataset,
    stored: xr.Dataset,
    names: Iterable[str],
    dim: str,
    where: slice,
    *,
    moves: bool,
) -> dict[str, Any]:
    """Return the facts to resume an interrupted append: arrays to resize, and moved coordinates.

    Parameters
    ----------
    dataset, stored
        The data to append, and the stored Dataset.
    names
        The names of the stored arrays.
    dim, where
        The dimension along which arrays grow, and the new samples.
    moves
        Whether the coordinate is only stored in axes, which may not describe the new samples.
    """
    grows = {
        name: [stored.variables[name].dims.index(dim), where.stop]
        for name in names
        if dim in stored.variables[name].dims
    }
    facts = {"start": where.start, "grows": grows}
    if not moves:
        return facts
    whole = np.concatenate([stored[dim].to_numpy(), dataset[dim].to_numpy()])
    (axis,) = geometry_from(stored[dim]).axes
    if not np.array_equal(axis.offset + axis.step * np.arange(whole.size), whole):
        # The axes no longer describe the coordinate: it becomes an array.
        facts["places"] = {
            "dim": dim,
            "values": whole.tolist(),
            "type": whole.dtype.str,
            "attributes": dict(stored[dim].attrs),
        }
    return facts


def grow(
    group: Group,
    facts: Mapping[str, Any],
    how: WriteOptions,
    begin: Callable[[], object] = lambda: None,
    alone: Alone | None = None,
) -> list[str]:
    """Resize the arrays that have not been resized yet, by the facts in a marker.

    `begin` stores the marker: before anything is changed, and while the chunks are listed. `alone`
    raises if another append has begun, while the shapes are read again. A coordinate that the axes
    no longer describe becomes an array. Return the names of the arrays that have been resized
    before, by the same append or by another program.
    """
    nodes, before = [], []
    for name, array, axis, size in _growing(group, facts):
        if array.shape[axis] == facts["start"] < size:
            nodes.append((array.node, axis, size))
        else:
            before.append(name)
    listings: list[Any] = [partial(_stored_chunks, node) for node, _, _ in nodes]
    _, *stored = together(how.store, [begin, *listings])
    resizes = [partial(_resize, *n, s) for n, s in zip(nodes, stored, strict=True)]
    if alone is None:
        together(how.store, resizes)
    else:
        with ThreadPoolExecutor(1, "xarray-n5-request") as thread:
            looked = thread.submit(alone.check)
            together(how.store, [partial(each, looked, alone) for each in resizes])
            looked.result()
    if "places" in facts:
        _move_coordinate(group, facts, how)
    return before


def grow_alone(
    group: Group,
    facts: Mapping[str, Any],
    how: WriteOptions,
    begin: Callable[[], object],
    mine: WriteMarker,
    before: Collection[WriteMarker],
) -> None:
    """Begin an append and resize its arrays; withdraw if another one has begun since `before`.

    Local appends wait for each other, and have locks.
    """
    if "start" not in facts or how.store.concurrency == 1:
        grow(group, facts, how, begin)
        return
    try:
        grow(group, facts, how, begin, Alone(mine, facts, before))
    except NodeExistsError:
        mine.end()
        raise


def _stored_chunks(node: ArrayNode) -> list[Index] | None:
    """Return the stored chunks; None on local files, where nothing is gained by listing early."""
    return list(node.stored_indices()) if node.store.concurrency > 1 else None


class _ResizedError(Exception):
    """An append that went behind another one has resized an array for it, and for itself."""


def _resize(
    node: ArrayNode,
    axis: int,
    size: int,
    stored: Sequence[Index] | None,
    looked: Future[object] | None = None,
    alone: Alone | None = None,
) -> None:
    """Resize an array along an axis in the user's order, unless another append does so."""
    shape = node.ordered(node.metadata.shape)
    wanted = node.ordered((*shape[:axis], size, *shape[axis + 1 :]))
    if looked is None or alone is None:
        resize(node, wanted, stored)
        return

    def check(found: tuple[int, ...] | None) -> None:
        looked.result()
        if found in {None, node.metadata.shape}:
            return
        if node.ordered(found)[axis] >= size and alone.is_helped():
            raise _ResizedError
        raise other_append(node.container.url, node.path, f"it has the shape {found}")

    with suppress(_ResizedError):
        resize(node, wanted, stored, check)


def complete_others(group: Group, mine: WriteMarker, how: WriteOptions) -> list[WriteMarker]:
    """Resize arrays for appends that stopped before they did so: a new one starts behind them.

    Return the markers of other appends.
    """
    if UNFINISHED not in how.container.store.list(group.path)[1]:  # listed by this append anyway
        return []
    others = other_appends(mine, how)
    claims = [(facts["start"], *each) for each in others if not (facts := each[1]).get("grown")]
    for _, other, facts in sorted(claims, key=itemgetter(0)):
        with suppress(ResumeError):  # the arrays were replaced or trimmed
            check_place(group, facts)
            note(other, "helped")  # if it has not stopped, it leaves the arrays as they are now
            grow(group, facts, how)
            note(other, "grown")
    return [other for other, _ in others]


def check_place(group: Group, facts: Mapping[str, Any]) -> None:
    """Raise if an array ends neither where an append began nor behind it.

    Raises
    ------
    ResumeError
        If arrays were replaced, trimmed, or extended by less than the append.
    """
    for name, array, axis, size in _growing(group, facts):
        found = array.shape[axis]
        if found != facts["start"] and found < size:
            found_there = f"{name!r} has {found} samples, expected {facts['start']} or {size}"
            raise _not_resumed(group, facts, found_there)


def check_blank(group: Group, facts: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise if anything is stored where an append that has written nothing would write.

    Raises
    ------
    ResumeError
        If another program has appended there.
    """
    wanted = set(names)
    for name, array, axis, size in _growing(group, facts):
        if name in wanted and not _is_blank(array, axis, facts["start"], size):
            where = f"samples {facts['start']} to {size} of {name!r}"
            raise _not_resumed(group, facts, f"another program has written {where}")


def _growing(group: Group, facts: Mapping[str, Any]) -> Iterator[tuple[str, Array, int, int]]:
    """Iterate over the arrays that an append resizes: name, array, axis and new size."""
    for name, (axis, size) in facts.get("grows", {}).items():
        array = group.get(name)
        if not isinstance(array, Array) or axis >= array.ndim:
            raise _not_resumed(group, facts, f"{name!r} is not the array that it was")
        yield name, array, axis, size


def _is_blank(array: Array, axis: int, start: int, stop: int) -> bool:
    """Return whether an array has only fill values from `start` to `stop` along an axis."""
    grid = array.grid
    for index in array.node.stored_chunks():
        part = list(grid.slices(index))
        low, high = max(part[axis].start, start), min(part[axis].stop, stop)
        if low < high:
            part[axis] = slice(low, high)
            if low % grid.chunks[axis] == 0 or not array.node.is_empty(array[tuple(part)]):
                return False
    return True


def _not_resumed(group: Group, facts: Mapping[str, Any], why: str) -> ResumeError:
    began = f"{facts.get('began')} at {facts.get('by')}"
    hint = "unless they are these samples, repeat the call without resume=True, to append behind"
    return ResumeError(group.url, "", began, f"{why}; {hint}")


def _move_coordinate(group: Group, facts: Mapping[str, Any], how: WriteOptions) -> None:
    """Store a coordinate as an array, and remove it from the axes of the other arrays."""
    coordinate = facts["places"]
    dim, values = coordinate["dim"], np.array(coordinate["values"], coordinate["type"])
    stored = group.get(dim)
    # A complete one stays: another append may have extended it, and an interruption could lose it.
    if isinstance(stored, Array) and np.array_equal(stored[: values.size], values):
        _end_coordinate(stored, values.size, how)
    else:
        # It is complete before the axes lose the coordinate: an interruption loses nothing.
        attributes = {**coordinate["attributes"], "_ARRAY_DIMENSIONS": [dim]}
        attributes[convention_of(how.format).roundtrip_key] = {"axes": []}
        to_n5(values, how.container, join(group.path, dim), attributes=attributes, mode="w")
    for name, array, _, _ in _growing(group, facts):
        if name != dim:
            remove_coordinate(array.refresh(), dim, how)


def _end_coordinate(stored: Array, size: int, how: WriteOptions) -> None:
    """Remove the marker of the write that created a complete coordinate, if it was interrupted."""
    for each in find_markers(how.store, stored.path, tidy=True)[0]:
        facts = each.facts() or {}
        if (facts.get("start"), facts.get("shape"), facts.get("whole")) == ([0], [size], None):
            each.end()


def remove_coordinate(array: Array, dim: str, how: WriteOptions) -> None:
    """Remove a dimension's scale and offset from an array's axes."""
    geometry = array.geometry()
    if all(axis.name != dim or axis.scale is None for axis in geometry.axes):
        return
    note = dict(note_of(array.attrs))
    note["axes"] = [each for each in coords_from_axes(array.attrs) or () if each != dim]
    array.attrs[convention_of(how.format).roundtrip_key] = note
    axes = tuple(Axis(name=each.name) if each.name == dim else each for each in geometry.axes)
    if any(axis.scale is not None for axis in axes):
        create_array(
            how.container,
            array.path,
            shape=array.shape,
            dtype=array.dtype,
            mode="a",
            axes=Geometry(axes),
        )
        return
    array.attrs.change({}, geometry.keys & array.attrs.keys() - {"_ARRAY_DIMENSIONS", *NOTES})


def widen(arrays: Mapping[str, Array], encoded: Mapping[str, EncodedVariable]) -> None:
    """Resize arrays for strings that are longer than the stored ones."""
    for name, variable in encoded.items():
        array = arrays[name]
        if variable.is_string and variable.data.shape[-1] > array.shape[-1]:
            array.refresh().resize((*array.shape[:-1], variable.data.shape[-1]))


def outdated(
    stored: xr.Dataset, written: xr.Dataset, slices: Mapping[str, slice], in_axes: Collection[str]
) -> list[str]:
    """Return the dimensions whose new coordinate array will contradict the stored axes."""
    found = []
    for dim, where in slices.items():
        if dim in in_axes or dim not in written.variables:
            continue
        if axis := regular_axis(stored, dim):
            expected = axis.offset + axis.step * np.arange(where.start, where.stop)
            if not np.array_equal(expected, written[dim].to_numpy()):
                found.append(dim)
    return found
