"""Changes of attributes by which programs read an image the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects import DIALECTS
from xarray_n5.dialects.levels import image_of
from xarray_n5.dialects.lists import over
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.dialects.ngff_attributes import have_systems, images_of, with_images, without_images
from xarray_n5.dialects.write import write_geometry, write_pyramid
from xarray_n5.doctor.compare import compare, conflicts
from xarray_n5.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.doctor.compare import Comparison, Difference
    from xarray_n5.doctor.images import StoredArray, StoredImage
    from xarray_n5.model.axes import Geometry

Nodes = tuple[dict[str, Any], ...]
"""The attributes of a pyramid's group (empty for a single array), and of each level."""

NO_AXES = (
    "no attribute describes its axes; xarray_n5.create_array, with axes and in mode 'a', stores "
    "them and keeps the data"
)
"""What to do about an image without axes."""


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

    changes: tuple[Change, ...] = ()
    gained: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """The programs that still read something else."""


def plan_repair(
    image: StoredImage,
    expected: Sequence[Geometry],
    comparisons: Sequence[Comparison],
    against: Mapping[str, Difference],
    dialect: str | None = None,
) -> RepairPlan:
    """Return the changes that make more programs agree, and none disagree that agreed.

    The default dialects are written, and dialects that contradict the geometry are removed.

    Parameters
    ----------
    image
        The image as it is stored.
    expected, comparisons, against
        The geometry of its levels, how programs read them, and the dialects that contradict it.
    dialect
        The dialect whose geometry this is; needed where dialects contradict each other.

    Raises
    ------
    ValueError
        If dialects contradict each other, and `dialect` is None; if the attributes cannot be
        changed, or no dialect can describe the geometry.
    """
    if against and dialect is None:
        raise ValueError(_ambiguous(image, expected, against))
    agreed, disagreed = _verdicts(comparisons)
    if not disagreed and not against:
        return RepairPlan()
    if not any(geometry.placed or geometry.named for geometry in expected):
        raise ValueError(NO_AXES)
    _check(image, expected)
    stored: Nodes = (
        dict(image.group) if image.grouped else {},
        *(dict(level.attributes) for level in image.levels),
    )
    nodes = _rewritten(image, expected, stored)
    changed = _changed(image, nodes)
    still, left = _verdicts(compare(changed, expected))
    is_better = left < disagreed or (left == disagreed and against)
    if not is_better or not agreed <= still or conflicts(changed, expected):
        return RepairPlan(left=tuple(sorted(disagreed)))
    return RepairPlan(
        changes=tuple(_changes(image, stored, nodes)),
        gained=tuple(sorted(still - agreed)),
        left=tuple(sorted(left)),
    )


def _verdicts(comparisons: Sequence[Comparison]) -> tuple[set[str], set[str]]:
    """Return the programs that agree about an image, and those that disagree."""
    agreed = {program.reader for program in comparisons if program.verdict == "agrees"}
    return agreed, {program.reader for program in comparisons if not program.agrees}


def _check(image: StoredImage, expected: Sequence[Geometry]) -> None:
    """Raise ValueError if attributes cannot be changed, or would not be of this image alone."""
    names = [axis.name for axis in expected[0].axes if axis.name]
    inside = {level.path.rpartition("/")[0] for level in image.levels}
    if len(set(names)) < len(names):
        raise ValueError(f"its axes are called {names}, one name twice; correct them first")
    if not image.grouped and image_of(image.levels[0].context) is not None:
        raise ValueError("it is listed as a level of an image; correct the attributes by hand")
    if image.grouped and inside != {image.path}:
        raise ValueError("its levels are not directly in its group; correct the attributes by hand")
    if image.grouped and len(images_of(image.group)) > 1:
        raise ValueError("its group describes several images; correct the attributes by hand")
    if image.grouped and have_systems(image.group):
        at = repr(image.path) if image.path else "it"
        text = f"it is of OME-Zarr 0.6; for other programs, copy {at} with dialect='ngff'"
        raise ValueError(text)


