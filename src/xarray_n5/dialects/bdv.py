"""Views of BigDataViewer: ``setupS/timepointT/sL``, in HDF5 ``tT/sS/L/cells``, and the XML file.

The XML is beside the container. Lists are in N5 order, always x, y, z. Attributes have the levels'
factors; only the XML has units, voxel sizes and registrations. Source: bigdataviewer-core's
N5ImageLoader and Hdf5ImageLoader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects.pyramids import (
    axes_at_level,
    axes_under,
    factors_if_any,
    factors_in,
    factors_of,
)
from xarray_n5.leaves import scene_reader
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Geometry
from xarray_n5.model.level_names import view_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from xarray_n5.dialects.protocol import ArrayContext

NDIM = 3

_NAMES = ("x", "y", "z")


@dataclass(frozen=True, slots=True)
class Bdv:
    """The factors of a level, and the voxel size or registration of its view."""

    name: ClassVar[str] = "bdv"
    keys: ClassVar[tuple[str, ...]] = ()
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes of a view's level, and a matrix if the XML rotates the view."""
        found = view_in(node.path)
        if found is None or len(node.shape) != NDIM:
            return None
        factors, placed = factors_of(node), None
        if node.xml:
            try:
                placed = _placed(node.xml, *found)
            except ValueError as error:
                warn(f"{node.path}: the XML beside the container is ignored: {error}")
        if placed is None:
            if factors is None:
                return None
            axes = axes_at_level(_NAMES, (None,) * NDIM, (1.0,) * NDIM, factors)
            return Geometry(axes, {"scale": "downsamplingFactors"})
        rows, unit, where = placed
        sources = {"names": "layout of the container", "units": "voxelSize of the XML"}
        sources |= {"scale": where, "offset": where}
        axes, affine = axes_under(_NAMES, (unit,) * NDIM, rows, factors)
        return Geometry(axes, sources, affine=affine)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute of a level; the XML is not written."""
        return factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attribute of a setup, with the factors of all levels."""
        return {"downsamplingFactors": [factors_in(geometry) for _, geometry in levels]}


def _placed(xml: bytes, setup: int, timepoint: int) -> tuple[np.ndarray, str | None, str] | None:
    """Return the matrix of a view, its unit and its source, as the XML has them."""
    reader = scene_reader(xml)
    if reader is None:
        raise ValueError("it does not describe a project")
    return reader.placement(xml, timepoint, setup)
