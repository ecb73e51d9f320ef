"""The protocol of compressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from dataclasses import Field

Buffer: TypeAlias = bytes | bytearray | memoryview
"""A contiguous buffer; the items of a memoryview may be larger than a byte."""


class Compression(Protocol):
    """A compression: a frozen dataclass whose fields are its parameters.

    A field's ``metadata={"written": {value: instead}}`` replaces values that other readers refuse.
    """

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __hash__(self) -> int:
        """Return a hash, as frozen dataclasses do."""

    def encode(self, data: Buffer) -> Buffer:
        """Return `data` compressed; the item size of a memoryview is that of the elements."""

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the `size` bytes of the content; raise if the stream is damaged.

        A truncated stream may also return fewer bytes. Only raw data may return more.
        """
