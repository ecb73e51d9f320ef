"""Validate and write JSON objects, as in documents of nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from xarray_n5.errors import MetadataError
from xarray_n5.model.json import MOST_BYTES, MOST_NESTED, is_deep

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Attributes


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
        if isinstance(value, dict | list | tuple) and is_deep(value):
            raise MetadataError(
                f"{where}: the attribute {key!r} is nested more than {MOST_NESTED} levels deep, "
                "which readers reject; flatten it"
            )
        try:
            text = json.dumps(value)
            size += len(key) + len(text)
            if before is None or key not in before or json.dumps(before[key]) != text:
                json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise MetadataError(
                f"{where}: the attribute {key!r} cannot be written as JSON ({error})"
            ) from error
    if size > MOST_BYTES:
        raise MetadataError(
            f"{where}: the metadata are {size} bytes of JSON, expected at most {MOST_BYTES}; "
            "store large attributes as arrays"
        )
