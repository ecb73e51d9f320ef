"""How long reads and writes take if each request does: a late server, and who waits for it."""

from __future__ import annotations

import asyncio
import functools
import itertools
import multiprocessing
import re
import statistics
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import dask
import dask.array as da
import numpy as np
import obstore
import tensorstore as ts
import zarr
from aiohttp import web
from obstore.fsspec import FsspecStore
from obstore.store import S3Store
from zarr.codecs import ZstdCodec

import xarray_n5
from ci.benchmarks.clock import checksum, in_turns, timed
from ci.benchmarks.data import COMPRESSIONS, volume
from ci.benchmarks.machine import machine
from ci.benchmarks.peers import Sliced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from ci.benchmarks.clock import Done

LATENCIES = (5, 20, 100)
"""How late answers are, in milliseconds."""

SIDE, MEBIBYTES, THREADS, MANY = 32, 8, 8, 64
"""A chunk's side; the volume: 256 chunks of 32 KiB; the threads of Dask, and how many help."""

LARGE = 4 * SIDE
"""The side of a block of 64 chunks, as many as ``chunks="auto"`` takes if they have 256 KiB."""

OBJECTS: dict[str, bytes] = {}
"""The objects of the server, in all its buckets."""


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """Answer as S3 does, after the time that the bucket is named for: 20 ms for ``late20``."""
    bucket, _, key = request.path.strip("/").partition("/")
    data = await request.read()
    await asyncio.sleep(int(bucket.removeprefix("late")) / 1000)
    if request.method == "POST" and "delete" in request.query:
        names = re.findall("<Key>(.*?)</Key>", data.decode())
        for name in names:
            OBJECTS.pop(name, None)
        gone = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        text = f"<DeleteResult>{gone}</DeleteResult>"
        return web.Response(text=text, content_type="application/xml")
    if request.method == "PUT":
        OBJECTS[key] = data
    elif request.method == "DELETE":  # with all that is below
        for name in [name for name in OBJECTS if f"{name}/".startswith(f"{key}/")]:
            del OBJECTS[name]
    elif "list-type" in request.query:
        return web.Response(text=listing(**request.query), content_type="application/xml")
    elif key not in OBJECTS:
        return web.Response(status=404)
    else:
        data = OBJECTS[key]
    headers = {"ETag": '"1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    return web.Response(headers=headers, body=data if request.method in {"GET", "HEAD"} else None)


def listing(prefix: str = "", delimiter: str = "", **_: str) -> str:
    """Return what is below a prefix, as S3 lists it."""
    keys = [key for key in sorted(OBJECTS) if key.startswith(prefix)]
    cut = [key.removeprefix(prefix).partition(delimiter) if delimiter else (key,) for key in keys]
    folders = {f"{prefix}{part[0]}/" for part in cut if any(part[1:])}
    files = [key for key, part in zip(keys, cut, strict=True) if not any(part[1:])]
    text = "".join(
        f"<Contents><Key>{key}</Key><Size>{len(OBJECTS[key])}</Size><ETag>1</ETag>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        for key in files
    )
    text += "".join(f"<CommonPrefixes><Prefix>{each}</Prefix></CommonPrefixes>" for each in folders)
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{text}</ListBucketResult>"


def serve(ready: Connection) -> None:
    """Answer until the process is killed."""

    async def run() -> None:
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def serving() -> Iterator[str]:
    """Run the server in a process of its own; yield its URL."""
    spawn: Any = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.kill()
        process.join()


@dataclass(frozen=True)
class Far:
    """The server, by the bucket of a latency."""

    url: str
    late: int

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return f"late{self.late}"

    @property
    def options(self) -> dict[str, Any]:
        """What obstore needs to know."""
        return {
            "endpoint": self.url,
            "region": "us-east-1",
            "skip_signature": True,
            "virtual_hosted_style_request": False,
            "client_options": {"allow_http": True},
        }

    def removed(self, name: str) -> None:
        """Remove a container."""
        request = urllib.request.Request(f"{self.url}/late0/{name}", method="DELETE")  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310


class Ours:
    """This package, by HTTP."""

    @staticmethod
    def open(far: Far, name: str) -> Any:
        """Return the array, to be indexed."""
        return xarray_n5.open_array(f"{far.url}/{far.bucket}/{name}", "a")

    @classmethod
    def lazy(cls, far: Far, name: str, blocks: Any) -> Any:
        """Return the array as one of Dask, with these blocks."""
        return xarray_n5.from_n5(cls.open(far, name), chunks=blocks)


class OursByObstore(Ours):
    """This package, by obstore."""

    @staticmethod
    def open(far: Far, name: str) -> Any:
        """Return the array, to be indexed."""
        fs = FsspecStore("s3", **far.options)
        return xarray_n5.open_array((fs, f"{far.bucket}/{name}"), "a")

    @staticmethod
    def write(far: Far, name: str, source: da.Array) -> None:
        """Store what Dask computes."""
        place: Any = (FsspecStore("s3", **far.options), f"{far.bucket}/{name}")
        how: Any = {"format": "zarr3", "compression": COMPRESSIONS["zstd"]}
        xarray_n5.to_n5(source, place, "a", chunks=(SIDE,) * 3, **how)


class Peer:
    """Another library, under Dask as ours, with the same blocks."""

    open: ClassVar[Any]

    @classmethod
    def lazy(cls, far: Far, name: str, blocks: Any) -> Any:
        """Return the array as one of Dask, with these blocks."""
        source = cls.open(far, name)
        return da.from_array(source, blocks, lock=False, asarray=False, inline_array=True)


class TensorStore(Peer):
    """TensorStore, by HTTP to read and as S3 to write."""

    class Indexed(Sliced):
        """An array whose values are read."""

        def __getitem__(self, where: Any) -> Any:
            return self.store[where].read().result()

    @staticmethod
    def open(far: Far, name: str) -> Any:
        """Return the array, to be indexed."""
        path = f"/{far.bucket}/{name}/a/"
        kvstore = {"driver": "http", "base_url": far.url, "path": path}
        return TensorStore.Indexed(ts.open({"driver": "zarr3", "kvstore": kvstore}).result())

    @staticmethod
    def write(far: Far, name: str, source: da.Array) -> None:
        """Store what Dask computes."""
        kvstore = {
            "driver": "s3",
            "bucket": far.bucket,
            "path": f"{name}/a/",
            "endpoint": far.url,
            "aws_region": "us-east-1",
            "aws_credentials": {"type": "anonymous"},
        }
        grid = {"name": "regular", "configuration": {"chunk_shape": [SIDE] * 3}}
        metadata = {
            "shape": source.shape,
            "chunk_grid": grid,
            "data_type": source.dtype.name,
            "codecs": [{"name": "zstd", "configuration": {"level": 3}}],
        }
        spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}
        target: Any = Sliced(ts.open(spec, create=True).result())
        da.store(source, target, lock=False)


