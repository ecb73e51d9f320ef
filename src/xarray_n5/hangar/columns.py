"""Columns of Hangar's samples as dask arrays and as Datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import tokenize
from dask.blockwise import blockwise
from dask.highlevelgraph import HighLevelGraph
from dask.layers import ArrayBlockwiseDep

from xarray_n5.errors import MetadataError
from xarray_n5.hangar.files import read_runs
from xarray_n5.hangar.runs import blocks_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from xarray_n5.hangar.files import Run

    ChunkIO = int | Literal["auto"] | None

_MOST = 1 << 26
"""The most bytes of a block that nobody chose: 64 MiB."""


@dataclass(frozen=True, slots=True)
class Column:
    """Samples of one shape and type, and what they are called where that is known."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    runs: tuple[Run, ...]
    stamps: tuple[tuple[int, int], ...]
    keys: tuple[int | str, ...] | None = None

    @property
    def schema(self) -> str:
        """A name made of the type and the shape, such as ``float32_5x7x9``."""
        return "_".join(filter(None, (str(self.dtype), "x".join(map(str, self.shape)))))


@dataclass(frozen=True, slots=True)
class Block:
    """What one task reads."""

    runs: tuple[Run, ...]

    @property
    def samples(self) -> int:
        """How many samples it has."""
        return sum(len(run.digests) for run in self.runs)


class Blocks(ArrayBlockwiseDep):
    """The runs of each block, for dask to hand to its task."""

    def __init__(self, chunks: tuple[tuple[int, ...], ...], blocks: Sequence[Block]) -> None:
        super().__init__(chunks)
        self.blocks = blocks

    def __getitem__(self, index: tuple[int, ...]) -> Block:
        return self.blocks[index[0]]


def to_array(column: Column, chunks: ChunkIO) -> da.Array:
    """Return the dask array of a column: one blockwise layer, whose tasks hold paths and rows."""
    nbytes = max(1, int(np.prod(column.shape, dtype=object)) * column.dtype.itemsize)
    most = max(1, _MOST // nbytes)
    runs = blocks_of(column.runs, most, most if chunks == "auto" else chunks)
    blocks = [Block(several) for several in runs]
    sizes = (tuple(block.samples for block in blocks), *((size,) for size in column.shape))
    # One text, since dask takes its time over each of many objects.
    where = "\n".join(f"{run.path}:{run.dataset}:{run.first}:{run.digests}" for run in column.runs)
    name = f"from-hangar-{tokenize(where, column.dtype, column.stamps, sizes)}"
    axes = tuple(range(len(sizes)))
    arguments: Any = (column.shape, None, column.dtype, None, Blocks(sizes, blocks), axes)
    layer: Any = blockwise(_read, name, axes, *arguments, numblocks={})
    graph = HighLevelGraph.from_collections(name, layer, dependencies=())
    return da.Array(graph, name, sizes, meta=np.empty((0,) * len(sizes), column.dtype))


def _read(shape: tuple[int, ...], dtype: np.dtype[Any], block: Block) -> np.ndarray:
    return read_runs(block.runs, shape, dtype)


def to_dataset(columns: Mapping[str, Column], chunks: ChunkIO) -> xr.Dataset:
    """Return columns as a Dataset; they share samples where these are called the same."""
    arrays = {name: to_array(column, chunks) for name, column in columns.items()}
    marks = {(column.keys, len(arrays[name])) for name, column in columns.items()}
    variables: dict[str, Any] = {}
    for name, column in columns.items():
        along = _free("sample" if len(marks) == 1 else f"{name}_sample", columns)
        dims = (along, *(_free(f"{name}_{axis}", columns) for axis in range(len(column.shape))))
        variables[name] = xr.Variable(dims, arrays[name])
        if column.keys is not None:
            variables[along] = xr.Variable(along, _labels(column.keys, name))
    coordinates = {name for name in variables if name not in columns}
    return xr.Dataset(variables).set_coords(coordinates)


def _free(name: str, columns: Container[str]) -> str:
    """Return the name of a dimension that no column has."""
    while name in columns:
        name += "_"
    return name


def _labels(keys: Sequence[int | str], column: str) -> np.ndarray:
    """Return names of samples as numbers, or as texts where some are no numbers."""
    if all(isinstance(key, int) for key in keys):
        return np.array(keys)
    return np.array(texts_of(keys, f"{column}: samples"))


def texts_of(keys: Iterable[object], what: str) -> list[str]:
    """Return keys as texts; numbers and texts that look alike are refused."""
    known: dict[str, object] = {}
    for key in keys:
        if str(key) in known:
            raise MetadataError(
                f"{what} are called {known[str(key)]!r} and {key!r}, which would be one name; "
                "rename one of them"
            )
        known[str(key)] = key
    return list(known)
