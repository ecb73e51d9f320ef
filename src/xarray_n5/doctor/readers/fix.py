"""The smallest change of attributes by which programs read an image the same."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from itertools import chain
from operator import ge
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects import DIALECTS
from xarray_n5.dialects.ngff_attributes import have_systems, images_of, with_images
from xarray_n5.dialects.pyramids import over
from xarray_n5.dialects.write import write_geometry, write_pyramid
from xarray_n5.doctor.readers.compare import BAD, compare
from xarray_n5.doctor.readers.expected import conflicts, expected_geometry
from xarray_n5.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.doctor.readers.compare import Verdict
    from xarray_n5.doctor.readers.expected import Conflict
    from xarray_n5.doctor.readers.protocol import Reading, StoredArray, StoredImage
    from xarray_n5.model.axes import Geometry

_ALSO = ("multiscales", "scales", "downsamplingFactors")
"""Attributes of groups that describe levels, and are of no dialect alone."""

_IMAGES = ("multiscales", "ome", "omero")
"""Attributes with members that no dialect writes, such as names and channels."""

_RESOLUTION = "pixelResolution"

_SETS: tuple[tuple[str, ...] | None, ...] = (None, ("cosem",), ("neuroglancer",))
"""The dialects that are written: the default ones, or those that can describe the image."""

Nodes = tuple[dict[str, Any], ...]
"""The attributes of a pyramid's group (empty for a single array), and of each level."""


