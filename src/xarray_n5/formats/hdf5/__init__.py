"""HDF5 files as containers."""
