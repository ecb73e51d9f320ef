"""``multiscales`` on the group of an array, as OME-NGFF 0.1 to 0.6 describes pyramids.

Lists are in C order in Zarr. In N5, n5-universe wrote C order up to version 2.3 and N5 order since;
the position of x shows which. Source: the specification at ngff.openmicroscopy.org;
NgffSingleScaleAxesMetadata in n5-universe.
"""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects import groups, lists, ngff_systems
from xarray_n5.dialects.lists import FACTS, geometry_of_lists, whole_number
from xarray_n5.dialects.ngff_systems import VERSION, has_systems, system_of
from xarray_n5.dialects.protocol import disagreement, names_disagreement
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.axes import Geometry, axis_kind, kind_of
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.axes import Axis
    from xarray_n5.model.system_graph import ImageSystems

_FIXED = ("t", "c", "z", "y", "x")
"""The axes of versions 0.1 and 0.2, which do not list them."""

_KEY = "multiscales of the group"

_ORDER = ("time", "channel", "space")
"""The order of axes in version 0.4; at most one of time and of channels."""

_MOST, _LEAST, _SPACE = 5, 2, 3
"""The maximum and minimum number of axes, and the maximum number of spatial ones."""


@dataclass(frozen=True, slots=True)
class Ngff:
    """Axes with types and units, and lists of transforms for each level."""

    name: ClassVar[str] = "ngff"
    keys: ClassVar[tuple[str, ...]] = ()
    group_keys = ("multiscales", "ome")
    level_lists = ("multiscales", "ome")
    version: str | None = None
    """The version that is written, by default that of the format."""

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes of a level from its group's image; names only before 0.4."""
        for image, entry, first in groups.listings(node):
            if "transform" in entry or "spatialTransform" in entry:
                continue
            described = _axes(image, entry, node)
            if not described:
                return None
            if "coordinateTransformations" not in entry:
                geometry = _only_named(described)
            else:
                geometry, problems = _placed(image, entry, described)
                if problems:
                    shown = "; ".join(problems)
                    node.warn(f"some numbers of ngff metadata ('multiscales') are ignored: {shown}")
                geometry = lists.over(geometry, _placed(image, first, described)[0])
                if has_systems(image):
                    geometry = replace(geometry, systems=_systems(image, entry, node))
                    groups.warn_unapplied(node)
            if geometry.ndim > 1 and not _in_c_order(described, node):
                geometry = geometry.transpose()
            _warn_of_older(geometry, node)
            return _labelled(geometry, node)
        return None

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return no attributes: all of them are on the group; see :meth:`write_group`."""
        return {}

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: in N5 order for N5, in ``ome`` since 0.5."""
        version = ngff_systems.chosen_version(self.version, levels[0][0].ngff)
        in_c_order = not levels[0][0].lists_x_first

        def ordered(geometry: Geometry) -> tuple[Axis, ...]:
            named = geometry.with_names().axes
            return named if in_c_order else named[::-1]

        datasets = [
            {
                "path": node.listed_path,
                "coordinateTransformations": [
                    {"type": "scale", "scale": [whole_number(a.step) for a in ordered(geometry)]},
                    {
                        "type": "translation",
                        "translation": [whole_number(a.offset) for a in ordered(geometry)],
                    },
                ],
            }
            for node, geometry in levels
        ]
        base = ordered(levels[0][1])
        axes = [_described(axis) for axis in base]
        image = {"version": "0.4", "name": "", "axes": axes, "datasets": datasets}
        labels = next((a.labels for a in base if a.labels and axis_kind(a) == "channel"), ())
        if version == VERSION:
            if not can_show([axis_kind(axis) for axis in base]):
                raise ValueError(
                    f"OME-Zarr {VERSION} cannot describe the axes {[axis.name for axis in base]}; "
                    f"expected {_LEAST} to {_SPACE} axes of space, after those of time and channels"
                )
            image = ngff_systems.with_systems(image, levels[0][1].systems)
        return groups.described([image], groups.omero_for(labels), version)


def can_show(kinds: Sequence[str | None]) -> bool:
    """Return whether version 0.4 allows images with axes of these kinds.

    >>> can_show(["time", "space", "space"]), can_show(["space", "time", "space"])
    (True, False)
    """
    if not set(kinds) <= set(_ORDER) or not _LEAST <= len(kinds) <= _MOST:
        return False
    proper = list(kinds) == sorted(kinds, key=lambda kind: _ORDER.index(str(kind)))
    few = kinds.count("time") <= 1 and kinds.count("channel") <= 1
    return proper and few and _LEAST <= kinds.count("space") <= _SPACE


def _described(one: Axis) -> dict[str, str]:
    """Return an axis of OME-NGFF; a known unit as a whole word, others verbatim."""
    known = unit_of(one.unit)
    kind = axis_kind(one)
    unit = known.word if known else one.unit
    return (
        {"name": str(one.name)}
        | ({"type": kind} if kind else {})
        | ({"unit": unit} if unit else {})
    )


