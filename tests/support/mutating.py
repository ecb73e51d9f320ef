"""Damaged chunks, read in a process with little memory.

To run it: ``python -m tests.support.mutating COUNT [KIND]``.
Encoders are numcodecs' and the standard library's, so that both sides of a mistake are not ours.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import resource
import signal
import struct
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lz4.frame
import numcodecs
import numpy as np

from tests.support import compressions
from tests.support.bombs import BOMBS, EXTREMES
from tests.support.memory_store import MemoryStore
from xarray_n5 import open_array
from xarray_n5.codecs import from_json
from xarray_n5.errors import ChunkError
from xarray_n5.formats import FORMATS
from xarray_n5.formats.hdf5.format import encode as encode_hdf5

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE = 16
HEADER = struct.pack(">HH3I", 0, 3, SIDE, SIDE, SIDE)
ROOM = 256 << 20
"""How much address space there is beyond that of a warm process: half of what bombs hold."""


def numbers(seed: int, dtype: str = "<u2") -> np.ndarray:
    """Numbers that compress, but not to nothing."""
    values = np.cumsum(np.random.default_rng(seed).integers(0, 3, SIDE**3)) % 251
    values[1000:2000] = 7
    return values.reshape(SIDE, SIDE, SIDE).astype(dtype)


def words(seed: int) -> np.ndarray:
    """Strings of several lengths."""
    generator = np.random.default_rng(seed)
    found = np.empty(SIDE**3, object)
    found[:] = [("", "a", "of", "zeros", "lögg")[i] * 2 for i in generator.integers(0, 5, SIDE**3)]
    return found.reshape(SIDE, SIDE, SIDE)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A way to store a chunk."""

    documents: dict[str, Any]
    key: str
    encode: Callable[[np.ndarray], bytes]
    values: Callable[[int], np.ndarray] = numbers
    head: bytes = b""
    """What precedes the payload, in N5."""
    sealed: bool = False
    """Whether a checksum tells a damaged payload."""
    bombs: tuple[str, ...] = field(default=())
    read: Callable[[MemoryStore], np.ndarray] = lambda store: open_array(store, "a")[...]
    objects: bool = False
    """Whether it holds objects, whose size is not known from metadata."""


def n5(
    compression: dict[str, Any],
    encode: Callable[[bytes], bytes] | None = None,
    *,
    sealed: bool = False,
    bombs: tuple[str, ...] = (),
) -> Kind:
    """A chunk of N5."""
    codec = from_json(compression)
    sides = [SIDE] * 3
    members = {"dimensions": sides, "blockSize": sides, "dataType": "uint16"}

    def encoded(values: np.ndarray) -> bytes:
        plain = values.astype(">u2")
        return HEADER + (encode(plain.tobytes()) if encode else bytes(codec.encode(plain.data)))

    documents = {"a/attributes.json": {**members, "compression": compression}}
    return Kind(
        documents=documents, key="a/0/0/0", encode=encoded, head=HEADER, sealed=sealed, bombs=bombs
    )


def n5_strings() -> Kind:
    """Strings in N5: a varlength block."""
    kind = n5({"type": "gzip"}, bombs=("gzip",))
    members = {**kind.documents["a/attributes.json"], "dataType": "string"}

    def encoded(values: np.ndarray) -> bytes:
        plain = b"".join(each.encode() + b"\0" for each in values.flat)
        head = struct.pack(">HH4I", 1, 3, SIDE, SIDE, SIDE, len(plain))
        return head + gzip.compress(plain, 1)

    documents = {"a/attributes.json": members}
    return Kind(
        documents=documents,
        key=kind.key,
        encode=encoded,
        values=words,
        bombs=kind.bombs,
        objects=True,
    )


