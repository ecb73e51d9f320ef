"""Time points as projects list them: a range, a pattern such as ``1,5,10-20:2``, a list.

Source: spim_data's XmlIoTimePoints and IntegerPattern.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xarray_n5_bdv.xml import child_text, whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

MOST = 1 << 20
"""The maximum number of time points of a project."""

_ENTRY = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def read_timepoints(element: Element | None) -> Sequence[int]:
    """Return the ids of the time points, sorted; none if there is no element.

    A range of any length uses little memory.

    Raises
    ------
    ValueError
        If they are invalid, or more than the maximum.
    """
    if element is None:
        return ()
    kind = element.get("type")
    if kind == "range":
        first = whole("the first time point", child_text(element, "first"))
        last = whole("the last time point", child_text(element, "last"))
        _check_count(last - first + 1)
        return range(first, last + 1)
    if kind == "pattern":
        return read_pattern(child_text(element, "integerpattern") or "")
    if kind == "list":
        ids = [child_text(each, "id") for each in element.findall("Timepoint")]
        return tuple(sorted({whole("a time point", each) for each in ids}))
    raise ValueError(f"Timepoints have the type {kind!r}; expected range, pattern or list")


def read_pattern(pattern: str) -> tuple[int, ...]:
    """Return the time points that a pattern names, sorted; an empty one means time point 0.

    >>> read_pattern("1, 5, 10-20:5"), read_pattern("3-1"), read_pattern("")
    ((1, 5, 10, 15, 20), (1, 2, 3), (0,))
    """
    found: set[int] = set()
    for entry in (pattern or "0").replace(" ", "").split(","):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(
                f"invalid pattern of time points {pattern[:80]!r}; expected one like '1,5,10-20:2'"
            )
        first = whole("a time point", match[1])
        last = first if match[2] is None else whole("a time point", match[2])
        step = 1 if match[3] is None else whole("the step of time points", match[3], least=1)
        numbers = range(first, last + 1, step) if last >= first else range(first, last - 1, -step)
        _check_count(len(found) + len(numbers))
        found.update(numbers)
    return tuple(sorted(found))


def _check_count(count: int) -> None:
    if count > MOST:
        raise ValueError(f"it has {count} time points, expected at most {MOST}")
