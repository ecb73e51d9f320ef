"""Containers of BigDataViewer and BigStitcher: views with an XML file, and fusions.

Lists are in N5 order, always x, y, z, in every format. Sources: bigdataviewer-core's N5ImageLoader
and Hdf5ImageLoader; BigStitcher-Spark's CreateFusionContainer, for plain N5 and HDF5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects import pyramids
from xarray_n5.dialects.values import numbers
from xarray_n5.leaves import scene_reader
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Geometry
from xarray_n5.model.level_names import fused_in, is_level, level_in, view_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from xarray_n5.dialects.protocol import ArrayContext

NDIM = 3

_NAMES = ("x", "y", "z")


@dataclass(frozen=True, slots=True)
class Bdv:
    """A view, ``setupS/timepointT/sL``, in HDF5 ``tT/sS/L/cells``.

    The attributes have the factors of levels; only the XML beside the container has units, voxel
    sizes and registrations.
    """

    name: ClassVar[str] = "bdv"
    keys: ClassVar[tuple[str, ...]] = ()
    signs: ClassVar[frozenset[str]] = frozenset({"downsamplingFactors", "scales"})
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes of a view's level, and a matrix if the XML rotates the view."""
        found = view_in(node.path)
        if found is None or len(node.shape) != NDIM:
            return None
        factors, placed = pyramids.factors_of(node), None
        if node.xml:
            try:
                placed = _placed(node.xml, *found)
            except ValueError as error:
                warn(f"{node.path}: the XML beside the container is ignored: {error}")
        if placed is None:
            if factors is None:
                return None
            axes = pyramids.axes_at_level(_NAMES, (None,) * NDIM, (1.0,) * NDIM, factors)
            return Geometry(axes, {"scale": "downsamplingFactors"})
        rows, unit, where = placed
        sources = {"names": "layout of the container", "units": "voxelSize of the XML"}
        sources |= {"scale": where, "offset": where}
        axes, affine = pyramids.axes_under(_NAMES, (unit,) * NDIM, rows, factors)
        return Geometry(axes, sources, affine=affine)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute of a level; the XML is not written."""
        return pyramids.factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attribute of a setup, with the factors of all levels."""
        return {"downsamplingFactors": [pyramids.factors_in(geometry) for _, geometry in levels]}


def _placed(xml: bytes, setup: int, timepoint: int) -> tuple[np.ndarray, str | None, str] | None:
    """Return the matrix of a view, its unit and its source, as the XML has them."""
    reader = scene_reader(xml)
    if reader is None:
        raise ValueError("it does not describe a project")
    return reader.placement(xml, timepoint, setup)


_ROOT = "Bigstitcher-Spark"
"""The root's attribute; in HDF5 its members may be attributes of their own."""

_BOX, _PRESERVED, _FACTOR, _LEVELS = (
    *("Boundingbox_min", "PreserveAnisotropy", "AnisotropyFactor", "MultiResolutionInfos"),
)


@dataclass(frozen=True, slots=True)
class BigStitcher:
    """A fusion of BigStitcher-Spark, ``chCtpT/sL``, and ``Bigstitcher-Spark`` on the root group.

    Coordinates are in pixels of the input, whose size is not in the attributes, so they have no
    unit.
    """

    name: ClassVar[str] = "bigstitcher"
    keys: ClassVar[tuple[str, ...]] = ()
    signs: ClassVar[frozenset[str]] = frozenset({_ROOT})
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes of a fused level.

        The box is in voxels of the output: the writer divides its z by the anisotropy.
        """
        ndim = len(_NAMES)
        if not _is_fused(node.path) or len(node.shape) != ndim:
            return None
        found = next(filter(None, map(_settings, node.parents)), None)
        if found is None:
            return None
        voxel, where = _voxel(found)
        box = numbers(_BOX, found.get(_BOX), ndim, positive=False, exact=True)
        factors = pyramids.factors_of(node)
        said = f"{where}, downsamplingFactors" if factors is not None else where
        if factors is None:
            factors = _listed_factors(found, node)
        if not pyramids.check_level(node, factors):
            return None
        starts = [first * step for first, step in zip(box or (0.0,) * ndim, voxel, strict=True)]
        sources = {"names": "layout of the container", "scale": said}
        sources |= {"offset": f"{_ROOT}/{_BOX}"} if box is not None else {}
        return Geometry(
            pyramids.axes_at_level(_NAMES, (None,) * ndim, voxel, factors, starts), sources
        )

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute of a level; the root's cannot be written."""
        return pyramids.factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:  # noqa: ARG002
        """Return no attributes: those of a fusion are on the root."""
        return {}


def _is_fused(path: str) -> bool:
    """Return whether a path is that of a level of a fusion."""
    above, _, _ = path.rpartition("/")
    return is_level(path) and fused_in(above.rpartition("/")[2]) is not None


def _settings(group: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings of a fusion, or None if the group has none."""
    match group.get(_ROOT):
        case dict(found):
            return found
    head = f"{_ROOT}/"
    found = {k.removeprefix(head): value for k, value in group.items() if k.startswith(head)}
    return found or None


def _voxel(found: Mapping[str, Any]) -> tuple[tuple[float, ...], str]:
    """Return the voxel in x, y, z, and the attribute that states it."""
    preserved = found.get(_PRESERVED, False)
    if not isinstance(preserved, int):  # HDF5 has no booleans
        raise ValueError(f"{_PRESERVED!r} is {preserved!r}; expected true or false")  # noqa: TRY004
    if not preserved:
        return (1.0, 1.0, 1.0), f"{_ROOT}/{_PRESERVED}"
    if found.get(_FACTOR) is None:
        raise ValueError(f"{_PRESERVED!r} is true, but {_FACTOR!r} is missing")
    (factor,) = numbers(_FACTOR, [found[_FACTOR]], 1) or (1.0,)
    return (1.0, 1.0, factor), f"{_ROOT}/{_FACTOR}"


def _listed_factors(found: Mapping[str, Any], node: ArrayContext) -> tuple[float, ...] | None:
    """Return the factors of a level as the root lists them; those of all images are the same."""
    match found.get(_LEVELS):
        case [[*levels], *_]:
            level = level_in(node.path)
            entry = levels[level] if level < len(levels) else None
            listed = entry.get("absoluteDownsampling") if isinstance(entry, dict) else None
            return numbers("absoluteDownsampling", listed, len(node.shape), exact=True)
    return None
