"""Changes of attributes by which programs read an image the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.dialects import DIALECTS
from xarray_n5.dialects.groups import have_systems, image_of, images_of, with_others, without_images
from xarray_n5.dialects.lists import over
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.dialects.write import write_geometry, write_pyramid
from xarray_n5.doctor.compare import READERS, compare, conflicts, leading
from xarray_n5.errors import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.doctor.compare import Comparison, Difference
    from xarray_n5.doctor.images import StoredImage
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes

Nodes = dict[str, dict[str, Any]]
"""The attributes of a pyramid's group, and of the levels of an image, by their paths."""

NO_AXES = (
    "no attribute describes its axes; xarray_n5.create_array, with axes and in mode 'a', stores "
    "them and keeps the data"
)
"""What to do about an image without axes."""


def plan_fix(
    image: StoredImage,
    expected: Sequence[Geometry],
    comparisons: Sequence[Comparison],
    contradictions: Mapping[str, Difference],
    dialect: str | None,
) -> Mapping[str, Attributes]:
    """Return the attributes of all nodes that make more programs agree, and none disagree.

    The default dialects are written, and those that contradict the geometry are removed.

    Parameters
    ----------
    image
        The image as it is stored.
    expected, comparisons, contradictions
        The geometry of its levels, how programs read them, and the dialects that contradict it.
    dialect
        The dialect whose geometry this is; needed where dialects contradict each other.

    Raises
    ------
    ValueError
        If dialects contradict each other, and `dialect` is None; if the attributes cannot be
        changed, or nothing makes more programs agree.
    """
    if contradictions and dialect is None:
        raise ValueError(_ambiguous(image, expected, contradictions))
    agreed, disagreed = _verdicts(comparisons)
    if not disagreed and not contradictions:
        return image.nodes
    _check(image, expected)
    nodes = _rewritten(image, expected)
    changed = image.with_attributes(nodes)
    still, left = _verdicts(compare(changed, expected))
    is_better = left < disagreed or (left == disagreed and contradictions)
    if not is_better or not agreed <= still or conflicts(changed, expected):
        titles = " and ".join(READERS[name].title for name in sorted(disagreed))
        raise ValueError(f"no attributes make {titles} agree")
    return nodes


def _verdicts(comparisons: Sequence[Comparison]) -> tuple[set[str], set[str]]:
    """Return the programs that agree about an image, and those that disagree."""
    agreed = {program.reader for program in comparisons if program.verdict == "agrees"}
    return agreed, {program.reader for program in comparisons if not program.agrees}


def _check(image: StoredImage, expected: Sequence[Geometry]) -> None:
    """Raise ValueError if attributes cannot be changed, or would not be of this image alone."""
    if not any(geometry.placed or geometry.named for geometry in expected):
        raise ValueError(NO_AXES)
    by_hand = "; correct the attributes by hand"
    if not image.grouped:
        if image_of(image.levels[0].context) is not None:
            raise ValueError(f"it is listed as a level of an image{by_hand}")
        return
    group = image.nodes[image.path]
    if {level.path.rpartition("/")[0] for level in image.levels} != {image.path}:
        raise ValueError(f"its levels are not directly in its group{by_hand}")
    if len(images_of(group)) > 1:
        raise ValueError(f"its group describes several images{by_hand}")
    if have_systems(group):
        at = repr(image.path) if image.path else "it"
        text = f"it is of OME-Zarr 0.6; for other programs, copy {at} with dialect='ngff'"
        raise ValueError(text)


def _rewritten(image: StoredImage, expected: Sequence[Geometry]) -> Nodes:
    """Return the stored attributes with the default dialects, and without those that contradict."""
    written = _written(image, expected)
    joined = {path: _joined(node, written[path]) for path, node in image.nodes.items()}
    wrong = conflicts(image.with_attributes(joined), expected)
    keys = {key for name in wrong for key in DIALECTS[name].keys}
    if image.grouped and Ngff.name in wrong and not images_of(written[image.path]):
        joined[image.path] = without_images(joined[image.path])
    return {
        path: {k: value for k, value in node.items() if k not in keys or k in written[path]}
        for path, node in joined.items()
    }


def _written(image: StoredImage, expected: Sequence[Geometry]) -> Nodes:
    """Return the attributes that describe the geometry, for the group and each level."""
    alone: dict[str, Any] = {"xml": None, "coordinate_sizes": {}, "attribute_order": "auto"}
    bare = [level.only({}, **alone) for level in image.levels]
    if not image.grouped:
        order = bare[0].lists_x_first
        return {image.path: write_geometry(expected[0], bare[0].shape, lists_x_first=order)}
    related = [expected[0], *(over(geometry, expected[0]) for geometry in expected[1:])]
    around, levels = write_pyramid(list(zip(bare, related, strict=True)))
    if "scales" in image.nodes[image.path] and "downsamplingFactors" in around:
        around = {"scales": around["downsamplingFactors"], **around}
    return dict(zip(image.nodes, (around, *levels), strict=True))


def _joined(stored: Attributes, written: Attributes) -> dict[str, Any]:
    """Return the stored attributes and the written ones; of images, with names and channels."""
    joined = {**stored, **with_others(written, stored)}
    match images_of(stored), images_of(joined):
        case [{"name": name}, *_], [image]:
            image["name"] = name
    return joined


def _ambiguous(
    image: StoredImage, expected: Sequence[Geometry], contradictions: Mapping[str, Difference]
) -> str:
    other, fact = next(iter(contradictions.items()))
    level, name = image.levels[fact.level], expected[fact.level].axes[fact.axis].name
    used = leading(expected[0])
    choices = " or ".join(f"dialect={dialect!r}" for dialect in (used, *contradictions))
    return printable(
        f"{used} and {other} metadata contradict each other on the {fact.field} of axis "
        f"{name or f'number {fact.axis}'} of {level.path or '/'}: {fact.ours} and {fact.theirs}; "
        f"state which is right by {choices}"
    )
