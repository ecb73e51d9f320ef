"""Views of projects for pictures: the levels of one view, with the axes of the XML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.build import DatasetOptions
from xarray_n5_bdv.open import OpenProject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.axes import Geometry
    from xarray_n5_bdv.images import Level
    from xarray_n5_bdv.project_file import ProjectFile


@dataclass(frozen=True, slots=True)
class ViewLevel:
    """A level of one view: an array, or a part of one with several views."""

    array: Array
    axes: Geometry
    path: str
    indices: tuple[int, ...] = ()
    """The indices along the axes of the array before z."""

    @property
    def url(self) -> str:
        """The array's location."""
        return self.array.url

    @property
    def name(self) -> str:
        """The array's name."""
        return self.array.name

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


def first_view(
    file: ProjectFile, group: str, storage_options: Mapping[str, Any] | None
) -> list[ViewLevel]:
    """Return the levels of the first view that is stored, or of the one that a group names."""
    opened = OpenProject.at(file, storage_options, DatasetOptions(), group)
    levels = next(iter(opened.images().values()))
    at = min(next(iter(levels.values())).image.parts)
    if (wanted := opened.options.level) is not None:
        levels = {number: level for number, level in levels.items() if f"s{number}" == wanted}
    return [_view_level(level, at) for level in levels.values()]


def _view_level(level: Level, at: tuple[int, ...]) -> ViewLevel:
    image, count = level.image, len(level.image.numbers)
    geometry = image.geometry
    inner = type(geometry)(geometry.axes[count:], geometry.sources)
    part = image.parts[at]
    return ViewLevel(part.array, inner, part.array.path, part.indices)
