"""The content of a scene, as one kind of scenes gives it to another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from xarray_n5.model.image import A

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from xarray_n5.model.image import Image
    from xarray_n5.model.systems import CoordinateSystem
    from xarray_n5.model.transformations import Transformation

F = TypeVar("F", bound=str)

SCENE = "ngff-0.6"
"""The dialect of writes that are scenes of OME-Zarr."""


def scene_format(url: object, form: F | None) -> F | Literal["zarr3"] | None:
    """Return the format of a scene: that which the user chose, or that of a name ``*.zarr``."""
    return form or ("zarr3" if str(url).rstrip("/\\").endswith(".zarr") else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenePart(Generic[A]):
    """An image of a scene, and its position."""

    path: str
    """The path of its group in the scene."""
    image: Image[A]
    """Its levels; their axes are those of its intrinsic system."""
    steps: tuple[Transformation, ...]
    """The transformations from its intrinsic system to the world; the first is applied first."""
    matrix: np.ndarray
    """Their product: a row for each axis of the world, a column for each of its own, and one for
    the offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneContent(Generic[A]):
    """Images in one world."""

    parts: tuple[ScenePart[A], ...]
    world: CoordinateSystem
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Further attributes of the scene, such as ``bigstitcher``."""
