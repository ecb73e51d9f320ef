"""Container formats: the keys of a node, and the meaning of their bytes.

A format is a pure layout. It parses documents into the model of :mod:`xarray_n5.model.metadata` and
writes them, names the keys of chunks, and decodes and encodes chunks. It does not fetch bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from xarray_n5.errors import MetadataError
from xarray_n5.formats.hdf5.format import Hdf5
from xarray_n5.formats.n5.format import N5
from xarray_n5.formats.protocol import Documents, Format, KeyedFormat
from xarray_n5.formats.zarr2.format import Zarr2
from xarray_n5.formats.zarr3.format import Zarr3
from xarray_n5.model.json import near
from xarray_n5.model.paths import join
from xarray_n5.stores.archive import SUFFIXES as ARCHIVES

if TYPE_CHECKING:
    from collections.abc import Mapping


FormatName: TypeAlias = Literal["n5", "zarr2", "zarr3", "hdf5"]
"""The name of a format."""

__all__ = [
    "FORMATS",
    "KEYED_FORMATS",
    "N5",
    "TITLES",
    "Documents",
    "Format",
    "FormatName",
    "Hdf5",
    "KeyedFormat",
    "Zarr2",
    "Zarr3",
    "get_format",
    "is_container_name",
    "split_url",
]


FORMATS: Mapping[str, Format] = {
    N5.name: N5(),
    Zarr2.name: Zarr2(),
    Zarr3.name: Zarr3(),
    Hdf5.name: Hdf5(),
}


def get_format(name: str | None) -> Format:
    """Return the format called `name`; N5 by default.

    Raises
    ------
    MetadataError
        If there is no such format.
    """
    try:
        return FORMATS[name or N5.name]
    except KeyError:
        raise MetadataError(
            f"unknown format {name!r}; expected one of {', '.join(FORMATS)}{near(name, FORMATS)}"
        ) from None


KEYED_FORMATS: list[KeyedFormat] = [
    cast("KeyedFormat", form) for form in FORMATS.values() if form.documents
]
"""The formats that key-value stores support, the usual one first."""


TITLES = {
    ".zarray": "Zarr v2",
    ".zgroup": "Zarr v2",
    "zarr.json": "Zarr v3",
    "attributes.json": "N5",
}
"""The format that each document identifies."""


def is_container_name(name: str) -> bool:
    """Return whether a file or directory is named like a container."""
    archive = name.lower().endswith(ARCHIVES)
    return archive or any(name.endswith(form.suffixes) for form in FORMATS.values())


def split_url(url: str, path: str = "") -> tuple[str, str]:
    """Return a container's URL and the path of a node, which may be part of the URL.

    >>> split_url("s3://bucket/a.n5/em/s0"), split_url("a.zarr", "em")
    (('s3://bucket/a.n5', 'em/s0'), ('a.zarr', 'em'))
    """
    if "::" in url or "?" in url:
        return url, path
    ends = [part.end() for part in re.finditer(r"[^/]+(?=/|$)", url)]
    for end in reversed(ends):
        if is_container_name(url[:end]):
            return url[:end], join(url[end:].strip("/"), path)
    return url, path
