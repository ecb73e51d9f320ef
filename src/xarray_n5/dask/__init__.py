"""Dask arrays from stored chunks, and back."""
