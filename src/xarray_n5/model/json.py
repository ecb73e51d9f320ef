"""Check values: of untrusted JSON documents, of those to be written, and of what users pass.

Documents are bounded in size and depth.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xarray_n5.model.metadata import Attributes


MOST_BYTES = 1 << 26
"""The maximum size of a node's document: 64 MiB."""

MOST_NESTED = 128
"""The maximum depth of nested lists and objects."""

RESTORE = "restore it from a copy, or correct it by hand"
"""What to do about an invalid document."""


def parse_json(document: bytes | str, where: str, most: int = MOST_BYTES) -> Any:
    """Return the value that a JSON document holds.

    Parameters
    ----------
    document
        The document.
    where
        The document's name, for errors.
    most
        The largest size in bytes.

    Raises
    ------
    MetadataError
        If it is not valid JSON, larger than `most` or nested deeper than `MOST_NESTED`.

    Examples
    --------
    >>> parse_json(b'{"a": [1]}', "here")
    {'a': [1]}
    """
    if len(document) > most:
        raise MetadataError(f"{where}: {len(document)} bytes of JSON, expected at most {most}")
    try:
        value = json.loads(document)
        deep = _brackets(document) > MOST_NESTED and is_deep(value)
    except RecursionError:
        deep = True
    except ValueError as error:
        text, at = getattr(error, "doc", ""), getattr(error, "pos", 0)
        near = f", near {text[max(at - 30, 0) : at + 10]!r}" if text else ""
        raise MetadataError(f"{where}: not valid JSON ({error}{near}); {RESTORE}") from error
    if deep:
        raise MetadataError(f"{where}: JSON nested more than {MOST_NESTED} levels deep; {RESTORE}")
    return value


def parse_object(document: bytes | str, where: str, most: int = MOST_BYTES) -> dict[str, Any]:
    """Return the members of the JSON object that a document holds; see :func:`parse_json`.

    Raises
    ------
    MetadataError
        Also if it holds a value of another kind.
    """
    members = parse_json(document, where, most)
    if not isinstance(members, dict):
        raise MetadataError(
            f"{where}: expected a JSON object, got a {type(members).__name__}; {RESTORE}"
        )
    return members


def is_deep(value: Any) -> bool:
    """Return whether lists and mappings are nested more than `MOST_NESTED` deep."""
    level = _inside([value])
    for _ in range(MOST_NESTED):
        if not level:
            return False
        level = [inner for outer in level for inner in _inside(outer)]
    return bool(level)


def _inside(value: Any) -> list[Any]:
    """Return the lists and mappings that are direct items of another one."""
    items = value.values() if isinstance(value, dict) else value
    return [item for item in items if isinstance(item, dict | list | tuple)]


def _brackets(document: bytes | str) -> int:
    if isinstance(document, str):
        return document.count("[") + document.count("{")
    return document.count(b"[") + document.count(b"{")


def as_json(attributes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return `attributes` as they are read back: tuples as lists, NumPy's numbers as Python's.

    Raises
    ------
    MetadataError
        If a value is not JSON; NaN and infinity are not.
    """
    texts = {str(k): _dump(k, v, where, default=_plain) for k, v in attributes.items()}
    return {key: json.loads(text) for key, text in texts.items()}


def _dump(
    key: str,
    value: object,
    where: str,
    *,
    allow_nan: bool = False,
    default: Callable[[object], object] | None = None,
) -> str:
    """Return an attribute as JSON.

    Raises
    ------
    MetadataError
        If it is not JSON, or nested deeper than readers accept.
    """
    if isinstance(value, dict | list | tuple) and is_deep(value):
        raise MetadataError(
            f"{where}: the attribute {key!r} is nested more than {MOST_NESTED} levels deep, which "
            "readers reject; flatten it"
        )
    try:
        _check_keys(value)
        return json.dumps(value, default=default, allow_nan=allow_nan)
    except (TypeError, ValueError) as error:
        raise MetadataError(
            f"{where}: the attribute {key!r} is {value!r:.200}, which cannot be written as JSON "
            f"({error})"
        ) from error


def _check_keys(value: object) -> None:
    """Raise TypeError if a key of a mapping is not a string, which JSON would make one."""
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        raise TypeError("keys of mappings must be strings")
    for item in _inside(value) if isinstance(value, dict | list | tuple) else ():
        _check_keys(item)


def _plain(value: object) -> object:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.char not in "gG":
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def check_json(members: Attributes, where: str, before: Attributes | None = None) -> None:
    """Raise if JSON cannot represent a member, or readers would reject it.

    NaN, which is not valid JSON, is kept where it was `before`.

    Raises
    ------
    MetadataError
        Naming the member.
    """
    size = 0
    for key, value in members.items():
        text = _dump(key, value, where, allow_nan=True)
        size += len(key) + len(text)
        if before is None or key not in before or json.dumps(before[key]) != text:
            _dump(key, value, where)
    if size > MOST_BYTES:
        raise MetadataError(
            f"{where}: the metadata are {size} bytes of JSON, expected at most {MOST_BYTES}; "
            "store large attributes as arrays"
        )


def check_option(option: str, value: object, *allowed: str) -> None:
    """Raise ValueError unless an option has one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{option} is {value!r}; expected {' or '.join(map(repr, allowed))}")


def near(word: object, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" for the most similar known word, or "".

    >>> near("chunksizes", ["chunks", "compression"]), near("a", ["chunks"])
    ("; did you mean 'chunks'?", '')
    """
    by_lower = {name.lower(): name for name in known}
    nearest = difflib.get_close_matches(str(word).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[nearest[0]]!r}?" if nearest else ""


def refuse_encodings(name: object, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for the first of the unknown encodings of a variable."""
    for key in unknown:
        hint = near(key, known) or f"; expected one of {', '.join(sorted(known))}"
        raise ValueError(f"unexpected encoding for variable {name!r}: {key!r}{hint}")


def check_range(name: str, value: object, low: int, high: int) -> None:
    """Raise MetadataError unless a parameter is an integer from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MetadataError(f"{name!r} is {value!r}; expected an integer from {low} to {high}")


def check_boolean(name: str, value: object) -> None:
    """Raise MetadataError unless a parameter is a boolean."""
    if not isinstance(value, bool):
        raise MetadataError(f"{name!r} is {value!r}; expected true or false")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise MetadataError unless a parameter is one of `choices`."""
    if value not in choices:
        raise MetadataError(f"{name!r} is {value!r}; expected one of {', '.join(choices)}")


def as_int(value: object) -> object:
    """Return a whole float as an int: Gson sometimes writes 6 as 6.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
