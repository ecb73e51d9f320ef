"""Projects of BigDataViewer as `info` describes them, and views for pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.describe import times
from xarray_n5.dialects.values import per_axis
from xarray_n5.model.axes import Geometry
from xarray_n5.model.units import shown_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.bdv.loaders import View
    from xarray_n5.bdv.location import ProjectFile
    from xarray_n5.bdv.project import Project
    from xarray_n5.model.image import Image, Level

_SHOWN = 12
"""The maximum number of ids that are listed."""


@dataclass(frozen=True, slots=True)
class ViewArray:
    """A level of one view, for pictures: an array, or a part of one with several views."""

    array: Array
    axes: Geometry
    indices: tuple[int, ...]
    """The indices along the axes of the array before z."""

    @property
    def url(self) -> str:
        """The array's location."""
        return self.array.url

    @property
    def path(self) -> str:
        """The array's path."""
        return self.array.path

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape along z, y, x."""
        return self.array.shape[len(self.indices) :]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk."""
        return self.array.chunks[len(self.indices) :]

    def geometry(self) -> Geometry:
        """Return the axes z, y, x."""
        return self.axes

    def __getitem__(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the values at an index."""
        return np.asarray(self.array[(*self.indices, *key)])

    def chunk_exists(self, index: Sequence[int]) -> bool:
        """Return whether a chunk of the view is stored."""
        sides = zip(self.indices, self.array.chunks, strict=False)
        return self.array.chunk_exists((*(at // size for at, size in sides), *index))


def first_view(image: Image[Array]) -> list[ViewArray]:
    """Return the levels of the first view of an image that is stored."""
    return [_first_part(level) for level in image.levels.values()]


def _first_part(level: Level[Array]) -> ViewArray:
    part, axes = level.parts[min(level.parts)], level.geometry.axes[len(level.numbers) :]
    return ViewArray(part.array, Geometry(axes, level.geometry.sources), part.indices)


def project_rows(project: Project) -> list[tuple[str, str]]:
    """Return the content of a project for people, as names and values."""
    rows = [
        ("loader", loader_text(project)),
        ("setups", _ids(list(project.setups))),
        ("timepoints", _ids(project.timepoints)),
    ]
    if project.missing:
        views = [f"{view.timepoint}/{view.setup}" for view in sorted(project.missing)]
        rows.append(("missing", f"{_ids(views)} (timepoint/setup)"))
    for kind, entities in project.entities.items():
        named = [_named(number, project.name_of(kind, number)) for number in entities]
        rows.append((kind, _ids(named)))
    sizes = [(each.voxel_size, each.unit) for each in project.setups.values()]
    if voxels := {f"{_size(sides)} {shown_unit(unit)}" for sides, unit in sizes if sides}:
        rows.append(("voxel", f"{', or '.join(sorted(voxels))} (z, y, x)"))
    if project.registrations:
        world = project.world
        length = _size(dict.fromkeys(world.scale[::-1]))
        rows.append(("world", f"a unit is {length} {shown_unit(world.unit)} ({world.basis})"))
        rows += _place_rows(project)
    return rows


def _size(sides: Iterable[float]) -> str:
    return " x ".join(f"{side:g}" for side in sides)


def _place_rows(project: Project) -> list[tuple[str, str]]:
    """Return the box of all views, and that of each; setups that stay where they are once."""
    boxes = {view: box for view in project.views() if (box := _box_of(project, view)) is not None}
    found: dict[tuple[int, str], list[int]] = {}
    for view, box in boxes.items():
        turned = per_axis(project.registrations[view].total) is None
        size = project.setups[view.setup].size
        text = f"{times(size) if size else 'unknown size'} at {_extent(project, box)}"
        text += ", turned or sheared" if turned else ""
        found.setdefault((view.setup, text), []).append(view.timepoint)
    rows = [("box", _extent(project, _union(boxes)))] if boxes else []
    for (setup, text), moments in list(found.items())[:_SHOWN]:
        still = len(moments) == sum(view.setup == setup for view in boxes)
        when = "" if still else f", t {_ids(moments).split(': ')[1]}"
        rows.append(("view", f"setup {setup}{when}: {text}"))
    more = len(found) - _SHOWN
    return [*rows, *[("", f"and {more} more; --json lists all")] * (more > 0)]


def _extent(project: Project, box: np.ndarray) -> str:
    sides = (f"{name} {low:.6g} .. {high:.6g}" for name, low, high in zip("zyx", *box, strict=True))
    return f"{', '.join(sides)} {shown_unit(project.world.unit)}"


def _box_of(project: Project, view: View) -> np.ndarray | None:
    """Return the least and greatest position of a view's samples along z, y, x.

    A setup without a size counts as one sample; None if the view is not registered.
    """
    if (placed := project.physical(view)) is None:
        return None
    rows, size = placed[0], project.setups[view.setup].size or (1, 1, 1)
    steps = rows[:, :-1] * (np.array(size[::-1]) - 1)
    sides = np.minimum(steps, 0).sum(axis=1), np.maximum(steps, 0).sum(axis=1)
    return np.array(rows[:, -1] + sides)[:, ::-1]


def _union(boxes: Mapping[View, np.ndarray]) -> np.ndarray:
    """Return the smallest box around others."""
    lows, highs = zip(*boxes.values(), strict=True)
    return np.array([np.min(lows, axis=0), np.max(highs, axis=0)])


def project_facts(file: ProjectFile, images: Mapping[str, Image[Array]]) -> dict[str, Any]:
    """Return the description of a project, for programs."""
    project = file.project
    loader, world = project.loader, project.world
    return {
        "url": file.url,
        "kind": "project",
        "format": None if loader is None else loader.format,
        "container": project.container,
        "setups": [
            {
                "id": each.id,
                "name": each.name,
                "size": each.size,
                "voxel_size": each.voxel_size,
                "unit": each.unit,
                **each.attributes,
            }
            for each in project.setups.values()
        ],
        "timepoints": list(project.timepoints),
        "missing": [
            {"timepoint": view.timepoint, "setup": view.setup} for view in sorted(project.missing)
        ],
        "names": {
            kind: {number: project.name_of(kind, number) for number in entities}
            for kind, entities in project.entities.items()
        },
        "world": {"scale": world.scale[::-1], "unit": world.unit, "basis": world.basis},
        "views": [
            {
                "timepoint": view.timepoint,
                "setup": view.setup,
                "box": None if (box := _box_of(project, view)) is None else box.tolist(),
            }
            for view in project.views()
        ],
        "images": [
            {
                "name": name,
                "dims": [str(axis.name) for axis in level.named().axes],
                "level": key,
                "shape": level.shape,
                "dtype": str(level.first.dtype),
            }
            for name, image in images.items()
            for key, level in image.levels.items()
        ],
    }


def _named(number: int, name: str) -> str:
    """Return an id with its name.

    >>> _named(0, "DAPI"), _named(1, "1")
    ('0 "DAPI"', '1')
    """
    return str(number) if name == str(number) else f'{number} "{name}"'


def loader_text(project: Project) -> str:
    """Return the format of a project's loader, and its container."""
    return f"{project.loader.format if project.loader else 'no loader'}, {project.container}"


def _ids(ids: Sequence[object]) -> str:
    shown = ", ".join([*map(str, ids[:_SHOWN]), *["..."] * (len(ids) > _SHOWN)])
    return f"{len(ids)}: {shown}"
