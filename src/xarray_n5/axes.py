"""What an axis means: its name, unit and the place of its samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

Kind = Literal["space", "time", "channel"]

DEFAULT_NAMES = ("x", "y", "z", "t", "c")
"""Names of unnamed axes, the last axis first, as Neuroglancer names them."""

_NO_UNIT = frozenset(
    {"", "pixel", "pixels", "px", "voxel", "voxels", "none", "null", "a.u.", "arbitrary"}
)

_SPELLINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "angstrom": ("A", "\u00c5", "\u212b", "angstrom", "angstroms"),
        "nm": ("nm", "nanometer", "nanometers", "nanometre", "nanometres"),
        "um": (
            *("um", "\u00b5m", "\u03bcm", "\u00c2\u00b5m", "\\u00B5m"),
            *("micron", "microns", "micrometer", "micrometers", "micrometre", "micrometres"),
        ),
        "mm": ("mm", "millimeter", "millimeters", "millimetre", "millimetres"),
        "cm": ("cm", "centimeter", "centimeters", "centimetre", "centimetres"),
        "m": ("m", "meter", "meters", "metre", "metres"),
        "inch": ("in", "inch", "inches"),
        "s": ("s", "sec", "second", "seconds"),
        "ms": ("ms", "millisecond", "milliseconds"),
        "min": ("min", "minute", "minutes"),
        "h": ("h", "hr", "hour", "hours"),
        "Hz": ("Hz", "hertz"),
    }
)
"""Unit spellings found in files (FORMATS: B0), by the abbreviation that every N5 reader takes."""

_CANONICAL = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}

_LONGEST_ABBREVIATION = 3

_TIME = frozenset({"s", "ms", "min", "h"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of an array, in the order numpy sees it.

    Sample ``i`` lies at ``offset + i * scale``, in ``unit``: the place of its centre.

    >>> Axis(name="z", unit="nm", scale=4.0).position(10)
    40.0
    """

    name: str | None = None
    """The dimension's name in xarray; None leaves it to :func:`names`."""
    kind: Kind | None = None
    """What the axis counts, where the metadata says so."""
    unit: str | None = None
    """The unit as it was written; None where there is none."""
    scale: float | None = None
    """Distance between two samples; None where nothing is known of it."""
    offset: float = 0.0
    """Where sample 0 lies."""
    labels: tuple[str, ...] | None = None
    """A text for each sample, instead of a place."""

    def __post_init__(self) -> None:
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale != 0):
            raise ValueError(
                f"the scale of axis {self.name!r} is {self.scale}; a finite number but 0 is needed"
            )
        if not math.isfinite(self.offset):
            raise ValueError(
                f"the offset of axis {self.name!r} must be a finite number, not {self.offset}"
            )

    def position(self, sample: float) -> float:
        """Return where `sample` lies, in :attr:`unit`."""
        return self.offset + sample * (1.0 if self.scale is None else self.scale)

    @property
    def placed(self) -> bool:
        """Whether anything is known of where the samples lie."""
        return self.scale is not None or self.offset != 0 or self.labels is not None


@dataclass(frozen=True, slots=True)
class Geometry:
    """The axes of an array, in C order, and the dialect that each fact came from."""

    axes: tuple[Axis, ...]
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Which dialect said what: keys are "names" and "placement"."""
    spoken: tuple[str, ...] = field(default=(), compare=False)
    """All dialects that the array's attributes speak."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.axes)

    @property
    def named(self) -> bool:
        """Whether any axis has a name."""
        return any(axis.name for axis in self.axes)

    @property
    def placed(self) -> bool:
        """Whether anything is known of where the samples lie."""
        return any(axis.placed for axis in self.axes)

    def with_names(self, avoid: AbstractSet[str] = frozenset()) -> Geometry:
        """Return the geometry with a name for every axis; see :func:`names`."""
        named = zip(self.axes, names(self.axes, avoid), strict=True)
        return replace(self, axes=tuple(replace(axis, name=name) for axis, name in named))

    def transpose(self) -> Geometry:
        """Return the geometry of the transposed array."""
        return Geometry(self.axes[::-1], self.sources, self.spoken)


def names(axes: Sequence[Axis], avoid: AbstractSet[str] = frozenset()) -> tuple[str, ...]:
    """Return a unique name for each axis: its own, else Neuroglancer's default for its place.

    No default is among those to `avoid`.

    >>> names((Axis(), Axis(), Axis(name="v")))
    ('z', 'y', 'v')
    """
    given = {axis.name for axis in axes if axis.name} | avoid
    seen: set[str] = set()
    result: list[str] = []
    for number, axis in enumerate(reversed(axes)):
        default = DEFAULT_NAMES[number] if number < len(DEFAULT_NAMES) else f"dim_{number}"
        name = axis.name or (default if default not in given else f"dim_{number}")
        while name in seen or (not axis.name and name in given):
            name += "_"
        seen.add(name)
        result.append(name)
    return tuple(reversed(result))


def canonical_unit(text: str | None) -> str | None:
    """Return the abbreviation that `text` is a spelling of, or None where it is no known unit.

    >>> canonical_unit("micrometers"), canonical_unit("pixel"), canonical_unit("Mm")
    ('um', None, None)
    """
    if text is None:
        return None
    text = text.strip()
    # Abbreviations are told apart by their case (Mm is no mm), whole words are not.
    return _CANONICAL.get(text) or (
        _CANONICAL.get(text.lower()) if len(text) > _LONGEST_ABBREVIATION else None
    )


def written_unit(text: object) -> str | None:
    """Return a unit as files write it, or None where the text says that there is none."""
    if not isinstance(text, str) or text.strip().lower() in _NO_UNIT:
        return None
    return text


def kind_of(name: str | None, unit: str | None) -> Kind | None:
    """Return what an axis counts, judged by its name and unit; None where they do not tell."""
    if canonical_unit(unit) in _TIME or name == "t":
        return "time"
    if name in {"c", "channel"}:
        return "channel"
    if name in {"x", "y", "z"} or canonical_unit(unit) is not None:
        return "space"
    return None


def as_geometry(axes: Iterable[Axis | str | None] | Geometry, ndim: int) -> Geometry:
    """Return the geometry that `axes` describe: names, :class:`Axis` objects or a geometry.

    Raises
    ------
    ValueError
        If there is not exactly one for each of `ndim` axes, or a name stands twice.
    """
    given = axes.axes if isinstance(axes, Geometry) else tuple(axes)
    built = tuple(axis if isinstance(axis, Axis) else Axis(name=axis) for axis in given)
    if len(built) != ndim:
        raise ValueError(f"{len(built)} axes were given for an array with {ndim}")
    written = [axis.name for axis in built if axis.name]
    if len(set(written)) != len(written):
        raise ValueError(f"axis names must be unique, not {written}")
    return Geometry(built)
