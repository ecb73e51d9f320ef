"""Conventions that convert variables of a Dataset to arrays of a format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from xarray_n5.datasets.conventions_n5 import N5Convention
from xarray_n5.datasets.conventions_zarr import ZarrConvention

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.formats.protocol import Format


class Convention(Protocol):
    """The storage of xarray's types, coordinates and attributes in a format that lacks them."""

    roundtrip_key: ClassVar[str]
    """The attribute that only this package needs to restore a Dataset."""
    coordinates_in_axes: ClassVar[bool]
    """Whether regular coordinates are stored in the axes of arrays, rather than as arrays."""
    null_padded: ClassVar[tuple[type[str | bytes], ...]]
    """The types of strings that lose trailing NULs."""

    def encode_together(
        self, variables: Mapping[Hashable, xr.Variable]
    ) -> dict[Hashable, xr.Variable]:
        """Apply the encodings of xarray that need all variables together."""

    def encode(self, name: str, variable: xr.Variable) -> EncodedVariable:
        """Encode a variable; raise MetadataError if the format cannot store it."""

    def group_attributes(
        self, attributes: Mapping[Any, Any], where: str, *, empty: bool
    ) -> dict[str, Any]:
        """Encode the attributes of a Dataset, which may be `empty` of arrays."""

    def array_attributes(
        self, encoded: EncodedVariable, axis_coords: Collection[str], *, placed: bool
    ) -> dict[str, Any]:
        """Return an array's attributes; `placed` if its axes have scales and offsets.

        `axis_coords` are the coordinates that are stored in the axes only.
        """

    def fit(self, name: str, encoded: EncodedVariable, array: Array) -> EncodedVariable:
        """Convert strings to the width of an array; raise ValueError if they are longer."""


_N5, _ZARR = N5Convention(), ZarrConvention()


def convention_of(form: Format) -> Convention:
    """Return the convention for a format."""
    return _ZARR if form.native_to_xarray else _N5
