"""JSON objects, as documents hold them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from xarray_n5.metadata import Attributes


def check_json(members: Attributes, where: str, before: Attributes | None = None) -> None:
    """Raise where JSON cannot hold a member; NaN, which is none, may stay where it stood `before`.

    Raises
    ------
    MetadataError
        Naming the member.
    """
    for key, value in members.items():
        try:
            text = json.dumps(value)
            if before is None or key not in before or json.dumps(before[key]) != text:
                json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise MetadataError(
                f"{where}: the attribute {key!r} cannot be written as JSON ({error})"
            ) from error
