"""The bytes of a Zarr v2 chunk: filters in their order, then the compressor, always full size."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.compression.bzip2 import Bzip2
from xarray_n5.compression.gzip import Gzip
from xarray_n5.compression.lzma import Lzma
from xarray_n5.compression.streams import bytes_of
from xarray_n5.formats.zarr2_codecs import as_zarr, codec, compressor_to_json

if TYPE_CHECKING:
    from xarray_n5.metadata import ArrayMetadata


@dataclass(frozen=True, slots=True)
class Layout:
    """What a ``.zarray`` says of the way in which chunks are stored."""

    dtype: np.dtype[Any]
    """The type of a stored element, in its byte order."""
    order: str = "C"
    """Whether the last axis is that along which elements are neighbours, or the first ("F")."""
    separator: str = "."
    """What stands between the numbers of a chunk's key."""
    filters: tuple[str, ...] = ()
    """The configurations of filters, in the order in which they encode."""
    filled: bool = True
    """Whether a fill value is named, which is that of a mask, too, where xarray wrote."""


def decode(metadata: ArrayMetadata, data: bytes) -> np.ndarray:
    """Return a chunk's elements, in the byte order that they are stored in.

    Raises
    ------
    EOFError
        If the bytes are fewer than a chunk has.
    ValueError
        If they are others.
    """
    layout: Layout = metadata.layout
    size = math.prod(metadata.chunks)
    if not data:
        raise EOFError("the file is empty, as a writer leaves it that was stopped")
    expected = size * layout.dtype.itemsize
    decoded: Any
    if layout.filters:
        # How many bytes there are to be decompressed is not known.
        decoded = _decompress(metadata, data, expected)
    else:
        decoded = as_zarr(metadata.compression).decode(data, expected)
    if len(layout.filters) == 1 and '"vlen' in layout.filters[0]:
        _check_count(decoded, size)
    for config in reversed(layout.filters):
        decoded = codec(config).decode(decoded)
    if layout.dtype.kind == "O":
        found = np.asarray(decoded, object).reshape(-1)
    else:
        found = _elements(decoded, layout.dtype, expected)
    if found.size != size:
        raise ValueError(f"the chunk holds {found.size} elements, {size} were expected")
    return found.reshape(metadata.chunks, order="F" if layout.order == "F" else "C")


def _decompress(metadata: ArrayMetadata, data: bytes, expected: int) -> Any:
    """Return what filters decode: how much that is, they alone know, but not without bounds."""
    if isinstance(metadata.compression, (Gzip, Bzip2, Lzma)) and metadata.dtype.kind != "O":
        return metadata.compression.decode(data, 16 * expected + (1 << 16))
    config = compressor_to_json(metadata.compression)
    return data if config is None else codec(json.dumps(config)).decode(data)


def _check_count(decoded: Any, size: int) -> None:
    """Raise where texts are more, or fewer, than a chunk has, before room is made for them."""
    count = int.from_bytes(bytes(bytes_of(decoded)[:4]), "little")
    if count != size:
        raise ValueError(f"the chunk tells {count} elements, {size} were expected")


def _elements(decoded: Any, dtype: np.dtype[Any], expected: int) -> np.ndarray:
    plain: Any = np.ascontiguousarray(decoded) if isinstance(decoded, np.ndarray) else decoded
    view = bytes_of(plain)
    if len(view) < expected:
        raise EOFError(
            f"the payload holds {len(view)} bytes, {expected} were expected: the chunk is cut off, "
            "or the array's dtype or chunks are wrong"
        )
    if len(view) > expected:
        raise ValueError(f"the payload holds {len(view)} bytes, {expected} were expected")
    return np.frombuffer(view, dtype)


def _check_texts(elements: np.ndarray) -> None:
    """Raise where an object is no text."""
    for each in elements:
        if not isinstance(each, str):
            raise TypeError(f"{each!r} is no text, as all objects must be; convert it with str()")


def encode(metadata: ArrayMetadata, block: np.ndarray) -> bytes:
    """Return the bytes of a chunk that stores `block`, of a chunk's full shape."""
    layout: Layout = metadata.layout
    elements: Any = np.asarray(block, layout.dtype).reshape(
        -1, order="F" if layout.order == "F" else "C"
    )
    elements = np.ascontiguousarray(elements)
    if layout.dtype.kind == "O":
        _check_texts(elements)
    for config in layout.filters:
        elements = codec(config).encode(elements)
    compression = as_zarr(metadata.compression)
    if isinstance(elements, np.ndarray) and elements.dtype.kind in "biufc":
        return bytes(compression.encode(elements.data))
    plain: Any = elements.view("u1") if isinstance(elements, np.ndarray) else elements
    return bytes(compression.encode(bytes_of(plain)))