def zarr(
    compressor: dict[str, Any] | None,
    *filters: dict[str, Any],
    dtype: str = "<u2",
    sealed: bool = False,
    bombs: tuple[str, ...] = (),
) -> Kind:
    """A chunk of Zarr v2."""
    sides = [SIDE] * 3
    members = {
        "zarr_format": 2,
        "shape": sides,
        "chunks": sides,
        "order": "C",
        "dtype": dtype,
        "fill_value": None,
        "compressor": compressor,
        "filters": list(filters) or None,
    }

    def encoded(values: np.ndarray) -> bytes:
        found: Any = values
        for config in [*filters, *([compressor] if compressor else [])]:
            found = numcodecs.get_codec(dict(config)).encode(found)
        return found.tobytes() if isinstance(found, np.ndarray) else bytes(found)

    def values(seed: int) -> np.ndarray:
        if dtype == "|O":
            found = words(seed)
            if filters[0]["id"] == "vlen-bytes":
                found[...] = np.vectorize(str.encode, otypes=[object])(found)
            return found
        return words(seed).astype(dtype) if "U" in dtype else numbers(seed, dtype)

    return Kind(
        documents={"a/.zarray": members, ".zgroup": {"zarr_format": 2}},
        key="a/0.0.0",
        encode=encoded,
        values=values,
        sealed=sealed,
        bombs=bombs,
        objects=dtype == "|O",
    )


def hdf5(*filters: tuple[int, tuple[int, ...]], sealed: bool = False) -> Kind:
    """A chunk of HDF5, whose bytes are decoded here and not by HDF5."""
    from xarray_n5.formats.hdf5.format import FilterLayout, compression_of
    from xarray_n5.model.metadata import ArrayMetadata

    metadata = ArrayMetadata(
        shape=(SIDE,) * 3,
        chunks=(SIDE,) * 3,
        dtype=np.dtype("u2"),
        compression=compression_of(filters),
        layout=FilterLayout(np.dtype("<u2"), filters),
    )

    def read(store: MemoryStore) -> np.ndarray:
        try:
            return np.array(FORMATS["hdf5"].decode(metadata, store.items["chunk"]))
        except Exception as error:
            raise ChunkError("decode", "", "chunk", str(error)) from error

    return Kind(
        documents={},
        key="chunk",
        encode=lambda values: encode_hdf5(metadata, values),
        head=bytes(4),
        sealed=sealed,
        read=read,
    )


def _encoder(name: str) -> Callable[[bytes], bytes]:
    """Return numcodecs' encoder as it is by default."""
    codec = numcodecs.get_codec({"id": name})
    return lambda data: bytes(codec.encode(data))


LZ4: tuple[str, ...] = ("lz4 sized", "lz4 claim")
ZSTD: tuple[str, ...] = ("zstd", "zstd told")
BLOSC: tuple[str, ...] = ("blosc claim", "blosc copied")


