"""The samples around a block: their number, and those beyond the ends of an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

AxisDepth: TypeAlias = int | str | tuple[int | str, int | str]
Depth: TypeAlias = "AxisDepth | tuple[AxisDepth, ...] | Mapping[Hashable, AxisDepth]"
AxisBoundary: TypeAlias = "str | complex | np.generic | None"
Boundary: TypeAlias = "AxisBoundary | tuple[AxisBoundary, ...] | Mapping[Hashable, AxisBoundary]"
AxisBlocks: TypeAlias = int | str | tuple[int, ...] | None
Blocks: TypeAlias = "AxisBlocks | tuple[AxisBlocks, ...] | Mapping[Hashable, AxisBlocks]"

_KINDS = frozenset({"none", "reflect", "nearest", "periodic"})


@dataclass(frozen=True, slots=True)
class Halo:
    """The samples around blocks along one axis."""

    before: int = 0
    after: int = 0
    boundary: Any = "none"
    """The rule for samples beyond the ends, or their value."""

    @property
    def is_clipped(self) -> bool:
        """Whether blocks at the ends have no samples beyond them."""
        return isinstance(self.boundary, str) and self.boundary == "none"

    @property
    def is_constant(self) -> bool:
        """Whether samples beyond the ends have one value."""
        return not isinstance(self.boundary, str)

    def around(self, block: slice, size: int) -> slice | np.ndarray:
        """Return the positions to read for a block of an axis with `size` samples.

        >>> Halo(2, 2).around(slice(0, 4), 8)
        slice(0, 6, None)
        >>> Halo(2, 2, "reflect").around(slice(0, 4), 8)
        array([1, 0, 0, 1, 2, 3, 4, 5])
        >>> Halo(2, 2, "periodic").around(slice(0, 4), 8)
        array([6, 7, 0, 1, 2, 3, 4, 5])
        """
        start, stop = block.start - self.before, block.stop + self.after
        if self.is_clipped or self.is_constant or size == 0 or (start >= 0 and stop <= size):
            return slice(max(start, 0), min(stop, size))
        wanted = np.arange(start, stop)
        if self.boundary == "nearest":
            return wanted.clip(0, size - 1)
        if self.boundary == "periodic":
            return wanted % size
        wanted %= 2 * size
        return np.where(wanted < size, wanted, 2 * size - 1 - wanted)

    def padding(self, block: slice, size: int) -> tuple[int, int]:
        """Return the numbers of samples with a constant value before and after a block's."""
        if not self.is_constant:
            return 0, 0
        return max(0, self.before - block.start), max(0, block.stop + self.after - size)

    def inner(self, block: slice) -> slice:
        """Return where a block is among itself and the samples around it."""
        before = min(self.before, block.start) if self.is_clipped else self.before
        return slice(before, before + block.stop - block.start)


def halos_of(depth: Depth, boundary: Boundary, dims: Sequence[Hashable]) -> tuple[Halo, ...]:
    """Return the halo along each dimension.

    >>> halos_of({"y": (1, 0)}, None, ["z", "y"])
    (Halo(before=0, after=0, boundary='none'), Halo(before=1, after=0, boundary='none'))

    Raises
    ------
    ValueError
        If a depth or a boundary is invalid, or is for an unknown dimension.
    NotImplementedError
        If an asymmetric depth has a boundary.
    """
    depths = by_axis(depth, dims, "depth", 0)
    boundaries = by_axis(boundary, dims, "boundary", "none")
    return tuple(map(_halo, depths, boundaries, dims))


def by_axis(given: Any, dims: Sequence[Hashable], what: str, default: object) -> list[Any]:
    """Return values along each dimension, given for all, in order, or by name or number.

    Raises
    ------
    ValueError
        If a name, a number or the count of values does not fit the dimensions.
    """
    if isinstance(given, Mapping):
        values = dict.fromkeys(dims, default)
        for key, value in given.items():
            values[_dim(key, dims, what)] = value
        return list(values.values())
    if not isinstance(given, tuple | list):
        return [given] * len(dims)
    if len(given) != len(dims):
        raise ValueError(
            f"{what} is {given!r}; expected one value for each of the dimensions {tuple(dims)}, or "
            "a dict by dimension"
        )
    return list(given)


def _dim(key: Hashable, dims: Sequence[Hashable], what: str) -> Hashable:
    if key in dims:
        return key
    number: Any = key
    if isinstance(number, Integral) and -len(dims) <= int(number) < len(dims):
        return dims[int(number)]
    raise ValueError(f"{what} names {key!r}, which is not a dimension; they are {tuple(dims)}")


def _halo(depth: Any, boundary: Any, dim: Hashable) -> Halo:
    sides = depth if isinstance(depth, tuple) else (depth, depth)
    sides = tuple(0 if side is None else side for side in sides)
    if len(sides) != 2 or not all(isinstance(n, Integral) and int(n) >= 0 for n in sides):  # noqa: PLR2004
        raise ValueError(
            f"depth is {depth!r} along {dim!r}; expected a whole number of samples, or two"
        )
    before, after = map(int, sides)
    kind = "none" if boundary is None else boundary
    if not (kind in _KINDS if isinstance(kind, str) else isinstance(kind, (Number, np.generic))):
        raise ValueError(
            f"boundary is {kind!r} along {dim!r}; expected a number or one of {sorted(_KINDS)}"
        )
    halo = Halo(before, after, kind)
    if before != after and not halo.is_clipped:
        raise NotImplementedError(
            f"the depth {depth!r} along {dim!r} is asymmetric, which needs boundary 'none', not "
            f"{kind!r}; pass the larger number for both sides"
        )
    return halo
