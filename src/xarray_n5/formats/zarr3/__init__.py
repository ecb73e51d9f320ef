"""Zarr v3: one document per node, chains of codecs, shards."""
