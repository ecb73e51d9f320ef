"""Zarr v3: one document a node, codecs in a chain, shards."""
