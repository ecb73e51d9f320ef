"""Invalidate the records of writes for chunks that change by other means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.marker import find_markers
from xarray_n5.arrays.marker_json import REPAIRED, is_part
from xarray_n5.model.chunking import touched
from xarray_n5.model.paths import CHECKSUMS, DIGESTS, HIDDEN, UNFINISHED, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.stores.base import Store

    Box = tuple[range, ...]

_MOST = 1000
"""The maximum number of boxes that a marker lists; more are merged into a bounding box."""


def prepare(
    store: Store, path: str, box: Callable[[], Sequence[range]], chunks: tuple[int, ...]
) -> None:
    """Prepare an array for chunks to change by other means than `to_n5`.

    Digests are removed: they would report the new chunks as damaged. Unfinished writes write the
    chunks again when they are resumed. This takes three requests, however many chunks there are.
    """
    folder = join(path, DIGESTS)
    hidden, ended = store.list_many([join(path, HIDDEN), folder])
    if any(hidden):
        store.delete([join(path, CHECKSUMS)])
    if any(ended):
        store.delete_tree(folder, "finished.json")
    if store.exists(join(path, UNFINISHED)):
        forget(*find_markers(store, path), tuple(box()), chunks)


def forget(
    begun: Iterable[WriteMarker], planned: Iterable[WriteMarker], box: Box, chunks: tuple[int, ...]
) -> None:
    """Make unfinished writes write chunks again that another write is about to change.

    Parameters
    ----------
    begun
        The unfinished writes.
    planned
        The planned ones, which are revoked: they would replace the new chunks.
    box
        The range of chunks along each axis.
    chunks
        The shape of a chunk.
    """
    if not all(box):
        return
    for other in planned:
        if _meets(box_of(other.planned() or {}, chunks), box):
            revoke(other)
    for other in begun:
        said = other.facts()
        if not said or said.get("done") or not _meets(box_of(said, chunks), box):
            continue  # this write is about to end: its marker must not come back
        if said.get("journal") or other.token == REPAIRED:
            _forget_records(other.as_found(said), box)
        else:
            # A stored chunk is no longer proof that this write has written it.
            parts = _added(said.get("again", []), [[side.start, side.stop] for side in box])
            if parts is not None:
                other.as_found(said).update({**said, "again": parts})


def box_of(facts: Mapping[str, Any], chunks: tuple[int, ...]) -> Box | None:
    """Return the chunks of an unfinished write; None if its marker does not name them."""
    try:
        return tuple(map(touched, facts["start"], facts["shape"], chunks))
    except (KeyError, TypeError):
        return None


def _meets(one: Box | None, other: Box) -> bool:
    return one is None or all(
        a.start < b.stop and b.start < a.stop for a, b in zip(one, other, strict=False)
    )


def _forget_records(other: WriteMarker, box: Box) -> None:
    from xarray_n5.model.receipts import Receipts  # xxhash is only needed for writing

    stale = [
        key
        for key, record in other.records()
        if any(
            all(place in side for place, side in zip(index, box, strict=False))
            for index in Receipts.from_json(record, len(box)).indices.tolist()
        )
    ]
    if stale:
        other.store.delete(stale)


def _added(parts: list[Any], part: list[list[int]]) -> list[Any] | None:
    """Return the boxes with another one added; None if they contain it already."""
    if any(_holds(each, part) for each in parts):
        return None
    kept = [each for each in parts if not _holds(part, each)]
    if len(kept) < _MOST:
        return [*kept, part]
    sides = zip(*kept, part, strict=True)
    return [[[min(low for low, _ in side), max(high for _, high in side)] for side in sides]]


def _holds(one: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> bool:
    return len(one) == len(other) and all(
        a[0] <= b[0] and b[1] <= a[1] for a, b in zip(one, other, strict=True)
    )


def revoke(marker: WriteMarker) -> None:
    """Remove the marker of a planned write, and those of its Dataset or tree.

    Facts come from files: only markers of groups around the node, and of nodes in these, go.
    """
    facts = marker.planned() or {}
    marker.forget_plan()
    if not is_part(facts.get("whole"), ""):
        return
    path, token = facts["whole"]
    if path and not marker.path.startswith(f"{path}/"):
        return
    whole = replace(marker, path=path, token=token)
    parts = [(path, token), *(whole.planned() or {}).get("parts", [])]
    for inner, token in reversed(parts):
        replace(marker, path=inner, token=token).forget_plan()
