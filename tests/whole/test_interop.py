"""What is written here others read, and the reverse: TensorStore, z5py, zarr-python 2, Java."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import dask.array as da
import numpy as np
import pytest
import tensorstore as ts
import xarray as xr
import z5py
from dask.base import compute

import xarray_n5
from tests.support import compressions
from tests.support.compressions import SHARED
from tests.support.exhaustive import EXHAUSTIVE
from xarray_n5.formats import N5
from xarray_n5.model.metadata import ArrayMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Arrays: TypeAlias = Mapping[str, np.ndarray]
    """Arrays by path; the first part of a path names the compression."""

TYPES = (
    *("uint8", "uint16", "uint32", "uint64"),
    *("int8", "int16", "int32", "int64"),
    *("float32", "float64"),
)
CHUNKS = (4, 3, 2, 3, 2)
EXACT = (8, 6, 4, 3, 2)
EDGES = (7, 5, 3, 4, 3)


def filled(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    """Return an array of any bits that `dtype` can have: infinities, NaNs, both ends."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(np.random.default_rng(seed).bytes(count), dtype).reshape(shape)


def digest(x: np.ndarray) -> str:
    """Return what two arrays share if they are the same to the last bit."""
    bits = x.astype(x.dtype.newbyteorder("<")).tobytes()
    return f"{x.dtype.name} {x.shape} {hashlib.sha256(bits).hexdigest()}"


def digests(arrays: Arrays) -> dict[str, str]:
    return {path: digest(x) for path, x in arrays.items()}


def members(container: Path, path: str = "") -> dict[str, Any]:
    """Return what stands in a node's document."""
    return cast("dict[str, Any]", json.loads((container / path / "attributes.json").read_bytes()))


# The others


def read_here(container: Path, paths: Iterable[str]) -> dict[str, str]:
    return {path: digest(xarray_n5.open_array(container, path)[...]) for path in paths}


def tensorstore(container: Path, path: str, **options: Any) -> ts.TensorStore:
    place = {"driver": "file", "path": f"{container / path}/"}
    return ts.open({"driver": "n5", "kvstore": place}, **options).result()


def read_with_tensorstore(container: Path, paths: Iterable[str]) -> dict[str, str]:
    return {path: digest(tensorstore(container, path).T.read().result()) for path in paths}


TENSORSTORES: dict[str, dict[str, Any]] = {
    "raw": {"type": "raw"},
    "gzip": {"type": "gzip", "level": 2},
    "zlib": {"type": "gzip", "useZlib": True},
    "bzip2": {"type": "bzip2"},
    "xz": {"type": "xz", "preset": 1},
    "blosc": {"type": "blosc", "cname": "zstd", "clevel": 4, "shuffle": 2},
    "zstd": {"type": "zstd", "level": 5},
}


def write_with_tensorstore(container: Path, arrays: Arrays) -> None:
    for path, x in arrays.items():
        metadata = {
            "dimensions": x.shape[::-1],
            "blockSize": CHUNKS[: x.ndim][::-1],
            "dataType": x.dtype.name,
            "compression": TENSORSTORES[path.partition("/")[0]],
        }
        place = {"driver": "file", "path": f"{container / path}/"}
        spec = {"driver": "n5", "kvstore": place, "metadata": metadata}
        ts.open(spec, create=True).result().T.write(x).result()


def read_with_z5py(container: Path, paths: Iterable[str]) -> dict[str, str]:
    with z5py.File(container, "r", use_zarr_format=False) as file:
        return {path: digest(file[path][:]) for path in paths}


def write_with_z5py(container: Path, arrays: Arrays) -> None:
    with z5py.File(container, "a", use_zarr_format=False) as file:
        for path, x in arrays.items():
            file.create_dataset(
                path, data=x, chunks=CHUNKS[: x.ndim], compression=path.partition("/")[0]
            )


ZARR2 = """
import hashlib, json, sys, warnings
warnings.simplefilter("ignore")
import numcodecs, numpy, zarr

def read(paths):
    for path in paths:
        x = root[path][...]
        bits = x.astype(x.dtype.newbyteorder("<")).tobytes()
        yield path, f"{x.dtype.name} {x.shape} {hashlib.sha256(bits).hexdigest()}"

def write(file):
    for path, x in numpy.load(file).items():
        name = path.partition("/")[0]
        chunks = (4, 3, 2, 3, 2)[: x.ndim]
        root.create_dataset(path, data=x, chunks=chunks, compressor=COMPRESSORS[name])

COMPRESSORS = {
    "raw": None,
    "gzip": numcodecs.GZip(2),
    "zlib": numcodecs.Zlib(2),
    "bzip2": numcodecs.BZ2(3),
    "xz": numcodecs.LZMA(preset=1),
    "lzma": numcodecs.LZMA(format=2, check=-1, preset=2),
    "lz4": numcodecs.LZ4(),
    "blosc": numcodecs.Blosc("zstd", 4, 2),
    "zstd": numcodecs.Zstd(5),
}
root = zarr.group(zarr.N5Store(sys.argv[2]))
if sys.argv[1] == "read":
    print(json.dumps(dict(read(json.load(sys.stdin)))))
else:
    write(sys.argv[3])
"""
"""What zarr-python 2 is told: it needs an environment of its own."""


