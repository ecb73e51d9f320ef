"""Containers of BigDataViewer and BigStitcher: views with an XML file, and fusions.

Lists are in N5 order, always x, y, z, in every format. Sources: bigdataviewer-core's N5ImageLoader
and Hdf5ImageLoader; BigStitcher-Spark's CreateFusionContainer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from xarray_n5.dialects import lists
from xarray_n5.dialects.groups import images_in, level_paths, listings, path_of_image
from xarray_n5.dialects.lists import numbers, per_axis
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.leaves import scene_reader
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import NEAR, SAME, Geometry
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.dialects.protocol import ArrayContext

NDIM = 3

_NAMES = ("x", "y", "z")

_NO_UNITS = (None,) * NDIM

_OME_AXES = ("t", "c", "z", "y", "x")

_MULTISCALES = "multiscales of the group"

_ROOT = "Bigstitcher-Spark"
"""The root's attribute; in HDF5 its members may be attributes of their own."""

_BOX, _PRESERVED, _FACTOR = "Boundingbox_min", "PreserveAnisotropy", "AnisotropyFactor"


@dataclass(frozen=True, slots=True)
class Bdv:
    """A view, ``setupS/timepointT/sL``, in HDF5 ``tT/sS/L/cells``.

    The attributes have the factors of levels; only the XML next to the container has units, voxel
    sizes and registrations.
    """

    name: ClassVar[str] = "bdv"
    keys: ClassVar[tuple[str, ...]] = ()
    """None: the names of its groups show it."""
    views_only = True
    level_lists = ("downsamplingFactors", "saved_completely")
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes of a view's level, and a matrix if the XML rotates the view."""
        if node.view is None or len(node.shape) != NDIM:
            return None
        factors, placed = lists.factors_of(node), _placed(node, *node.view)
        fusion = fusion_around(node.parents, node.path)
        if fusion is not None and fusion.completes(placed):
            return fusion.at_level(factors)
        if placed is None and factors is None:
            return None
        if placed is None:
            axes = lists.axes_at_level(_NAMES, _NO_UNITS, (1.0,) * NDIM, factors)
            return Geometry(axes, {"scale": "downsamplingFactors"})
        rows, unit, where = placed
        sources = {"names": "layout of the container", "units": "voxelSize of the XML"}
        sources |= {"scale": where, "offset": where}
        axes, affine = lists.axes_under(_NAMES, (unit,) * NDIM, rows, factors)
        return Geometry(axes, sources, affine=affine)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute of a level; the XML is not written."""
        return lists.factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attribute of a setup, with the factors of all levels."""
        return {"downsamplingFactors": [lists.factors_in(geometry) for _, geometry in levels]}


def _placed(
    node: ArrayContext, setup: int, timepoint: int
) -> tuple[np.ndarray, str | None, str] | None:
    """Return the matrix of a view, its unit and its source, as the XML has them, if it is valid."""
    if not node.xml:
        return None
    problem: object = "it does not describe a project"
    if (reader := scene_reader(node.xml)) is not None:
        try:
            return reader.placement(node.xml, timepoint, setup)
        except ValueError as error:
            problem = error
    node.warn(f"the XML next to the container is ignored: {problem}")
    return None


