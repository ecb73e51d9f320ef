"""Replace compressions that a format does not support."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array_checks import check_storable, completed
from xarray_n5.codecs import resolve
from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.metadata import ArrayMetadata


def with_fallback(
    form: Format, metadata: ArrayMetadata, layout: Mapping[str, Any] | None, where: str
) -> ArrayMetadata:
    """Complete an array's metadata, with gzip if the format does not support its compression.

    Raises
    ------
    MetadataError
        If the format cannot store the array.
    """
    try:
        found = completed(form, metadata, layout, where)
        check_storable(found, form, where)
    except MetadataError:
        return completed(form, replace(metadata, compression=resolve("gzip")), layout, where)
    return found
