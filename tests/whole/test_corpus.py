"""Everything that other implementations wrote reads as they read it, or says why not."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, cast

import dask
import numpy as np
import pytest
import xarray as xr
from dask.delayed import delayed

import xarray_n5
from tests.conftest import CORPUS, NO_CORPUS
from tests.support.containers import digest
from tests.support.exhaustive import EXHAUSTIVE, spread
from xarray_n5 import formats
from xarray_n5.model.metadata import ArrayMetadata, Varlength

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import dask.array as da
    from distributed import Client

pytestmark = pytest.mark.skipif(CORPUS is None, reason=NO_CORPUS)

N5 = formats.N5()


def load(name: str) -> Any:
    """Return a JSON file of the corpus; an empty one where there is no corpus."""
    return {} if CORPUS is None else json.loads((CORPUS / name).read_text(encoding="utf-8"))


def path_of(row: dict[str, Any]) -> str:
    """Return what names a row of the manifest among the tests."""
    return str(row["path"])


def name_of(vector: dict[str, Any]) -> str:
    """Return what names a byte vector among the tests."""
    return str(vector["name"])


def component_of(row: dict[str, Any]) -> str:
    """Return a dataset's path in its container."""
    return str(row["path"]).removeprefix(row["container"]).strip("/")


def home_of(row: dict[str, Any]) -> str:
    """Return a dataset's container, or its own path where it is one."""
    return str(row["container"] or row["path"])


ROWS = [row for row in load("MANIFEST.json").get("datasets", []) if row["format"] == "n5"]
PLAIN = [row for row in ROWS if row.get("sha256_zyx")]
ODD = [row for row in ROWS if not row.get("sha256_zyx")]
IN_CONTAINERS = [row for row in ROWS if row["container"] and row["container"] != row["path"]]
CONTAINERS = sorted({row["container"] for row in IN_CONTAINERS})
HOMES = {
    home: {path_of(row): row for row in PLAIN if home_of(row) == home}
    for home in sorted({home_of(row) for row in PLAIN})
}
"""Datasets of which the values are known, by path and by container."""
VECTORS = load("vectors/manifest.json").get("vectors", [])
GOOD = [vector for vector in VECTORS if not vector["expected"].get("error")]
BAD = [vector for vector in VECTORS if vector["expected"].get("error")]
CHUNKS = load("../formats_vectors.json").get("vectors", [])
SPECIAL = "java/special-n5-3.5.1/special"


# Datasets whose values are known


def lazy(place: Path, row: dict[str, Any]) -> da.Array:
    """Return an array with one task a chunk, but where they are thousands."""
    return xarray_n5.from_n5(place, chunks=None if math.prod(row["grid"]) <= 100 else "auto")


def variable_of(place: Path, row: dict[str, Any]) -> np.ndarray:
    """Return a dataset's values as xarray shows them."""
    # What xarray wrote is decoded when it is opened; the hash is of what is stored.
    decode = False if "_ARRAY_DIMENSIONS" in row["extra_attributes"] else None
    with xr.open_dataset(place, engine="n5", decode_cf=decode) as dataset:
        (variable,) = (v for v in dataset.variables.values() if "n5_compression" in v.encoding)
        return variable.to_numpy()


@pytest.mark.matrix(6)
@pytest.mark.parametrize("container", HOMES)
@pytest.mark.filterwarnings("ignore:c0/s:UserWarning")
@pytest.mark.filterwarnings("ignore:.* is ignored next to .axes. or .units.:UserWarning")
def test_dask_and_xarray_read_what_others_wrote(corpus: Path, container: str) -> None:
    rows = HOMES[container]
    expected = {path: row["sha256_zyx"] for path, row in rows.items()}
    with dask.config.set(scheduler="threads"):
        by_dask = {path: digest(lazy(corpus / path, row).compute()) for path, row in rows.items()}
    assert by_dask == expected
    by_xarray = {path: digest(variable_of(corpus / path, row)) for path, row in rows.items()}
    assert by_xarray == expected


def test_a_dataset_that_xarray_wrote_is_decoded(corpus: Path) -> None:
    folder = corpus / "peers/xarray-2024.7.0-zarr2.18"
    with (
        np.load(folder / "expected.npz") as expected,
        xr.open_dataset(folder / "cf.n5", engine="n5") as dataset,
    ):
        for name in ("temp", "count", "lat", "lon"):
            np.testing.assert_array_equal(dataset[name], expected[name])
        times = dataset["time"].astype("datetime64[ns]").astype("int64")
        np.testing.assert_array_equal(times, expected["time"])


