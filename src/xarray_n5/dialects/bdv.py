"""Views of BigDataViewer: ``setupS/timepointT/sL``, in HDF5 ``tT/sS/L/cells``, and the XML file.

The XML is beside the container. Lists are in N5 order, always x, y, z. Attributes hold the levels'
factors; only the XML has units, voxel sizes and registrations. Source: bigdataviewer-core's
N5ImageLoader and Hdf5ImageLoader; spim_data's XmlIoViewRegistrations, which applies the last listed
transform first.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

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
"""The names of the XML element that names the container."""


@dataclass(frozen=True, slots=True)
class Bdv:
    """The factors of a level, and the voxel size or registration of its view."""

    name: ClassVar[str] = "bdv"
    keys: ClassVar[tuple[str, ...]] = ()
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes of a view's level, and a matrix if the XML rotates the view."""
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
        sources = {"names": "layout of the container", "units": "voxelSize of the XML"}
        where = "voxelSize of the XML" if rows is None else "ViewRegistration of the XML"
        sources |= {"scale": where, "offset": where}
        if rows is None:
            rows = np.diag([*(size or ()), 1.0])[:_NDIM]
        axes, affine = axes_under(_NAMES, (unit,) * _NDIM, rows, factors)
        return Geometry(axes, sources, affine=affine)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute of a level; the XML is not written."""
        return factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attribute of a setup, with the factors of all levels."""
        return {"downsamplingFactors": [factors_in(geometry) for _, geometry in levels]}


@dataclass(frozen=True, slots=True)
class Project:
    """The views that BigDataViewer's XML describes."""

    registrations: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """The affine matrix in x, y, z of each timepoint and setup."""
    voxels: Mapping[int, tuple[list[float] | None, str | None]] = field(default_factory=dict)
    """The size and the unit of each setup's voxels."""


@functools.lru_cache(maxsize=16)
def _parse(document: bytes) -> Project:
    """Parse an XML file.

    Raises
    ------
    ValueError
        If it is not XML, has invalid numbers, or defines entities, which BigDataViewer's never do.
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
    """Return the container that an XML file of BigDataViewer names, or None."""
    try:
        loader = _root(document).find("SequenceDescription/ImageLoader")
    except ValueError:
        return None
    found = () if loader is None else (loader.findtext(kind) for kind in _CONTAINERS)
    return next((name.strip() for name in found if name and name.strip()), None)


def _root(document: bytes) -> Element:
    """Return the root element of an XML file; raise if it defines entities."""
    from xml.etree import ElementTree as ET

    if len(document) > MOST_BYTES:
        raise ValueError(f"it has {len(document)} bytes, expected at most {MOST_BYTES}")
    if re.search(rb"<!\s*(DOCTYPE|ENTITY)", document.replace(b"\0", b"")):
        raise ValueError("it has a document type, which is not allowed")
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
