"""Levels of pyramids that are missing, empty, or of inconsistent sizes."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.arrays.context import context_of
from xarray_n5.dialects import resolve_geometry
from xarray_n5.dialects.levels import images_in, level_paths
from xarray_n5.dialects.pyramids import factors_of
from xarray_n5.doctor.finding import Finding, listed
from xarray_n5.errors import PathError
from xarray_n5.model.alerts import ODD
from xarray_n5.model.level_names import level_name, number_in, numbered
from xarray_n5.model.paths import join, normalize_path
from xarray_n5.model.tolerances import NEAR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.doctor.survey import Survey


@dataclass(frozen=True, slots=True)
class ListedPyramid:
    """The levels that a pyramid should have, the finest first, stored or not."""

    path: str
    """The path of the group."""
    levels: tuple[str, ...]
    """The paths of the arrays."""
    promised: str
    """The attribute that lists the levels, or their names."""


def listed_pyramids(survey: Survey) -> list[ListedPyramid]:
    """Return the pyramids whose levels are listed by attributes, or by the names of arrays."""
    pyramids: dict[tuple[str, ...], ListedPyramid] = {}
    for path in survey.groups:
        for image in (*_listed(survey, path), *_named(survey, path)):
            known = [other for other in pyramids.values() if other.path == image.path]
            if not any(set(image.levels) <= set(other.levels) for other in known):
                pyramids[image.levels] = image
    return list(pyramids.values())


def _listed(survey: Survey, path: str) -> Iterator[ListedPyramid]:
    """Iterate over the images that a group's attributes list."""
    attributes = dict(survey.groups[path].attrs)
    for image in images_in(attributes):
        if levels := _paths(path, level_paths(image)):
            yield ListedPyramid(path, levels, "'multiscales'")
    for key in ("scales", "downsamplingFactors"):
        listing = attributes.get(key)
        if isinstance(listing, list) and all(isinstance(factors, list) for factors in listing):
            for group in _holders(survey, path):
                yield ListedPyramid(group, _levels(group, len(listing)), repr(key))
    match attributes.get("Bigstitcher-Spark"):
        case {"MultiResolutionInfos": [*images]}:
            for image in images:
                entries = image if isinstance(image, list) else []
                names = [entry.get("dataset") for entry in entries if isinstance(entry, dict)]
                if levels := _paths(path, names):
                    group = levels[0].rpartition("/")[0]
                    yield ListedPyramid(group, levels, "'MultiResolutionInfos'")


def _paths(group: str, names: Sequence[object]) -> tuple[str, ...]:
    """Return the paths of a group's levels; none if one is not a path in the container."""
    try:
        return tuple(normalize_path(f"{group}/{name}") for name in names if isinstance(name, str))
    except PathError:
        return ()


def _holders(survey: Survey, path: str) -> list[str]:
    """Return the groups of levels that a group lists: those of a setup are in its time points."""
    if number_in(path.rpartition("/")[2], "setup") is None:
        return [path]
    inside = (group.removeprefix(f"{path}/") for group in survey.groups)
    return [join(path, name) for name in numbered(inside, "timepoint").values()]


def _levels(group: str, count: int) -> tuple[str, ...]:
    return tuple(join(group, level_name(level)) for level in range(count))


def _named(survey: Survey, path: str) -> Iterator[ListedPyramid]:
    """Iterate over the images that the names of arrays in a group form: ``s0``, ``s1``, ..."""
    arrays = survey.children.get(path, {})
    numbers = numbered(arrays, "level")
    coarse = any("downsamplingFactors" in array.attrs for array in arrays.values())
    if len(numbers) > 1 or (numbers and coarse):
        yield ListedPyramid(path, _levels(path, 1 + max(numbers)), "the names of levels")
    table = arrays.get("resolutions")
    if table is not None and table.ndim == 2 and number_in(path, "hdf5 setup") is not None:  # noqa: PLR2004
        for time in numbered(survey.groups, "hdf5 timepoint").values():
            group = f"{time}/{path}"
            if group in survey.groups:
                levels = tuple(f"{group}/{level}/cells" for level in range(table.shape[0]))
                yield ListedPyramid(group, levels, f"'{path}/resolutions'")