@pytest.mark.more
def test_worker_processes_read_what_others_wrote(corpus: Path, cluster: Client) -> None:
    arrays: dict[object, da.Array] = {}
    expected: dict[object, str] = {}
    for row in PLAIN if EXHAUSTIVE else spread(PLAIN, 12):
        arrays[row["path"]] = lazy(corpus / row["path"], row)
        expected[row["path"]] = row["sha256_zyx"]
        if row["container"]:
            place = corpus / row["container"], component_of(row)
            arrays[place] = xarray_n5.from_n5(*place, chunks="auto")
            expected[place] = row["sha256_zyx"]
    digests = [delayed(digest)(array) for array in arrays.values()]
    # All at once is a graph that distributed would warn of.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GB"}):
        found = dict(zip(arrays, cluster.gather(cluster.compute(digests)), strict=True))
    assert found == expected


# Datasets whose values nobody agrees on


@pytest.mark.parametrize("row", ODD, ids=path_of)
def test_odd_datasets_open(corpus: Path, row: dict[str, Any]) -> None:
    array = xarray_n5.open_array(corpus / row["path"])
    assert array.shape == tuple(reversed(row["dimensions"]))
    assert array.chunks == tuple(reversed(row["blockSize"]))
    with xr.open_dataset(corpus / row["path"], engine="n5") as dataset:
        assert array.shape in [variable.shape for variable in dataset.variables.values()]


@pytest.mark.parametrize("row", ODD, ids=path_of)
def test_stored_chunks_of_odd_datasets_are_read_or_refused_by_name(
    corpus: Path, row: dict[str, Any]
) -> None:
    array = xarray_n5.open_array(corpus / row["path"])
    stored = list(array.node.stored_chunks())
    assert len(stored) == row["chunks_present"]
    for index in stored:
        pieces = zip(index, array.chunks, array.shape, strict=True)
        place = tuple(slice(i * side, min(i * side + side, size)) for i, side, size in pieces)
        try:
            block = array[place]
        except (xarray_n5.ChunkError, xarray_n5.MetadataError) as error:
            assert repr("/".join(map(str, reversed(index)))) in str(error)  # noqa: PT017
        else:
            assert block.shape == array.grid.extent(index)


@pytest.mark.parametrize("row", [row for row in ODD if not row["chunks_present"]], ids=path_of)
def test_datasets_without_chunks_read_as_zeros(corpus: Path, row: dict[str, Any]) -> None:
    array = xarray_n5.from_n5(corpus / row["path"], chunks="auto")
    assert not array[::5, ::7].any().compute()


def test_strings_of_java_are_read_by_dask_and_xarray(corpus: Path) -> None:
    expected = [
        ["", "a1", "N52", "µm", "Å-ngström4"],
        ["日本語5", "😀", "x y7", "8", "a"],
        ["N510", "µm11", "Å-ngström", "日本語13", "😀14"],
    ]
    assert xarray_n5.from_n5(corpus / SPECIAL, "string2d_gzip").compute().tolist() == expected
    with xr.open_dataset(corpus / SPECIAL, engine="n5", group="string2d_gzip") as dataset:
        assert dataset["string2d_gzip"].to_numpy().tolist() == expected


def test_elements_of_varlength_chunks_are_read_and_selections_refused(corpus: Path) -> None:
    numbers = xarray_n5.open_array(corpus / SPECIAL, "varlength_u64")
    elements = numbers.read_chunk((1,))
    assert elements.dtype == np.uint64
    assert elements.tolist() == [1, 2**64 - 1, 3, 4, 5, 6]
    assert numbers[:4].tolist() == [0, 0, 0, 0]  # has no chunk
    letters = xarray_n5.open_array(corpus / SPECIAL, "varlength_u8")
    assert letters.read_chunk((0, 0)).tobytes() == b"twenty-one byte block"
    assert letters.read_chunk((0, 1)).shape == (0,)
    for array, key in ((numbers, "varlength_u64/1"), (letters, "varlength_u8/0/0")):
        with pytest.raises(xarray_n5.errors.VarlengthChunkError) as raised:
            array[...]
        assert raised.value.key == key


@pytest.mark.parametrize(("index", "first"), [((0, 0, 0), 0), ((9, 678, 12345), 12345)])
def test_chunks_of_a_huge_sparse_dataset_are_read(
    corpus: Path, index: tuple[int, ...], first: int
) -> None:
    array = xarray_n5.open_array(corpus / SPECIAL, "sparse_huge")
    expected = np.arange(first, first + 512, dtype=np.uint16).reshape(8, 8, 8)
    assert array.shape == (70_000, 500_000, 1_000_000)
    np.testing.assert_array_equal(array.read_chunk(index), expected)
    place = tuple(slice(8 * i, 8 * i + 8) for i in index)
    np.testing.assert_array_equal(array[place], expected)


