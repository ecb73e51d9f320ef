"""N5, native to xarray and Dask.

Importing the package also attaches `from_n5` and `to_n5` to :mod:`dask.array`, and the accessor
`n5` to xarray's objects. Public names are in ``__init__.pyi``, and are imported on first use.
"""

import dask.array as _dask_array
import lazy_loader as _lazy_loader

from xarray_n5 import accessors as _accessors  # noqa: F401 - registers them
from xarray_n5.dask.from_n5 import from_n5 as _from_n5
from xarray_n5.dask.to_n5 import to_n5 as _to_n5

_MODULES = {"bdv", "doctor", "errors", "hangar"}
"""Modules with public names of their own; they are attributes after one import, too."""

__getattr__, __dir__, _names = _lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in _names if name not in _MODULES]

for _function in (_from_n5, _to_n5):
    if not hasattr(_dask_array, _function.__name__):
        setattr(_dask_array, _function.__name__, _function)
