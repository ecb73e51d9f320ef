"""Store Datasets of placed images as a scene of OME-Zarr 0.6: one image for each matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.codecs import resolve
from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError, PathError
from xarray_n5.model.alerts import warn
from xarray_n5.model.image import Image, Level, Part
from xarray_n5.model.level_names import level_name, level_number
from xarray_n5.model.paths import normalize_path
from xarray_n5.model.scene import SceneContent, ScenePart
from xarray_n5.model.tolerances import ROUNDING
from xarray_n5.model.transformations import parse_transformation
from xarray_n5.scenes.levels import FACTS, PlacedLevel
from xarray_n5.scenes.stacking import DIM
from xarray_n5.scenes.write import Stored, write_levels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.model.transformations import Transformation
    from xarray_n5.writing.group import GroupWrite
    from xarray_n5.writing.options import Encoding, WriteOptions

_KEPT = FACTS | {DIM, "axis", "column", "setup"}
"""Coordinates that the scene states in other ways, or that are for projects alone."""

_EQUAL = 1e-14
"""The difference of matrices without a rotation from the identity, by rounding."""


def write_datasets(
    datasets: Sequence[tuple[Any, str, Encoding | None]], how: WriteOptions
) -> GroupWrite:
    """Return the write of Datasets as a scene.

    Parameters
    ----------
    datasets
        Datasets, the paths of their groups, and the encodings of variables. The first path is that
        of the scene; ``s0``, ``s1``, ... are levels of an image.
    how
        The container and the options of the write.

    Raises
    ------
    MetadataError
        If a scene cannot describe the images.
    NodeExistsError
        If something exists that the mode does not allow to replace.
    ValueError
        If the mode keeps what exists.
    """
    if how.mode not in {"w-", "w"}:
        raise ValueError(f"mode is {how.mode!r}; a scene is written as a whole: use 'w-' or 'w'")
    path = datasets[0][1]
    images = []
    placed: dict[str, dict[int, PlacedLevel]] = {}
    for dataset, place, encoding in datasets:
        if not isinstance(dataset, xr.Dataset):
            raise MetadataError(f"/{place}: the pyramid has no 'affine', which a scene needs")
        if not dataset.data_vars:
            continue
        images.append(dataset)
        node = place.removeprefix(path).strip("/")
        above, _, last = node.rpartition("/")
        number = level_number(last)
        image = node if number is None else above
        found = PlacedLevel.of(f"/{node}", dataset, encoding or {})
        placed.setdefault(image, {})[number or 0] = found
    parts: dict[str, ScenePart[_Sample]] = {}
    for image, levels in placed.items():
        for part in _parts(image, [levels[number] for number in sorted(levels)]):
            if part.path in parts:
                raise MetadataError(f"two images have the name {part.path!r}; rename one")
            parts[part.path] = part
    _check_names(parts)
    first = next(iter(next(iter(placed.values())).values()))
    worlds = {each.world for levels in placed.values() for each in levels.values()}
    if len(worlds) > 1 or not parts:
        shown = "; ".join(sorted(map(repr, worlds)))
        raise MetadataError(
            f"the images have {len(parts)} positions in {len(worlds)} worlds, expected one world, "
            f"of one name, unit and axes: {shown}"
        )
    _warn_lost(images)
    content = SceneContent(parts=tuple(parts.values()), world=first.world)
    options = [encoding for _, _, encoding in datasets]
    return write_levels(content, how, path, _stored, options)


@dataclass(frozen=True)
class _Sample:
    """The samples of an image at one level, and how the user wants them stored."""

    data: xr.DataArray
    whole: xr.DataArray
    """The data of all images."""
    chosen: Mapping[str, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.data.shape

    @property
    def attrs(self) -> Mapping[Any, Any]:
        """The attributes."""
        return self.data.attrs


def _parts(image: str, levels: Sequence[PlacedLevel]) -> Iterator[ScenePart[_Sample]]:
    """Iterate over the images of levels, each with all of these."""
    base = levels[0]
    for level in levels[1:]:
        same = [
            {d: n for d, n in each.data.sizes.items() if d not in AXES} for each in (base, level)
        ]
        if base.data.dims != level.data.dims or same[0] != same[1] or base.world != level.world:
            raise MetadataError(
                f"{level.node} has {dict(level.data.sizes)}, {base.node} {dict(base.data.sizes)}; "
                "expected levels of the same images"
            )
    for at in base.positions():
        name = base.name(at, image)
        rows = base.edge(at, name)
        for level in levels[1:]:
            other = level.edge(at, name)
            size = max(1.0, float(np.abs(rows).max()))
            if not np.allclose(rows, other, rtol=0, atol=ROUNDING * size):
                raise MetadataError(
                    f"{name!r}: 'affine' and the coordinates of {level.node} place it elsewhere "
                    f"than those of {base.node}; a scene has one transformation for all levels"
                )
        found = {
            level_name(number): Level(
                {(): Part(_Sample(level.data.isel(at), level.source, level.chosen))}, level.geometry
            )
            for number, level in enumerate(levels)
        }
        steps, matrix = _steps(rows, base, name)
        yield ScenePart(path=_path(name), image=Image(None, found), steps=steps, matrix=matrix)


def _path(name: str) -> str:
    """Return the path of an image in the scene."""
    try:
        path = normalize_path(name)
    except PathError as error:
        raise MetadataError(f"the image {name!r} cannot be a path: {error}") from error
    if not path or ".." in name.split("/"):
        raise MetadataError(f"the image {name!r} has no name; expected a path below the scene")
    return path


def _steps(
    rows: np.ndarray, placed: PlacedLevel, name: str
) -> tuple[tuple[Transformation, ...], np.ndarray]:
    """Return the transformation of an image along all its axes, and its matrix."""
    space = [axis in placed.data.dims for axis in AXES]
    flat = [n for n, known in enumerate(space) if not known]
    aside = np.eye(len(AXES), len(AXES) + 1)[flat]
    if (rows[flat] != aside).any() or (rows[:, flat] != np.eye(len(AXES))[:, flat]).any():
        raise MetadataError(
            f"{name!r} is flat, but its affine mixes its axes with z, which it does not have: "
            f"{rows.tolist()}; add the axis with expand_dims('z')"
        )
    inner = rows[space][:, [*space, True]]
    count = len(placed.geometry.axes)
    first = count - len(inner)
    matrix = np.eye(count, count + 1)
    matrix[first:, first:] = inner
    matrix += 0.0  # without negative zeros
    shift = matrix[:, -1]
    if np.abs(matrix[:, :-1] - np.eye(count)).max() > _EQUAL:
        edge: dict[str, Any] = {"type": "affine", "affine": matrix.tolist()}
    elif shift.any():
        edge = {"type": "translation", "translation": shift.tolist()}
    else:
        return (), matrix
    return (parse_transformation(edge),), matrix


def _check_names(paths: Mapping[str, object]) -> None:
    """Raise MetadataError if an image is inside of another one."""
    for path in paths:
        above = path
        while "/" in above:
            above = above.rpartition("/")[0]
            if above in paths:
                raise MetadataError(f"the image {path!r} is inside of {above!r}; rename one")


def _warn_lost(datasets: Sequence[xr.Dataset]) -> None:
    """Warn about coordinates and attributes that a scene does not have."""
    lost = {
        str(name)
        for dataset in datasets
        for name, each in dataset.coords.items()
        if name not in _KEPT
        and not (name == "t" and "setup" in dataset.coords)
        and not (name in dataset.dims and each.dtype.kind in "iuf")
    }
    if lost:
        warn(f"a scene does not have the coordinates {', '.join(sorted(lost))}: they are omitted")
    attributes = {
        str(name)
        for dataset in datasets
        for each in (dataset, *dataset.data_vars.values())
        for name in each.attrs
    }
    if attributes:
        named = ", ".join(sorted(attributes))
        warn(f"a scene does not have the attributes {named}: they are omitted")


def _stored(level: Level[_Sample]) -> Stored:
    """Return how a level is stored: as the user chose, or as it was opened."""
    sample = level.first
    known, chosen = sample.whole.encoding, sample.chosen
    kept = {key: known.get(key) for key in ("chunks", "shards") if "chunks" not in chosen}
    sides = {
        key: _sides(chosen[key], sample, key) if key in chosen else _kept(kept.get(key), sample)
        for key in ("chunks", "shards")
    }
    compression = chosen.get("compression", known.get("n5_compression", "gzip"))
    return Stored(
        data=sample.data.data,
        names=tuple(str(axis.name) for axis in level.geometry.axes),
        chunks=sides["chunks"],
        shards=sides["shards"],
        compression=resolve(compression),
        exact="compression" in chosen,
    )


def _kept(sides: Any, sample: _Sample) -> Any:
    """Return the sides of chunks or shards that were opened, if they are for all dimensions."""
    fits = sides is not None and len(sides) == sample.whole.ndim
    return _sides(sides, sample, "") if fits else None


def _sides(sides: Any, sample: _Sample, key: str) -> Any:
    """Return the sides of chunks or shards along the dimensions of one image."""
    dims = sample.data.dims
    if sides is None or isinstance(sides, str | int):
        return sides
    if len(sides) not in {len(dims), sample.whole.ndim}:
        raise MetadataError(
            f"{key} is {tuple(sides)}; expected a number, 'auto', or the sides along "
            f"{', '.join(map(str, dims))}"
        )
    of = [dim for dim in sample.whole.dims if len(sides) == sample.whole.ndim or dim in dims]
    named = dict(zip(of, sides, strict=True))
    return tuple(named[dim] for dim in dims)
