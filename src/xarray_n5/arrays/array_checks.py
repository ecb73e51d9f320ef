"""Check arrays before they are created or written; nothing is written yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.model.metadata import ArrayMetadata, check_factors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.formats.protocol import Container, Format


def completed(
    form: Format,
    metadata: ArrayMetadata,
    layout: Mapping[str, Any] | None,
    where: str,
    there: ArrayMetadata | None = None,
) -> ArrayMetadata:
    """Return an array's metadata with a layout; errors name the array.

    The default layout depends on the attributes, and on those of the existing array `there`.
    """
    before = there.attributes if there else {}
    whole = replace(metadata, attributes={**before, **metadata.attributes})
    try:
        return replace(form.complete(whole, layout), attributes=metadata.attributes)
    except UnknownCompressionError as error:
        raise UnknownCompressionError(error.name, error.known, where) from error
    except MetadataError as error:
        raise MetadataError(f"{where}: {error}") from error


def check_path(container: Container, path: str) -> None:
    """Raise if an array would be a root that must be a group."""
    if not path and not container.format.array_at_root:
        raise MetadataError(
            f"{container.url}: the root of an {container.format.name} file is a group; pass the "
            "array's path in the file, such as 'data'"
        )


def check_storable(metadata: ArrayMetadata, form: Format, where: str) -> None:
    """Raise if the format or the compression cannot store the array."""
    try:
        grid = metadata.grid
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    if any(size >= 1 << 63 for size in grid.shape) or any(side >= 1 << 31 for side in grid.chunks):
        raise MetadataError(f"{where}: expected sizes below 2**63 and chunk sides below 2**31")
    if metadata.inner is not None and not form.holds_shards:
        raise MetadataError(
            f"{where}: {form.name} does not support shards, which are a feature of Zarr v3; use "
            "format='zarr3', or omit shards"
        )
    check_factors(metadata.attributes, where)
    form.check(metadata, where)
    probe = replace(metadata, chunks=metadata.inner or (1,) * len(grid.shape))
    try:
        data = form.encode(probe, np.full(probe.chunks, metadata.fill_value, metadata.dtype))
        form.decode(probe, bytes(data))
    except Exception as error:  # codecs raise errors of any type
        raise MetadataError(
            f"{where}: cannot compress with {metadata.compression}{_filters(metadata)}: {error}"
        ) from error


def _filters(metadata: ArrayMetadata) -> str:
    filters = getattr(metadata.layout, "filters", ())
    return f" after the filters {', '.join(filters)}" if filters else ""


def check_agreement(
    found: ArrayMetadata,
    wanted: ArrayMetadata,
    where: str,
    *,
    chunks_matter: bool,
    layout: Mapping[str, Any] | None = None,
) -> None:
    """Raise if a stored array is not the one that a write expects."""
    for name in ("shape", "dtype", "chunks", "inner"):
        have, want = getattr(found, name), getattr(wanted, name)
        if have != want and (name not in {"chunks", "inner"} or chunks_matter):
            if found.inner or wanted.inner:
                name = {"chunks": "shards", "inner": "chunks"}.get(name, name)  # noqa: PLW2901
            raise MetadataError(f"{where}: the stored array has {name} {have}, expected {want}")
    if layout and found.layout != wanted.layout:
        raise MetadataError(
            f"{where}: the stored array has {found.layout}; omit layout={dict(layout)}, or "
            "replace the array with mode='w'"
        )
