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
    """Return the note among attributes; an empty one where there is none.

    >>> note_of({"_XARRAY": {"axes": ["x"]}, "title": "a"})
    {'axes': ['x']}
    """
    found = attributes.get(NOTE, attributes.get(HIDDEN))
    return found if isinstance(found, Mapping) else {}


def is_text(attributes: Mapping[str, Any]) -> bool:
    """Return whether an array's numbers are characters."""
    return note_of(attributes).get("dtype") == "S1"


def is_dataset(attributes: Mapping[str, Any]) -> bool:
    """Return whether a group says that it was written as one Dataset."""
    return bool(note_of(attributes).get("dataset"))


def told_by(attributes: Mapping[str, Any]) -> Collection[str]:
    """Return the coordinates of a Dataset that an array's axes tell, and nothing else does."""
    told = note_of(attributes).get("axes")
    return told if isinstance(told, list) else ()


def meant_by_users(attributes: Mapping[str, Any]) -> Collection[str]:
    """Return the attributes that are their user's, whatever a dialect would read in them."""
    own = note_of(attributes).get("own")
    return own if isinstance(own, list) else ()
