"""Zarr v2: documents, and chunks behind filters and compressors."""