def _axes(
    image: dict[str, Any], entry: dict[str, Any], node: ArrayContext
) -> list[tuple[str, object, object]] | None:
    """Return the listed name, type and unit of each axis, or None if there is no list."""
    ndim = len(node.shape)
    listed = image.get("axes")
    if has_systems(image):
        listed = [axis.to_json() for axis in system_of(image, entry).axes]
    if listed is None:
        # In N5, bioformats2raw wrote the source's order without stating it.
        fixed = ndim == len(_FIXED) and not node.lists_x_first
        return [(name, None, None) for name in _FIXED] if fixed else None
    known = [axis if isinstance(axis, dict) else {"name": axis} for axis in listed]
    names = [axis["name"] for axis in known]
    if not all(isinstance(name, str) for name in names) or not len(names) == len({*names}) == ndim:
        raise ValueError(f"'multiscales' has invalid axes: {names}")
    return [(axis["name"], axis.get("type"), axis.get("unit")) for axis in known]


def _only_named(described: list[tuple[str, object, object]]) -> Geometry:
    axes = tuple(lists.axis(name, None, None, kind=kind) for name, kind, _ in described)
    return Geometry(axes, {"names": _KEY})


def _placed(
    image: dict[str, Any], entry: dict[str, Any], described: list[tuple[str, object, object]]
) -> tuple[Geometry, list[str]]:
    """Return the axes of a level, and messages about invalid numbers.

    These cost the coordinates of their axis, and its unit, which copies would give a scale of 1;
    without a valid scale, no axis has coordinates.
    """
    names, kinds, units = zip(*described, strict=True)
    rows, invalid, problems = ngff_systems.level_matrix(image, entry, names)
    split = None if rows is None else lists.per_axis(rows)
    if rows is None or (split is None and invalid):
        return _only_named(described), problems
    if split is not None:
        zeros = {at for at, scale in enumerate(split[0]) if scale == 0} - invalid
        problems += [f"the scale of axis {names[at]!r} is 0" for at in sorted(zeros)]
        without = invalid | zeros
        split = split[0], [math.nan if n in without else s for n, s in enumerate(split[1])]
    affine = lists.as_tuples(rows) if split is None else None
    axes = lists.axes_in_order(names, kinds, units, split)
    return geometry_of_lists(axes, dict.fromkeys(FACTS, _KEY), affine), problems


def _warn_of_older(geometry: Geometry, node: ArrayContext) -> None:
    """Warn about a ``multiscales`` next to ``ome`` that describes other axes."""
    if not any({"ome", "multiscales"} <= group.keys() for group in node.parents):
        return
    groups = [{k: v for k, v in group.items() if k != "ome"} for group in node.parents]
    older = None
    with suppress(*ODD), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        older = Ngff().read(replace(node, parents=tuple(groups)))
    if older is None:
        return
    both = (("ome", geometry), ("multiscales", older))
    if geometry.affine != older.affine or disagreement(*both) or names_disagreement(*both):
        node.warn(
            "'ome' and the older 'multiscales' next to it disagree; using 'ome'. Delete the one "
            "that is wrong"
        )


def _systems(image: dict[str, Any], entry: dict[str, Any], node: ArrayContext) -> ImageSystems:
    """Return the coordinate systems of an image; warn about those that cannot be computed."""
    path = groups.path_of_image(entry, node)
    systems = ngff_systems.systems_around(image, system_of(image, entry), path)
    problems = [] if systems.needs_arrays else systems.placements()[1]
    if (text := ngff_systems.described_problems(systems, problems)) is not None:
        warn(text)
    return systems


def _in_c_order(described: list[tuple[str, object, object]], node: ArrayContext) -> bool:
    """Return whether the axes of an image are listed in C order; in N5, the position of x shows."""
    if node.attribute_order != "auto":
        return node.attribute_order == "C"
    if not node.lists_x_first:
        return True
    listed = [name.lower() for name, _, _ in described]
    kinds = [kind or kind_of(name, None) for name, kind, _ in described]
    others = [listed.index(name) for name in ("y", "z") if name in listed]
    if "x" in listed and others:
        return listed.index("x") > min(others)
    if listed[-1] == "x" or (kinds[0] != "space" and kinds[-1] == "space"):
        return True
    if listed[0] == "x" or (kinds[0] == "space" and kinds[-1] != "space"):
        return False
    node.warn(
        f"'multiscales' of its group lists the axes {listed} in an unknown order; using that of "
        "'dimensions'"
    )
    return False


def _labelled(geometry: Geometry, node: ArrayContext) -> Geometry:
    """Return the geometry with the channels labelled as in ``omero``."""
    for labels in (groups.channel_labels(groups.omero_of(group)) for group in node.parents):
        for number, (listed, size) in enumerate(zip(geometry.axes, node.shape, strict=True)):
            if listed.kind == "channel" and len(labels) == size and all(labels):
                axes = list(geometry.axes)
                axes[number] = lists.labelled(listed, labels)
                sources = {**geometry.sources, "labels": "omero of the group"}
                return replace(geometry, axes=tuple(axes), sources=sources)
    return geometry