def _kinds() -> dict[str, Kind]:
    blosc = {"id": "blosc", "clevel": 5, "shuffle": 1, "blocksize": 0}
    found = {
        "n5 raw": n5({"type": "raw"}),
        "n5 gzip": n5({"type": "gzip"}, sealed=True, bombs=("gzip", "gzip streams")),
        "n5 zlib": n5({"type": "gzip", "useZlib": True}, sealed=True, bombs=("zlib",)),
        "n5 bzip2": n5({"type": "bzip2"}, sealed=True, bombs=("bz2", "bz2 streams")),
        "n5 xz": n5({"type": "xz"}, sealed=True, bombs=("xz", "xz streams")),
        "n5 lzma": n5({"type": "lzma", "preset": 1}, sealed=True, bombs=("xz",)),
        "n5 lzma alone": n5({"type": "lzma", "format": 2}, bombs=("xz",)),
        "n5 lzma raw": n5({"type": "lzma", "format": 3, "filters": [{"id": 33, "preset": 1}]}),
        "n5 lz4": n5({"type": "lz4"}, sealed=True, bombs=("lz4 java", "lz4 frame")),
        "n5 lz4 frame": n5({"type": "lz4"}, lz4.frame.compress, bombs=("lz4 frame",)),
        "n5 zstd": n5({"type": "zstd"}, bombs=("zstd", "zstd told", "zstd after another")),
        "n5 strings": n5_strings(),
        "zarr zstd": zarr({"id": "zstd", "level": 1}, bombs=("zstd", "zstd told")),
        "zarr delta blosc": zarr(blosc, {"id": "delta", "dtype": "<u2"}, bombs=("blosc claim",)),
        "zarr fixedscaleoffset": zarr(
            {"id": "zlib"},
            {"id": "fixedscaleoffset", "offset": 1, "scale": 2, "dtype": "<f4", "astype": "<i4"},
            dtype="<f4",
            sealed=True,
        ),
        "zarr quantize": zarr(
            {"id": "bz2"},
            {"id": "quantize", "digits": 1, "dtype": "<f4"},
            dtype="<f4",
            bombs=("bz2",),
        ),
        "zarr bitround": zarr(blosc, {"id": "bitround", "keepbits": 3}, dtype="<f4"),
        "zarr packbits": zarr({"id": "lz4"}, {"id": "packbits"}, dtype="|b1", bombs=("lz4 sized",)),
        "zarr astype": zarr(None, {"id": "astype", "encode_dtype": "<i4", "decode_dtype": "<u2"}),
        "zarr filter of a filter": zarr(
            {"id": "bz2"},
            {"id": "shuffle", "elementsize": 2},
            {"id": "bz2"},
            {"id": "crc32"},
            sealed=True,
            bombs=("bz2",),
        ),
        "zarr vlen-utf8": zarr({"id": "gzip"}, {"id": "vlen-utf8"}, dtype="|O", bombs=("gzip",)),
        "zarr vlen-utf8 zstd": zarr(
            {"id": "zstd"}, {"id": "vlen-utf8"}, dtype="|O", bombs=("zstd",)
        ),
        "zarr vlen-bytes": zarr(blosc, {"id": "vlen-bytes"}, dtype="|O", bombs=("blosc claim",)),
        "hdf5 gzip": hdf5((2, (2,)), (1, (4,)), sealed=True),
        "hdf5 fletcher32": hdf5((2, (2,)), (1, (4,)), (3, ())),
        "hdf5 blosc": hdf5((32001, (2, 2, 2, 8192, 5, 1, 1))),
        "hdf5 zstd": hdf5((2, (2,)), (32015, (3,))),
    }
    for number, cname in enumerate(compressions.BLOSC):
        config = {"cname": cname, "clevel": 5, "shuffle": number % 3, "blocksize": 0}
        found[f"n5 blosc {cname}"] = n5({"type": "blosc", **config}, bombs=BLOSC)
        found[f"zarr filter blosc {cname}"] = zarr(None, {"id": "blosc", **config}, bombs=BLOSC)
    for name in ("crc32", "fletcher32", "shuffle", "lz4", "zstd"):
        bombs = LZ4 if name == "lz4" else ZSTD if name == "zstd" else ()
        config = {"id": name}
        sealed = name == "crc32"
        found[f"zarr filter {name}"] = zarr(None, config, sealed=sealed, bombs=bombs)
        found[f"n5 id {name}"] = n5(
            {"type": name, **config},
            _encoder(name),
            sealed=sealed,
            bombs=bombs,
        )
    for name, bomb in {"bz2": "bz2", "zlib": "zlib", "gzip": "gzip", "lzma": "xz"}.items():
        found[f"n5 id {name}"] = n5(
            {"type": f"x{name}", "id": name},
            _encoder(name),
            sealed=True,
            bombs=(bomb,),
        )
        found[f"zarr filter {name}"] = zarr(None, {"id": name}, sealed=True, bombs=(bomb,))
    # Objects last: of the most memory that a process has used, there is but one number.
    return dict(sorted(found.items(), key=lambda item: item[1].objects))


def _flip(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.randrange(1, 6)):
        data[_place(chance, data)] ^= 1 << chance.randrange(8)


def _overwrite(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.randrange(1, 12)):
        data[_place(chance, data)] = chance.randrange(256)


def _resize(chance: random.Random, data: bytearray) -> None:
    place = _place(chance, data)
    data[place : place + 4] = struct.pack(chance.choice("<>") + "I", chance.choice(EXTREMES))


def _cut(chance: random.Random, data: bytearray) -> None:
    del data[chance.choice((chance.randrange(len(data)), len(data) - chance.randrange(1, 9))) :]