@dataclass(frozen=True, slots=True)
class Fusion:
    """The position of a fused volume in the world of its input: voxels in x, y, z, of its pixels.

    The box is in voxels of the output: the writer divides its z by the anisotropy.
    """

    voxel: tuple[float, ...]
    source: str
    """The attribute that states the voxel."""
    start: tuple[float, ...] | None
    """The first voxel, if the attributes state it."""

    def at_level(
        self, factors: Sequence[float] | None, units: Sequence[str | None] = _NO_UNITS
    ) -> Geometry:
        """Return the axes of a level with the factors."""
        start = self.start or (0.0,) * NDIM
        offsets = [first * step for first, step in zip(start, self.voxel, strict=True)]
        axes = lists.axes_at_level(_NAMES, units, self.voxel, factors, offsets)
        offset = {} if self.start is None else {"offset": f"{_ROOT}/{_BOX}"}
        return Geometry(axes, {"scale": self.source} | offset)

    def voxel_over(self, listed: Sequence[float], where: str) -> tuple[float, ...]:
        """Return the voxel in x, y, z from that of other metadata; warn if its depth differs.

        Versions before 3.0 wrote a depth of 1 there, whatever the anisotropy.
        """
        x, y, z = listed
        depth, ratio = self.voxel[-1] / self.voxel[0], z / x
        if math.isclose(ratio, 1.0, rel_tol=NEAR):
            return x, y, z * depth
        if not math.isclose(ratio, depth, rel_tol=NEAR):
            warn(
                f"{where}: a voxel is {ratio:g} times as deep as wide, but {depth:g} times by "
                f"{self.source}; using the former"
            )
        return x, y, z

    def completes(self, placed: tuple[np.ndarray, str | None, str] | None) -> bool:
        """Return whether an XML places a view no further than its writer did: with the identity."""
        split = (self.voxel, (0.0,) * NDIM) if placed is None else per_axis(placed[0])
        if split is None or any(split[1]):
            return False
        ratios = [scale / step for scale, step in zip(split[0], self.voxel, strict=True)]
        return bool(np.allclose(ratios, ratios[0], rtol=SAME, atol=0))


def fusion_in(groups: Iterable[Mapping[str, Any]]) -> Fusion | None:
    """Return the fusion that the nearest of some groups describes, or None.

    Raises
    ------
    ValueError
        If its attributes are invalid.
    """
    settings = next(filter(None, map(_settings, groups)), None)
    if settings is None:
        return None
    box = numbers(_BOX, settings.get(_BOX), NDIM, kind="finite", exact=True)
    return Fusion(*_voxel(settings), box)


def fusion_around(groups: Iterable[Mapping[str, Any]], where: str) -> Fusion | None:
    """Return the fusion that views are part of, if its position is known; warn if it is invalid."""
    try:
        fusion = fusion_in(groups)
    except ValueError as error:
        warn(f"{where}: {_ROOT!r} is ignored: {error}")
        return None
    return None if fusion is None or fusion.start is None else fusion


@dataclass(frozen=True, slots=True)
class BigStitcher:
    """A fusion of BigStitcher-Spark, ``chCtpT/sL``, and ``Bigstitcher-Spark`` on the root group.

    Coordinates are in pixels of the input, whose size is not in the attributes, so they have no
    unit. In OME-Zarr, the image is that of ``multiscales``, which lack its position.
    """

    name: ClassVar[str] = "bigstitcher"
    keys: ClassVar[tuple[str, ...]] = ()
    group_keys = (_ROOT,)
    level_lists = (_ROOT,)
    list_order: ClassVar[Literal["N5"]] = "N5"
    completes: ClassVar[frozenset[str]] = frozenset({Ngff.name})
    """The dialects whose positions these ones replace without a warning."""

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes of a fused level."""
        if len(node.shape) == len(_OME_AXES):
            return _in_ome_zarr(node)
        if not node.fused or len(node.shape) != NDIM:
            return None
        fusion = fusion_in(node.parents)
        if fusion is None:
            return None
        factors, where = lists.factors_of(node), ", downsamplingFactors"
        if factors is None:
            settings = next(filter(None, map(_settings, node.parents)), {})
            factors, where = _listed_factors(settings, node), ""
        if not lists.check_level(node, factors):
            return None
        geometry = replace(fusion, source=f"{fusion.source}{where}").at_level(factors)
        names = {"names": "layout of the container"}
        return replace(geometry, sources={**names, **geometry.sources})

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute of a level; the root's cannot be written."""
        return lists.factors_if_any(geometry)


