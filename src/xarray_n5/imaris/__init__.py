"""Imaris files (``.ims``): an image with channels, timepoints and levels, in HDF5."""
