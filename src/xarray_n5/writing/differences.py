"""In what two writes differ, by the hashes in records and by the array that is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.context import context_of
from xarray_n5.dialects import geometry_of
from xarray_n5.model.axes import as_geometry
from xarray_n5.writing.request import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteRequest

_SHOWN = 3
"""The maximum number of differences that an error names."""

_AROUND = {
    "source": "chunks of its source have changed since",
    "group": "other attributes of the group",
}
"""Differences in what is not the array's."""


def is_as_written(facts: Mapping[str, Any], target: ArrayNode, plan: WritePlan) -> bool:
    """Return whether an array is as a finished write has left it, or has grown since."""
    shape = target.metadata.shape
    now, before = _now(target), facts.get("attributes", {})
    ends = zip(plan.write.start, plan.source.shape, shape, strict=False)
    return (
        facts.get("stored") == now["stored"]
        and len(shape) == plan.source.ndim
        and all(start + size <= end for start, size, end in ends)
        and before.items() <= now["attributes"].items()
    )


def explain(
    plan: WritePlan, facts: Mapping[str, Any], target: ArrayNode | None, token: str | None
) -> str:
    """Return in what a write differs from that of a record or row, and what to do."""
    code, before, now = facts.get("code", {}), facts.get("is", {}), plan.identity
    changed = sorted(name for name in {*code, *now.code} if code.get(name) != now.code.get(name))
    differences = [f"{name} has changed since {facts.get('at', 'then')}" for name in changed]
    for name, part in now.parts.items():
        if before.get(name, part) != part:
            differences += [*_differences(name, plan.request, target)] or [f"other {name}"]
    differences = differences or [_AROUND[key] for key in now.changed_around(facts)]
    if not before:
        differences = ["it is the write of something else"]
    elif not differences and target is not None and "stored" in facts:
        differences = _changed_array(facts, target)
    differences = [*dict.fromkeys(differences)]
    shown = differences[:_SHOWN] or ["something else has been written there since"]
    text = "; ".join(shown) + ("; ..." if len(differences) > _SHOWN else "")
    ways = "undo that, or start again with mode='w'"
    if token is not None:
        ways += f", or resume={token!r} to continue the unfinished write as it is"
    return f"{text}: {ways}"


def _now(target: ArrayNode) -> dict[str, Any]:
    """Return the fingerprint of a stored array."""
    return fingerprint(target.metadata, target.metadata.attributes)


def _changed_array(facts: Mapping[str, Any], target: ArrayNode) -> list[str]:
    """Return the changes of an array since a write of it has finished."""
    now, before = _now(target), facts.get("attributes", {})
    changed = [
        f"the attribute {key!r}" for key in before if now["attributes"].get(key) != before[key]
    ]
    if facts.get("stored") != now["stored"]:
        changed.append("how the array is stored")
    return [f"{what} has changed since" for what in changed]


def _differences(name: str, request: WriteRequest, target: ArrayNode | None) -> Iterator[str]:
    """Iterate over differences of a part, with values of the stored array where it shows them."""
    if target is not None and name == "attributes":
        wanted, have = request.spec.attributes or {}, target.metadata.attributes
        for key in [key for key in wanted if have.get(key) != wanted[key]]:
            yield f"the attribute {key!r} is {wanted[key]!r:.60}, stored is {have.get(key)!r:.60}"
    if name == "mode":
        yield "one creates the array, the other changes an existing one"
    if target is not None and name in {"shape", "type"}:
        new, old = request.source, target.metadata
        yield f"the array is {new.shape} {new.dtype}, stored is {old.shape} {old.dtype}"
    if target is not None and name == "axes":
        yield from _axes(request, target)


def _axes(request: WriteRequest, target: ArrayNode) -> Iterator[str]:
    """Iterate over the differences between the axes to write and the stored ones."""
    try:
        axes = as_geometry(request.spec.axes or (), len(target.metadata.shape)).axes
        stored = geometry_of(context_of(target)).axes
    except ValueError:
        return
    for new, old in zip(axes, stored, strict=False):
        if new.name != old.name:
            yield f"an axis is {new.name!r}, stored is {old.name!r}"
        for what in ("scale", "offset"):
            pair = [(getattr(axis, what), axis.unit or "") for axis in (new, old)]
            if pair[0] != pair[1]:
                (one, unit), (other, its) = pair
                yield f"the {what} along {new.name} is {one} {unit}, stored is {other} {its}"
