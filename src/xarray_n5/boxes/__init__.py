"""Boxes and grids of stored arrays: functions with overlap, crops, and interpolation."""