def _in_ome_zarr(node: ArrayContext) -> Geometry | None:
    """Return the axes of a level of an OME-Zarr image, at its position in the input's world.

    Its ``multiscales`` have a scale of 1 "micrometer" for a pixel of the input, and no offset.
    Versions before 3.0 have 1 for z, too, whatever the anisotropy. None if there is an offset, so
    that somebody else wrote them.
    """
    group = next((group for group in node.parents if any(images_in(group))), {})
    listed = next(listings(node), None)
    fusion = fusion_in([group])
    if listed is None or fusion is None:
        return None
    image, entry, _ = listed
    base = join(path_of_image(entry, node), next(iter(level_paths(image))))
    level, whole = Ngff().read(node), Ngff().read(replace(node, path=base))
    if level is None or whole is None or level.affine is not None or whole.affine is not None:
        return None
    spatial = whole.axes[-NDIM:]
    if tuple(axis.name for axis in level.axes) != _OME_AXES or any(a.offset for a in spatial):
        return None
    voxel = fusion.voxel_over([axis.step for axis in spatial[::-1]], node.path)
    ratios = [a.step / b.step for a, b in zip(level.axes[-NDIM:], spatial, strict=True)][::-1]
    factors = _own_factors(node) or tuple(ratios)
    if not np.allclose(factors, ratios, rtol=NEAR, atol=0):
        node.warn(
            f"'multiscales' has the factors {ratios[::-1]} along z, y, x, but "
            f"'downsamplingFactors' has {list(factors[::-1])}; using the latter"
        )
    # Pixels of the input are not micrometres.
    pixels = voxel[0] == voxel[1] == 1
    units = [None if pixels else axis.unit for axis in spatial[::-1]]
    placed = replace(fusion, voxel=voxel, source=f"{_MULTISCALES}, {fusion.source}")
    geometry = placed.at_level(factors, units)
    others = tuple(replace(axis, unit=None) for axis in level.axes[:-NDIM])
    return Geometry((*others, *geometry.axes), {"names": _MULTISCALES, **geometry.sources})


def _own_factors(node: ArrayContext) -> tuple[float, ...] | None:
    """Return the factors of a level of an OME-Zarr image in x, y, z, if it has any."""
    key = "downsamplingFactors"
    factors = numbers(key, node.attributes.get(key), len(node.shape), exact=True)
    return None if factors is None or factors[NDIM:] != (1.0, 1.0) else factors[:NDIM]


def _settings(group: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings of a fusion, or None if the group has none."""
    if isinstance(settings := group.get(_ROOT), dict):
        return settings
    head = f"{_ROOT}/"
    return {k.removeprefix(head): value for k, value in group.items() if k.startswith(head)} or None


def _voxel(settings: Mapping[str, Any]) -> tuple[tuple[float, ...], str]:
    """Return the voxel in x, y, z, and the attribute that states it."""
    preserved = settings.get(_PRESERVED, False)
    if not isinstance(preserved, int):  # HDF5 has no booleans
        raise ValueError(f"{_PRESERVED!r} is {preserved!r}; expected true or false")  # noqa: TRY004
    if not preserved:
        return (1.0, 1.0, 1.0), f"{_ROOT}/{_PRESERVED}"
    if settings.get(_FACTOR) is None:
        raise ValueError(f"{_PRESERVED!r} is true, but {_FACTOR!r} is missing")
    (factor,) = numbers(_FACTOR, [settings[_FACTOR]], 1) or (1.0,)
    return (1.0, 1.0, factor), f"{_ROOT}/{_FACTOR}"


def _listed_factors(settings: Mapping[str, Any], node: ArrayContext) -> tuple[float, ...] | None:
    """Return the factors of a level as the root lists them; those of all images are the same."""
    match settings.get("MultiResolutionInfos"):
        case [[*levels], *_]:
            level = node.level or 0
            entry = levels[level] if level < len(levels) else None
            listed = entry.get("absoluteDownsampling") if isinstance(entry, dict) else None
            return numbers("absoluteDownsampling", listed, len(node.shape), exact=True)
    return None
