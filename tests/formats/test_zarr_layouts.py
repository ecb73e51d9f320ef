"""Zarr in every layout: what others write is read exactly, and they read what is written."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from tests.support import compressions
from tests.support.exhaustive import some
from xarray_n5 import create_array, open_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

zarr = pytest.importorskip("zarr")
ts = pytest.importorskip("tensorstore")
z5py = pytest.importorskip("z5py")
pytest.importorskip("zarrs")

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "scalar": ((), (), ()),
    "none": ((0, 3), (2, 3), (4, 3)),
    "line": ((23,), (4,), (12,)),
    "edges": ((13, 10), (3, 4), (6, 8)),
    "volume": ((7, 6, 9), (2, 3, 4), (4, 3, 8)),
    "five": ((2, 3, 4, 5, 3), (1, 2, 2, 5, 2), (2, 4, 2, 5, 2)),
}
"""The shapes of arrays, of their chunks, and of their shards."""

STRUCTURES: Mapping[str, Any] = {
    "struct": [("a", "<i4"), ("b", "<f8")],
    "nested": [("a", "<i4", (2,)), ("b", [("c", ">f8")])],
}


class Case(NamedTuple):
    """One array of the matrix."""

    version: str
    dtype: str = "<i4"
    shape: str = "edges"
    compressor: str = "zstd"
    order: str = "C"
    """Whether elements, or axes by a codec inside of shards, are reversed ("F")."""
    extra: str = "none"
    """Filters of Zarr v2; where the index of shards is, "nested" for shards in shards."""
    keys: str = "default/"

    @property
    def name(self) -> str:
        """What the array is called."""
        return "-".join(self).translate(str.maketrans("<>|[]/.", "lbn--sd"))


# Zarr v2

NUMBERS2 = ("|u1", "<u2", ">u4", "<u8", "|i1", ">i2", "<i4", "<i8", "<f4", ">f8")
OTHERS2 = ("|b1", "<f2", "<c8", "|S3", "<U3", "<M8[s]", "<m8[ms]", "|V4", "struct", "nested", "|O")

COMPRESSIONS2: Mapping[str, Any] = {
    **{name: name for name in compressions.NAMES},
    "zlib": compressions.ZLIB,
}

FILTERS: Mapping[str, Any] = {
    "none": None,
    "delta": [{"id": "delta", "dtype": "<i4"}],
    "shuffle": [{"id": "shuffle", "elementsize": 4}],
    "crc32": [{"id": "crc32"}],
    "delta-zlib": [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}],
}


def cases2() -> Iterator[Case]:
    """All types in all layouts; compressions and filters of some."""
    for dtype in (*NUMBERS2, *OTHERS2):
        for order, keys in ("C.", "F.", "C/", "F/"):
            for shape in ("edges", "none", "scalar", "line"):
                yield Case("2", dtype, shape, "gzip", order, keys=keys)
    for compressor in COMPRESSIONS2:
        yield from (
            Case("2", dtype, compressor=compressor) for dtype in ("<i4", ">f8", "<U3", "|O")
        )
    for filters in FILTERS:
        yield from (Case("2", order=order, extra=filters) for order in "CF")


def create2(place: Path, case: Case) -> None:
    shape, chunks, _ = SHAPES[case.shape]
    layout = {"order": case.order, "dimension_separator": case.keys[-1]}
    layout |= {"filters": FILTERS[case.extra]}
    if case.dtype not in STRUCTURES:
        layout["dtype"] = case.dtype
    compression = COMPRESSIONS2[case.compressor]
    dtype = np.dtype(STRUCTURES.get(case.dtype, case.dtype)).newbyteorder("=")
    create_array(
        *(place.parent, place.name), shape=shape, chunks=chunks, dtype=dtype, format="zarr2",
        compression=compression, layout=layout,
    )  # fmt: skip


# Zarr v3


def extension(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


NUMBERS3 = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")

TYPES3: Mapping[str, tuple[Any, Any]] = {
    **{name: (np.dtype(name).name, 0.0 if name[0] == "f" else 0) for name in NUMBERS3},
    **{name: (np.dtype(name).name, [0.0, 0.0]) for name in ("c8", "c16")},
    "bool": ("bool", False),
    "M8[s]": (extension("numpy.datetime64", unit="s", scale_factor=1), -(2**63)),
    "M8[ns]": (extension("numpy.datetime64", unit="ns", scale_factor=1), "NaT"),
    "m8[10ms]": (extension("numpy.timedelta64", unit="ms", scale_factor=10), 0),
    "V3": (extension("raw_bytes", length_bytes=3), "AAAA"),
    "S4": (extension("null_terminated_bytes", length_bytes=4), ""),
    "U3": (extension("fixed_length_utf32", length_bytes=12), ""),
    "O": ("string", ""),
    "struct": (extension("structured", fields=[["a", "int32"], ["b", "float64"]]), "A" * 16),
}
"""The names of types, and fill values."""

BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0}

COMPRESSORS3: Mapping[str, list[Any]] = {
    "raw": [],
    "gzip": [extension("gzip", level=5)],
    "zstd": [extension("zstd", level=3, checksum=False)],
    "zstd checksum": [extension("zstd", level=1, checksum=True)],
    "blosc": [extension("blosc", **BLOSC)],
    "blosc noshuffle": [extension("blosc", **{**BLOSC, "cname": "zstd", "shuffle": "noshuffle"})],
    "crc32c": [{"name": "crc32c"}],
    "gzip crc32c": [extension("gzip", level=1), {"name": "crc32c"}],
    "crc32c zstd": [{"name": "crc32c"}, extension("zstd", level=0, checksum=False)],
}


def cases3() -> Iterator[Case]:
    """All types, with and without shards; codecs, shapes and keys of some."""
    for dtype in TYPES3:
        yield from (Case("3", dtype, extra=extra) for extra in ("none", "end"))
        yield Case("3", f">{dtype}", compressor="raw")
    for compressor in COMPRESSORS3:
        for shards in ("none", "end", "start", "nested"):
            yield Case("3", "i4", compressor=compressor, extra=shards)
            yield Case("3", "u1", compressor=compressor, extra=shards, order="F")
    for shape in SHAPES:
        for shards in ("none", "end", "start"):
            yield Case("3", "f4", shape, extra=shards)
            yield Case("3", ">u2", shape, "raw", "F", shards)
    for keys in ("default/", "default.", "v2/", "v2."):
        yield from (Case("3", "u1", shape, keys=keys) for shape in ("scalar", "line", "edges"))


def sharding(chunks: tuple[int, ...], chain: list[Any], location: str) -> dict[str, Any]:
    index = [extension("bytes", endian="little"), {"name": "crc32c"}]
    return extension(
        "sharding_indexed",
        chunk_shape=list(chunks), codecs=chain, index_codecs=index, index_location=location,
    )  # fmt: skip


def create3(place: Path, case: Case) -> None:
    """Write a ``zarr.json`` in the words of the specification."""
    shape, inner, shards = SHAPES[case.shape]
    first = extension("bytes", endian="big" if case.dtype[0] == ">" else "little")
    chain = [first if case.dtype.strip(">") != "O" else {"name": "vlen-utf8"}]
    chain += COMPRESSORS3[case.compressor]
    if case.order == "F":
        chain.insert(0, extension("transpose", order=[*range(len(inner))][::-1]))
    chunks = inner
    if case.extra != "none":
        chunks, chain = shards, [sharding(inner, chain, case.extra.replace("nested", "end"))]
    if case.extra == "nested":
        chunks, chain = tuple(2 * side for side in shards), [sharding(shards, chain, "start")]
    data_type, fill_value = TYPES3[case.dtype.strip(">")]
    members = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": extension("regular", chunk_shape=list(chunks)),
        "chunk_key_encoding": extension(case.keys[:-1], separator=case.keys[-1]),
        "fill_value": fill_value,
        "codecs": chain,
        "attributes": {},
    }
    place.mkdir()
    (place / "zarr.json").write_text(json.dumps(members))


# Both

CASES = [*dict.fromkeys([*cases2(), *cases3()])]

ALL = pytest.mark.parametrize("case", some(CASES, 24), ids=lambda case: case.name)


def begin(place: Path, case: Case) -> Path:
    """Create the array of a case without chunks."""
    (create2 if case.version == "2" else create3)(place, case)
    return place


def values(case: Case) -> np.ndarray:
    """Any bits that numbers can have, a part of them those of missing ones; texts."""
    shape, _, _ = SHAPES[case.shape]
    random = np.random.default_rng(len(case.name))
    name = case.dtype.strip(">") if case.version == "3" else case.dtype
    kind: np.dtype[Any] = np.dtype(STRUCTURES.get(name, name))
    if kind.kind == "O":
        elements = np.array(random.choice(["", "a", "bé", "🐟" * 9], shape), object)
    elif kind.kind in "SU" or case.dtype == "nested":
        elements = np.zeros(shape, kind)
        elements[...] = random.integers(0, 99, shape).astype(kind)
    else:
        raw = random.integers(0, 2 if kind.kind == "b" else 256, (*shape, kind.itemsize), "u1")
        elements = np.ascontiguousarray(raw).view(kind).reshape(shape)
    if shape and shape[0] > 4:  # whole chunks of the fill value
        elements[: shape[0] // 2] = "" if kind.kind == "O" else np.zeros((), kind)
    return elements


def same(read: Any, wanted: np.ndarray) -> bool:
    """Bit for bit."""
    if wanted.dtype.hasobject:
        return bool((np.asarray(read, object) == wanted).all())
    read = np.asarray(read)
    return read.shape == wanted.shape and bool(
        read.astype(wanted.dtype).tobytes() == wanted.tobytes()
    )


def in_zarrs() -> Any:
    return zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})


def in_zarr(place: Path, mode: Any = "r") -> Any:
    return zarr.open_array(str(place), mode=mode)


def in_tensorstore(place: Path) -> Any:
    driver = "zarr3" if (place / "zarr.json").exists() else "zarr"
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(place)}}
    return ts.open(spec, open=True).result()


def read_zarrs(place: Path) -> Any:
    with in_zarrs():
        return in_zarr(place)[...]


def write_zarr(place: Path, elements: np.ndarray) -> None:
    in_zarr(place, "r+")[...] = elements


def write_zarrs(place: Path, elements: np.ndarray) -> None:
    with in_zarrs():
        write_zarr(place, elements)


READERS: Mapping[str, Callable[[Path], Any]] = {
    "zarr": lambda place: in_zarr(place)[...],
    "zarrs": read_zarrs,
    "tensorstore": lambda place: in_tensorstore(place).read().result(),
    "z5py": lambda place: z5py.File(str(place.parent), "r", use_zarr_format=True)[place.name][...],
}

WRITERS: Mapping[str, Callable[[Path, np.ndarray], Any]] = {
    "zarr": write_zarr,
    "zarrs": write_zarrs,
    "tensorstore": lambda place, elements: in_tensorstore(place).write(elements).result(),
}

RELEASE = tuple(int(part) for part in zarr.__version__.split(".")[:2])

_UNHASHABLE = ("3-V3-.*-end-", "3-struct-.*-end-") if RELEASE < (3, 4) else ()
"""Types of zarr-python whose shards fail, since their fill values cannot be keys."""

CANNOT_READ: Mapping[str, tuple[str, ...]] = {
    "zarr": (*_UNHASHABLE, "2-nested-"),
    "zarrs": ("2-", *_UNHASHABLE, "3-bc(8|16)-"),  # of the last, it reads the wrong byte order
    "tensorstore": (
        r"3-b?(M8|m8|V3|S4|U3|O|struct)",
        "2-.(M8|m8|U3|O|S3|V4)",  # bytes have an axis more
        *("2-(struct|nested)", "2-.*-(delta|shuffle|crc32|delta-zlib)-", "2-.*-(xz|lz4)-"),
    ),
    "z5py": (
        *("3-", "2-b", "2-.(b1|f2|c8|S3|U3|M8|m8|V4|O)-", r"2-.(M8|m8)", "2-(struct|nested)"),
        "2-.*-(xz|lz4)-",  # its lz4 is another
        *("2-.*-F-", "2-.*-(delta|shuffle|crc32|delta-zlib)-", "2-.*-scalar-"),
    ),
}
"""What the others do not read, by the beginnings of the names of cases."""

NO_SCALAR_SHARDS = "3-.*-scalar-.*-(end|start|nested)-"

CANNOT_WRITE: Mapping[str, tuple[str, ...]] = {
    "zarr": (*CANNOT_READ["zarr"], NO_SCALAR_SHARDS),
    "zarrs": (*CANNOT_READ["zarrs"], NO_SCALAR_SHARDS),
    "tensorstore": CANNOT_READ["tensorstore"],
}
"""What the others do not write."""


def is_refused(table: Mapping[str, tuple[str, ...]], program: str, case: Case) -> bool:
    return any(re.match(pattern, case.name) for pattern in table[program])


@ALL
def test_what_is_written_is_read_by_all_others(tmp_path: Path, case: Case) -> None:
    place, elements = begin(tmp_path / "a", case), values(case)
    open_array(place, mode="r+")[...] = elements
    assert same(open_array(place)[...], elements)
    for program, read in READERS.items():
        if not is_refused(CANNOT_READ, program, case):
            assert same(read(place), elements), program


@ALL
def test_what_others_write_is_read(tmp_path: Path, case: Case) -> None:
    elements = values(case)
    for program, write in WRITERS.items():
        if not is_refused(CANNOT_WRITE, program, case):
            place = begin(tmp_path / program, case)
            write(place, elements)
            array = open_array(place)
            assert same(array[...], elements), program
            part = tuple(slice(size // 3, size) for size in elements.shape)
            assert same(array[part], np.asarray(elements[part], elements.dtype)), program


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", READERS)
def test_what_is_refused_is_refused_still(tmp_path: Path, program: str) -> None:
    taken = []
    for case in CASES:
        other = {"zarrs": "2", "z5py": "3"}.get(program)  # the version that it does not have
        if case.version == other or not is_refused(CANNOT_READ, program, case):
            continue
        place, elements = begin(tmp_path / case.name, case), values(case)
        open_array(place, mode="r+")[...] = elements
        with contextlib.suppress(Exception):
            taken += [case.name] if same(READERS[program](place), elements) else []
    assert taken == []


ZARR2 = """
import sys, numpy as np, zarr
for place in sys.argv[1:]:
    read = zarr.open_array(place, mode="r")[...]
    np.save(place + ".npy", read.astype(str) if read.dtype == object else read)
"""


@pytest.mark.exhaustive
def test_zarr_python_2_reads_all_that_is_written(tmp_path: Path) -> None:
    made = Path(__file__).parents[2] / ".venv-zarr2/bin/python"
    python = os.environ.get("N5_ZARR2_PYTHON") or (str(made) if made.exists() else None)
    if python is None:
        pytest.skip("no zarr-python 2: run ci/zarr2, or set N5_ZARR2_PYTHON to a Python with it")
    cases = [case for case in CASES if case.version == "2"]
    for case in cases:
        open_array(begin(tmp_path / case.name, case), mode="r+")[...] = values(case)
    names = [str(tmp_path / case.name) for case in cases]
    subprocess.run([python, "-c", ZARR2, *names], check=True)  # noqa: S603 - the script above
    for case in cases:
        assert same(np.load(tmp_path / f"{case.name}.npy"), values(case)), case.name
