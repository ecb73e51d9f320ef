"""Data types and fill values, as in a ``.zarray`` (Zarr v2, "Data type encoding")."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.formats.values import LARGEST
from xarray_n5.model.times import check_time_units

_SIMPLE = re.compile(r"[<>|=](?:[biufcSUV]\d+|O|[Mm]8\[\w+\])")


def parse_dtype(value: object, where: str) -> np.dtype[Any]:
    """Return the type of a stored element, in the stored byte order.

    Raises
    ------
    MetadataError
        If it is not a type of Zarr v2.

    Examples
    --------
    >>> parse_dtype([["x", "<i4"], ["y", "|S2", [3]]], "here").itemsize
    10
    """
    try:
        _check_dtype(value)
        found: np.dtype[Any] = np.dtype(_as_numpy(value))
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise MetadataError(
            f"{where}: 'dtype' is {str(value)[:200]!r}, which is not a type of Zarr v2: {error}"
        ) from error
    if not 0 < found.itemsize <= LARGEST:
        raise MetadataError(f"{where}: 'dtype' has elements of {found.itemsize} bytes")
    return found


def _check_dtype(value: object) -> None:
    match value:
        case str() if _SIMPLE.fullmatch(value):
            check_time_units(value)
        case [*fields] if fields:
            for field in fields:
                if not isinstance(field, list) or len(field) not in {2, 3}:
                    raise ValueError("expected a field with a name, a type and an optional shape")
                if isinstance(field[1], str) and field[1].endswith("O"):
                    raise ValueError("objects in fields cannot be decoded")
                _check_dtype(field[1])
        case _:
            raise ValueError("expected a type such as '<f4', or a list of fields")


def _as_numpy(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return [
        (str(name), _as_numpy(kind), *(tuple(shape) for shape in rest))
        for name, kind, *rest in value
    ]


def dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """Return the name of a type in a ``.zarray``.

    >>> dtype_to_json(np.dtype([("x", "<i4"), ("y", "S2", (3,))]))
    [['x', '<i4'], ['y', '|S2', [3]]]
    """
    if dtype.names is None:
        return dtype.str
    fields = []
    for name in dtype.names:
        inner = dtype.fields[name][0] if dtype.fields else dtype
        base, shape = inner.subdtype or (inner, ())
        fields.append([name, dtype_to_json(base), *([list(shape)] if shape else [])])
    return fields


def fill_to_json(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as in ``.zarray``.

    >>> fill_to_json(np.float32("nan"), np.dtype("f4")), fill_to_json(b"ab", np.dtype("S3"))
    ('NaN', 'YWIA')
    """
    if dtype.kind in "SV":
        raw = np.array(value, dtype).tobytes()  # as long as an element, as TensorStore requires
        return base64.standard_b64encode(raw).decode()
    if dtype.kind in "Mm":
        return int(np.array(value, dtype.newbyteorder("=")).view("i8"))
    if dtype.kind == "c":
        return [_float_to_json(float(value.real)), _float_to_json(float(value.imag))]
    if dtype.kind == "f":
        return _float_to_json(float(value))
    return value.item() if isinstance(value, np.generic) else value


def _float_to_json(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