def python_with_zarr2() -> str:
    """The Python that has zarr-python 2; the test is skipped where there is none."""
    made = Path(__file__).parents[2] / ".venv-zarr2/bin/python"
    python = os.environ.get("N5_ZARR2_PYTHON") or (str(made) if made.exists() else None)
    if python is None:
        pytest.skip("no zarr-python 2: run ci/zarr2, or set N5_ZARR2_PYTHON to a Python with it")
    return python


def run_zarr2(*arguments: object, data: object = None) -> str:
    """Run the script above."""
    command = [python_with_zarr2(), "-c", ZARR2, *map(str, arguments)]
    done = subprocess.run(  # noqa: S603 - the script is the one above
        command, input=json.dumps(data), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_with_zarr2(container: Path, paths: Iterable[str]) -> dict[str, str]:
    return cast("dict[str, str]", json.loads(run_zarr2("read", container, data=list(paths))))


def write_with_zarr2(container: Path, arrays: Arrays) -> None:
    container.mkdir()
    file = container.with_suffix(".npz")
    np.savez(file, **cast("Any", arrays))
    run_zarr2("write", container, file)


READERS: dict[str, Callable[[Path, Iterable[str]], dict[str, str]]] = {
    "tensorstore": read_with_tensorstore,
    "z5py": read_with_z5py,
    "zarr2": read_with_zarr2,
}
WRITERS: dict[str, Callable[[Path, Arrays], None]] = {
    "tensorstore": write_with_tensorstore,
    "z5py": write_with_z5py,
    "zarr2": write_with_zarr2,
}
KNOWN = {
    "tensorstore": tuple(TENSORSTORES),
    "z5py": (*SHARED, "lz4"),
    "zarr2": (*SHARED, "zlib", "lzma", "lz4"),
}
"""What each of them writes."""

OTHERS = [
    *("tensorstore", "z5py"),
    pytest.param("zarr2", marks=pytest.mark.exhaustive),
]
"""Their names: ``ci/zarr2`` sets up the last one."""


# Written here


def product_of(compression: str) -> dict[str, np.ndarray]:
    """Return every type in 1 to 5 dimensions, in whole chunks and with some at the edge.

    By default each compression has an eighth of the product, the next one another one; all have
    one type whole.
    """
    sides, first = {"exact": EXACT, "edges": EDGES}, compressions.NAMES.index(compression)
    return {
        f"{compression}/{dtype}/{kind}{ndim}": filled(sides[kind][:ndim], dtype, seed=ndim)
        for (i, dtype), (j, kind), ndim in product(enumerate(TYPES), enumerate(sides), range(1, 6))
        if EXHAUSTIVE or dtype == "uint16" or (first + i + j + ndim) % 8 == 0
    }


def write_here(container: Path, arrays: Arrays, **options: Any) -> None:
    writes = [
        xarray_n5.to_n5(
            da.from_array(x, chunks=CHUNKS[: x.ndim]),
            container,
            path,
            compression=path.partition("/")[0],
            compute=False,
            **options,
        )
        for path, x in arrays.items()
    ]
    compute(writes, scheduler="threads")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A container with the full product of what `to_n5` can write."""
    container = tmp_path_factory.mktemp("ours") / "ours.n5"
    for compression in compressions.NAMES:
        write_here(container, product_of(compression))
    return container


@pytest.mark.matrix(2)
@pytest.mark.more
@pytest.mark.parametrize("compression", compressions.NAMES)
def test_what_to_n5_writes_is_read_here(ours: Path, compression: str) -> None:
    arrays = product_of(compression)
    assert read_here(ours, arrays) == digests(arrays)


@pytest.mark.more
@pytest.mark.parametrize("compression", SHARED)
@pytest.mark.parametrize("reader", OTHERS)
def test_what_to_n5_writes_is_read_by_others(ours: Path, reader: str, compression: str) -> None:
    arrays = product_of(compression)
    assert READERS[reader](ours, arrays) == digests(arrays)


def header(file: Path) -> tuple[int, ...]:
    """Return a chunk's shape, in C order, as its first bytes tell it; the mode must be 0."""
    data = file.read_bytes()
    mode, ndim = struct.unpack_from(">HH", data)
    assert mode == 0
    return struct.unpack_from(f">{ndim}I", data, 4)[::-1]


def headers(container: Path, path: str) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Return what every chunk of a dataset says of its shape."""
    grid = xarray_n5.open_array(container, path).grid
    return {
        index: header(container.joinpath(path, *map(str, reversed(index))))
        for index in np.ndindex(*grid.counts)
    }


@pytest.mark.parametrize("ndim", range(1, 6))
def test_chunks_at_the_edge_tell_the_clipped_shape(ours: Path, ndim: int) -> None:
    shape, chunks = EDGES[:ndim], CHUNKS[:ndim]
    assert headers(ours, f"raw/uint16/edges{ndim}") == {
        index: tuple(
            min(side, size - i * side) for i, side, size in zip(index, chunks, shape, strict=True)
        )
        for index in np.ndindex(
            *(-(-size // side) for size, side in zip(shape, chunks, strict=True))
        )
    }


def test_an_edge_chunk_is_a_header_and_the_elements_that_the_array_has(tmp_path: Path) -> None:
    x = np.arange(20, dtype="uint16").reshape(5, 4)
    xarray_n5.to_n5(x, tmp_path / "c.n5", "x", chunks=(3, 3), compression="raw")
    expected = struct.pack(">HHII2H", 0, 2, 1, 2, x[3, 3], x[4, 3])
    assert (tmp_path / "c.n5/x/1/1").read_bytes() == expected


PADDED = {f"{name}/x": filled((7, 5, 3), "int16", seed=0) for name in SHARED}


@pytest.mark.parametrize("reader", OTHERS)
def test_padded_chunks_are_of_full_size_and_end_in_zeros(tmp_path: Path, reader: str) -> None:
    url = tmp_path / "padded.n5"
    write_here(url, PADDED, edge_chunks="pad")
    assert set(headers(url, "raw/x").values()) == {CHUNKS[:3]}
    block = np.frombuffer((url / "raw/x/1/1/1").read_bytes()[16:], ">i2").reshape(CHUNKS[:3])
    expected = np.zeros(CHUNKS[:3], "int16")
    expected[:3, :2, :1] = PADDED["raw/x"][4:, 3:, 2:]
    np.testing.assert_array_equal(block, expected)
    assert READERS[reader](url, PADDED) == read_here(url, PADDED) == digests(PADDED)


@pytest.mark.parametrize("name", ["java_lz4_bs65536", "java_lz4_multiblock_u8"])
def test_lz4_chunks_are_those_of_java(corpus: Path, name: str) -> None:
    vectors = json.loads((corpus / "../formats_vectors.json").read_bytes())["vectors"]
    (vector,) = (vector for vector in vectors if vector["name"] == name)
    dims = vector["header_dims_n5_order"]
    document = {
        "dimensions": dims,
        "blockSize": dims,
        "dataType": vector["dtype"],
        "compression": vector["compression"],
    }
    metadata = N5().read({"attributes.json": json.dumps(document).encode()}, name)
    assert isinstance(metadata, ArrayMetadata)
    block = np.array(vector["values_first_axis_fastest"], vector["dtype"]).reshape(dims[::-1])
    assert N5().encode(metadata, block).hex() == vector["chunk_hex"]


# Chunks without anything in them


HOLLOW = filled((8, 6, 4), "float32", seed=1).copy()
HOLLOW[4:, :3] = 0


@pytest.mark.parametrize("reader", OTHERS)
def test_empty_chunks_are_not_stored_and_zeros_for_others(tmp_path: Path, reader: str) -> None:
    url = tmp_path / "c.n5"
    write_here(url, {"gzip/x": HOLLOW}, write_empty_chunks=False)
    array = xarray_n5.open_array(url, "gzip/x", mode="r+", write_empty_chunks=False)
    without = {(1, 0, 0), (1, 0, 1)}
    assert {*array.node.stored_chunks()} == {*np.ndindex(2, 2, 2)} - without
    assert READERS[reader](url, ["gzip/x"]) == {"gzip/x": digest(HOLLOW)}
    array[:4, :3, :2] = 0
    assert {*array.node.stored_chunks()} == {*np.ndindex(2, 2, 2)} - without - {(0, 0, 0)}
    changed = HOLLOW.copy()
    changed[:4, :3, :2] = 0
    assert READERS[reader](url, ["gzip/x"]) == {"gzip/x": digest(changed)}


# Written by others


def samples(writer: str) -> dict[str, np.ndarray]:
    """Return every type, every compression that `writer` has, 1 to 5 axes; chunks at the edge."""
    arrays = {
        f"{compression}/{dtype}": filled((7, 5, 3), dtype, seed=3)
        for compression, dtype in product(KNOWN[writer], TYPES)
        if EXHAUSTIVE or compression == "gzip" or dtype in {"uint16", "float64"}
    }
    shapes = {f"gzip/d{ndim}": filled(EDGES[:ndim], "int32", seed=ndim) for ndim in range(1, 6)}
    return arrays | shapes


@pytest.mark.parametrize("writer", OTHERS)
def test_what_others_write_is_read_here_and_by_dask(tmp_path: Path, writer: str) -> None:
    arrays = samples(writer)
    WRITERS[writer](tmp_path / "theirs.n5", arrays)
    assert read_here(tmp_path / "theirs.n5", arrays) == digests(arrays)
    lazy = [xarray_n5.from_n5(tmp_path / "theirs.n5", path) for path in arrays]
    read = dict(zip(arrays, compute(*lazy, scheduler="threads"), strict=True))
    assert digests(read) == digests(arrays)


def updatable(writer: str) -> dict[str, np.ndarray]:
    """Return what `writer` can still read when it was changed here: all but z5's own lz4."""
    kept = samples(writer).items()
    return {path: x for path, x in kept if writer == "zarr2" or not path.startswith("lz4")}


def inner(shape: Sequence[int]) -> tuple[slice, ...]:
    """Return a region that cuts the first chunk along each axis and reaches the last one."""
    return tuple(slice(1, size) for size in shape)


@pytest.mark.parametrize("way", ["assigned", "by dask"])
@pytest.mark.parametrize("writer", OTHERS)
def test_a_region_stored_in_what_others_wrote_is_read_by_them(
    tmp_path: Path, writer: str, way: str
) -> None:
    url, arrays = tmp_path / "theirs.n5", updatable(writer)
    WRITERS[writer](url, arrays)
    changed = {path: x.copy() for path, x in arrays.items()}
    writes = []
    for path, x in changed.items():
        region = inner(x.shape)
        x[region] = filled(x.shape, x.dtype.name, seed=9)[region]
        if way == "assigned":
            xarray_n5.open_array(url, path, mode="r+")[region] = x[region]
        else:
            source = da.from_array(x[region], chunks=2)
            how: dict[str, Any] = {"region": region, "safe_chunks": False, "compute": False}
            writes.append(xarray_n5.to_n5(source, url, path, **how))
    compute(writes, scheduler="threads")
    assert READERS[writer](url, changed) == read_here(url, changed) == digests(changed)


@pytest.mark.parametrize("path", ["codec/gzip", "codec/bzip2", "codec/xz"])
def test_a_region_assigned_to_what_the_first_java_wrote_is_read_by_z5py(
    corpus: Path, tmp_path: Path, path: str
) -> None:
    copied(corpus, tmp_path / "java.n5", "java/n5-1.5.0.n5", path)
    assert "compressionType" in members(tmp_path / "java.n5", path)
    array = xarray_n5.open_array(tmp_path / "java.n5", path, mode="r+")
    x = array[...]
    array[inner(x.shape)] = x[inner(x.shape)] = 7
    assert read_with_z5py(tmp_path / "java.n5", [path]) == {path: digest(x)}


@pytest.mark.parametrize("writer", OTHERS)
def test_what_others_wrote_and_was_resized_here_is_read_by_them(
    tmp_path: Path, writer: str
) -> None:
    x = filled((7, 5, 3), "uint16", seed=4)
    WRITERS[writer](tmp_path / "theirs.n5", {"gzip/x": x})
    array = xarray_n5.open_array(tmp_path / "theirs.n5", "gzip/x", mode="r+").resize((6, 7, 3))
    expected = np.zeros((6, 7, 3), "uint16")
    expected[:, :5] = x[:6]
    array[5] = expected[5] = 8
    assert READERS[writer](tmp_path / "theirs.n5", ["gzip/x"]) == {"gzip/x": digest(expected)}


# Metadata of others


def copied(corpus: Path, container: Path, source: str, path: str) -> None:
    """Copy one dataset out of the corpus, and the document of its container."""
    for folder in (corpus / source / path).rglob("*"):
        if folder.is_file():
            place = container / folder.relative_to(corpus / source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder, place)
    shutil.copyfile(corpus / source / "attributes.json", container / "attributes.json")


JAVAS = {
    "java 1.5": ("java/n5-1.5.0.n5", "codec/gzip"),
    "java 3.5": ("java/n5-3.5.1.n5", "codec/gzip"),
    "java 3.5, root": ("java/special-n5-3.5.1/root_dataset", ""),
}
UNKNOWN = {
    "unknown": {"nested": [1, 2.5, None, {"\u00b5": "\u00b5m"}]},
    "downsamplingFactors": [1, 2, 4],
    "transform": "of another program",
    "large": 2**63,
}


@pytest.fixture(params=[*OTHERS, *JAVAS])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A dataset of three dimensions that others wrote, with members that nobody here knows."""
    container, path = tmp_path / "foreign.n5", "gzip/x"
    if request.param in WRITERS:
        WRITERS[request.param](container, {path: filled((7, 5, 3), "uint16", seed=5)})
    else:
        source, path = JAVAS[request.param]
        copied(request.getfixturevalue("corpus"), container, source, path)
    document = {**members(container, path), **UNKNOWN}
    (container / path / "attributes.json").write_text(json.dumps(document), encoding="utf-8")
    return container, path


def documents(container: Path) -> dict[str, Any]:
    """Return all documents of a container by their place."""
    return {
        str(file.parent.relative_to(container)): json.loads(file.read_bytes())
        for file in container.rglob("attributes.json")
    }


def test_changes_leave_other_members_of_documents(foreign: tuple[Path, str]) -> None:
    container, path = foreign
    expected = documents(container)
    own = expected[str(Path(path))]
    array = xarray_n5.open_array(container, path, mode="r+")
    array.attrs["x"] = own["x"] = 1
    assert documents(container) == expected
    del array.attrs["unknown"], own["unknown"]
    assert documents(container) == expected
    bytes_before = {file: file.read_bytes() for file in container.rglob("attributes.json")}
    array[1:3, 1:3] = 7
    region = (slice(2, 4), slice(None), slice(None))
    xarray_n5.to_n5(array[3:5], container, path, region=region, safe_chunks=False)
    assert {file: file.read_bytes() for file in bytes_before} == bytes_before
    array.resize((9, 4, 3))
    own["dimensions"] = [3, 4, 9]
    assert documents(container) == expected


@pytest.mark.parametrize("foreign", [*OTHERS, "java 1.5", "java 3.5"], indirect=True)
def test_a_new_dataset_beside_those_of_others_changes_no_document(
    foreign: tuple[Path, str],
) -> None:
    container, _ = foreign
    before = documents(container)
    xarray_n5.to_n5(np.arange(4), container, "new")
    after = documents(container)
    assert "n5" not in after.pop("new")
    # TensorStore leaves the root without a document, where zarr-python 2 finds nothing.
    assert after == {".": {}, **before}


# Axes


def test_axes_of_tensorstore_become_coordinates(tmp_path: Path) -> None:
    domain = ts.IndexDomain(labels=["x", "y", "time"], shape=[3, 2, 2])
    units = ["4nm", "0.25um", "2s"]
    tensorstore(
        tmp_path / "c.n5", "v", create=True, dtype=ts.uint8, domain=domain, dimension_units=units
    )
    with xr.open_dataset(tmp_path / "c.n5", engine="n5", group="v") as dataset:
        expected = xr.Dataset(
            {"v": (("time", "y", "x"), np.zeros((2, 2, 3), "uint8"))},
            {
                "time": ("time", [0.0, 2.0], {"units": "s"}),
                "y": ("y", [0.0, 0.25], {"units": "um"}),
                "x": ("x", [0.0, 4.0, 8.0], {"units": "nm"}),
            },
        )
        xr.testing.assert_identical(dataset.load(), expected)


def test_axes_written_here_are_those_of_tensorstore(tmp_path: Path) -> None:
    axes = [
        xarray_n5.Axis(name="z", unit="um", scale=0.5),
        xarray_n5.Axis(name="y", unit="nm", scale=4),
        xarray_n5.Axis(name="x", unit="nm", scale=8),
    ]
    xarray_n5.create_array(tmp_path / "c.n5", "x", shape=(2, 3, 4), dtype="uint8", axes=axes)
    opened = tensorstore(tmp_path / "c.n5", "x")
    assert opened.domain.labels == ("x", "y", "z")
    assert opened.domain.shape == (4, 3, 2)
    assert opened.dimension_units == (ts.Unit(8, "nm"), ts.Unit(4, "nm"), ts.Unit(0.5, "um"))
