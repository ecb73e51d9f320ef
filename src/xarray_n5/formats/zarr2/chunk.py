"""Encode and decode Zarr v2 chunks: filters in order, then the compressor, always full size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.formats.zarr2.codecs import as_zarr
from xarray_n5.formats.zarr2.filters import Chain, buffer, chain

if TYPE_CHECKING:
    from xarray_n5.model.metadata import ArrayMetadata


@dataclass(frozen=True, slots=True)
class Layout:
    """The members of a ``.zarray`` that define the storage of chunks."""

    dtype: np.dtype[Any]
    """The type of a stored element, in its byte order."""
    order: str = "C"
    """Whether elements are in C order ("C") or in Fortran order ("F")."""
    separator: str = "."
    """The separator of the numbers in a chunk's key."""
    filters: tuple[str, ...] = ()
    """The configurations of filters, in the order in which they encode."""
    filled: bool = True
    """Whether the metadata have a fill value."""
    masks: bool = True
    """Whether elements that equal the fill value are masked, as by xarray."""


def decode(metadata: ArrayMetadata, data: bytes) -> np.ndarray:
    """Return a chunk's elements, in the stored byte order.

    Raises
    ------
    EOFError
        If there are fewer bytes than a chunk has.
    ValueError
        If they are invalid.
    """
    layout: Layout = metadata.layout
    if not data:
        raise EOFError("the file is empty: its writer was stopped")
    filters = chain_of(metadata)
    plain = as_zarr(metadata.compression).decode(data, filters.stored.limit(len(data)))
    decoded = filters.decode(plain, len(data))
    found = decoded if layout.dtype.kind == "O" else np.frombuffer(decoded, layout.dtype)
    return found.reshape(metadata.chunks, order="F" if layout.order == "F" else "C")


def chain_of(metadata: ArrayMetadata) -> Chain:
    """Return the filters of an array's chunks, with the sizes that they decode to."""
    return chain(metadata.layout.filters, metadata.layout.dtype, math.prod(metadata.chunks))


def _check_texts(elements: np.ndarray) -> None:
    """Raise if an object is not a string."""
    for each in elements:
        if not isinstance(each, str):
            raise TypeError(
                f"expected only strings among objects, got {each!r}; convert it with str()"
            )


def encode(metadata: ArrayMetadata, block: np.ndarray) -> bytes:
    """Return the bytes of a chunk that stores `block`, of a chunk's full shape."""
    layout: Layout = metadata.layout
    elements: Any = np.asarray(block, layout.dtype).reshape(
        -1, order="F" if layout.order == "F" else "C"
    )
    elements = np.ascontiguousarray(elements)
    if layout.dtype.kind == "O":
        _check_texts(elements)
    encoded = chain_of(metadata).encode(elements)
    return bytes(as_zarr(metadata.compression).encode(buffer(encoded)))
