"""Views of a project as images of a scene: their paths, transformations, and all other facts.

The world of a scene has physical units::

    world = scale(u) * T1 * ... * Tn * scale(1 / S) * intrinsic coordinates

with the size `u` of a unit of BigDataViewer's world, the transforms as the XML lists them, and the
voxel size `S`. The steps are kept apart, so that all numbers come back unchanged.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np

from xarray_n5.dialects.values import in_c_order
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry, centre_shift
from xarray_n5.model.image import Image, Level
from xarray_n5.model.level_names import level_name, view_path
from xarray_n5.model.matrices import compose, matrix
from xarray_n5.model.scene import SceneContent, ScenePart
from xarray_n5.model.systems import CoordinateSystem, SystemAxis
from xarray_n5.model.transformations import parse_transformation
from xarray_n5.model.units import unit_of
from xarray_n5_bdv.registrations import NDIM
from xarray_n5_bdv.spans import Edits, spans_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.image import Part
    from xarray_n5.model.transformations import Transformation
    from xarray_n5_bdv.loaders import View
    from xarray_n5_bdv.open import OpenProject
    from xarray_n5_bdv.project import Project, ViewSetup
    from xarray_n5_bdv.spans import Span

KEY, VERSION = "bigstitcher", "1"
"""The attribute of a scene with the facts that only a project has, and its version."""

WORLD = "world"

_ZYX = ("z", "y", "x")

_SHOWN = 4

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*?\?>\s*")


def content_of(opened: OpenProject) -> SceneContent[Array]:
    """Return the views of a project as images of a scene.

    Raises
    ------
    MetadataError
        If a view cannot be read, or is not registered.
    """
    project = opened.file.project
    stored = opened.find(opened.selection)
    for view, error in stored.broken.items():
        raise MetadataError(
            f"{opened.file.url}: the view of timepoint {view.timepoint} and setup {view.setup} "
            f"cannot be read: {error}"
        ) from error
    if lost := [view for view in stored.views if view not in project.registrations]:
        shown = ", ".join(f"timepoint {v.timepoint} of setup {v.setup}" for v in lost[:_SHOWN])
        raise MetadataError(
            f"{opened.file.url}: the XML has no ViewRegistration for {len(lost)} views: {shown}; "
            "a scene places every image, so add one, or list them in MissingViews"
        )
    unit = project.world.unit if project.world.basis != "unknown" else None
    parts = []
    for view in stored.views:
        setup = project.setups[view.setup]
        steps = steps_of(project, view)
        levels = {}
        for number, views in sorted(stored.levels.items()):
            name, factors = level_name(number), stored.factors.get((number, view))
            if view in views and factors is not None:
                levels[name] = _level(views[view], setup, factors)
            elif view in views:
                warn(f"{opened.file.url}: level {name} has no factors, and so no coordinates")
        rows = np.eye(NDIM, NDIM + 1)
        for step in steps:
            rows = compose(rows, matrix(step, NDIM))
        parts.append(
            ScenePart(
                path=view_path(view.setup, view.timepoint),
                image=Image(None, levels),
                steps=steps,
                matrix=rows,
            )
        )
    axes = tuple(SystemAxis(name, "space", ngff_unit(unit)) for name in _ZYX)
    facts = facts_of(project, stored.views)
    return SceneContent(
        parts=tuple(parts), world=CoordinateSystem(WORLD, axes), attributes={KEY: facts}
    )


def ngff_unit(unit: str | None) -> str | None:
    """Return a unit as OME-NGFF spells it, if it is known."""
    known = unit_of(unit)
    return known.word if known else unit


def _level(part: Part[Array], setup: ViewSetup, factors: tuple[float, ...]) -> Level[Array]:
    """Return a level with the axes of the view's intrinsic system."""
    sizes, unit = setup.voxel_size or (1.0,) * NDIM, setup.unit if setup.voxel_size else None
    axes = tuple(
        Axis(
            name=name,
            kind="space",
            unit=ngff_unit(unit),
            scale=size * factor,
            offset=centre_shift(size, factor),
            factor=factor,
        )
        for name, size, factor in zip(_ZYX, sizes, factors, strict=True)
    )
    return Level({(): part}, Geometry(axes), transposed=False)


