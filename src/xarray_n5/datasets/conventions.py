"""How each format holds what xarray has and N5 has not: types, places, masks, attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from xarray_n5.datasets.conventions_n5 import Noted
from xarray_n5.datasets.conventions_zarr import Native

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.attributes import Packed
    from xarray_n5.formats.protocol import Format


class Packing(Protocol):
    """Rules by which variables become arrays."""

    note: ClassVar[str]
    """The attribute for what only those need to know who read a Dataset again."""
    in_axes: ClassVar[bool]
    """Whether regular coordinates may stand in the axes of arrays; else all are arrays."""
    cut: ClassVar[tuple[type[str | bytes], ...]]
    """Which texts lose NULs at their ends."""

    def encode(self, variables: Mapping[Hashable, xr.Variable]) -> dict[Hashable, xr.Variable]:
        """Return variables as xarray encodes them all together."""

    def pack(self, name: str, variable: xr.Variable) -> Packed:
        """Return an encoded variable as it is stored; MetadataError where it cannot be."""

    def pack_group(
        self, attributes: Mapping[Any, Any], where: str, *, empty: bool
    ) -> dict[str, Any]:
        """Return the attributes of a Dataset's group, be it `empty` of arrays."""

    def described(self, packed: Packed, told: Collection[str], *, placed: bool) -> dict[str, Any]:
        """Return an array's attributes: its axes are `placed`, and alone tell some coordinates."""

    def fit(self, name: str, packed: Packed, array: Array) -> Packed:
        """Return what goes into an array that exists as that holds it; ValueError where not."""


_NATIVE, _NOTED = Native(), Noted()


def packing_of(form: Format) -> Packing:
    """Return the rules of a format."""
    return _NATIVE if form.native_to_xarray else _NOTED
