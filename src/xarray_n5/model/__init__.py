"""Pure values: grids, indices, chunk shapes, metadata, axes, units, paths."""