class ZarrPython(Peer):
    """zarr-python, by fsspec and HTTP."""

    @staticmethod
    def open(far: Far, name: str) -> Any:
        """Return the array, to be indexed."""
        url = f"{far.url}/{far.bucket}/{name}/a"
        return zarr.open_array(zarr.storage.FsspecStore.from_url(url, read_only=True), mode="r")


class ZarrByObstore(Peer):
    """zarr-python, by obstore."""

    @staticmethod
    def store(far: Far, name: str, **how: Any) -> Any:
        """Return the store of the array."""
        bucket = S3Store(far.bucket, prefix=f"{name}/a", **far.options)
        return zarr.storage.ObjectStore(bucket, **how)

    @staticmethod
    def open(far: Far, name: str) -> Any:
        """Return the array, to be indexed."""
        return zarr.open_array(ZarrByObstore.store(far, name, read_only=True), mode="r")

    @staticmethod
    def write(far: Far, name: str, source: da.Array) -> None:
        """Store what Dask computes."""
        target: Any = zarr.create_array(
            ZarrByObstore.store(far, name),
            shape=source.shape,
            dtype=source.dtype,
            chunks=(SIDE,) * 3,
            compressors=ZstdCodec(level=3),
            config={"write_empty_chunks": True},
        )
        da.store(source, target, lock=False)


PEERS: dict[str, Any] = {
    "ours": Ours,
    "ours, obstore": OursByObstore,
    "TensorStore": TensorStore,
    "zarr-python": ZarrPython,
    "zarr-python, obstore": ZarrByObstore,
}

ALONE = "requests alone"

HEADER = ("", "ms", *PEERS, ALONE)

NUMBERS = itertools.count()


