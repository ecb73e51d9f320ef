"""The levels that pyramids should have, and whether those that are stored fit."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.arrays.context import context_of
from xarray_n5.dialects import resolve_geometry
from xarray_n5.dialects.levels import images_in, level_paths
from xarray_n5.dialects.lists import factors_of
from xarray_n5.errors import PathError
from xarray_n5.model.alerts import ODD
from xarray_n5.model.level_names import level_name, number_in, numbered
from xarray_n5.model.paths import join, normalize_path
from xarray_n5.model.tolerances import NEAR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.dialects.protocol import ArrayContext


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The levels that a pyramid should have, the finest first, stored or not."""

    path: str
    """The path of the group."""
    levels: tuple[str, ...]
    """The paths of the arrays."""
    promised: str
    """The attribute that lists the levels, or their names."""

    def inner(self, level: str) -> str:
        """Return the path of a level in the group."""
        return level.removeprefix(self.path).lstrip("/")


def pyramids_in(groups: Mapping[str, Group], arrays: Mapping[str, Array]) -> list[Pyramid]:
    """Return the pyramids whose levels are listed by attributes, or by the names of arrays."""
    pyramids: list[Pyramid] = []
    for path in groups:
        for pyramid in _listed(path, groups, arrays):
            levels = {
                lev for known in pyramids if known.path == pyramid.path for lev in known.levels
            }
            if not levels.issuperset(pyramid.levels):
                pyramids.append(pyramid)
    return pyramids


def _listed(
    path: str, groups: Mapping[str, Group], arrays: Mapping[str, Array]
) -> Iterator[Pyramid]:
    """Iterate over the images that a group's attributes list, or that names of arrays form."""
    attributes = dict(groups[path].attrs)
    for image in images_in(attributes):
        with suppress(PathError):
            levels = tuple(normalize_path(f"{path}/{name}") for name in level_paths(image))
            yield Pyramid(path, levels, "'multiscales'")
    for key in ("scales", "downsamplingFactors"):
        listing = attributes.get(key)
        if isinstance(listing, list) and all(isinstance(factors, list) for factors in listing):
            for group in _holders(path, groups):
                yield Pyramid(group, _levels(group, len(listing)), repr(key))
    inside = f"{path}/" if path else ""
    names = {
        at.removeprefix(inside): array for at, array in arrays.items() if at.startswith(inside)
    }
    numbers = numbered(names, "level")
    coarse = (names[name].attrs.get("downsamplingFactors") for name in numbers.values())
    if len(numbers) > 1 or any(coarse):
        yield Pyramid(path, _levels(path, 1 + max(numbers)), "the names of levels")


def _holders(path: str, groups: Mapping[str, Group]) -> list[str]:
    """Return the groups of levels that a group lists: those of a setup are in its time points."""
    if number_in(path.rpartition("/")[2], "setup") is None:
        return [path]
    inside = (group.removeprefix(f"{path}/") for group in groups)
    return [join(path, name) for name in numbered(inside, "timepoint").values()]


def _levels(group: str, count: int) -> tuple[str, ...]:
    return tuple(join(group, level_name(level)) for level in range(count))


def inconsistency(pyramid: Pyramid, arrays: Mapping[str, Array]) -> Iterator[tuple[str, str, str]]:
    """Iterate over levels that do not fit the base level: their paths, what does not fit, and why.

    Their types must be equal, and their sizes be those of the base level, divided by their factors.
    """
    base = arrays.get(next(iter(pyramid.levels), ""))
    if base is None:
        return
    levels = (arrays[path] for path in pyramid.levels[1:] if path in arrays)
    context = None
    for level in levels:
        if level.ndim != base.ndim or level.dtype != base.dtype:
            why = f"the level has {level.ndim} axes of {level.dtype}, "
            why += f"its base level {base.path!r} {base.ndim} of {base.dtype}"
            yield level.path, "level-type", why
            continue
        context = context_of(level.node, like=context)
        if not _fits(base, level, context):
            factors = _factors(context)
            shown = (
                ""
                if factors is None
                else f" by the factors {', '.join(map('{:g}'.format, factors))}"
            )
            why = f"the level has shape {level.shape}, its base level {base.path!r} {base.shape}"
            yield level.path, "level-size", f"{why}; they do not fit{shown}"


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


def _fits(base: Array, level: Array, context: ArrayContext) -> bool:
    """Return whether a level may have its shape, by any program's rule of rounding.

    A level that was cropped by itself does not begin at the centre of the samples that it covers:
    it may have one sample more or less.
    """
    factors = _factors(context)
    if factors is None:
        return all(stored <= size for stored, size in zip(level.shape, base.shape, strict=True))
    fine, _ = resolve_geometry(context_of(base.node, like=context))
    coarse, _ = resolve_geometry(context)
    sides = zip(base.shape, factors, level.shape, fine.axes, coarse.axes, strict=True)
    for size, factor, stored, first, axis in sides:
        centre = first.position((axis.factor - 1) / 2)
        slack = int(axis.placed and abs(axis.offset - centre) > NEAR * abs(axis.step))
        near = 0.0 if float(factor).is_integer() else NEAR
        least = math.floor(size / factor * (1 - near)) - slack
        most = math.ceil(size / factor * (1 + near)) + slack
        if not (least <= stored <= most or (least <= 0 and stored == 1)):
            return False
    return True
