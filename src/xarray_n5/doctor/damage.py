"""Find damage: read the metadata of all nodes once, and check them and their levels.

Chunks are not read: :func:`xarray_n5.verify` does that.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import context_of
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import Walk
from xarray_n5.arrays.records import REPAIR, look
from xarray_n5.dialects import resolve_geometry
from xarray_n5.dialects.groups import images_in, level_paths
from xarray_n5.dialects.lists import FACTOR_LISTS
from xarray_n5.errors import N5Error, NodeNotFoundError, PathError, RequestError
from xarray_n5.formats.consolidated import contradictions
from xarray_n5.formats.structure import unfinished
from xarray_n5.model.alerts import ODD, REFUSED
from xarray_n5.model.json import RESTORE
from xarray_n5.model.paths import join, level_name, normalize_path, number_in, numbered
from xarray_n5.stores import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from xarray_n5.formats.containers import Container

_SHOWN = 8
"""The maximum number of names in a message."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a container that is damaged, missing or contradictory."""

    kind: str
    """What is wrong, as a word for programs: ``missing-level``, ``chunk-damaged``, ..."""
    path: str
    """The path of the node in its container."""
    message: str
    """What was expected, and what was found."""
    remedy: str
    """The remedy, with a command if there is one."""


@dataclass(frozen=True)
class Survey:
    """The nodes from one group down."""

    container: Container
    root: str
    """The path of the group."""
    xml: bytes | None = None
    """The XML that describes the container's images, if the user named it."""
    arrays: dict[str, Array] = field(default_factory=dict)
    """The arrays by their paths."""
    groups: dict[str, Group] = field(default_factory=dict)
    """The groups by their paths."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """The errors of unreadable nodes, by their paths."""

    def url(self, path: str) -> str:
        """Return a node's location, for commands."""
        return join(self.container.url, path)


def survey_at(
    url: object, path: str, storage_options: Mapping[str, Any] | None, xml: bytes | None
) -> tuple[Survey | None, list[Finding]]:
    """Return all nodes of a container, unless it cannot be read, and the findings about them.

    Reads the metadata of all nodes in batches. Damage is returned, never raised; data are never
    changed.

    Parameters
    ----------
    url, path, storage_options
        As in :func:`open_array`; `url` may be an open container, `path` the node to begin at.
    xml
        The XML that describes the container's images; by default that next to it.

    Raises
    ------
    NodeNotFoundError
        If there is no array or group at the location.
    RequestError
        If the location cannot be reached.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks report the same problems
        try:
            walk = Walk.at(url, path, storage_options, whole=True)
            survey = Survey(walk.container, walk.root.path, xml)
            for entry in walk.nodes():
                if isinstance(entry.node, Array):
                    survey.arrays[entry.path] = entry.node
                elif isinstance(entry.node, Group):
                    survey.groups[entry.path] = entry.node
                elif entry.broken:
                    survey.unreadable[entry.path] = str(entry.problem)
        except (NodeNotFoundError, RequestError):
            raise
        except N5Error as error:
            return None, [Finding("unreadable", path, str(error), "restore its metadata")]
        findings: list[Finding] = []
        for name, check in CHECKS.items():
            try:
                findings += check(survey)
            except (N5Error, OSError, *ODD) as error:
                why = f"{name} could not be checked: {type(error).__name__}: {error}"
                findings.append(Finding("not-checked", survey.root, why, "try again"))
        return survey, findings


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])


# Checks of nodes


def _unreadable(survey: Survey) -> Iterator[Finding]:
    """Find nodes that cannot be read, and those that a writer did not complete."""
    for path, why in survey.unreadable.items():
        remedy = "restore its metadata from a copy or by hand, or remove it"
        yield Finding("unreadable", path, why.removesuffix(f"; {RESTORE}"), remedy)
    for path, group in survey.groups.items():
        if group.node.incomplete:
            why = "it has attributes, but not the document that makes it an array or a group"
            yield Finding("unreadable", path, why, "repeat the write that was stopped")


def _unfinished_nodes(survey: Survey) -> Iterator[Finding]:
    """Find nodes with an unfinished write."""
    store = survey.container.store
    for path in sorted(unfinished(store, [*survey.arrays, *survey.groups])):
        tokens = {record.token for record in look(store, path).opens}
        why = "it has an unfinished write; chunks that it has not written are read as fill values"
        if tokens == {REPAIR}:
            why = "damaged chunks were removed and not written again; they are read as fill values"
        remedy = "wait if a program is writing now; otherwise repeat the write with resume=True"
        yield Finding("unfinished", path, why, remedy)


def _consolidated(survey: Survey) -> Iterator[Finding]:
    """Find groups whose consolidated metadata contradict the documents of nodes."""
    container = survey.container
    for path in survey.groups:
        if names := contradictions(container.store, path, container.format.documents):
            why = (
                f"consolidated metadata, which others use, differ from documents: {_listed(names)}"
            )
            remedy = f"consolidate again: zarr.consolidate_metadata({survey.url(path)!r})"
            yield Finding("consolidated", path, why, remedy)


# Checks of levels


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The levels that a pyramid should have, the finest first, stored or not."""

    path: str
    """The path of the group."""
    levels: tuple[str, ...]
    """The paths of the arrays."""
    promised: str
    """The attribute that lists the levels, or their names."""

    def names(self, levels: Sequence[str]) -> str:
        """Return the paths of levels in the group."""
        return _listed([level.removeprefix(self.path).lstrip("/") for level in levels])


