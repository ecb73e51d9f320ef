"""The accessors ``.n5`` of DataArrays, Datasets and DataTrees; this import registers them."""

from xarray_n5.accessors import images, trees

__all__ = ["images", "trees"]
