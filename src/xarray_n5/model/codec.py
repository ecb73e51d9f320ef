"""What a codec is: a named way to turn bytes into fewer bytes and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from dataclasses import Field

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes in a row; a memoryview's items may be wider than one."""


class Compression(Protocol):
    """A way to make bytes fewer: a frozen dataclass whose fields are its parameters.

    A field's ``metadata={"written": {value: instead}}`` names values that other readers refuse.
    """

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def encode(self, data: Buffer) -> Buffer:
        """Return `data` compressed; a memoryview tells the size of its elements."""

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what `data` holds, `size` bytes if all is well; raise where it is damaged.

        Too short a stream raises, or gives the fewer bytes that it holds; a longer one raises,
        unless it is not compressed.
        """
