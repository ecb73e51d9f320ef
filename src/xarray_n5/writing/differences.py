"""In what two writes differ, by the hashes in records and by the array that is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.model.axes import as_geometry
from xarray_n5.writing.request import short_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.metadata import ArrayMetadata
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteRequest

_SHOWN = 3
"""The maximum number of differences that an error names."""


def fingerprint(metadata: ArrayMetadata, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return hashes of how an array is stored, and of the attributes that a write sets."""
    return {
        "stored": _stored(metadata),
        "attributes": {key: short_hash([value]) for key, value in attributes.items()},
    }


def _stored(metadata: ArrayMetadata) -> str:
    return short_hash((metadata.chunks, metadata.inner, str(metadata.dtype), metadata.compression))


def is_as_written(facts: Mapping[str, Any], metadata: ArrayMetadata, plan: WritePlan) -> bool:
    """Return whether an array is as a finished write has left it, or has grown since."""
    ends = zip(plan.start, plan.source.shape, metadata.shape, strict=False)
    hashes = facts.get("attributes", {})
    known = metadata.attributes
    return (
        facts.get("stored") == _stored(metadata)
        and len(metadata.shape) == len(plan.start)
        and all(start + size <= now for start, size, now in ends)
        and all(key in known and short_hash([known[key]]) == hashes[key] for key in hashes)
    )


def explain(
    plan: WritePlan, facts: Mapping[str, Any], target: Array | None, token: str | None
) -> str:
    """Return in what a write differs from that of a record or row, and what to do."""
    since = facts.get("at", "then")
    differences = [f"{name} has changed since {since}" for name in _changed_code(plan, facts)]
    before, now = facts.get("is", {}), plan.identity.parts
    names = [name for name in now if before.get(name, now[name]) != now[name]]
    for name in names:
        differences += _difference(name, plan.request, target)
    if not before:
        differences = ["it is the write of something else"]
    elif before.keys() != now.keys():
        differences.insert(0, "one creates the array, the other changes an existing one")
    elif not differences and target is not None and "stored" in facts:
        differences = _changed_array(facts, target.node.metadata)
    shown = differences or ["something else has been written there since"]
    text = "; ".join(shown[:_SHOWN]) + ("; ..." if len(shown) > _SHOWN else "")
    ways = "undo that, or start again with mode='w'"
    if token is not None:
        ways += f", or resume={token!r} to continue the unfinished write as it is"
    return f"{text}: {ways}"


def _changed_array(facts: Mapping[str, Any], metadata: ArrayMetadata) -> list[str]:
    """Return the changes of an array since a write of it has finished."""
    now, before = fingerprint(metadata, metadata.attributes), facts.get("attributes", {})
    changed = [
        f"the attribute {key!r}" for key in before if now["attributes"].get(key) != before[key]
    ]
    if facts.get("stored") != now["stored"]:
        changed.append("how the array is stored")
    return [f"{what} has changed since" for what in changed]


def _changed_code(plan: WritePlan, facts: Mapping[str, Any]) -> list[str]:
    before, now = facts.get("code", {}), plan.identity.code
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _difference(name: str, request: WriteRequest, target: Array | None) -> list[str]:
    """Return how a part differs, with values of the stored array where it shows them."""
    if target is not None and name == "axes":
        found = [*_axes(request, target)]
    elif target is not None and name == "attributes":
        wanted, have = request.spec.attributes or {}, target.attrs
        keys = [key for key in wanted if key not in have or have[key] != wanted[key]]
        found = [
            f"the attribute {key!r} is {wanted[key]!r:.60}, stored is {have.get(key)!r:.60}"
            for key in keys
        ]
    else:
        found = []
    return found or [f"the {name} are others" if name in _SEVERAL else f"the {name} is another"]


_SEVERAL = frozenset({"data", "axes", "attributes", "options", "chunks", "shards"})


def _axes(request: WriteRequest, target: Array) -> Iterator[str]:
    """Iterate over the differences between the axes to write and the stored ones."""
    try:
        wanted = as_geometry(request.spec.axes or (), target.ndim)
        stored = target.geometry()
    except ValueError:
        return
    for new, old in zip(wanted.axes, stored.axes, strict=False):
        if new.name != old.name:
            yield f"an axis is {new.name!r}, stored is {old.name!r}"
        for what in ("scale", "offset"):
            one, other = getattr(new, what), getattr(old, what)
            if (one, new.unit) != (other, old.unit):
                yield (
                    f"the {what} along {new.name} is {one} {new.unit or ''}, stored is {other} "
                    f"{old.unit or ''}"
                )
