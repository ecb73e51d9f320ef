"""Images: data of one kind in one place, at one or more levels, made of parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from xarray_n5.model.axes import Geometry


class Shaped(Protocol):
    """An array with attributes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""

    @property
    def attrs(self) -> Mapping[Any, Any]:
        """The attributes."""


class Chunked(Shaped, Protocol):
    """An array in chunks, stored or not."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a stored chunk."""

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of a shard, a stored file of several chunks, if there are shards."""


A = TypeVar("A", bound=Shaped)
C = TypeVar("C", bound=Chunked)


@dataclass(frozen=True, slots=True)
class Part(Generic[A]):
    """An array of a level, or an index of one that holds several parts."""

    array: A
    indices: tuple[int, ...] = ()
    """The index along the first axes of the array, in C order."""


@dataclass(frozen=True)
class Level(Generic[A]):
    """A resolution of an image: one geometry, and parts of one shape along stacked axes."""

    parts: Mapping[tuple[int, ...], Part[A]]
    """The parts by their positions along the stacked axes; a single array is at ``()``."""
    geometry: Geometry
    """All axes, in the order of :attr:`shape`."""
    numbers: tuple[tuple[int, ...], ...] = ()
    """The labels along the stacked axes: the numbers of timepoints, setups or channels."""
    broken: Mapping[tuple[int, ...], Exception] = field(default_factory=dict)
    """The errors of unreadable parts, by position; positions without a part are missing."""
    later: Callable[[tuple[int, ...]], Part[A] | None] | None = None
    """Open the part at any position when it is read, unless `parts` has all."""

    @cached_property
    def first(self) -> A:
        """One of the arrays, which are all alike."""
        return next(iter(self.parts.values())).array

    @cached_property
    def arrays(self) -> tuple[A, ...]:
        """The arrays that are open, each once."""
        return tuple({id(part.array): part.array for part in self.parts.values()}.values())

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole level."""
        return self._whole(tuple(map(len, self.numbers)), self.first.shape)

    @cached_property
    def chunks(self: Level[C]) -> tuple[int, ...]:
        """The shape of a stored chunk."""
        return self._whole((1,) * len(self.numbers), self.first.chunks)

    @cached_property
    def shards(self: Level[C]) -> tuple[int, ...] | None:
        """The shape of a shard, a stored file of several chunks, if there are shards."""
        inner = self.first.shards
        return None if inner is None else self._whole((1,) * len(self.numbers), inner)

    def _whole(self, stacked: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return sizes along all axes from those along the stacked axes and those of an array."""
        count = len(next(iter(self.parts.values())).indices)
        return (*stacked, *sizes[count:])

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes that all arrays share."""
        shared = dict(self.first.attrs)
        for array in self.arrays[1:]:
            attributes = array.attrs
            shared = {k: v for k, v in shared.items() if k in attributes and attributes[k] == v}
        return shared

    @property
    def stacked_axes(self) -> tuple[str, ...]:
        """The names of the stacked axes, in the order of :attr:`numbers`."""
        return tuple(str(axis.name) for axis in self.geometry.axes[: len(self.numbers)])

    def named(self, avoid: AbstractSet[str] = frozenset()) -> Geometry:
        """Return the geometry with a name for every axis: its own, or a default."""
        return self.geometry.with_names(avoid)


@dataclass(frozen=True, slots=True)
class Image(Generic[A]):
    """An image with its levels, the finest first."""

    name: str | None
    """The name, which is that of the variable at each level; None for other arrays."""
    levels: Mapping[str, Level[A]]
    """The levels by name."""

    @property
    def base(self) -> Level[A]:
        """The finest level."""
        return next(iter(self.levels.values()))

    def at(self, level: str) -> Image[A]:
        """Return the image with only one of its levels."""
        return Image(self.name, {level: self.levels[level]})
