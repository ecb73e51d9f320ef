"""Views of BigDataViewer: ``setupS/timepointT/sL``, in HDF5 ``tT/sS/L/cells``, and the XML file.

The XML is beside the container. Lists stand in N5 order, always x, y, z. Attributes tell the
levels' factors; unit, voxel size and where a view lies are in the XML alone. Source:
bigdataviewer-core's N5ImageLoader and Hdf5ImageLoader; spim_data's XmlIoViewRegistrations, where
of several transforms the last listed comes first.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.dialects.pyramids import (
    axes_at_level,
    axes_under,
    factors_if_any,
    factors_in,
    factors_of,
    view_of,
)
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Geometry
from xarray_n5.model.json import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

    from xarray_n5.dialects.protocol import ArrayContext

_NDIM = 3

_NAMES = ("x", "y", "z")

_CONTAINERS = ("n5", "hdf5", "zarr")
"""What the XML calls the element that names the container."""


@dataclass(frozen=True, slots=True)
class Bdv:
    """A level's factors, and its view's registration, if that can be told axis by axis."""

    name: ClassVar[str] = "bdv"
    keys: ClassVar[tuple[str, ...]] = ()

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes of a view's level; where the XML rotates the view, the matrix."""
        view = view_of(node.path)
        if view is None or len(node.shape) != _NDIM:
            return None
        factors = factors_of(node)
        try:
            project = _parse(node.xml) if node.xml else Project()
        except ValueError as error:
            warn(f"{node.path}: the XML beside the container is ignored: {error}")
            project = Project()
        setup, timepoint = view
        rows = project.registrations.get((timepoint, setup))
        size, unit = project.voxels.get(setup, (None, None))
        if rows is None and size is None:
            if factors is None:
                return None
            axes = axes_at_level(_NAMES, (None,) * _NDIM, (1.0,) * _NDIM, factors)
            return Geometry(axes, {"scale": "downsamplingFactors"})
        told = {"names": "layout of the container", "units": "voxelSize of the XML"}
        where = "voxelSize of the XML" if rows is None else "ViewRegistration of the XML"
        told |= {"scale": where, "offset": where}
        if rows is None:
            rows = np.diag([*(size or ()), 1.0])[:_NDIM]
        axes, affine = axes_under(_NAMES, (unit,) * _NDIM, rows, factors)
        return Geometry(axes, told, affine=affine)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute of a level; places are the XML's, and are not written."""
        return factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
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
def _parse(document: bytes) -> Project:
    """Return what an XML file says.

    Raises
    ------
    ValueError
        If it is no XML, or has numbers that make no sense, or defines entities of its own, which
        BigDataViewer's never do.
    """
    root = _root(document)
    registrations = {}
    for view in root.iter("ViewRegistration"):
        whole = np.eye(_NDIM + 1)
        for affine in view.findall("ViewTransform/affine"):
            step = np.eye(_NDIM + 1)
            step[:_NDIM] = np.reshape(_numbers("affine", affine.text), (_NDIM, _NDIM + 1))
            with np.errstate(all="ignore"):
                whole = whole @ step
        if not np.isfinite(whole).all():
            raise ValueError("an affine has numbers that are too large")
        at = _whole(view.get("timepoint")), _whole(view.get("setup"))
        registrations[at] = whole[:_NDIM]
    voxels = {}
    for setup in root.iter("ViewSetup"):
        size = setup.findtext("voxelSize/size")
        numbers = None if size is None else _numbers("voxelSize", size)
        if numbers is not None and (len(numbers) != _NDIM or min(numbers) <= 0):
            raise ValueError(f"the voxelSize {size!r} is not three positive numbers")
        voxels[_whole(setup.findtext("id"))] = numbers, setup.findtext("voxelSize/unit")
    return Project(registrations, voxels)


def container_of(document: bytes) -> str | None:
    """Return the container that an XML file of BigDataViewer names; None where it names none."""
    try:
        loader = _root(document).find("SequenceDescription/ImageLoader")
    except ValueError:
        return None
    found = () if loader is None else (loader.findtext(kind) for kind in _CONTAINERS)
    return next((name.strip() for name in found if name and name.strip()), None)


def _root(document: bytes) -> Element:
    """Return the root of an XML file, which must define nothing."""
    from xml.etree import ElementTree as ET

    if len(document) > MOST_BYTES:
        raise ValueError(f"it has {len(document)} bytes, expected at most {MOST_BYTES}")
    if re.search(rb"<!\s*(DOCTYPE|ENTITY)", document.replace(b"\0", b"")):
        raise ValueError("it has a document type of its own, which is not read")
    try:
        return ET.fromstring(document)  # noqa: S314 - without entities there is nothing to expand
    except ET.ParseError as error:
        raise ValueError(str(error)) from error


def _whole(text: str | None) -> int:
    if text is None:
        raise ValueError("a view has no number")
    return int(text)


def _numbers(what: str, text: str | None) -> list[float]:
    numbers = [float(number) for number in (text or "").replace(",", " ").split()]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"the {what} {text!r} has numbers that are not finite")
    return numbers