class AmbiguousError(ValueError):
    """Dialects of an image contradict each other, and none was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The attributes of one node that change."""

    path: str
    is_group: bool
    before: Mapping[str, Any]
    """The stored values of attributes that change or go."""
    after: Mapping[str, Any]
    """The new values of attributes that change."""

    @property
    def gone(self) -> frozenset[str]:
        """The attributes that are removed."""
        return frozenset(self.before.keys() - self.after.keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """Changes of attributes, and the programs that they make agree."""

    changes: tuple[Change, ...]
    gained: tuple[str, ...]
    left: tuple[str, ...]
    """The programs that still read something else."""


NO_AXES = (
    "no attribute describes its axes; xarray_n5.create_array, with axes and in mode 'a', stores "
    "them and keeps the data"
)
"""What to do about an image without axes."""


def plan_repair(image: StoredImage, dialect: str | None = None) -> RepairPlan:
    """Return the changes that make more programs agree, and none disagree that agreed.

    Parameters
    ----------
    image
        The image as it is stored.
    dialect
        The dialect whose geometry is right; needed where dialects contradict each other.

    Raises
    ------
    AmbiguousError
        If dialects contradict each other, and `dialect` is None.
    ValueError
        If no dialect can describe the geometry, or `dialect` does not describe it now.
    """
    expected = expected_geometry(image, dialect)
    against = conflicts(image, expected)
    if against and dialect is None:
        raise AmbiguousError(_ambiguous(image, expected, against))
    before = _score(image, expected)
    if not before.bad and not against:
        return RepairPlan(changes=(), gained=(), left=())
    if not any(each.placed or each.named for each in expected):
        raise ValueError(NO_AXES)
    names = [axis.name for axis in expected[0].axes if axis.name]
    if len(set(names)) < len(names):
        raise ValueError(f"its axes are called {names}, one name twice; correct them first")
    _check_place(image)
    stored = _stored(image)
    best = _improved(image, expected, stored, before)
    if best is None:
        return RepairPlan(changes=(), gained=(), left=tuple(sorted(before.bad)))
    best = _smallest(image, expected, stored, best)
    after = _score(_changed(image, best), expected)
    return RepairPlan(
        changes=tuple(_changes(image, stored, best)),
        gained=tuple(name for name in after.good if name not in before.good),
        left=tuple(sorted(after.bad)),
    )


@dataclass(frozen=True, slots=True)
class _Score:
    """How well programs agree about an image."""

    verdicts: Mapping[str, Verdict]
    facts: tuple[tuple[int, ...], ...]
    """How many facts each program reads about each level."""
    against: tuple[str, ...]
    """The dialects that contradict the geometry."""

    @property
    def bad(self) -> frozenset[str]:
        return frozenset(name for name, verdict in self.verdicts.items() if verdict in BAD)

    @property
    def good(self) -> tuple[str, ...]:
        return tuple(name for name, verdict in self.verdicts.items() if verdict == "agrees")

    def better_than(self, other: _Score) -> bool:
        """Return whether fewer programs or dialects disagree, and all that agreed still do."""
        fewer = (self.bad, self.against) != (other.bad, other.against)
        return fewer and self.as_good_as(other)

    def as_good_as(self, other: _Score) -> bool:
        """Return whether nothing disagrees that agreed."""
        subset = self.bad <= other.bad and set(self.against) <= set(other.against)
        return subset and set(other.good) <= set(self.good)

    def reads_as_much_as(self, other: _Score) -> bool:
        """Return whether programs also read as many facts of each level."""
        mine, theirs = (list(chain(*each.facts)) for each in (self, other))
        return self.as_good_as(other) and all(map(ge, mine, theirs))


def _score(image: StoredImage, expected: Sequence[Geometry]) -> _Score:
    found = compare(image, expected)
    return _Score(
        verdicts={each.reader: each.verdict for each in found},
        facts=tuple(tuple(map(_facts, each.readings)) for each in found),
        against=tuple(each.dialect for each in conflicts(image, expected)),
    )


def _facts(reading: Reading) -> int:
    values = (value for axis in reading.axes or () for value in astuple(axis))
    return sum(value is not None for value in values)


def _improved(
    image: StoredImage, expected: Sequence[Geometry], stored: Nodes, before: _Score
) -> Nodes | None:
    """Return attributes with which more programs agree; None if there are none."""
    problems: list[ValueError] = []
    candidates: list[tuple[_Score, Nodes]] = []
    for dialects in _SETS:
        try:
            written = _written(image, expected, dialects)
        except ValueError as error:
            problems.append(error)
            continue
        both = list(zip(stored, written, strict=True))
        for kept in (dict, _without_dialects):  # attributes are removed only if they must be
            nodes = tuple(_joined(own, kept(own), more) for own, more in both)
            found = _score(_changed(image, nodes), expected)
            if found.better_than(before):
                candidates.append((found, nodes))
    if len(problems) == len(_SETS):
        raise problems[0]
    best = min(candidates, key=lambda each: (len(each[0].bad), len(each[0].against)), default=None)
    return None if best is None else best[1]


def _check_place(image: StoredImage) -> None:
    """Raise if a change of the group's attributes would not be of this image alone."""
    if not image.grouped:
        return
    if any(level.context.path.rpartition("/")[0] != image.path for level in image.levels):
        raise ValueError("its levels are not directly in its group; correct the attributes by hand")
    if len(images_of(image.group)) > 1:
        raise ValueError("its group describes several images; correct the attributes by hand")
    if have_systems(image.group):
        at = repr(image.path) if image.path else "it"
        text = f"it is of OME-Zarr 0.6; for other programs, copy {at} with dialect='ngff'"
        raise ValueError(text)


def _joined(own: Mapping[str, Any], kept: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return the kept attributes and the written ones, with all that no dialect writes."""
    rest = {key: value for key, value in more.items() if key not in _IMAGES}
    if isinstance(before := own.get(_RESOLUTION), dict) and isinstance(
        written := rest.get(_RESOLUTION), dict
    ):
        rest[_RESOLUTION] = before | written
    found = kept | {key: own[key] for key in _IMAGES if key in own} | rest
    if not (images := images_of(more)):
        return found
    if not (known := images_of(own)):
        return found | {key: value for key, value in more.items() if key in _IMAGES}
    if not isinstance(known[0], dict):
        return found
    # The written levels include the transformations of the whole image.
    image = {k: v for k, v in known[0].items() if k != "coordinateTransformations"}
    name = {"name": image["name"]} if "name" in image else {}
    changed = with_images(own, [image | images[0] | name])
    return found | changed


def _written(
    image: StoredImage, expected: Sequence[Geometry], dialects: tuple[str, ...] | None
) -> tuple[dict[str, Any], ...]:
    """Return the attributes that describe the geometry, for the group and each level."""
    alone: dict[str, Any] = {"xml": None, "coordinate_sizes": {}, "attribute_order": "auto"}
    bare = [level.only({}, **alone) for level in image.levels]
    related = [expected[0], *(over(each, expected[0]) for each in expected[1:])]
    if image.grouped:
        around, own = write_pyramid(list(zip(bare, related, strict=True)), dialects)
        if "scales" in image.group and "downsamplingFactors" in around:
            around = {"scales": around["downsamplingFactors"], **around}
        return around, *own
    return {}, *(
        write_geometry(g, node.shape, dialects, lists_x_first=node.lists_x_first)
        for node, g in zip(bare, related, strict=True)
    )


def _without_dialects(attributes: Mapping[str, Any]) -> dict[str, Any]:
    known = {key for each in DIALECTS.values() for key in each.keys} | set(_ALSO)
    return {key: value for key, value in attributes.items() if key not in known}


def _smallest(
    image: StoredImage, expected: Sequence[Geometry], stored: Nodes, nodes: Nodes
) -> Nodes:
    """Return attributes without the changes that no program needs.

    What is stored is kept first. A new attribute of levels is on all of them, or on none.
    """
    wanted = _score(_changed(image, nodes), expected)
    levels = tuple(range(1, len(nodes)))
    changes: list[tuple[tuple[int, ...], str]] = [
        ((n,), key) for n in range(len(nodes)) for key in sorted(stored[n])
    ]
    for places in ((0,), levels):
        keys = {key for n in places for key in nodes[n]}
        changes += [(places, key) for key in sorted(keys, reverse=True)]
    for places, key in changes:
        fewer = tuple(
            _reverted(own, new, key) if n in places else new
            for n, (own, new) in enumerate(zip(stored, nodes, strict=True))
        )
        if fewer != nodes and _score(_changed(image, fewer), expected).reads_as_much_as(wanted):
            nodes = fewer
    return nodes


def _reverted(own: Mapping[str, Any], new: Mapping[str, Any], key: str) -> dict[str, Any]:
    rest = {k: v for k, v in new.items() if k != key}
    return rest | ({key: own[key]} if key in own else {})


def _stored(image: StoredImage) -> Nodes:
    around = dict(image.group) if image.grouped else {}
    return around, *(dict(level.attributes) for level in image.levels)


def _changed(image: StoredImage, nodes: Nodes) -> StoredImage:
    """Return an image with other attributes of its group and its levels."""
    around, *own = nodes
    by_path = {level.context.path: each for level, each in zip(image.levels, own, strict=True)}

    def changed(level: StoredArray) -> StoredArray:
        context = level.context
        if context.base is not None and context.base.path in by_path:
            base = replace(context.base, attributes=by_path[context.base.path])
            context = replace(context, base=base)
        context = replace(context, attributes=by_path.get(context.path, context.attributes))
        if not image.grouped:
            return replace(level, context=context)
        if context.base is not None:
            parents = (around, *context.base.parents[1:])
            context = replace(context, base=replace(context.base, parents=parents))
        context = replace(context, parents=(around, *context.parents[1:]))
        return replace(level, context=context, above=(around, *level.above[1:]))

    return replace(
        image,
        levels=tuple(map(changed, image.levels)),
        members={name: changed(each) for name, each in image.members.items()},
    )


def _changes(image: StoredImage, stored: Nodes, nodes: Nodes) -> Iterator[Change]:
    paths = [image.path, *(level.context.path for level in image.levels)]
    for place, (path, own, new) in enumerate(zip(paths, stored, nodes, strict=True)):
        after = {k: v for k, v in new.items() if k not in own or own[k] != v}
        before = {k: v for k, v in own.items() if k not in new or k in after}
        if before or after:
            yield Change(path=path, is_group=place == 0, before=before, after=after)


def _ambiguous(
    image: StoredImage, expected: Sequence[Geometry], against: Sequence[Conflict]
) -> str:
    fact = against[0].difference
    level, name = image.levels[fact.level], expected[fact.level].axes[fact.axis].name
    axis = name or f"number {fact.axis}"
    used = expected[0].sources.get("scale", expected[0].sources.get("names", "")).partition(":")[0]
    choices = " or ".join(f"dialect={each!r}" for each in (used, *(c.dialect for c in against)))
    return printable(
        f"{used} and {against[0].dialect} metadata contradict each other on the {fact.field} of "
        f"axis {axis} of {level.context.path or '/'}: {fact.ours} and {fact.theirs}; state which "
        f"is right by {choices}"
    )