def read(peer: Any, far: Far, name: str) -> Any:
    """Return all values, without Dask."""
    return peer.open(far, name)[...]


def summed(peer: Any, far: Far, name: str, blocks: Any, threads: int) -> Any:
    """Return the sum of all values, by Dask."""
    with dask.config.set(scheduler="threads", num_workers=threads):
        return peer.lazy(far, name, blocks).sum(dtype="u8").compute()


def written(peer: Any, far: Far, source: da.Array) -> Done:
    """Write at a new place; note what ours reads there."""
    name = f"written{next(NUMBERS)}.zarr"
    with dask.config.set(scheduler="threads", num_workers=THREADS):
        done = timed(lambda: peer.write(far, name, source), lambda _: None)
    found = checksum(OursByObstore.open(Far(far.url, 0), name)[...])
    far.removed(name)
    return type(done)(done.cost, found)


def requested(far: Far, keys: list[str], data: bytes | None = None) -> None:
    """Get all chunks at once, or put as many bytes, by obstore: the requests and nothing else."""
    bucket = S3Store(far.bucket, **far.options)

    async def get(key: str) -> None:
        await (await obstore.get_async(bucket, key)).bytes_async()

    async def put(key: str) -> None:
        await obstore.put_async(bucket, f"alone/{key}", data or b"")

    async def run() -> None:
        await asyncio.gather(*map(get if data is None else put, keys))

    asyncio.run(run())


def works(far: Far, name: str, values: np.ndarray) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the title of each work, and who does it."""
    counts = [size // SIDE for size in values.shape]
    keys = [f"{name}/a/c/" + "/".join(map(str, index)) for index in np.ndindex(*counts)]
    alone = functools.partial(timed, functools.partial(requested, far, keys))
    whole = {
        peer: functools.partial(timed, functools.partial(read, kind, far, name), checksum)
        for peer, kind in PEERS.items()
    }
    yield "whole read", whole | {ALONE: lambda: alone(lambda _: checksum(values))}
    for title, blocks, threads in (
        ("sum, 64 chunks a task", LARGE, THREADS),
        ("sum, 1 chunk a task", SIDE, THREADS),
        (f"sum, 1 chunk a task, {MANY} threads", SIDE, MANY),
    ):
        arguments = far, name, blocks, threads
        yield (
            title,
            {
                peer: functools.partial(timed, functools.partial(summed, kind, *arguments), int)
                for peer, kind in PEERS.items()
            },
        )
    data = bytes(len(urllib.request.urlopen(f"{far.url}/late0/{keys[0]}").read()))  # noqa: S310
    alone = functools.partial(timed, functools.partial(requested, far, keys, data))
    for title, blocks in (("write, 64 chunks a task", LARGE), ("write, 1 chunk a task", SIDE)):
        source = da.from_array(values, chunks=blocks)
        yield (
            title,
            {
                peer: functools.partial(written, kind, far, source)
                for peer, kind in PEERS.items()
                if hasattr(kind, "write")
            }
            | {ALONE: lambda: alone(lambda _: checksum(values))},
        )


def lines(turns: int) -> Iterator[tuple[str, ...]]:
    """Return the lines of the table: seconds by the clock."""
    values = volume("em", MEBIBYTES)
    with serving() as url:
        OursByObstore.write(Far(url, 0), "a.zarr", da.from_array(values, chunks=SIDE))
        each = [works(Far(url, late), "a.zarr", values) for late in LATENCIES]
        for same in zip(*each, strict=True):
            for late, (title, runs) in zip(LATENCIES, same, strict=True):
                costs, failed = in_turns(runs, turns)
                yield (title, str(late), *(cell(costs, failed, name) for name in HEADER[2:]))


def cell(costs: dict[str, Any], failed: dict[str, str], name: str) -> str:
    """Return the seconds of one, the median."""
    if name in costs:
        return f"{statistics.median(cost.wall for cost in costs[name]):.2f} s"
    return failed.get(name, "")


def settings(turns: int) -> str:
    """Return what the numbers are of."""
    names = ("xarray-n5", "tensorstore", "zarr", "obstore", "fsspec", "aiohttp", "dask")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    what = f"{MEBIBYTES} MiB (em, zstd) in chunks of {SIDE}³, Zarr v3, {THREADS} threads of Dask"
    return f"Medians of {turns} runs in turns: {what}. {versions}; {machine()}"
