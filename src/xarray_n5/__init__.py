"""N5, native to xarray and Dask.

Importing the package also attaches `from_n5` and `to_n5` to :mod:`dask.array`, and the accessor
`n5` to xarray's objects.
"""

from typing import TYPE_CHECKING, Any

import dask.array as _dask_array

from xarray_n5 import leaves as _leaves
from xarray_n5 import tutorial
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import create_array
from xarray_n5.arrays.group import Group, create_group
from xarray_n5.arrays.open import open_array, open_group
from xarray_n5.codecs import register_compression
from xarray_n5.copying.api import copy
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.dask.to_n5 import to_n5
from xarray_n5.datasets import tree_accessor as _accessors  # noqa: F401 - registers all of them
from xarray_n5.dialects import register_dialect
from xarray_n5.errors import (
    AlignmentError,
    BlockError,
    ChunkError,
    ContainerNotVisibleError,
    DifferenceError,
    FinishedAppendError,
    MetadataError,
    MissingChunkError,
    MissingPackageError,
    N5Error,
    NodeExistsError,
    NodeNotFoundError,
    OneWriterError,
    PathError,
    ReadOnlyError,
    RefusedError,
    RequestError,
    ResumeError,
    StaleTaskError,
    UnfinishedWriteWarning,
    UnknownCompressionError,
    UnsafePathError,
    VarlengthChunkError,
)
from xarray_n5.leaves import register_scene
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.pyramids.api import pyramid
from xarray_n5.writing.progress import ProgressBar

if TYPE_CHECKING:
    from xarray_n5.leaves import (
        HangarWriter,
        chunk_map,
        digest,
        from_hangar,
        hangar_records,
        map_overlap,
        repair,
        to_hangar,
        verify,
        view,
        world_grid,
    )

__all__ = [
    "AlignmentError",
    "Array",
    "Axis",
    "BlockError",
    "ChunkError",
    "ContainerNotVisibleError",
    "DifferenceError",
    "FinishedAppendError",
    "Geometry",
    "Group",
    "HangarWriter",
    "MetadataError",
    "MissingChunkError",
    "MissingPackageError",
    "N5Error",
    "NodeExistsError",
    "NodeNotFoundError",
    "OneWriterError",
    "PathError",
    "ProgressBar",
    "ReadOnlyError",
    "RefusedError",
    "RequestError",
    "ResumeError",
    "StaleTaskError",
    "UnfinishedWriteWarning",
    "UnknownCompressionError",
    "UnsafePathError",
    "VarlengthChunkError",
    "__version__",
    "chunk_map",
    "copy",
    "create_array",
    "create_group",
    "digest",
    "from_hangar",
    "from_n5",
    "hangar_records",
    "map_overlap",
    "open_array",
    "open_group",
    "pyramid",
    "register_compression",
    "register_dialect",
    "register_scene",
    "repair",
    "to_hangar",
    "to_n5",
    "tutorial",
    "verify",
    "view",
    "world_grid",
]

__version__: str


def __getattr__(name: str) -> Any:
    """Import on first use what opening and creating arrays does not need."""
    if name == "__version__":
        from importlib.metadata import version

        return version("xarray-n5")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_leaves, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


for _function in (from_n5, to_n5):
    if not hasattr(_dask_array, _function.__name__):
        setattr(_dask_array, _function.__name__, _function)