def _promised(survey: Survey, path: str) -> Iterator[Pyramid]:
    """Iterate over the images that a group's attributes list, or that names of arrays form.

    The levels that a setup of BigDataViewer lists are in its time points.
    """
    attributes = dict(survey.groups[path].attrs)
    for image in images_in(attributes):
        with suppress(PathError):
            levels = tuple(normalize_path(f"{path}/{name}") for name in level_paths(image))
            yield Pyramid(path, levels, "'multiscales'")
    holders = [path]
    if number_in(path.rpartition("/")[2], "setup") is not None:
        names = (group.removeprefix(f"{path}/") for group in survey.groups)
        holders = [join(path, name) for name in numbered(names, "timepoint").values()]
    for key in FACTOR_LISTS:
        listing = attributes.get(key)
        if isinstance(listing, list) and all(isinstance(factors, list) for factors in listing):
            for holder in holders:
                yield Pyramid(holder, _levels(holder, len(listing)), repr(key))
    inside = f"{path}/" if path else ""
    names = (name.removeprefix(inside) for name in survey.arrays if name.startswith(inside))
    if len(numbers := numbered(names, "level")) > 1:
        yield Pyramid(path, _levels(path, 1 + max(numbers)), "the names of levels")


def _levels(group: str, count: int) -> tuple[str, ...]:
    return tuple(join(group, level_name(level)) for level in range(count))


def _pyramids(survey: Survey) -> Iterator[Finding]:
    """Find levels that are listed but not stored, empty, or of inconsistent types and sizes."""
    writing = unfinished(survey.container.store, survey.arrays)
    seen: set[str] = set()
    for pyramid in (pyramid for path in survey.groups for pyramid in _promised(survey, path)):
        if seen.issuperset(pyramid.levels):
            continue
        seen |= {*pyramid.levels}
        known = survey.arrays.keys() | survey.unreadable.keys()
        if missing := [at for at in pyramid.levels if at not in known]:
            count, is_ = len(pyramid.levels), "is" if len(missing) == 1 else "are"
            why = f"{count} levels by {pyramid.promised}, of which {pyramid.names(missing)} "
            why += f"{is_} not stored"
            yield _lost("missing-level", survey, pyramid, missing, why)
        levels = [survey.arrays[at] for at in pyramid.levels if at in survey.arrays]
        stored = together(survey.container.store, [partial(_has_chunks, lev) for lev in levels])
        empty = [level.path for level, has in zip(levels, stored, strict=True) if not has]
        if empty and len(levels) > 1 and writing.isdisjoint(pyramid.levels):
            why = f"no chunk of {pyramid.names(empty)} is stored, so they are read as fill values"
            yield _lost("empty-level", survey, pyramid, empty, why)
        if pyramid.levels[0] in survey.arrays:
            for level in levels[1:]:
                yield from _misfit(survey.arrays[pyramid.levels[0]], level)


def _has_chunks(level: Array) -> bool:
    """Return whether any chunk of an array is stored, if it needs one and they can be listed."""
    with suppress(*REFUSED):
        return not level.size or next(level.node.stored_chunks(), None) is not None
    return True


def _lost(kind: str, survey: Survey, pyramid: Pyramid, lost: Sequence[str], why: str) -> Finding:
    """Return the finding about levels that are not stored."""
    base = pyramid.levels[0]
    remedy = "restore or write the base level"
    if base in survey.arrays and base not in lost:
        command = f"xarray-n5 pyramid {survey.url(base)} --mode w"
        remedy = f"make the levels again with {command}, or correct {pyramid.promised}"
    return Finding(kind, pyramid.path, why, remedy)


def _misfit(base: Array, level: Array) -> Iterator[Finding]:
    """Find a level of another type than the base level, or of a size that does not fit.

    Sizes are those of the base level, divided by the factors, but for one sample: programs round in
    different ways, and levels may be cropped.
    """
    remedy = "correct its metadata, or write the pyramid again"
    if level.ndim != base.ndim or level.dtype != base.dtype:
        ours, theirs = (f"{array.ndim} axes of {array.dtype}" for array in (level, base))
        why = f"the level has {ours}, its base level {base.path!r} {theirs}"
        yield Finding("level-type", level.path, why, remedy)
        return
    geometry, _ = resolve_geometry(context_of(level.node))
    factors = [axis.factor for axis in geometry.axes]
    known = any(factor != 1 for factor in factors)
    for side, size, factor in zip(level.shape, base.shape, factors, strict=True):
        if abs(side - max(1, size / factor)) > 1 if known else side > size:
            why = f"the level has shape {level.shape}, its base level {base.path!r} {base.shape}"
            by = f" by the factors {', '.join(map('{:g}'.format, factors))}" if known else ""
            yield Finding("level-size", level.path, f"{why}; they do not fit{by}", remedy)
            return


CHECKS: Mapping[str, Callable[[Survey], Iterator[Finding]]] = {
    "nodes that cannot be read": _unreadable,
    "unfinished writes": _unfinished_nodes,
    "consolidated metadata": _consolidated,
    "levels": _pyramids,
}
"""The checks, in the order of the findings."""
