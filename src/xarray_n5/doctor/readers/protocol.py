"""Images as other programs see them, and the protocol of their readers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes

Offsets: TypeAlias = Literal["absolute", "relative", "ignored"]
"""Whether a program has offsets, only those of levels to the base level, or its own rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArray:
    """An array as it is stored, with all that is stored around it: a level, or all of an image."""

    context: ArrayContext
    """The array as dialects see it."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The document that makes it an array, as it is stored; empty in HDF5."""
    above: tuple[Attributes, ...] = ()
    """The attributes of all groups above, the nearest first."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.context.shape)

    @property
    def name(self) -> str:
        """The array's name in its group."""
        return self.context.path.rpartition("/")[2]

    @property
    def attributes(self) -> Attributes:
        """The array's own attributes."""
        return self.context.attributes

    def only(self, attributes: Attributes, **changes: Any) -> ArrayContext:
        """Return the array with some attributes, and nothing around it."""
        return replace(self.context, attributes=attributes, parents=(), base=None, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """A pyramid, or a single array, as it is stored: what it means, each program decides."""

    path: str
    """The path of the group of a pyramid, or of the array."""
    format: str
    levels: tuple[StoredArray, ...]
    """The levels, the base level first."""
    grouped: bool = False
    """Whether `path` is the group around the levels."""

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the levels in the group around them, or the name of an array."""
        if not self.grouped:
            return tuple(level.name for level in self.levels)
        paths = (level.context.path for level in self.levels)
        return tuple(path.removeprefix(self.path).strip("/") for path in paths)

    @property
    def group(self) -> Attributes:
        """The attributes of the group around the levels."""
        above = self.levels[0].above
        return above[0] if above else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAxis:
    """One axis as a program sees it; None for what it does not read."""

    name: str | None = None
    scale: float | None = None
    offset: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One level as a program sees it."""

    axes: tuple[SeenAxis, ...] | None
    """The axes in C order, or None if the program does not open the array."""
    attribute: str = ""
    """The attributes that were read."""
    reason: str = ""
    """Why it is not opened."""
    fault: bool = False
    """Whether attributes are the reason; otherwise it is the format, the type or the codec."""
    offsets: Offsets = "absolute"
    note: str = ""
    """What the program does in its own way, whatever the attributes are."""

    @property
    def opens(self) -> bool:
        """Whether the program opens the array."""
        return self.axes is not None

    @property
    def silent(self) -> bool:
        """Whether the program opens the array and has at most defaults for its axes."""
        known = () if self.attribute else (SeenAxis(scale=1.0), SeenAxis(scale=1.0, offset=0.0))
        return self.axes is not None and all(each in (SeenAxis(), *known) for each in self.axes)


def unread(reason: str) -> Reading:
    """Return the reading of an array whose format, layout or codec a program does not know."""
    return Reading(axes=None, reason=reason)


def refused(reason: str) -> Reading:
    """Return the reading of an array that a program does not open because of attributes."""
    return Reading(axes=None, reason=reason, fault=True)


def reading_of(geometry: Geometry, *, names: bool = True) -> Reading:
    """Return the reading of a program that has a dialect, by what the dialect read.

    Parameters
    ----------
    geometry
        The axes in C order.
    names
        Whether the program reads names.
    """
    axes = []
    for axis in geometry.axes:
        name = axis.name if names else None
        if axis.scale is None or axis.labels is not None:
            axes.append(SeenAxis(name=name))
        else:
            axes.append(SeenAxis(name=name, scale=axis.scale, offset=axis.offset, unit=axis.unit))
    return Reading(axes=tuple(axes), attribute=listed(dict.fromkeys(geometry.sources.values())))


def listed(names: Iterable[str]) -> str:
    """Return the distinct names in comma-separated lists as one list.

    >>> listed(["axes", "pixelResolution, axes"])
    'axes, pixelResolution'
    """
    return ", ".join(dict.fromkeys(part for name in names for part in name.split(", ") if part))


class Reader(Protocol):
    """A program that opens containers, by its own rules."""

    name: ClassVar[str]
    title: ClassVar[str]
    """The program, as users know it."""
    source: ClassVar[str]
    """Where its rules are from."""

    def read(self, image: StoredImage) -> Sequence[Reading]:
        """Return the axes of each level as the program sees them."""
