"""What users do with a store far away, with its rounds of requests."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import xarray as xr

from tests.support.axes import with_axes
from tests.support.projects import Setup, project_xml, write_n5
from tests.support.remote import Bucket
from xarray_n5 import pyramid, to_n5, verify
from xarray_n5.model.axes import Axis
from xarray_n5.stores import FsspecStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5.stores.base import Store

WORKERS = 8
"""Dask's threads: each waits for requests, most of the time."""


@dataclass(frozen=True)
class Work:
    """Something to do with a bucket."""

    title: str
    rounds: int
    """How many rounds of requests it makes."""
    requests: int
    """How many requests it makes, at most."""
    why: str
    """What each round waits for."""
    ours: Callable[[Bucket], Any]


def n5(fs: Bucket, name: str = "x.n5") -> Store:
    """Return a container."""
    return FsspecStore(fs, f"b/{name}")


def series(start: int, stop: int) -> xr.Dataset:
    """Return three variables over time."""
    values = np.ones((stop - start, 16, 16), "f4")
    coordinates = {"t": np.arange(float(start), stop)}
    dims = ("t", "y", "x")
    return xr.Dataset(dict.fromkeys("abc", (dims, values)), coords=coordinates)


def open_n5(fs: Bucket, group: str | None = None, **options: Any) -> xr.Dataset:
    """Open a node of the container."""
    return xr.open_dataset(n5(fs), engine="n5", group=group, **options)  # type: ignore[arg-type]


_THREE = {name: {"chunks": (4, 16, 16)} for name in "abc"}

WORKS = (
    Work(
        "`open_dataset` of an array",
        *(1, 4),
        "its document, those of the groups around it, and a listing of its records",
        lambda fs: open_n5(fs, "g/a"),
    ),
    Work(
        "`open_dataset` of a level, by its path",
        *(1, 5),
        "as above, and the document of `s0`, whose path is known",
        lambda fs: open_n5(fs, "p/s1"),
    ),
    Work(
        "`open_dataset` of a level, `level=1`",
        *(3, 10),
        "the group's document and its listing; the documents of the levels; their records",
        lambda fs: open_n5(fs, "p", level=1),
    ),
    Work(
        "`open_dataset` of a group of 3 arrays and times",
        *(4, 12),
        "its document and its listing; the documents of the arrays; their records; the times",
        lambda fs: xr.open_dataset(n5(fs, "t.n5"), engine="n5"),  # type: ignore[arg-type]
    ),
    Work(
        "`open_dataset` of a project, 100 views",
        *(2, 102),
        "the XML; the documents of the root and of all views",
        lambda fs: xr.open_dataset((fs, "b/v/views.xml"), engine="n5", level=0),  # type: ignore[arg-type]
    ),
    Work(
        "`open_datatree` of 2 pyramids",
        *(6, 19),
        "the root's document and listing; the documents of what is in it; the listings of the "
        "groups among these; the documents of the levels; the records of all",
        lambda fs: xr.open_datatree(n5(fs, "p.n5"), engine="n5"),  # type: ignore[arg-type]
    ),
    Work(
        "`to_n5` of 200 chunks, one a task",
        *(13, 217),
        "what exists, and its records; the record; a second look; the document; the chunks, up to "
        "16 in each task; that "
        "the record is still there; the row of the finished write; the removal of the record",
        lambda fs: to_n5(_chunks(), n5(fs, "new.n5"), "a"),
    ),
    Work(
        "`ds.n5.to_n5` of 3 variables",
        *(18, 55),
        "the same for the group and, together, for its arrays",
        lambda fs: series(0, 8).n5.to_n5(n5(fs, "new.n5"), encoding=_THREE),
    ),
    Work(
        "`ds.n5.to_n5(append_dim=)` of 3 variables",
        *(18, 63),
        "what exists, and its records; the record; a look at other records and the ends; the "
        "ends in the record; the chunks beyond the ends, and notes of them; another look; that "
        "all is stored; the documents, the new ones, and these again; the rows; the removal of "
        "the notes and of the record",
        lambda fs: series(8, 12).n5.to_n5(n5(fs, "t.n5"), append_dim="t"),
    ),
    Work(
        "`verify(deep=False)` of 200 chunks",
        *(2, 5),
        "the array's document; one listing, with sizes",
        lambda fs: verify(n5(fs), "g/a", deep=False).compute(),
    ),
)


def bucket() -> Bucket:
    """Return a bucket with all containers."""
    return Bucket(dict(_objects()))


@functools.cache
def _objects() -> dict[str, bytes]:
    objects: dict[str, bytes] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _write_n5(Bucket(objects))
    return objects


def _write_n5(fs: Bucket) -> None:
    values = np.arange(1, 3201, dtype="u2").reshape(200, 4, 4)
    to_n5(values, n5(fs), "g/a", chunks=(1, 4, 4))
    axes = [Axis(name=name, unit="nm", scale=4.0) for name in "zyx"]
    for name, path in (("x.n5", "p"), ("p.n5", "p"), ("p.n5", "q")):
        pyramid(with_axes(_volume(), axes), n5(fs, name), path, chunks=16, levels=2)
    series(0, 8).n5.to_n5(n5(fs, "t.n5"), encoding=_THREE)
    setups = [Setup(id=i, attributes={"tile": i}, shape=(4, 8, 8)) for i in range(20)]
    views = MemoryStore()
    write_n5(views, setups, range(5), factors=((1, 1, 1), (1, 2, 2)))
    fs.objects.update({f"b/v/x.n5/{key}": data for key, data in views.items.items()})
    times = '<Timepoints type="range"><first>0</first><last>4</last></Timepoints>'
    fs.objects["b/v/views.xml"] = project_xml(setups, timepoints=times).encode()


def _chunks() -> Any:
    return da.from_array(np.arange(1, 3201, dtype="u2").reshape(200, 4, 4), chunks=(1, 4, 4))


def _volume() -> np.ndarray:
    return np.arange(1, 1 + 64**3, dtype="u4").reshape(64, 64, 64)


def counted(work: Callable[[Bucket], Any], *, latency: float = 0.02) -> Bucket:
    """Do work on a bucket whose answers come together; return that, for its counts."""
    fs = bucket()
    fs.be_far(latency)
    run(work, fs)
    return fs


def run(work: Callable[[Bucket], Any], fs: Bucket) -> None:
    """Do work with as many threads of Dask as it has tasks."""
    with warnings.catch_warnings(), dask.config.set(scheduler="threads", num_workers=WORKERS):
        warnings.simplefilter("ignore")
        work(fs)
