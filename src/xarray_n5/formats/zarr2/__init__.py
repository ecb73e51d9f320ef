"""Zarr v2: documents, and chunks with filters and compressors."""