def _rewritten(image: StoredImage, expected: Sequence[Geometry], stored: Nodes) -> Nodes:
    """Return the stored attributes with the default dialects, and without those that contradict."""
    written = _written(image, expected)
    joined = tuple(_joined(*both) for both in zip(stored, written, strict=True))
    wrong = conflicts(_changed(image, joined), expected)
    keys = {key for name in wrong for key in DIALECTS[name].keys}
    if Ngff.name in wrong and not images_of(written[0]):
        joined = (without_images(joined[0]), *joined[1:])
    return tuple(
        {key: value for key, value in node.items() if key not in keys or key in more}
        for node, more in zip(joined, written, strict=True)
    )


def _written(image: StoredImage, expected: Sequence[Geometry]) -> Nodes:
    """Return the attributes that describe the geometry, for the group and each level."""
    alone: dict[str, Any] = {"xml": None, "coordinate_sizes": {}, "attribute_order": "auto"}
    bare = [level.only({}, **alone) for level in image.levels]
    if not image.grouped:
        (node,), (geometry,) = bare, expected
        return {}, write_geometry(geometry, node.shape, lists_x_first=node.lists_x_first)
    related = [expected[0], *(over(geometry, expected[0]) for geometry in expected[1:])]
    around, levels = write_pyramid(list(zip(bare, related, strict=True)))
    if "scales" in image.group and "downsamplingFactors" in around:
        around = {"scales": around["downsamplingFactors"], **around}
    return around, *levels


def _joined(stored: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored attributes and the written ones; of images, with names and channels."""
    before, images = images_of(stored), images_of(written)
    if not images or not before or not isinstance(before[0], dict):
        return {**stored, **written}
    kept = {k: v for k, v in before[0].items() if k != "coordinateTransformations"}
    image = {**kept, **images[0]} | {key: kept[key] for key in ("name",) if key in kept}
    others = {k: v for k, v in written.items() if k not in {"multiscales", "ome", "omero"}}
    return {**stored, **others} | with_images(stored, [image])


def _changed(image: StoredImage, nodes: Nodes) -> StoredImage:
    """Return an image with other attributes of its group and its levels."""
    around, first, *_ = nodes
    inside = (around,) if image.grouped else ()

    def changed(level: StoredArray, attributes: dict[str, Any]) -> StoredArray:
        context, base = level.context, level.context.base
        parents = (*inside, *context.parents[len(inside) :])
        if base is not None and base.path == image.levels[0].path:
            above = (*inside, *base.parents[len(inside) :])
            base = replace(base, attributes=first, parents=above)
        context = replace(context, attributes=attributes, parents=parents, base=base)
        return replace(level, context=context, above=(*inside, *level.above[len(inside) :]))

    return replace(image, levels=tuple(map(changed, image.levels, nodes[1:])))


def _changes(image: StoredImage, stored: Nodes, nodes: Nodes) -> Iterator[Change]:
    paths = [image.path, *(level.path for level in image.levels)]
    for number, (path, old, new) in enumerate(zip(paths, stored, nodes, strict=True)):
        after = {k: v for k, v in new.items() if k not in old or old[k] != v}
        before = {k: v for k, v in old.items() if k not in new or k in after}
        if before or after:
            yield Change(path=path, is_group=number == 0, before=before, after=after)


def _ambiguous(
    image: StoredImage, expected: Sequence[Geometry], against: Mapping[str, Difference]
) -> str:
    other, fact = next(iter(against.items()))
    level, name = image.levels[fact.level], expected[fact.level].axes[fact.axis].name
    used = expected[0].sources.get("scale", expected[0].sources.get("names", "")).partition(":")[0]
    choices = " or ".join(f"dialect={dialect!r}" for dialect in (used, *against))
    return printable(
        f"{used} and {other} metadata contradict each other on the {fact.field} of axis "
        f"{name or f'number {fact.axis}'} of {level.path or '/'}: {fact.ours} and {fact.theirs}; "
        f"state which is right by {choices}"
    )
