"""Columns of Hangar's samples as Dask arrays and as Datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import xarray as xr
from dask.base import tokenize

from xarray_n5.errors import MetadataError
from xarray_n5.graph import ArrayBlockwiseDep, in_one_layer
from xarray_n5_hangar.files import read_runs
from xarray_n5_hangar.runs import blocks_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    import dask.array as da

    from xarray_n5_hangar.files import Run, Schema

BlockSize: TypeAlias = "int | Literal['auto'] | None"
"""Samples per block; "auto" for 64 MiB, None for one run of rows."""

_MOST = 1 << 26
"""The largest block that is chosen automatically: 64 MiB."""


@dataclass(frozen=True, slots=True)
class Column:
    """Samples of one schema, with their names if records have them."""

    schema: Schema
    runs: tuple[Run, ...]
    stamps: tuple[tuple[int, int], ...]
    keys: tuple[int | str, ...] | None = None


class _Blocks(ArrayBlockwiseDep):
    """The runs of each block; Dask passes them to its task."""

    def __init__(
        self, chunks: tuple[tuple[int, ...], ...], blocks: Sequence[tuple[Run, ...]]
    ) -> None:
        super().__init__(chunks)
        self.blocks = blocks

    def __getitem__(self, index: tuple[int, ...]) -> _Block:
        return _Block(self.blocks[index[0]])


@dataclass(frozen=True, slots=True)
class _Block:
    """A block's runs; unlike a bare tuple, Dask never treats them as a task."""

    runs: tuple[Run, ...]


def to_array(column: Column, chunks: BlockSize) -> da.Array:
    """Return a column as a Dask array of one layer, whose tasks hold paths and rows."""
    schema = column.schema
    most = max(1, _MOST // max(1, schema.nbytes))
    blocks = blocks_of(column.runs, most, most if chunks == "auto" else chunks)
    counts = tuple(sum(len(run.digests) for run in runs) for runs in blocks)
    sizes = (counts, *((size,) for size in schema.shape))
    # One string: Dask is slow to hash many objects.
    rows = "\n".join(f"{run.path}:{run.dataset}:{run.first}:{run.digests}" for run in column.runs)
    name = f"from-hangar-{tokenize(rows, schema.dtype, column.stamps, sizes)}"
    return in_one_layer(name, _read, schema, _Blocks(sizes, blocks), sizes, schema.dtype)


def _read(schema: Schema, block: _Block) -> np.ndarray:
    return read_runs(block.runs, schema)


def to_dataset(columns: Mapping[str, Column], chunks: BlockSize) -> xr.Dataset:
    """Return columns as a Dataset; those with the same names of samples share their dimension."""
    arrays = {name: to_array(column, chunks) for name, column in columns.items()}
    shared = len({(column.keys, len(arrays[name])) for name, column in columns.items()}) == 1
    variables: dict[str, Any] = {}
    for name, column in columns.items():
        samples = _free("sample" if shared else f"{name}_sample", columns)
        axes = (_free(f"{name}_{axis}", columns) for axis in range(len(column.schema.shape)))
        variables[name] = xr.Variable((samples, *axes), arrays[name])
        if column.keys is not None:
            variables[samples] = xr.Variable(samples, _labels(column.keys, name))
    return xr.Dataset(variables).set_coords(variables.keys() - columns.keys())


def _free(name: str, columns: Container[str]) -> str:
    """Return a dimension's name, with underscores appended until no column has it."""
    while name in columns:
        name += "_"
    return name


def _labels(keys: Sequence[int | str], column: str) -> np.ndarray:
    """Return the labels of samples: integers, or strings unless all are integers."""
    if all(isinstance(key, int) for key in keys):
        return np.array(keys)
    return np.array(unique_names(keys, f"{column}: samples"))


def unique_names(keys: Iterable[object], what: str) -> list[str]:
    """Return keys as strings; raise if two of them become the same string."""
    known: dict[str, object] = {}
    for key in keys:
        if str(key) in known:
            raise MetadataError(
                f"{what} are called {known[str(key)]!r} and {key!r}, which would become one name; "
                "rename one of them"
            )
        known[str(key)] = key
    return list(known)
