"""Spellings of units: what each means, by the judgement of pint and of UDUNITS."""

from __future__ import annotations

import math
from typing import Any

import pytest

from xarray_n5.model.axes import kind_of
from xarray_n5.model.units import (
    UNITS,
    canonical_unit,
    same_unit,
    split_unit,
    unit_of,
    written_unit,
)

MICRO = ["um", "\u00b5m", "\u03bcm", "\u00c2\u00b5m", "\\u00B5m", "micron", "Microns", "micrometer"]

BASES = {"length": "meter", "time": "second", "frequency": "hertz"}

PREFIXES = """yotta zetta exa peta tera giga mega kilo hecto deci centi milli micro nano pico femto
atto zepto yocto"""

SPACE = ["angstrom", "foot", "inch", "meter", "mile", "parsec", "yard"]
SPACE += [f"{prefix}meter" for prefix in PREFIXES.split()]

TIME = ["day", "hour", "minute", "second", *(f"{prefix}second" for prefix in PREFIXES.split())]
"""OME-NGFF's words."""


@pytest.mark.parametrize("text", MICRO)
def test_a_micrometre_is_known_in_all_its_spellings(text: str) -> None:
    assert canonical_unit(text) == "um"
    assert kind_of(None, text) == "space"


@pytest.mark.parametrize("text", ["", "furlong", "S", "MM", "nM", None, "pixel", "a.u."])
def test_what_is_no_known_unit_has_no_canonical_one(text: str | None) -> None:
    assert canonical_unit(text) is None


def test_abbreviations_are_told_apart_by_their_case() -> None:
    found = [canonical_unit(text) for text in ("Mm", "mm", "Ms", "ms", "MICROMETER", "Hz", "d")]
    assert found == ["Mm", "mm", "Ms", "ms", "um", "Hz", "d"]


@pytest.mark.parametrize("text", ["", "pixel", "Pixels", "px", "voxel", "none", " ", None, 3])
def test_words_for_no_unit_are_no_unit(text: object) -> None:
    assert written_unit(text) is None


@pytest.mark.parametrize("text", ["µm", "Micrometers", "wish", "4nm"])
def test_a_unit_is_kept_as_it_was_written(text: str) -> None:
    assert written_unit(text) == text


@pytest.mark.parametrize("word", [*SPACE, *TIME])
def test_every_word_of_ome_ngff_is_known_and_written_again(word: str) -> None:
    unit = unit_of(word)
    assert unit is not None
    assert (unit.word, unit.quantity) == (word, "length" if word in SPACE else "time")
    again = unit_of(unit.symbol)
    assert again is not None
    assert again.word == word


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), True),
        (MICRO, True),
        (("nm", "Nanometers", "nanometre"), True),
        (("s", "sec", "Seconds"), True),
        (("wish", "wish"), True),
        (("pixel", "", None, "voxels"), True),
        (("Mm", "mm"), False),
        (("nm", "um", "nm"), False),
        (("nm", None), False),
        (("wish", "Wish"), False),
        (("s", "m"), False),
    ],
)
def test_units_are_the_same_if_they_mean_the_same(texts: Any, expected: bool) -> None:
    assert same_unit(*texts) is expected


def test_a_number_before_a_unit_multiplies_it() -> None:
    assert split_unit("4nm") == (4.0, "nm")
    assert split_unit(" 2.5e3 um") == (2500.0, "um")
    for text in ("nm", "4", "4 wishes", "0 nm", "nm4"):
        assert split_unit(text) == (1.0, text)


@pytest.fixture(scope="module")
def pint() -> Any:
    """The units that pint knows."""
    return pytest.importorskip("pint").UnitRegistry()


@pytest.mark.parametrize("word", sorted({unit.word for unit in UNITS.values()}))
def test_pint_agrees_on_words(word: str, pint: Any) -> None:
    unit = UNITS[word]
    theirs = pint(word).to(BASES[unit.quantity]).magnitude
    assert math.isclose(theirs, unit.size, rel_tol=1e-9)


@pytest.mark.parametrize("unit", sorted({u.symbol for u in UNITS.values()}))
def test_udunits_agrees_on_symbols(unit: str) -> None:
    cf_units = pytest.importorskip("cf_units")
    known = UNITS[unit]
    # To UDUNITS an "in" is an inch, but "ft", "pc" and "mi" are other words.
    word = known.word if unit in {"ft", "yd", "mi", "pc"} else unit
    theirs = cf_units.Unit(word)
    ours = theirs.convert(1.0, BASES[known.quantity])
    assert math.isclose(ours, known.size, rel_tol=1e-6)
