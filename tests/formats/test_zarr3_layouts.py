"""Zarr v3 in every layout: what others write is read exactly, and they read what is written."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from tests.support.exhaustive import FACTOR, some, spread
from xarray_n5 import open_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

zarr = pytest.importorskip("zarr")
ts = pytest.importorskip("tensorstore")
pytest.importorskip("zarrs")

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Zarr V3 specification", "ignore:.*Zarr format 3", "ignore:.*not in the Zarr"
)

NUMBERS = ("bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")
OTHERS = ("M8[s]", "m8[10ms]", "M8[ns]", "V3", "S4", "U3", "O", "struct")


def _extension(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


TYPES: Mapping[str, tuple[Any, Any]] = {
    **{name: (np.dtype(name).name, 0.0 if name[0] == "f" else 0) for name in NUMBERS[1:]},
    **{name: (np.dtype(name).name, [0.0, 0.0]) for name in ("c8", "c16")},
    "bool": ("bool", False),
    "M8[s]": (_extension("numpy.datetime64", unit="s", scale_factor=1), -(2**63)),
    "M8[ns]": (_extension("numpy.datetime64", unit="ns", scale_factor=1), "NaT"),
    "m8[10ms]": (_extension("numpy.timedelta64", unit="ms", scale_factor=10), 0),
    "V3": (_extension("raw_bytes", length_bytes=3), "AAAA"),
    "S4": (_extension("null_terminated_bytes", length_bytes=4), ""),
    "U3": (_extension("fixed_length_utf32", length_bytes=12), ""),
    "O": ("string", ""),
    "struct": (_extension("structured", fields=[["a", "int32"], ["b", "float64"]]), "A" * 16),
}
"""The names of types, and fill values."""

SHAPES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "scalar": ((), (), ()),
    "none": ((0, 3), (2, 3), (4, 3)),
    "line": ((23,), (4,), (12,)),
    "edges": ((13, 10), (3, 4), (6, 8)),
    "volume": ((7, 6, 9), (2, 3, 4), (4, 3, 8)),
    "four": ((3, 4, 5, 6), (1, 2, 5, 3), (2, 4, 5, 6)),
    "five": ((2, 3, 4, 5, 3), (1, 2, 2, 5, 2), (2, 4, 2, 5, 2)),
}
"""The shapes of arrays, of their chunks, and of their shards."""

COMPRESSORS: Mapping[str, list[Any]] = {
    "raw": [],
    "gzip": [{"name": "gzip", "configuration": {"level": 5}}],
    "zstd": [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
    "zstd-checksum": [{"name": "zstd", "configuration": {"level": 1, "checksum": True}}],
    "blosc": [
        {
            "name": "blosc",
            "configuration": {
                "cname": "lz4",
                "clevel": 5,
                "shuffle": "bitshuffle",
                "typesize": 4,
                "blocksize": 0,
            },
        }
    ],
    "blosc-noshuffle": [
        {
            "name": "blosc",
            "configuration": {
                "cname": "zstd",
                "clevel": 1,
                "shuffle": "noshuffle",
                "typesize": 4,
                "blocksize": 0,
            },
        }
    ],
    "crc32c": [{"name": "crc32c"}],
    "gzip-crc32c": [{"name": "gzip", "configuration": {"level": 1}}, {"name": "crc32c"}],
    "crc32c-zstd": [
        {"name": "crc32c"},
        {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
    ],
}


class Case(NamedTuple):
    """One array of the matrix."""

    dtype: str = "i4"
    shape: str = "edges"
    compressor: str = "zstd"
    endian: str = "little"
    order: str = "C"
    """Whether a codec reverses the axes ("F"), inside of shards if there are any."""
    shards: str = "none"
    """Where the index of shards is; "nested" for shards in shards."""
    keys: str = "default/"

    @property
    def name(self) -> str:
        """What the test is called."""
        return "-".join(self).replace("/", "s").replace(".", "d")


def cases() -> Iterator[Case]:
    """All types, with and without shards; codecs, shapes and keys of some."""
    for dtype in (*NUMBERS, *OTHERS):
        yield Case(dtype)
        yield Case(dtype, shards="end")
        yield Case(dtype, endian="big", compressor="raw")
    for compressor in COMPRESSORS:
        for shards in ("none", "end", "start", "nested"):
            yield Case(compressor=compressor, shards=shards)
            yield Case("u1", compressor=compressor, shards=shards, order="F")
    for shape in SHAPES:
        for shards in ("none", "end", "start"):
            yield Case("f4", shape, shards=shards)
            yield Case("u2", shape, "raw", "big", "F", shards)
    for keys in ("default/", "default.", "v2/", "v2."):
        for shape in ("scalar", "line", "edges"):
            yield Case("u1", shape, keys=keys)


def every_case() -> Iterator[Case]:
    """All combinations."""
    places = ("none", "end", "start", "nested")
    for choice in itertools.product(NUMBERS, SHAPES, COMPRESSORS, ("little", "big"), "CF", places):
        yield Case(*choice, "v2.")


CASES = sorted({*cases()})

MORE = sorted({*spread(every_case(), 80 * FACTOR)} - {*CASES})

ALL = pytest.mark.parametrize(
    "case",
    [*some(CASES, 12), *(pytest.param(case, marks=pytest.mark.exhaustive) for case in MORE)],
    ids=lambda case: case.name,
)


def values(case: Case) -> np.ndarray:
    """Elements of any value, a part of them that of missing ones."""
    shape, _, _ = SHAPES[case.shape]
    random = np.random.default_rng(len(case.name))
    if case.dtype == "O":
        found = np.array(random.choice(["", "a", "bé", "🐟" * 9], shape), object)
    elif case.dtype == "struct":
        found = random.integers(0, 9, shape).astype([("a", "<i4"), ("b", "<f8")])
    elif case.dtype in {"S4", "U3"}:
        found = random.integers(0, 99, shape).astype(case.dtype)
    else:
        nbytes = np.dtype(case.dtype).itemsize
        raw = random.integers(0, 2 if case.dtype == "bool" else 256, (*shape, nbytes), "u1")
        found = raw.view(case.dtype).reshape(shape)
    if shape and shape[0] > 4:  # whole chunks of the fill value
        found[: shape[0] // 2] = "" if case.dtype == "O" else np.zeros((), found.dtype)
    return found


def codecs(case: Case) -> list[Any]:
    """The chain of codecs."""
    _, inner, _ = SHAPES[case.shape]
    reverse = {"name": "transpose", "configuration": {"order": [*range(len(inner))][::-1]}}
    first: dict[str, Any] = {"name": "bytes", "configuration": {"endian": case.endian}}
    if case.dtype == "O":
        first = {"name": "vlen-utf8"}
    chain = [*([reverse] if case.order == "F" else []), first, *COMPRESSORS[case.compressor]]
    if case.shards == "none":
        return chain
    return [sharding(inner, chain, "start" if case.shards == "start" else "end")]


def sharding(chunks: tuple[int, ...], chain: list[Any], location: str) -> dict[str, Any]:
    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    return {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": list(chunks),
            "codecs": chain,
            "index_codecs": index,
            "index_location": location,
        },
    }


def document(case: Case) -> dict[str, Any]:
    """A ``zarr.json`` in the words of the specification."""
    shape, inner, shards = SHAPES[case.shape]
    chunks, chain = (inner if case.shards == "none" else shards), codecs(case)
    if case.shards == "nested":
        chunks = tuple(2 * side for side in shards)
        chain = [sharding(shards, chain, "start")]
    data_type, fill_value = TYPES[case.dtype]
    separator = case.keys[-1]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": case.keys[:-1], "configuration": {"separator": separator}},
        "fill_value": fill_value,
        "codecs": chain,
        "attributes": {},
    }


def same(found: Any, wanted: np.ndarray) -> bool:
    """Bit for bit."""
    if wanted.dtype.hasobject:
        return bool((np.asarray(found, object) == wanted).all())
    found = np.asarray(found)
    return bool(found.shape == wanted.shape) and bool(
        found.astype(wanted.dtype).tobytes() == wanted.tobytes()
    )


def begin(place: Path, case: Case) -> Path:
    """Write the document of an array without chunks."""
    place.mkdir()
    (place / "zarr.json").write_text(json.dumps(document(case)))
    return place


def by_zarr(place: Path) -> np.ndarray:
    found: np.ndarray = zarr.open_array(str(place), mode="r")[...]
    return found


def by_zarrs(place: Path) -> np.ndarray:
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        return by_zarr(place)


def by_tensorstore(place: Path) -> np.ndarray:
    found: np.ndarray = _opened(place).read().result()
    return found


def _opened(place: Path) -> Any:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(place)}}
    return ts.open(spec, open=True).result()


def write_zarr(place: Path, elements: np.ndarray) -> None:
    zarr.open_array(str(place), mode="r+")[...] = elements


def write_zarrs(place: Path, elements: np.ndarray) -> None:
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        write_zarr(place, elements)


def write_tensorstore(place: Path, elements: np.ndarray) -> None:
    _opened(place).write(elements).result()


READERS = {"zarr": by_zarr, "zarrs": by_zarrs, "tensorstore": by_tensorstore}

WRITERS = {"zarr": write_zarr, "zarrs": write_zarrs, "tensorstore": write_tensorstore}

RELEASE = tuple(int(part) for part in zarr.__version__.split(".")[:2])

_UNHASHABLE = ("V3-.*-end-", "struct-.*-end-") if RELEASE < (3, 4) else ()
"""Types of zarr-python whose shards fail, since their fill values cannot be keys."""

CANNOT_READ: Mapping[str, tuple[str, ...]] = {
    "zarr": _UNHASHABLE,
    "zarrs": (
        "(S4|U3|V3|struct)-",  # these it leaves to zarr-python
        ".*-scalar-.*-F-",
        "c(8|16)-.*-big-",  # which it reads in the wrong byte order
    ),
    "tensorstore": (r"(M8|m8|V3|S4|U3|O|struct)",),
}
"""What the others do not read, by the beginnings of the names of cases."""

CANNOT_WRITE: Mapping[str, tuple[str, ...]] = {
    "zarr": (*_UNHASHABLE, ".*-scalar-.*-(end|start|nested)-"),
    "zarrs": (*CANNOT_READ["zarrs"], ".*-scalar-.*-(end|start|nested)-"),
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
            assert same(array[part], elements[part]), program


@pytest.mark.parametrize("program", READERS)
def test_what_is_refused_is_refused_still(tmp_path: Path, program: str) -> None:
    taken = []
    for case in [each for each in CASES if is_refused(CANNOT_READ, program, each)]:
        place, elements = begin(tmp_path / case.name, case), values(case)
        open_array(place, mode="r+")[...] = elements
        with contextlib.suppress(Exception):
            taken += [case.name] if same(READERS[program](place), elements) else []
    assert taken == []
