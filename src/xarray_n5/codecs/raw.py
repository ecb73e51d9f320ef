"""No compression (N5 README, "raw")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Buffer


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes without compression."""

    name: ClassVar[str] = "raw"

    def encode(self, data: Buffer) -> Buffer:
        """Return `data`."""
        return data

    def stored_size(self, head: bytes, size: int) -> int:
        """Return `size`."""
        return size

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return `data`, of any length."""
        return data
