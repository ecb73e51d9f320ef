"""Numbers and fill values in the metadata of several formats."""

from __future__ import annotations

import base64
import math
import re
from contextlib import suppress
from typing import Any

import numpy as np

from xarray_n5.errors import MetadataError

MOST_AXES = 64
"""The maximum number of axes, as in NumPy."""

LARGEST = 1 << 20
"""The maximum size of an element in bytes, which limits the size of a fill value."""

NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The strings that stand for numbers which JSON lacks."""

_WHOLE = re.compile(r"[+-]?\d+")

NOT_A_TIME = int(np.iinfo(np.int64).min)
"""The number that stands for a missing time."""


def whole_numbers(value: Any, key: str, where: str, least: int = 0) -> tuple[int, ...]:
    """Return the numbers of a member with one for each axis; 1.0, as some writers have it, is 1.

    Raises
    ------
    MetadataError
        If it is not a list of whole numbers of at least `least`, or is too long.
    """
    numbers = value if isinstance(value, list) else [None]
    if len(numbers) > MOST_AXES or not all(_is_whole(number, least) for number in numbers):
        raise MetadataError(
            f"{where}: {key!r} is {str(value)[:200]}; expected at most {MOST_AXES} whole numbers "
            f"from {least} to 2**63"
        )
    return tuple(map(int, numbers))


def _is_whole(number: object, least: int) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return least <= number < 1 << 63 and number == int(number)


def parse_fill(value: Any, dtype: np.dtype[Any], where: str) -> Any:
    """Return the value of elements in missing chunks, as in Zarr; zero by default.

    Raises
    ------
    MetadataError
        If an array of the type cannot store it.

    Examples
    --------
    >>> parse_fill("0x7fc00001", np.dtype("f4"), "here"), parse_fill("YWI=", np.dtype("S2"), "here")
    (np.float32(nan), np.bytes_(b'ab'))
    """
    if value is None:
        value = "NaT" if dtype.kind in "Mm" else ""
        if dtype.kind not in "MmO":
            return np.zeros((), dtype)[()]
    try:
        return _fill(value, dtype)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise MetadataError(
            f"{where}: 'fill_value' is {str(value)[:200]!r}, which an array of {dtype} cannot "
            f"store ({error})"
        ) from error


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:  # noqa: PLR0911 - a line for each kind
    if dtype.kind == "b":
        known = {"true": True, "false": False, "1": True, "0": False, 1: True, 0: False}
        return np.bool_(known[value.lower() if isinstance(value, str) else value])
    if dtype.kind in "iu":
        return np.array(_integer(value), dtype)[()]
    if dtype.kind == "f":
        return _float(value, dtype)
    if dtype.kind == "c":
        half = np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")
        real, imaginary = value if isinstance(value, list) else (value, 0)
        return np.array([_float(real, half), _float(imaginary, half)], half).view(dtype)[0]
    if dtype.kind in "Mm":
        ticks = NOT_A_TIME if value == "NaT" else int(value)
        return np.array(ticks, "i8").view(dtype.newbyteorder("="))[()]
    if dtype.kind in "UO":
        if isinstance(value, list | dict):
            raise ValueError("expected a string or a number")
        text = "" if value == 0 else value
        return text if dtype.kind == "O" else np.array(str(text), dtype)[()]
    text = "" if value == 0 else str(value)
    raw = bytes(value) if isinstance(value, list) else base64.standard_b64decode(text)
    if dtype.kind == "S":
        return np.array(raw, dtype)[()]
    if len(raw) not in {0, dtype.itemsize}:
        raise ValueError(f"expected {dtype.itemsize} bytes, got {len(raw)}")
    return np.frombuffer(raw or bytes(dtype.itemsize), dtype)[0]


def _integer(value: Any) -> int:
    """Return a whole number; n5-zarr writes it as a string."""
    exact = isinstance(value, int) or (isinstance(value, str) and _WHOLE.fullmatch(value))
    number = int(value) if exact else float(value)  # large integers are not converted to floats
    if isinstance(value, bool) or number != int(number):
        raise ValueError("expected a whole number")
    return int(number)


def _float(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, bool):
        raise TypeError("expected a number")
    if isinstance(value, str) and value.startswith("0x"):  # the bits of a NaN
        return np.array(int(value, 16), f"u{dtype.itemsize}").view(dtype.newbyteorder("="))[()]
    return dtype.type(NUMBERS[value] if value in NUMBERS else float(value))


def fill_to_json(value: Any, dtype: np.dtype[Any], *, exact: bool = False) -> Any:
    """Return a fill value as in Zarr; with `exact`, as in Zarr v3, every NaN keeps its bits.

    Bytes of Zarr v2 are as long as an element, as TensorStore requires.

    Examples
    --------
    >>> fill_to_json(np.float32("nan"), np.dtype("f4")), fill_to_json(b"ab", np.dtype("S3"))
    ('NaN', 'YWIA')
    """
    if dtype.kind in "OU":
        return str(value)
    element = np.array(value, dtype if dtype.kind in "SV" else dtype.newbyteorder("="))
    match dtype.kind:
        case "f":
            return _float_to_json(element[()], exact=exact)
        case "c":
            halves = element.reshape(1).view(f"f{dtype.itemsize // 2}")
            return [_float_to_json(half, exact=exact) for half in halves]
        case "m" | "M":
            return int(element.view("i8"))
        case "S" | "V":
            raw = bytes(value) if exact and dtype.kind == "S" else element.tobytes()
            return base64.standard_b64encode(raw).decode()
    return element.item()


def given_fill(value: Any, dtype: np.dtype[Any], where: str, *, exact: bool = False) -> Any:
    """Return a fill value that a user gives as in Zarr; numbers of NumPy are supported, too.

    Raises
    ------
    MetadataError
        If an array of the type cannot store it.
    """
    if not isinstance(value, np.generic | bytes | complex | float):
        return value
    element, is_nan = None, value != value  # noqa: PLR0124 - or NaT
    if dtype.kind in "fcmM" or not is_nan:
        with suppress(TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
            element = np.array(value, dtype)[()]
    if element is None or not (dtype.kind in "fc" or is_nan or element == value):
        raise MetadataError(
            f"{where}: 'fill_value' is {value!r}, which an array of {dtype} cannot store"
        )
    return fill_to_json(element, dtype, exact=exact)


def _float_to_json(value: Any, *, exact: bool) -> Any:
    number = float(value)
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if not math.isnan(number):
        return number
    bits = value.view(f"u{value.dtype.itemsize}")
    usual = np.array(math.nan, value.dtype).view(bits.dtype)
    return f"0x{int(bits):0{2 * value.dtype.itemsize}x}" if exact and bits != usual else "NaN"
