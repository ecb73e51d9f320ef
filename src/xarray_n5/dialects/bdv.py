"""Views of BigDataViewer: ``setupS/timepointT/sL``, and the XML file beside the container.

Lists stand in N5 order, always x, y, z. Attributes tell the levels' factors; unit, voxel size and
where a view lies are in the XML alone. Source: bigdataviewer-core's N5ImageLoader; spim_data's
XmlIoViewRegistrations, where of several transforms the last listed comes first.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar
from xml.etree import ElementTree as ET

import numpy as np

from xarray_n5.axes import Geometry
from xarray_n5.dialects.levels import (
    BDV,
    axes_at_level,
    axis,
    factors_if_any,
    factors_in,
    factors_of,
)
from xarray_n5.dialects.transforms import per_axis, turned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.dialects import Node

_NDIM = 3

_NAMES = ("x", "y", "z")

_REGISTERED = "ViewRegistration of the XML"


@dataclass(frozen=True, slots=True)
class Bdv:
    """A level's factors, and its view's registration, if that can be told axis by axis."""

    name: ClassVar[str] = "bdv"
    keys: ClassVar[tuple[str, ...]] = ()

    def read(self, node: Node) -> Geometry | None:
        """Return the axes of a view's level; where the XML rotates the view, the matrix."""
        view = BDV.fullmatch(node.path)
        if view is None or len(node.shape) != _NDIM:
            return None
        factors = factors_of(node)
        project = _parse(node.xml) if node.xml else Project()
        setup, timepoint = int(view[2]), int(view[3])
        rows = project.registrations.get((timepoint, setup))
        size, unit = project.voxels.get(setup, (None, None))
        if rows is None and size is None:
            if factors is None:
                return None
            axes = axes_at_level(_NAMES, (None,) * _NDIM, (1.0,) * _NDIM, factors)
            return Geometry(axes, {"scale": "downsamplingFactors"})
        told = {"names": "layout of the container", "units": "voxelSize of the XML"}
        if rows is None:
            told |= {"scale": "voxelSize of the XML", "offset": "voxelSize of the XML"}
            rows = np.eye(_NDIM, _NDIM + 1)
            rows[:, :_NDIM] *= np.array(size)
        else:
            told |= {"scale": _REGISTERED, "offset": _REGISTERED}
        split = per_axis(rows)
        if split is None or min(split[0]) <= 0:
            level = np.eye(_NDIM + 1)
            times = np.array(factors or (1.0,) * _NDIM)
            level[:_NDIM, :_NDIM] *= times
            level[:_NDIM, _NDIM] = (times - 1) / 2
            bare = tuple(axis(name, unit, None) for name in reversed(_NAMES))
            return replace(Geometry(bare, told), affine=turned(rows @ level))
        return Geometry(axes_at_level(_NAMES, (unit,) * _NDIM, split[0], factors, split[1]), told)

    def write(self, geometry: Geometry, node: Node) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute of a level; places are the XML's, and are not written."""
        return factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[Node, Geometry]]) -> dict[str, Any]:
        """Return the attribute of a setup: the factors of all levels."""
        return {"downsamplingFactors": [factors_in(geometry) for _, geometry in levels]}


@dataclass(frozen=True, slots=True)
class Project:
    """What BigDataViewer's XML says of the views."""

    registrations: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """Rows of x, y, z by timepoint and setup."""
    voxels: Mapping[int, tuple[list[float] | None, str | None]] = field(default_factory=dict)
    """Size and unit of a setup's voxels."""


@functools.lru_cache(maxsize=16)
def _parse(text: str) -> Project:
    """Return what an XML file says.

    Raises
    ------
    ValueError
        If it is no XML, or one that defines entities of its own: BigDataViewer's never do.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("the XML beside the container has a document type, which is not read")
    try:
        root = ET.fromstring(text)  # noqa: S314 - without entities there is nothing to expand
    except ET.ParseError as error:
        raise ValueError(f"the XML beside the container cannot be read: {error}") from error
    registrations = {}
    for view in root.iter("ViewRegistration"):
        whole = np.eye(_NDIM + 1)
        for affine in view.findall("ViewTransform/affine"):
            step = np.eye(_NDIM + 1)
            step[:_NDIM] = np.array(_numbers(affine.text)).reshape(_NDIM, _NDIM + 1)
            if not np.isfinite(step).all():
                raise ValueError("the XML beside the container has a transform that is not finite")
            whole = whole @ step
        registrations[int(view.attrib["timepoint"]), int(view.attrib["setup"])] = whole[:_NDIM]
    voxels = {}
    for setup in root.iter("ViewSetup"):
        size = setup.findtext("voxelSize/size")
        voxels[int(setup.findtext("id", "0"))] = (
            _numbers(size) if size else None,
            setup.findtext("voxelSize/unit"),
        )
    return Project(registrations, voxels)


def _numbers(text: str | None) -> list[float]:
    return [float(number) for number in (text or "").replace(",", " ").split()]
