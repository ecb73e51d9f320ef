"""A chain of codecs between the elements of a chunk and its bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xarray_n5.formats.zarr2.filters import Size, flat

if TYPE_CHECKING:
    from xarray_n5.formats.zarr2.filters import Bytes, Texts
    from xarray_n5.model.codec import Buffer


class Serializer(Protocol):
    """A codec from an array to bytes."""

    @property
    def size(self) -> Size:
        """The size of the bytes."""

    def encode(self, block: np.ndarray) -> Buffer:
        """Encode the elements of a chunk."""

    def decode(self, view: memoryview) -> np.ndarray:
        """Decode the elements of a chunk, in any byte order."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """``bytes``: elements of a fixed size, one after another in C order."""

    stored: np.dtype[Any]
    """The type of an element, in its byte order."""
    shape: tuple[int, ...]

    @property
    def size(self) -> Size:
        """The size of all elements."""
        return Size(math.prod(self.shape) * self.stored.itemsize)

    def encode(self, block: np.ndarray) -> Buffer:
        """Return the bytes of the elements, in the codec's byte order."""
        elements = np.ascontiguousarray(block, self.stored)
        return elements.data if self.stored.kind in "biufc" else flat(elements)

    def decode(self, view: memoryview) -> np.ndarray:
        """Return the elements, in the codec's byte order."""
        return np.frombuffer(view, self.stored).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Varying:
    """``vlen-utf8`` and ``vlen-bytes``: each element after its length."""

    codec: Texts
    shape: tuple[int, ...]

    @property
    def size(self) -> Size:
        """The maximum size of the elements, in bytes."""
        return self.codec.size

    def encode(self, block: np.ndarray) -> Buffer:
        """Return the elements with their lengths."""
        return flat(self.codec.encode(np.asarray(block, object).reshape(-1)))

    def decode(self, view: memoryview) -> np.ndarray:
        """Return the elements as objects."""
        texts: np.ndarray = self.codec.decode(view, len(view))
        return texts.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The codecs of a chunk, in the order in which they encode."""

    shape: tuple[int, ...]
    """The shape of a chunk."""
    dtype: np.dtype[Any]
    """The type of an element in memory."""
    order: tuple[int, ...] | None
    """The order of axes in the serializer's input; None if unchanged."""
    serializer: Serializer
    compressors: tuple[Bytes, ...]
    sizes: tuple[Size, ...] = field(init=False)
    """The size of the serializer's output, and of each compressor's."""

    def __post_init__(self) -> None:
        sizes = [self.serializer.size]
        for each in self.compressors:
            before = sizes[-1]
            exact = before.exact and each.is_exact
            sizes.append(Size(each.encoded_size(before.nbytes), exact, before.objects))
        object.__setattr__(self, "sizes", tuple(sizes))

    def encode(self, block: np.ndarray) -> Buffer:
        """Encode a chunk with the elements of `block`, which has the chunk's full shape."""
        data = self.serializer.encode(block if self.order is None else block.transpose(self.order))
        for each in self.compressors:
            data = each.encode(data)
        return data

    def decode(self, data: Buffer) -> np.ndarray:
        """Return the elements of a chunk, in any byte order.

        Raises
        ------
        EOFError
            If bytes are missing.
        ValueError
            If they are invalid, or too many.
        """
        view, sizes = flat(data), self.sizes
        stored = len(view)
        if not stored:
            raise EOFError("the file is empty: its writer was stopped")
        for each, size in zip(reversed(self.compressors), reversed(sizes[:-1]), strict=True):
            view = flat(each.decode(view, size.limit(stored)))
            size.check(len(view), stored)
        if not self.compressors:
            sizes[0].check(stored, stored)
        found = self.serializer.decode(view)
        return found if self.order is None else found.transpose(np.argsort(self.order))