def _clear(chance: random.Random, data: bytearray) -> None:
    place = chance.randrange(len(data))
    count = min(chance.choice((4, 64, len(data))), len(data) - place)
    data[place : place + count] = bytes(count)


def _place(chance: random.Random, data: bytearray) -> int:
    """Return a position, often one of the first, where headers are."""
    return chance.randrange(chance.choice((min(len(data), 48), len(data))))


DAMAGES = (_flip, _overwrite, _resize, _cut, _clear)


def damage(chance: random.Random, kind: Kind, good: bytes, other: bytes) -> bytes:
    """Return a chunk that was cut, changed, joined with another one, or replaced by a bomb."""
    data, start = bytearray(good), len(kind.head)
    how = chance.randrange(len(DAMAGES) + 2 + bool(kind.bombs))
    if how < len(DAMAGES):
        DAMAGES[how](chance, data)
    elif how == len(DAMAGES):
        data += chance.choice((chance.randbytes(40), bytes(5000), good[start:], other[start:]))
    elif how == len(DAMAGES) + 1:
        place = chance.randrange(len(good))
        data[place:] = other[chance.choice((place, chance.randrange(len(other)))) :]
    else:
        data[start:] = BOMBS[chance.choice(kind.bombs)]()
    return bytes(data)


def outcome(kind: Kind, store: MemoryStore, expected: np.ndarray) -> tuple[str, bytes]:
    """Return what reading a chunk led to, and the bytes that were read."""
    try:
        found = kind.read(store)
    except ChunkError as error:
        memory = isinstance(error.__cause__, MemoryError) or "MemoryError" in error.why
        return ("out of memory" if memory else "error"), b""
    if (found.shape, found.dtype.str[1:]) != (expected.shape, expected.dtype.str[1:]):
        return f"an array of {found.shape} {found.dtype}", b""
    plain = repr(found.tolist()).encode() if found.dtype.kind == "O" else found.tobytes()
    return ("right" if np.array_equal(found, expected) else "other"), plain


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10


def main(count: int, only: str) -> None:
    """Read `count` damaged chunks of each kind; report how that went, as JSON."""
    warnings.simplefilter("ignore")
    kinds = {name: kind for name, kind in _kinds().items() if only in name}
    stored = {}
    for name, kind in kinds.items():
        values, others = kind.values(1), kind.values(2)
        store = MemoryStore()
        for key, members in kind.documents.items():
            store.set(key, json.dumps(members).encode())
        store.set(kind.key, kind.encode(values))
        expected = kind.read(store)
        store.set(kind.key, kind.encode(others))
        stored[name] = store, kind.encode(values), kind.encode(others), expected, kind.read(store)
        for bomb in kind.bombs:
            BOMBS[bomb]()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _status("VmSize") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # Forget the peak of making bombs: VmHWM starts again from what is resident now.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmHWM")
    counts: dict[str, Counter[str]] = {}
    digest = hashlib.sha256()
    faults = []
    grown = 0
    for name, kind in kinds.items():
        store, good, other, expected, others = stored[name]
        counts[name] = Counter()
        for seed in range(count):
            sys.stderr.write(f"{name} {seed}\n")
            chance = random.Random(f"{name} {seed}")  # noqa: S311 - the same in each run
            data = damage(chance, kind, good, other)
            store.items[kind.key] = data
            signal.alarm(120)
            how, found = outcome(kind, store, expected)
            signal.alarm(0)
            digest.update(how.encode() + found)
            counts[name][how] += 1
            whole = kind.sealed and data[: len(kind.head)] == kind.head
            if how == "other" and whole and not np.array_equal(kind.read(store), others):
                faults.append((name, seed, "undetected damage"))
            if how not in {"right", "other", "error"}:
                faults.append((name, seed, how))
        if not kind.objects:
            grown = _status("VmHWM") - before
    objects = _status("VmHWM") - before
    report = {
        "counts": counts,
        "digest": digest.hexdigest(),
        "faults": faults,
        "grown": grown,
        "grown_with_objects": objects,
    }
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(int(sys.argv[1]), *(sys.argv[2:] or [""]))
