"""The note on an array or a group: what only those need to know who read it as a Dataset again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

NOTE = "_XARRAY"
"""The attribute that holds the note where everything that is not numbers must be told."""

HIDDEN = "_nc_note"
"""The same where xarray reads the container, too: what begins with ``_nc`` it shows nobody."""

COPIED = "_nc_copied"
"""What a copy in another format has that its source has not, so that it can be copied back."""

NOTES = frozenset({NOTE, HIDDEN, COPIED})


def note_of(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the note among attributes, without odd members; an empty one where there is none.

    >>> note_of({"_XARRAY": {"axes": ["x"], "own": 5}, "title": "a"})
    {'axes': ['x']}
    """
    found = attributes.get(NOTE, attributes.get(HIDDEN))
    if not isinstance(found, Mapping):
        return {}
    return {key: value for key, value in found.items() if _is_proper(key, value)}


def odd_members(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the members of a note that cannot be what this package wrote, and are ignored."""
    found = attributes.get(NOTE, attributes.get(HIDDEN, {}))
    if not isinstance(found, Mapping):
        return {NOTE if NOTE in attributes else HIDDEN: found}
    return {key: value for key, value in found.items() if not _is_proper(key, value)}


def _is_proper(key: str, value: object) -> bool:
    match key:
        case "attributes":
            return isinstance(value, Mapping)
        case "axes" | "own":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case _:
            return True


def is_text(attributes: Mapping[str, Any]) -> bool:
    """Return whether an array's numbers are characters."""
    return note_of(attributes).get("dtype") == "S1"


def is_dataset(attributes: Mapping[str, Any]) -> bool:
    """Return whether a group says that it was written as one Dataset."""
    return bool(note_of(attributes).get("dataset"))


def told_by(attributes: Mapping[str, Any]) -> Collection[str] | None:
    """Return the coordinates that an array's axes alone describe; None where no note lists them."""
    return note_of(attributes).get("axes")


def meant_by_users(attributes: Mapping[str, Any]) -> Collection[str]:
    """Return the attributes that are their user's, whatever a dialect would read in them."""
    return frozenset(note_of(attributes).get("own", ()))