def missing_levels(survey: Survey) -> Iterator[Finding]:
    """Find levels that are listed but not stored."""
    for image in listed_pyramids(survey):
        known = {*survey.arrays, *survey.unreadable}
        missing = [path for path in image.levels if path not in known and survey.covers(path)]
        if not missing:
            continue
        names = [path.removeprefix(image.path).lstrip("/") for path in missing]
        base = image.levels[0]
        remedy = "restore the base level from where the pyramid was copied"
        if base in survey.arrays:
            command = f"xarray-n5 pyramid {survey.url(base)} --mode w"
            remedy = f"make the levels again with {command}, or correct {image.promised}"
        yield Finding(
            "missing-level",
            image.path,
            f"{len(image.levels)} levels by {image.promised}, of which {listed(names)} "
            f"{'is' if len(names) == 1 else 'are'} not stored",
            remedy,
        )


def inconsistent_levels(survey: Survey) -> Iterator[Finding]:
    """Find levels whose sizes are inconsistent with the base level's and their factors."""
    for image in listed_pyramids(survey):
        stored = {path: survey.arrays[path] for path in image.levels if path in survey.arrays}
        if len(stored) < 2 or next(iter(stored)) != image.levels[0]:  # noqa: PLR2004
            continue
        base, *others = stored.values()
        context = None
        for level in others:
            context = context_of(level.node, like=context)
            yield from _odd(base, level, context)


def _odd(base: Array, level: Array, context: ArrayContext) -> Iterator[Finding]:
    if level.ndim != base.ndim or level.dtype != base.dtype:
        yield Finding(
            "level-type",
            level.path,
            f"the level has {level.ndim} axes of {level.dtype}; its base level {base.path!r} has "
            f"{base.ndim} of {base.dtype}",
            "remove it from the pyramid, or write it again from the base level",
        )
        return
    factors = _factors(context)
    remedy = "correct the factors, or scales, in its metadata, or write the pyramid again"
    if factors is None:
        if any(a > b for a, b in zip(level.shape, base.shape, strict=True)):
            why = f"the level has shape {level.shape}, larger than {base.path!r} with {base.shape}"
            yield Finding("level-size", level.path, why, remedy)
        return
    sizes = list(zip(base.shape, factors, strict=True))
    known = zip(sizes, level.shape, _slacks(base, context), strict=True)
    if not all(_fits(*sides, stored, slack) for sides, stored, slack in known):
        expected = tuple(math.floor(size / factor) for size, factor in sizes)
        shown = ", ".join(f"{factor:g}" for factor in factors)
        why = (
            f"the level has shape {level.shape}; expected about {expected}, by the factors "
            f"{shown} over {base.path!r} with shape {base.shape}"
        )
        yield Finding("level-size", level.path, why, remedy)


def _factors(context: ArrayContext) -> list[float] | None:
    """Return a level's factors over the base level in C order, or None if they are unknown."""
    geometry, _ = resolve_geometry(context)
    factors = [axis.factor for axis in geometry.axes]
    if any(factor != 1 for factor in factors):
        return factors
    with suppress(*ODD):
        given = factors_of(context)
        return None if given is None or min(given) <= 0 else list(given[::-1])
    return None


def _slacks(base: Array, context: ArrayContext) -> list[int]:
    """Return how many samples a level may have more or less along each axis.

    A level that was cropped by itself does not begin at the centre of the samples that it covers.
    """
    first, _ = resolve_geometry(context_of(base.node, like=context))
    coarse, _ = resolve_geometry(context)
    along = zip(first.axes, coarse.axes, strict=True)
    centres = ((b.position((a.factor - 1) / 2), a) for b, a in along)
    return [int(a.placed and abs(a.offset - at) > NEAR * abs(a.step)) for at, a in centres]


def _fits(size: int, factor: float, stored: int, slack: int = 0) -> bool:
    """Return whether an axis may have a size at a level, by any program's rule of rounding."""
    near = 0.0 if float(factor).is_integer() else NEAR
    least = math.floor(size / factor * (1 - near)) - slack
    most = math.ceil(size / factor * (1 + near)) + slack
    return least <= stored <= most or (least <= 0 and stored == 1)