# Containers


def walk(group: xarray_n5.Group, path: str = "") -> Iterator[tuple[str, xarray_n5.Array]]:
    for name, node in group.nodes().items():
        inner = f"{path}/{name}".lstrip("/")
        if isinstance(node, xarray_n5.Group):
            yield from walk(node, inner)
        else:
            yield inner, node


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_lists_all_of_its_datasets(corpus: Path, container: str) -> None:
    rows = [row for row in IN_CONTAINERS if row["container"] == container]
    group = xarray_n5.open_group(corpus / container)
    expected = {
        component_of(row): (
            tuple(reversed(row["dimensions"])),
            np.dtype(object if row["dtype"] == "string" else row["dtype"]),
        )
        for row in rows
    }
    assert {path: (array.shape, array.dtype) for path, array in walk(group)} == expected
    by_path: dict[str, Any] = {path: group[path] for path in expected}
    assert {path: (array.shape, array.dtype) for path, array in by_path.items()} == expected


def test_a_container_that_is_a_dataset_opens_as_one(corpus: Path) -> None:
    place = corpus / "java/special-n5-3.5.1/root_dataset"
    array = xarray_n5.open_array(place)
    assert (array.path, array.node.name) == ("", "root_dataset")
    with pytest.raises(xarray_n5.NodeNotFoundError, match="use open_array"):
        xarray_n5.open_group(place)


# Bytes


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
def test_chunks_out_of_other_projects_tests_are_read(corpus: Path, vector: dict[str, Any]) -> None:
    array = xarray_n5.open_array(corpus / "vectors" / vector["name"])
    chunk = array.read_chunk((0, 0, 0))
    assert chunk.shape == tuple(reversed(vector["expected"]["shape"]))
    assert chunk.ravel().tolist() == vector["expected"]["values_first_axis_fastest"]


@pytest.mark.parametrize("vector", BAD, ids=name_of)
def test_malformed_chunks_are_refused_by_name(corpus: Path, vector: dict[str, Any]) -> None:
    array = xarray_n5.open_array(corpus / "vectors" / vector["name"])
    with pytest.raises((xarray_n5.ChunkError, xarray_n5.MetadataError), match="'0/0/0'"):
        array.read_chunk((0, 0, 0))


def metadata_of(vector: dict[str, Any]) -> ArrayMetadata:
    """Return the metadata of an array of which the vector is the only chunk."""
    members = {
        "dimensions": vector["header_dims_n5_order"] or [5],
        "blockSize": vector["header_dims_n5_order"] or [5],
        "dataType": vector["dtype"],
        "compression": vector["compression"],
    }
    return cast(
        "ArrayMetadata", N5.read({"attributes.json": json.dumps(members).encode()}, vector["name"])
    )


def chunks_with(**facts: object) -> list[dict[str, Any]]:
    return [vector for vector in CHUNKS if facts.items() <= vector.items()]


NUMBERS = chunks_with(mode=0)
STRINGS = chunks_with(dtype="string")
LISTS = [vector for vector in chunks_with(mode=1) if vector["dtype"] != "string"]
OBJECTS = chunks_with(mode=2)


@pytest.mark.parametrize("vector", NUMBERS + STRINGS, ids=name_of)
def test_a_chunks_bytes_decode_to_its_values(vector: dict[str, Any]) -> None:
    metadata = metadata_of(vector)
    decoded = N5.decode(metadata, bytes.fromhex(vector["chunk_hex"]))
    assert decoded.shape == metadata.shape
    assert decoded.dtype.newbyteorder("=") == metadata.dtype
    assert decoded.ravel().tolist() == vector["values_first_axis_fastest"]


@pytest.mark.parametrize("vector", LISTS, ids=name_of)
def test_a_varlength_chunks_bytes_decode_to_its_elements(vector: dict[str, Any]) -> None:
    with pytest.raises(Varlength) as raised:
        N5.decode(metadata_of(vector), bytes.fromhex(vector["chunk_hex"]))
    assert raised.value.elements.tolist() == vector["values_first_axis_fastest"]


@pytest.mark.parametrize("vector", OBJECTS, ids=name_of)
def test_a_chunk_of_objects_is_never_decoded(vector: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"(?i)object"):
        N5.decode(metadata_of(vector), bytes.fromhex(vector["chunk_hex"]))


def test_every_byte_vector_is_tried() -> None:
    assert len(NUMBERS + STRINGS + LISTS + OBJECTS) == len(CHUNKS) == 22
    assert (len(GOOD), len(BAD)) == (8, 3)
    assert (len(PLAIN), len(ODD)) == (419, 8)
