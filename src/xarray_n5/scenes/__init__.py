"""Scenes of OME-Zarr 0.6: groups whose attributes place images in one world."""
