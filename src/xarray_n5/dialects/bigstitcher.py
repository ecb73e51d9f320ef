"""Fusions of BigStitcher-Spark: ``chCtpT/sL``, and ``Bigstitcher-Spark`` on the root group.

Lists are in N5 order, always x, y, z, in every format. Coordinates are in pixels of the input,
whose size is not in the attributes, so they have no unit. Source: BigStitcher-Spark's
CreateFusionContainer, for plain N5 and HDF5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects.pyramids import (
    axes_at_level,
    check_level,
    factors_if_any,
    factors_of,
)
from xarray_n5.dialects.values import numbers
from xarray_n5.model.axes import Geometry
from xarray_n5.model.level_names import fused_in, is_level, level_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.dialects.protocol import ArrayContext

_ROOT = "Bigstitcher-Spark"
"""The root's attribute; in HDF5 its members may be attributes of their own."""

_NAMES = ("x", "y", "z")

_BOX, _PRESERVED, _FACTOR, _LEVELS = (
    *("Boundingbox_min", "PreserveAnisotropy", "AnisotropyFactor", "MultiResolutionInfos"),
)


@dataclass(frozen=True, slots=True)
class BigStitcher:
    """The bounding box and the anisotropy of a fusion, and the level's factors."""

    name: ClassVar[str] = "bigstitcher"
    keys: ClassVar[tuple[str, ...]] = ()
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
        factors = factors_of(node)
        said = f"{where}, downsamplingFactors" if factors is not None else where
        if factors is None:
            factors = _listed_factors(found, node)
        if not check_level(node, factors):
            return None
        starts = [first * step for first, step in zip(box or (0.0,) * ndim, voxel, strict=True)]
        sources = {"names": "layout of the container", "scale": said}
        sources |= {"offset": f"{_ROOT}/{_BOX}"} if box is not None else {}
        return Geometry(axes_at_level(_NAMES, (None,) * ndim, voxel, factors, starts), sources)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute of a level; the root's cannot be written."""
        return factors_if_any(geometry)

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
