"""Checks of attributes by readers that accept nothing but what their specification says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Members: TypeAlias = "Mapping[str, Sequence[object]]"
"""The members of a codec, with the values that each may have."""

_SI = re.compile("((Y|Z|E|P|T|G|M|k|h|da|d|c|m|\u00b5|u|n|p|f|a|z|y)?(m|s|Hz|rad/s))?")
"""Neuroglancer's units (src/util/si_units.ts): "", and four units with SI prefixes."""


def strings(attributes: Mapping[str, object], key: str, ndim: int) -> str | None:
    """Return why an attribute is not a list of as many strings as there are axes, or None."""
    found = attributes[key]
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        return f"{key!r} is {found!r:.80}; it expects a list of strings"
    return _length(key, found, ndim)


def numbers(
    attributes: Mapping[str, object], key: str, ndim: int, *, positive: bool = False
) -> str | None:
    """Return why an attribute is not a list of as many numbers as there are axes, or None."""
    found = attributes[key]
    if not isinstance(found, list) or not all(
        isinstance(each, (int, float)) and not isinstance(each, bool) for each in found
    ):
        return f"{key!r} is {found!r:.80}; it expects a list of numbers"
    if positive and not all(each > 0 for each in found):
        return f"{key!r} is {found!r:.80}; it expects positive numbers"
    return _length(key, found, ndim)


def si_units(key: str, units: list[str]) -> str | None:
    """Return why Neuroglancer does not accept units, or None."""
    unit = next((unit for unit in units if not _SI.fullmatch(unit)), None)
    if unit is None:
        return None
    return f"{key!r} has the unit {unit!r}; it expects m, s or Hz with an SI prefix, such as 'um'"


def unique(key: str, names: Sequence[str | None]) -> str | None:
    """Return why a list of names is not accepted, or None: one of them is there twice."""
    given = [name for name in names if name]
    return None if len(set(given)) == len(given) else f"{key!r} has a name twice: {given}"


def codec(
    found: object,
    key: str,
    known: Mapping[str, Members],
    needed: Mapping[str, set[str]] | None = None,
) -> Iterator[str]:
    """Iterate over what is wrong with a codec.

    Parameters
    ----------
    found
        The codec as it is stored.
    key
        Its member with its name.
    known
        The members of all codecs, by name; others are not accepted.
    needed
        The members that have no default.
    """
    name = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(name, str):
        yield f"it expects a compression with {key!r}, not {found!r:.80}"
    elif name not in known:
        yield f"it does not read the compression {name!r}"
    else:
        missing = sorted((needed or {}).get(name, set()) - found.keys())
        yield from (f"the compression {name!r} lacks {each!r}" for each in missing)
        for member, value in found.items():
            if member != key and member not in known[name]:
                yield f"the compression {name!r} has the unknown member {member!r}"
            elif member != key and not _is_one_of(value, known[name][member]):
                yield f"the compression {name!r} has the {member} {value!r}"


def _is_one_of(value: object, allowed: Sequence[object]) -> bool:
    return value in allowed and isinstance(value, bool) == isinstance(allowed[0], bool)


def _length(key: str, found: list[object], ndim: int) -> str | None:
    if len(found) == ndim:
        return None
    return f"{key!r} has {len(found)} items; it expects {ndim}, one for each axis"
