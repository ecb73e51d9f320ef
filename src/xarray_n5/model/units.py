"""Units: one table from every spelling in files to a symbol.

Stored units are kept verbatim and compared by meaning; numbers are converted only for viewers.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator


Quantity = Literal["length", "time", "frequency"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its spelling in N5's tools and in OME-NGFF, and its size."""

    symbol: str
    """The abbreviation that all readers of N5 support, with u for micro."""
    word: str
    """The whole word, as in OME-NGFF."""
    quantity: Quantity
    size: float
    """Its size in metres, seconds or hertz."""


_PREFIXES = {
    "yotta": ("Y", 24),
    "zetta": ("Z", 21),
    "exa": ("E", 18),
    "peta": ("P", 15),
    "tera": ("T", 12),
    "giga": ("G", 9),
    "mega": ("M", 6),
    "kilo": ("k", 3),
    "hecto": ("h", 2),
    "deca": ("da", 1),
    "": ("", 0),
    "deci": ("d", -1),
    "centi": ("c", -2),
    "milli": ("m", -3),
    "micro": ("u", -6),
    "nano": ("n", -9),
    "pico": ("p", -12),
    "femto": ("f", -15),
    "atto": ("a", -18),
    "zepto": ("z", -21),
    "yocto": ("y", -24),
}

_MICRO = ("u", "\u00b5", "\u03bc", "\u00c2\u00b5", "\\u00B5", "\\u00b5")
"""The prefix in all spellings: two code points, UTF-8 read as Latin-1, JSON escaped twice."""

_METRIC: tuple[tuple[Quantity, str, tuple[str, ...]], ...] = (
    ("length", "m", ("meter", "metre")),
    ("time", "s", ("second",)),
    ("frequency", "Hz", ("hertz",)),
)

_OTHERS: tuple[tuple[Unit, tuple[str, ...]], ...] = (
    (Unit("angstrom", "angstrom", "length", 1e-10), ("A", "\u00c5", "\u212b", "angstroms")),
    (Unit("um", "micrometer", "length", 1e-6), ("micron", "microns")),
    (Unit("in", "inch", "length", 0.0254), ("inches",)),
    (Unit("ft", "foot", "length", 0.3048), ("feet",)),
    (Unit("yd", "yard", "length", 0.9144), ("yards",)),
    (Unit("mi", "mile", "length", 1609.344), ("miles",)),
    (Unit("pc", "parsec", "length", 3.0856775814913673e16), ("parsecs",)),
    (Unit("s", "second", "time", 1.0), ("sec", "secs")),
    (Unit("ms", "millisecond", "time", 1e-3), ("msec",)),
    (Unit("min", "minute", "time", 60.0), ("minutes",)),
    (Unit("h", "hour", "time", 3600.0), ("hr", "hours")),
    (Unit("d", "day", "time", 86400.0), ("days",)),
)

_IN_SI = {
    "angstrom": (Fraction(1, 10), "nm"),
    "in": (Fraction(254, 10), "mm"),
    "ft": (Fraction(3048, 10_000), "m"),
    "yd": (Fraction(9144, 10_000), "m"),
    "mi": (Fraction(1_609_344, 1_000_000), "km"),
    "min": (Fraction(60), "s"),
    "h": (Fraction(3600), "s"),
    "d": (Fraction(86_400), "s"),
}
"""Units that are an exact multiple of a unit with an SI prefix, by symbol."""

_NOT_IN_SI = frozenset({"pc"})

_NO_UNIT = frozenset(
    {"", "pixel", "pixels", "px", "voxel", "voxels", "none", "null", "a.u.", "arbitrary"}
)

_LONGEST_ABBREVIATION = 3

_SIMILAR = 0.85
"""The similarity above which an unknown unit is a misspelling; "milligram" is not "millimeter"."""

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s.+-].*)?")
"""A number and perhaps a unit. Each character matches one part only: this takes linear time."""


def _spellings() -> Iterator[tuple[str, Unit]]:
    for prefix, (letter, exponent) in _PREFIXES.items():
        for quantity, base, stems in _METRIC:
            unit = Unit(letter + base, prefix + stems[0], quantity, float(f"1e{exponent}"))
            for form in _MICRO if letter == "u" else (letter,):
                yield form + base, unit
            for stem in stems:
                yield prefix + stem, unit
                yield f"{prefix}{stem}s", unit
    for unit, more in _OTHERS:
        yield from ((text, unit) for text in (unit.symbol, unit.word, *more))


UNITS = dict(_spellings())
"""Units by all spellings found in files and all words of OME-NGFF."""


def unit_of(text: str | None) -> Unit | None:
    """Return the unit of a spelling, or None if it is not known.

    >>> unit_of("Micrometers").symbol, unit_of("Mm").word, unit_of("pixel")
    ('um', 'megameter', None)
    """
    if text is None:
        return None
    text = text.strip()
    # Abbreviations are case-sensitive (Mm, mm), whole words are not.
    return UNITS.get(text) or (
        UNITS.get(text.lower()) if len(text) > _LONGEST_ABBREVIATION else None
    )


