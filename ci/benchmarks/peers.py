"""The same work as each library would do it, on containers with one array "a"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import dask.array as da
import numpy as np
import tensorstore as ts
import xarray as xr
import z5py

import xarray_n5
from ci.benchmarks.data import COMPRESSIONS
from ci.benchmarks.machine import cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    Corner = Sequence[int]
    Blocks = Any
    """What dask takes for chunks."""


def cube(corner: Corner, side: int) -> tuple[slice, ...]:
    """Return where a cube is."""
    return tuple(slice(start, start + side) for start in corner)


@dataclass(frozen=True)
class Sliced:
    """What dask reads and writes block by block, by TensorStore."""

    store: ts.TensorStore

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, in elements."""
        return tuple(self.store.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""
        return np.dtype(self.store.dtype.numpy_dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self.store.ndim)

    def __getitem__(self, where: tuple[slice, ...]) -> Any:
        return self.store[where].read(order="C").result()

    def __setitem__(self, where: tuple[slice, ...], values: np.ndarray) -> None:
        self.store[where].write(values).result()


class Ours:
    """This package."""

    @staticmethod
    def read(place: Path) -> np.ndarray:
        """Return all values."""
        return np.asarray(xarray_n5.open_array(place, "a")[...])

    @staticmethod
    def total(place: Path, blocks: Blocks) -> Any:
        """Return the sum of all values, by dask."""
        return xarray_n5.from_n5(place, "a", chunks=blocks).sum(dtype="u8").compute()

    @staticmethod
    def cutouts(place: Path, corners: Iterable[Corner], side: int) -> np.ndarray:
        """Return cubes, for each of which the array is opened anew."""
        each = (xarray_n5.open_array(place, "a")[cube(corner, side)] for corner in corners)
        return np.stack([*each])

    @staticmethod
    def lazy_cutouts(place: Path, corners: Iterable[Corner], side: int) -> np.ndarray:
        """Return the same by xarray's lazy indexing."""

        def one(corner: Corner) -> np.ndarray:
            with xr.open_dataset(place, engine="n5", chunks=None) as dataset:
                return dataset["a"][cube(corner, side)].to_numpy()

        return np.stack([one(corner) for corner in corners])

    @staticmethod
    def write(source: da.Array, place: Path, side: int, compression: str) -> None:
        """Store what dask computes."""
        xarray_n5.to_n5(
            source, place, "a", chunks=(side,) * 3, compression=COMPRESSIONS[compression]
        )


class TensorStore:
    """TensorStore, with as many threads as there are cores."""

    @staticmethod
    def open(place: Path, metadata: dict[str, Any] | None = None) -> ts.TensorStore:
        """Open the array, its axes as numpy has them; create it where there are metadata."""
        limit = {"limit": cores()}
        spec = {
            "driver": "n5",
            "kvstore": {"driver": "file", "path": str(place / "a")},
            "context": {
                "data_copy_concurrency": limit,
                "file_io_concurrency": limit,
                "file_io_sync": False,  # as nobody else flushes to disk
            },
            **({"metadata": metadata} if metadata else {}),
        }
        return ts.open(spec, open=not metadata, create=bool(metadata)).result().T

    @staticmethod
    def read(place: Path) -> np.ndarray:
        """Return all values."""
        return np.asarray(TensorStore.open(place).read(order="C").result())

    @staticmethod
    def total(place: Path, blocks: Blocks) -> Any:
        """Return the sum of all values, by dask."""
        source: Any = Sliced(TensorStore.open(place))
        array = da.from_array(source, blocks, lock=False, asarray=False, inline_array=True)
        return array.sum(dtype="u8").compute()

    @staticmethod
    def cutouts(place: Path, corners: Iterable[Corner], side: int) -> np.ndarray:
        """Return cubes, for each of which the array is opened anew."""
        return np.stack([Sliced(TensorStore.open(place))[cube(each, side)] for each in corners])

    @staticmethod
    def write(source: da.Array, place: Path, side: int, compression: str) -> None:
        """Store what dask computes."""
        metadata = {
            "dimensions": list(source.shape[::-1]),
            "blockSize": [side] * source.ndim,
            "dataType": source.dtype.name,
            "compression": COMPRESSIONS[compression],
        }
        target: Any = Sliced(TensorStore.open(place, metadata))
        da.store(source, target, lock=False)


class Z5py:
    """z5py, with as many threads as there are cores; with one in each of dask's."""

    OPTIONS: ClassVar[dict[str, dict[str, Any]]] = {
        "gzip": {"compression": "gzip", "level": 6},
        "gzip-1": {"compression": "gzip", "level": 1},
        "raw": {"compression": "raw"},
        "blosc-lz4": {"compression": "blosc", "codec": "lz4", "clevel": 5, "shuffle": 1},
    }

    @staticmethod
    def open(place: Path, threads: int = 1) -> Any:
        """Open the array."""
        array = z5py.File(str(place), "r")["a"]
        array.n_threads = threads
        return array

    @staticmethod
    def read(place: Path) -> np.ndarray:
        """Return all values."""
        return np.asarray(Z5py.open(place, cores())[...])

    @staticmethod
    def total(place: Path, blocks: Blocks) -> Any:
        """Return the sum of all values, by dask."""
        array = da.from_array(Z5py.open(place), blocks, lock=False, inline_array=True)
        return array.sum(dtype="u8").compute()

    @staticmethod
    def cutouts(place: Path, corners: Iterable[Corner], side: int) -> np.ndarray:
        """Return cubes, for each of which the array is opened anew."""
        return np.stack([Z5py.open(place, cores())[cube(each, side)] for each in corners])

    @staticmethod
    def write(source: da.Array, place: Path, side: int, compression: str) -> None:
        """Store what dask computes."""
        target = z5py.File(str(place), "a").create_dataset(
            *("a", source.shape, source.dtype),
            chunks=(side,) * source.ndim,
            **Z5py.OPTIONS[compression],
        )
        da.store(source, target, lock=False)


PEERS: dict[str, type[Ours | TensorStore | Z5py]] = {
    "ours": Ours,
    "TensorStore": TensorStore,
    "z5py": Z5py,
}
