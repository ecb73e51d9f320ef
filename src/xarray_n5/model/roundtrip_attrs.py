"""Attributes that keep what the format cannot hold, so that Datasets round-trip."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

NOTE = "_XARRAY"
"""The attribute for everything that has no JSON type."""

HIDDEN = "_nc_note"
"""The same in formats that xarray reads itself; xarray hides names that begin with ``_nc``."""

UNMASKED = "_nc_unmasked"
"""The attribute of an array in Zarr v2 whose fill value is only that of missing chunks.

xarray also masks elements that equal the fill value of an array with dimension names.
"""

_NUMBERS = re.compile(r"[<>|=]?[iuf][1248]")
"""The dtypes of numeric coordinates."""

NOTES = frozenset({NOTE, HIDDEN, UNMASKED})


def note_of(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the round-trip members in attributes, without invalid ones.

    >>> note_of({"_XARRAY": {"axes": ["x"], "own": 5}, "title": "a"})
    {'axes': ['x']}
    """
    note = attributes.get(NOTE, attributes.get(HIDDEN))
    if not isinstance(note, Mapping):
        return {}
    return {key: value for key, value in note.items() if _is_proper(key, value)}


def invalid_notes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the invalid round-trip members, which are ignored."""
    note = attributes.get(NOTE, attributes.get(HIDDEN, {}))
    if not isinstance(note, Mapping):
        return {NOTE if NOTE in attributes else HIDDEN: note}
    return {key: value for key, value in note.items() if not _is_proper(key, value)}


def _is_proper(key: str, value: object) -> bool:
    match key:
        case "attributes":
            return isinstance(value, Mapping)
        case "axes" | "own":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "text" | "bytes":
            return isinstance(value, Mapping) and all(isinstance(t, str) for t in value.values())
        case "types" | "dtypes":
            kinds = value.values() if isinstance(value, Mapping) else [""]
            return all(isinstance(kind, str) and _NUMBERS.fullmatch(kind) for kind in kinds)
        case "name":
            return isinstance(value, str) and bool(value) and "/" not in value
        case _:
            return True


def is_text(attributes: Mapping[str, Any]) -> bool:
    """Return whether an array holds characters."""
    return note_of(attributes).get("dtype") == "S1"


def is_dataset(attributes: Mapping[str, Any]) -> bool:
    """Return whether a group was written as a Dataset."""
    return bool(note_of(attributes).get("dataset"))


def coords_from_axes(attributes: Mapping[str, Any]) -> Collection[str] | None:
    """Return the coordinates that only an array's axes describe, or None if it has no list."""
    return note_of(attributes).get("axes")


def user_attributes(attributes: Mapping[str, Any]) -> Collection[str]:
    """Return the attributes that are the user's own, which dialects ignore."""
    return frozenset(note_of(attributes).get("own", ()))
