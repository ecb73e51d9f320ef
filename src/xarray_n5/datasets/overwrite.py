"""Whether there is room for what is to be written."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from dask.base import is_dask_collection

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.attributes import as_json
from xarray_n5.arrays.create import as_dtype, chunk_shape, completed
from xarray_n5.arrays.group import open_existing, open_group
from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.arrays.overwrite import foreign_key, is_left_over
from xarray_n5.codecs import resolve
from xarray_n5.datasets.build import Options, build
from xarray_n5.datasets.select import pick
from xarray_n5.errors import MetadataError, NodeExistsError, NodeNotFoundError
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import told_by
from xarray_n5.writing.completed import NOT_UNFINISHED, OTHER_UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.encoding import Plan, Stored
    from xarray_n5.writing.request import WriteOptions


def metadata(stored: Stored, where: str, how: WriteOptions) -> ArrayMetadata:
    """Return the metadata that a variable's array will have."""
    plain = ArrayMetadata(
        shape=stored.packed.data.shape,
        chunks=sides(stored),
        dtype=as_dtype(stored.packed.data.dtype, where),
        compression=stored.compression,
        attributes=as_json(stored.packed.attributes, where),
    )
    return completed(how.format, plain, stored.layout, where)


def held(plan: Plan, how: WriteOptions) -> Plan:
    """Return a plan in which no compression stays that of a file if the format has none such.

    gzip takes its place: all formats have it.
    """
    variables = dict(plan.variables)
    for name, stored in plan.variables.items():
        if stored.asked or any(map(math.isnan, stored.packed.data.shape)):
            continue
        try:
            how.format.check(metadata(stored, name, how), name)
        except MetadataError:
            variables[name] = replace(stored, compression=resolve("gzip"))
    return replace(plan, variables=variables)


def sides(stored: Stored) -> tuple[int, ...]:
    """Return the shape of the chunks that a variable will have."""
    data = stored.packed.data
    if stored.chunks is None and is_dask_collection(data):
        return tuple(max(1, *sizes) for sizes in data.chunks)
    return stored.chunks or chunk_shape("auto", data.shape)


def existing(path: str, how: WriteOptions) -> Group | None:
    """Return the group that is there; None where there is none."""
    try:
        return open_group(how.container, path, mode="r+", format=how.format.name)
    except NodeNotFoundError:
        return None


def check_free(path: str, how: WriteOptions) -> None:
    """Raise where a group cannot be made, for what is there or above."""
    parts = path.split("/")
    for depth in range(len(parts) + 1):
        inner = "/".join(parts[:depth])
        array = open_existing(how.container, inner, "r+", format=how.format.name)
        if array is not None:
            raise NodeExistsError(array.url, "", "an array", "it cannot hold other nodes")
    above = existing("/".join(parts[:-1]), how)
    for array in above.arrays().values() if above else ():
        if parts[-1] in (told_by(array.attrs) or ()):
            hint = "a group cannot be called like it"
            raise NodeExistsError(array.url, parts[-1], "a coordinate, told by its axes", hint)


def check_room(plan: Plan, group: Group, how: WriteOptions, *, again: bool) -> list[object]:
    """Return the places of arrays that are replaced; raise where there is no room."""
    nodes = group.nodes(iter(group), strict=how.mode != "w-")
    arrays = {name: node for name, node in nodes.items() if isinstance(node, Array)}
    told = {dim for stored in plan.variables.values() for dim in stored.told}
    others = (nodes.keys() - arrays.keys()) & (plan.variables.keys() | told)
    if taken := sorted(name for name in others if not _is_left_over(plan, name, how)):
        raise NodeExistsError(group.url, taken[0], "a group", "call the variable otherwise")
    if how.mode == "w-" and not again and (arrays or group.attrs):
        what = f"it holds {', '.join(arrays) or 'attributes'}; "
        what += (
            _why_not_resumed(plan.path, arrays, how) if how.resume else "use mode='w' or mode='a'"
        )
        raise NodeExistsError(group.url, "", "a group that is not empty", what)
    replaced = [each for n, each in arrays.items() if how.mode == "w" or n in plan.variables]
    for array in replaced:
        if other := foreign_key(array):
            hint = f"it holds {other!r}, which would go with it; move that away first"
            raise NodeExistsError(group.url, array.name, "an array with more in it", hint)
    if how.mode == "a":
        _check_sizes(plan, group, arrays)
    return [array.place for array in replaced]


def _why_not_resumed(path: str, arrays: Iterable[str], how: WriteOptions) -> str:
    others = any(unfinished_writes(how.store, join(path, name)) for name in ("", *arrays))
    return OTHER_UNFINISHED if others else NOT_UNFINISHED


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


def _is_left_over(plan: Plan, name: str, how: WriteOptions) -> bool:
    """Return whether a folder that looks like a group is what a stopped write left."""
    stored = plan.variables.get(name)
    planned = metadata(stored, name, how) if stored else None
    return is_left_over(how.container, join(plan.path, name), planned)
