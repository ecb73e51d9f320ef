"""Decode the attributes in a note: anybody may have written it, so types and sizes are checked.

The inverse of :mod:`xarray_n5.datasets.attributes`.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.roundtrip_attrs import NOTES, note_of, odd_members

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "$"
"""The member of a JSON object that says of which type its value is."""

_WIDEST = 8
"""How many bytes a number of JSON holds."""

_MOST_BYTES = 1 << 26
"""How many bytes the noted attributes of one node take at most."""

_TYPE = re.compile(r"[<>|=]?([biufSU])(\d{1,9})", re.ASCII)
"""The types of noted attributes, with how long strings are."""

_SHOWN = 3
"""How many odd attributes a warning names."""


def unpack_attributes(attributes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return attributes as they were given to :func:`pack_attributes`.

    Values in a note that cannot be decoded, or are too large, are ignored with a warning, which
    names `where` they are.
    """
    plain = {key: value for key, value in attributes.items() if key not in NOTES}
    odd = {key: f"{value!r:.80}" for key, value in odd_members(attributes).items()}
    room = _MOST_BYTES
    for key, value in note_of(attributes).get("attributes", {}).items():
        try:
            room -= _size(value)
            if room < 0:
                raise ValueError(f"more than {_MOST_BYTES} bytes")
            plain[key] = _from_json(value)
        except ODD as error:
            odd[key] = f"{type(error).__name__}: {error}"
    if odd:
        told = ", ".join(f"{key!r} ({why})" for key, why in islice(odd.items(), _SHOWN))
        warn(f"{where}: {len(odd)} odd values in the note on attributes are ignored: {told}")
    return plain


def _size(value: Any) -> int:
    """Return how many bytes a noted value takes at most when it is decoded."""
    if isinstance(value, list):
        return sum(map(_size, value), _WIDEST)
    if not isinstance(value, dict):
        return len(value) if isinstance(value, str) else _WIDEST
    kind = value.get(MARK)
    wide = _TYPE.fullmatch(kind) if isinstance(kind, str) else None
    if wide is None:
        return sum(map(_size, value.values()), _WIDEST)
    return _count(value.get("value")) * int(wide[2]) * (4 if wide[1] == "U" else 1)


def _count(value: Any) -> int:
    return sum(map(_count, value)) if isinstance(value, list) else 1


def _from_json(value: Any) -> Any:  # noqa: PLR0911 - a line for each kind
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(MARK)
    if kind is None:
        return {key: _from_json(item) for key, item in value.items()}
    if kind == "mapping":
        return {key: _from_json(item) for key, item in value["value"]}
    if kind == "float":
        return float(value["value"])
    if kind == "bytes":
        return str(value["value"]).encode("latin-1")
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise ValueError(f"{kind!r:.40} is not a type of an attribute")
    dtype = np.dtype(kind)
    items = value["value"]
    if dtype.kind == "S":
        items = _bytes(items)
    return np.array(items, dtype=dtype).reshape(value.get("shape", np.shape(items)))[()]


def _bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_bytes(item) for item in value]
    return str(value).encode("latin-1")
