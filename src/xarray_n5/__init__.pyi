from . import bdv as bdv
from . import doctor as doctor
from . import errors as errors
from . import hangar as hangar
from . import tutorial
from ._version import __version__
from .arrays.array import Array
from .arrays.create import create_array
from .arrays.group import Group, create_group
from .arrays.open import open_array, open_group
from .boxes.map_overlap import map_overlap
from .boxes.world_grid import world_grid
from .codecs import register_compression
from .copying.copy import copy
from .dask.from_n5 import from_n5
from .dask.to_n5 import to_n5
from .dialects import register_dialect
from .errors import (
    ChunkError,
    MetadataError,
    N5Error,
    NodeExistsError,
    NodeNotFoundError,
    ResumeError,
    UnfinishedWriteWarning,
)
from .integrity.chunk_map import chunk_map
from .integrity.digest import digest
from .integrity.repair import repair
from .integrity.verify import verify
from .model.axes import Axis, Geometry
from .pyramids.api import add_levels, pyramid
from .viewing.api import view
from .writing.options import set_options
from .writing.progress import ProgressBar

__all__ = [
    "Array",
    "Axis",
    "ChunkError",
    "Geometry",
    "Group",
    "MetadataError",
    "N5Error",
    "NodeExistsError",
    "NodeNotFoundError",
    "ProgressBar",
    "ResumeError",
    "UnfinishedWriteWarning",
    "__version__",
    "add_levels",
    "chunk_map",
    "copy",
    "create_array",
    "create_group",
    "digest",
    "from_n5",
    "map_overlap",
    "open_array",
    "open_group",
    "pyramid",
    "register_compression",
    "register_dialect",
    "repair",
    "set_options",
    "to_n5",
    "tutorial",
    "verify",
    "view",
    "world_grid",
]
