"""The compressions that tests store chunks with, by their names in N5."""

from typing import Any

NAMES = ("raw", "gzip", "bzip2", "xz", "lz4", "blosc", "zstd")
"""Compressions that N5 and Zarr v2 have."""

FILTERS = ("raw", "gzip", "blosc", "zstd")
"""Those that are filters of HDF5, too."""

SHARED = tuple(name for name in NAMES if name != "lz4")
"""Those whose bytes all programs agree on; each frames LZ4 its own way."""

WITHOUT_CHECKSUM = ("raw", "blosc")
"""Those whose streams carry no checksum."""

BLOSC = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
"""Compressors inside Blosc."""

ZLIB: dict[str, Any] = {"type": "gzip", "level": 6, "useZlib": True}
"""N5's gzip in a frame of zlib."""