def same_unit(*texts: str | None) -> bool:
    """Return whether spellings mean the same unit: a known one, an equal unknown one, or none.

    >>> same_unit("um", "\u00b5m", "Micrometers"), same_unit("pixel", None), same_unit("nm", None)
    (True, True, False)
    """
    different = set(texts)
    return len(different) < 2 or len({unit_of(t) or written_unit(t) for t in different}) == 1  # noqa: PLR2004


def meant_unit(text: str | None) -> str | None:
    """Return the known unit of which an unknown one is a misspelling, or None.

    >>> meant_unit("micormeter"), meant_unit("mV"), meant_unit("arbitrary"), meant_unit("um")
    ('micrometer', None, None, None)
    """
    text = written_unit(text) or ""
    if len(text) <= _LONGEST_ABBREVIATION or not text.isalpha() or unit_of(text) is not None:
        return None
    nearest = difflib.get_close_matches(text.lower(), UNITS, n=1, cutoff=_SIMILAR)
    return nearest[0] if nearest else None


def canonical_unit(text: str | None) -> str | None:
    """Return the symbol of a spelling, or None if it is not known.

    >>> canonical_unit("micrometers"), canonical_unit("pixel"), canonical_unit("inch")
    ('um', None, 'in')
    """
    unit = unit_of(text)
    return None if unit is None else unit.symbol


def shown_unit(text: str | None) -> str:
    """Return a unit for people to read, with the letter µ in abbreviations.

    >>> shown_unit("um"), shown_unit("nanometer"), shown_unit(None)
    ('µm', 'nanometer', '(no unit)')
    """
    if text is None:
        return "(no unit)"
    prefix = next((micro for micro in _MICRO if text.strip().startswith(micro)), "")
    known = UNITS.get(text.strip()) if prefix else None
    return f"\N{MICRO SIGN}{text.strip()[len(prefix) :]}" if known else text


def ratio(text: str | None, other: str | None) -> float | None:
    """Return the factor that converts one unit to another, or None if there is none.

    >>> ratio("um", "nm"), ratio("nm", "s")
    (1000.0, None)
    """
    one, two = unit_of(text), unit_of(other)
    if one is None or two is None or one.quantity != two.quantity:
        return None
    return float(Fraction(str(one.size)) / Fraction(str(two.size)))


def si_scale(scale: float, text: str | None) -> tuple[float, str]:
    """Convert a scale to metres, seconds or hertz with an SI prefix; return it with the unit.

    If there is no exact conversion, the unit is "" and the number unchanged.

    >>> si_scale(4, "micrometer"), si_scale(4, "Å"), si_scale(1, "min"), si_scale(2, "degrees")
    ((4, 'um'), (0.4, 'nm'), (60.0, 's'), (2, ''))
    """
    symbol = canonical_unit(text)
    if symbol is None or symbol in _NOT_IN_SI:
        return scale, ""
    if symbol not in _IN_SI:
        return scale, symbol
    times, unit = _IN_SI[symbol]
    return float(Fraction(scale) * times), unit


def written_unit(text: object) -> str | None:
    """Return a stored unit, or None for spellings of "no unit"."""
    if not isinstance(text, str) or text.strip().lower() in _NO_UNIT:
        return None
    return text


def split_unit(text: str | None) -> tuple[float, str | None]:
    """Split a string such as "4nm" into a number and a known unit.

    >>> split_unit("4nm"), split_unit("nm"), split_unit("3 wishes")
    ((4.0, 'nm'), (1.0, 'nm'), (1.0, '3 wishes'))
    """
    number, unit = quantity_of((text or "").strip()) or (0.0, None)
    return (number, unit) if number > 0 and unit_of(unit) is not None else (1.0, text)


def quantity_of(text: str) -> tuple[float, str | None] | None:
    """Return the number and the unit in a string such as "-2.5 um"; None for other strings.

    >>> quantity_of("220 nm"), quantity_of("-2.5um"), quantity_of("7"), quantity_of("all")
    ((220.0, 'nm'), (-2.5, 'um'), (7.0, None), None)
    """
    parts = _QUANTITY.fullmatch(text)
    return None if parts is None else (float(parts[1]), parts[2] and parts[2].strip())


_UNIT = re.compile(r"(?:[1-9]\d{0,9})?[a-zA-Zμ]+")


def check_time_units(name: str) -> None:
    """Raise if the name of a type has a time unit that is not a positive multiple of one.

    NumPy divides by the multiple when it compares types, and by a divisor when it parses one: a
    zero ends the process.

    Raises
    ------
    ValueError
        If it has one.

    Examples
    --------
    >>> check_time_units("<M8[10ns]")
    >>> check_time_units("<M8[0s]")
    Traceback (most recent call last):
    ValueError: '<M8[0s]' has no valid time unit; expected a positive multiple of one, such as [10s]
    """
    units = re.findall(r"\[([^\]]*)", name)
    if not all(map(_UNIT.fullmatch, units)):
        raise ValueError(
            f"{name[:100]!r} has no valid time unit; expected a positive multiple of one, such as "
            "[10s]"
        )
