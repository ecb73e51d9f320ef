"""Registrations of views: their transforms, and the size of a unit of the world.

A view's transforms map its samples to BigDataViewer's world; the first listed is applied last. The
world has no unit of its own. BigStitcher's first step, "calibration", scales samples to ``voxelSize
/ u``, where `u` is the smallest voxel size of all setups; BigDataViewer's exports, pybdv and MoBIE
scale them to ``voxelSize``. Both determine the size of a unit of the world: `u`, or 1.

Source: spim_data's ViewRegistration; BigStitcher's DatasetCreationUtils.createViewRegistrations and
TransformationTools.computeCalibration, which divides the voxel size by the scaling of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from xarray_n5.bdv.xml import child_text, finite_numbers
from xarray_n5.dialects.values import as_tuples, per_axis
from xarray_n5.model.tolerances import SAME
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

NDIM = 3

Rows = tuple[tuple[float, ...], ...]
"""A matrix of three rows of four numbers, for x, y, z."""

Basis = Literal["calibration", "voxels", "assumed", "unknown"]

CALIBRATION = "calibration"
"""The name of BigStitcher's first step."""


@dataclass(frozen=True, slots=True)
class Transform:
    """One step of a registration."""

    name: str | None
    rows: Rows


@dataclass(frozen=True)
class Registration:
    """The transforms of a view, in the order of the XML: the first listed is applied last."""

    transforms: tuple[Transform, ...] = ()

    @cached_property
    def total(self) -> np.ndarray:
        """The product of all transforms: from samples of the base level to the world, x y z."""
        whole = np.eye(NDIM + 1)
        for number, each in enumerate(self.transforms):
            step = np.eye(NDIM + 1)
            step[:NDIM] = each.rows
            with np.errstate(all="ignore"):
                whole = whole @ step if number else step
        return whole[:NDIM]

    def check(self) -> None:
        """Raise ValueError if numbers of the product are too large."""
        if not np.isfinite(self.total).all():
            raise ValueError("an affine has numbers that are too large")

    @property
    def calibration(self) -> tuple[float, ...] | None:
        """The factors by which the first applied transform scales x, y, z; None without any.

        Rotations and translations do not scale, and are skipped, unless their name is that of the
        calibration, which is the identity for cubic voxels.
        """
        for each in reversed(self.transforms):
            scales = _scales(each.rows)
            if scales is not None or each.name == CALIBRATION:
                return scales or (1.0,) * NDIM
        return None


@lru_cache(maxsize=1024)
def _scales(rows: Rows) -> tuple[float, ...] | None:
    """Return the factors by which a matrix scales x, y, z, or None; most views share one."""
    with np.errstate(all="ignore"):
        scales = np.linalg.norm(np.array(rows)[:, :NDIM], axis=0)
    return None if np.allclose(scales, 1.0, rtol=SAME) else tuple(scales.tolist())


@dataclass(frozen=True, slots=True)
class World:
    """The size of a unit of BigDataViewer's world along x, y, z, in the unit of the voxel size."""

    scale: tuple[float, ...] = (1.0,) * NDIM
    unit: str | None = None
    basis: Basis = "unknown"
    """The source of the size. "calibration": the first step scales to the voxel size divided by it.
    "voxels": no step scales, so a unit is a voxel. "assumed": the first step scales differently, as
    registrations in physical units do, so the size is 1. "unknown": voxel sizes are missing, or
    those of views do not agree; there is no unit.
    """

    def agrees(self, other: World) -> bool:
        """Return whether another view has the same world."""
        if self == other:
            return True
        alike = np.allclose(self.scale, other.scale, rtol=SAME, atol=0)
        return bool(alike) and same_unit(self.unit, other.unit)


def world_of(
    registration: Registration, voxel_size: Sequence[float] | None, unit: str | None
) -> World:
    """Return the size of a unit of the world by one view: see :class:`World`.

    Parameters
    ----------
    registration
        The view's registration.
    voxel_size
        The size of its voxels along x, y, z.
    unit
        The unit of that.
    """
    if voxel_size is None:
        return World()
    scales, sizes = registration.calibration, tuple(voxel_size)
    if scales is not None:
        return _world(scales, sizes, unit)
    shared = max(sizes) - min(sizes) <= SAME * min(sizes)
    if shared or per_axis(registration.total) is not None:
        return World((sizes[0],) * NDIM if shared else sizes, unit, "voxels")
    return World()


@lru_cache(maxsize=1024)
def _world(scales: tuple[float, ...], sizes: tuple[float, ...], unit: str | None) -> World:
    """Return the size of a unit of the world, from the scaling of voxels of a size."""
    if min(scales) > 0:
        ratios = np.array(sizes) / np.array(scales)
        if np.allclose(ratios, ratios[0], rtol=SAME, atol=0):
            # Exactly 1, or exactly the size of a voxel, if only rounding differs.
            exact = (n for n in (1.0, *sizes) if abs(n - ratios[0]) <= SAME * n)
            return World((next(exact, float(ratios[0])),) * NDIM, unit, "calibration")
    return World((1.0,) * NDIM, unit, "assumed")


def read_registration(element: Element) -> Registration:
    """Return the registration in an element ``ViewRegistration``."""
    return Registration(tuple(map(_transform, element.findall("ViewTransform"))))


def _transform(element: Element) -> Transform:
    kind = element.get("type", "affine")
    text = element.findtext("affine")
    if kind != "affine" or text is None:
        raise ValueError(f"a ViewTransform has the type {kind!r}; expected an affine")
    numbers = finite_numbers("affine", text)
    if len(numbers) != NDIM * (NDIM + 1):
        raise ValueError(f"the affine {text[:80]!r}; expected {NDIM * (NDIM + 1)} numbers")
    name = child_text(element, "Name") or child_text(element, "name")
    return Transform(name, as_tuples(np.reshape(numbers, (NDIM, NDIM + 1))))
