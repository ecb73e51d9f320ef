"""Validate the marker of an unfinished write.

A marker is in the container, where anybody may have put it. Nothing in it is used as a path, a file
name or a size before it is checked here. Pure functions on JSON.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import PathError
from xarray_n5.model.paths import normalize_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REPAIRED = "repair"
"""The token of a repair: any writer may resume it, whoever wrote the other chunks."""

LARGEST = 1 << 26
"""The maximum size of a marker: 64 MiB. Larger ones are not read."""

_TOKEN = re.compile(r"[0-9a-f]{32}")

_RUN = re.compile(r"[0-9a-f]{8}")

_MOST_LEVELS = 1000
"""The maximum number of levels of a pyramid in a marker."""

_MOST_AXES = 64


def is_token(text: str) -> bool:
    """Return whether a string is a valid token of a write.

    >>> is_token("0" * 32), is_token("../x")
    (True, False)
    """
    return text == REPAIRED or _TOKEN.fullmatch(text) is not None


def is_record(name: str) -> bool:
    """Return whether a file in the folder of a marker is named like records of tasks.

    >>> is_record("0123abcd-0.0.0"), is_record("mark.json")
    (True, False)
    """
    return _RUN.fullmatch(name.partition("-")[0]) is not None and "-" in name


def parse_mark(document: bytes, path: str) -> dict[str, Any]:
    """Return the facts in a marker of a write into the node at `path`.

    A marker with anything that this package does not write is treated as empty: the write is
    unfinished, and nothing else is known about it.
    """
    if len(document) > LARGEST:
        return {}
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    sound = all(key not in found or check(found[key], path) for key, check in _CHECKS.items())
    return found if sound else {}


def _is_run(value: Any, _: str) -> bool:
    return isinstance(value, str) and _RUN.fullmatch(value) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _are_numbers(value: Any, _: str = "") -> bool:
    return isinstance(value, list) and len(value) <= _MOST_AXES and all(map(_is_number, value))


def _are_indices(value: Any, _: str) -> bool:
    return isinstance(value, list) and all(map(_are_numbers, value))


def _are_boxes(value: Any, path: str) -> bool:
    return isinstance(value, list) and all(
        _are_indices(box, path) and all(len(side) == 2 for side in box)  # noqa: PLR2004 - ends
        for box in value
    )


def _is_path(value: Any, path: str) -> bool:
    """Return whether a marker at `path` may refer to a node: itself, or one below."""
    if not isinstance(value, str) or any(part.startswith(".") for part in value.split("/")):
        return False
    try:
        normal = normalize_path(value)
    except PathError:
        return False
    return normal == value and (not path or value == path or value.startswith(f"{path}/"))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and "/" not in value and value != "" and _is_path(value, "")


def _are_paths(value: Any, path: str) -> bool:
    return isinstance(value, list) and all(_is_path(each, path) for each in value)


def is_part(value: Any, path: str) -> bool:
    """Return whether a value has the path of a node at or below `path`, and a token."""
    return (
        isinstance(value, list)
        and len(value) == 2  # noqa: PLR2004 - a path and a token
        and _is_path(value[0], path)
        and isinstance(value[1], str)
        and is_token(value[1])
    )


def _are_parts(value: Any, path: str) -> bool:
    return isinstance(value, list) and all(is_part(each, path) for each in value)


def _is_whole(value: Any, _: str) -> bool:
    return is_part(value, "")


def _is_growth(value: Any, _: str) -> bool:
    return isinstance(value, dict) and all(
        _is_name(name) and _are_numbers(pair) and len(pair) == 2  # noqa: PLR2004 - axis and size
        for name, pair in value.items()
    )


def _are_places(value: Any, _: str) -> bool:
    return (
        isinstance(value, dict)
        and _is_name(value.get("dim"))
        and isinstance(value.get("values"), list)
        and all(isinstance(each, int | float | str) for each in value["values"])
        and isinstance(value.get("type"), str)
        and re.fullmatch(r"[<>|]?[iuf][1248]", value["type"]) is not None
        and isinstance(value.get("attributes"), dict)
    )


def _is_start(value: Any, _: str) -> bool:
    return _is_number(value) or _are_numbers(value)


def _is_depth(value: Any, _: str) -> bool:
    return _is_number(value) and value <= _MOST_LEVELS


def _is_flag(value: Any, _: str) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any, _: str) -> bool:
    return isinstance(value, str)


_CHECKS: Mapping[str, Callable[[Any, str], bool]] = {
    "attempt": _is_run,
    "run": _is_run,
    "start": _is_start,
    "shape": _are_numbers,
    "again": _are_boxes,
    "chunks": _are_indices,
    "parts": _are_parts,
    "copied": _are_paths,
    "written": _are_paths,
    "whole": _is_whole,
    "pyramid": _is_depth,
    "grows": _is_growth,
    "places": _are_places,
    "grown": _is_flag,
    "helped": _is_flag,
    "by": _is_text,
    "began": _is_text,
}
"""The validator of each member of a marker."""