def steps_of(project: Project, view: View) -> tuple[Transformation, ...]:
    """Return the transformations from a view's intrinsic coordinates to the world."""
    size, world = project.setups[view.setup].voxel_size, project.world
    found: list[dict[str, Any]] = []
    if size is not None:
        found.append({"type": "scale", "scale": inverse_sizes(size)})
    for each in reversed(project.registrations[view].transforms):
        rows = [list(row) for row in in_c_order(np.array(each.rows))]
        found.append(
            {"type": "affine", "affine": rows} | ({"name": each.name} if each.name else {})
        )
    if world.basis != "unknown":
        found.append({"type": "scale", "scale": [float(n) for n in world.scale[::-1]]})
    return tuple(parse_transformation(each) for each in found)


def inverse_sizes(sizes: tuple[float, ...]) -> list[float]:
    """Return the scale from physical distances to samples."""
    return [1.0 / size for size in sizes]


def facts_of(project: Project, views: Collection[View]) -> dict[str, Any]:
    """Return the facts that a scene does not have, in the terms and order of the XML (x, y, z)."""
    stored = {*views}
    listed = {view for view in project.views() if view not in stored} | project.missing
    found: dict[str, Any] = {
        "version": VERSION,
        "views": {view_path(v.setup, v.timepoint): [v.timepoint, v.setup] for v in views},
        "setups": [_setup(each) for each in project.setups.values()],
        "entities": {
            kind: [
                {"id": each.id, "name": each.name, "facts": dict(each.facts)}
                for each in entities.values()
            ]
            for kind, entities in project.entities.items()
        },
        "missing": [[view.timepoint, view.setup] for view in sorted(listed)],
    }
    rest, timepoints = _rest(project, stored)
    return found | ({"timepoints": timepoints} if timepoints else {}) | {"xml": rest}


def _setup(setup: ViewSetup) -> dict[str, Any]:
    found: dict[str, Any] = {"id": setup.id}
    if setup.name is not None:
        found["name"] = setup.name
    if setup.size is not None:
        found["size"] = list(setup.size[::-1])
    if setup.voxel_size is not None:
        found["voxelSize"] = {"size": list(setup.voxel_size[::-1])}
        found["voxelSize"] |= {"unit": setup.unit} if setup.unit is not None else {}
    return found | {"attributes": dict(setup.attributes)}


def _rest(project: Project, stored: Collection[View]) -> tuple[str, dict[str, str]]:
    """Return the XML without what the scene has, and the time points as it lists them."""
    document = project.document
    try:
        root = spans_of(document)
    except ValueError:  # UTF-16
        text = ET.tostring(ET.fromstring(document), encoding="unicode")  # noqa: S314 - was parsed
        document = text.encode()
        root = spans_of(document)
    edits, timepoints = Edits(document), dict[str, str]()
    if (sequence := root.first("SequenceDescription")) is not None:
        for tag in ("ImageLoader", "ViewSetups", "Timepoints", "MissingViews"):
            for span in sequence.all(tag):
                edits.remove(span)
        for span in sequence.all("Timepoints"):
            inner = _text(document, document[span.inner : span.close])
            timepoints = {"type": span.attributes.get("type", ""), "text": inner.strip()}
    registered = list(root.all("ViewRegistrations/ViewRegistration"))
    placed = [span for span in registered if _ids(span) in {(v.timepoint, v.setup) for v in stored}]
    if len(placed) == len(registered):
        placed = list(root.all("ViewRegistrations"))
    for span in placed:
        edits.remove(span)
    return _DECLARATION.sub("", _text(document, edits.apply())), timepoints


def _ids(span: Span) -> tuple[int, int]:
    return int(span.attributes["timepoint"]), int(span.attributes["setup"])


def _text(document: bytes, part: bytes) -> str:
    """Return a part of a document as a string, by the encoding that it declares."""
    head = bytes(islice(document, 200)).decode("latin-1")
    found = re.search(r"""encoding=["']([\w.:-]+)["']""", head)
    text = part.decode(found[1] if found else "utf-8")
    return text.removeprefix("\ufeff")
