"""Any legal chain of Zarr v3's codecs, and what is refused."""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.formats.test_zarr_layouts import READERS, WRITERS
from tests.support.exhaustive import seeds
from xarray_n5 import MetadataError, open_array, to_n5
from xarray_n5.errors import UnknownCompressionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")

COMPRESSORS: list[dict[str, Any]] = [
    {"name": "gzip", "configuration": {"level": 1}},
    {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
    {"name": "crc32c"},
]


def serializer(chance: random.Random) -> dict[str, Any]:
    return {"name": "bytes", "configuration": {"endian": chance.choice(["little", "big"])}}


def chain(chance: random.Random, shape: Sequence[int], depth: int) -> list[dict[str, Any]]:
    """A chain for chunks of a shape, with at most so many shards in each other."""
    codecs: list[dict[str, Any]] = []
    sides = list(shape)
    for _ in range(chance.choice([0, 0, 1, 2])):
        order = chance.sample(range(len(sides)), len(sides))
        codecs.append({"name": "transpose", "configuration": {"order": order}})
        sides = [sides[axis] for axis in order]
    if depth and chance.random() < 0.7:
        inner = [side // chance.choice([n for n in (1, 2, 3) if side % n == 0]) for side in sides]
        checked = [{"name": "crc32c"}] if chance.random() < 0.7 else []
        configuration = {
            "chunk_shape": inner,
            "codecs": chain(chance, inner, depth - 1),
            "index_codecs": [serializer(chance), *checked],
            "index_location": chance.choice(["start", "end"]),
        }
        codecs.append({"name": "sharding_indexed", "configuration": configuration})
    else:
        codecs.append(serializer(chance))
    return codecs + chance.choices(COMPRESSORS, k=chance.randrange(3))


def document(codecs: object, shape: Sequence[int], chunks: Sequence[int], **others: Any) -> str:
    members = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 3,
        "codecs": codecs,
        "attributes": {},
        **others,
    }
    return json.dumps(members)


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_any_chain_is_read_and_written_as_by_others(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    chunks = [chance.choice([1, 2, 4, 6, 12]) for _ in range(chance.randrange(1, 4))]
    shape = [chance.randrange(1, 14) for _ in chunks]
    text = document(chain(chance, chunks, 2), shape, chunks)
    values = np.random.default_rng(seed).integers(2, 5, shape).astype("u2")
    key = tuple(slice(*sorted(chance.sample(range(size + 1), 2))) for size in shape)

    def made(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_text(text)
        return tmp_path / name

    place = made("ours")
    open_array(place, mode="r+")[...] = values
    for program, read in READERS.items():
        with contextlib.suppress(Exception):  # each refuses some chains
            np.testing.assert_array_equal(read(place), values, program)
        other = made(program)
        try:
            WRITERS[program](other, values)
        except Exception:  # noqa: BLE001, S112
            continue
        np.testing.assert_array_equal(open_array(other)[...], values, program)
        np.testing.assert_array_equal(open_array(other)[key], values[key], program)
    np.testing.assert_array_equal(open_array(place)[key], values[key])


B = {"name": "bytes", "configuration": {"endian": "little"}}


def sharded(**changed: Any) -> list[dict[str, Any]]:
    members = {"chunk_shape": [2], "codecs": [B], "index_codecs": [B], **changed}
    return [{"name": "sharding_indexed", "configuration": members}]


def nested(depth: int) -> list[dict[str, Any]]:
    return sharded(codecs=nested(depth - 1)) if depth else sharded()


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        ([], "expected a list of codecs"),
        ("bytes", "expected a list of codecs"),
        ([{"name": "gzip", "configuration": {"level": 1}}], "such as .bytes.; got 0"),
        ([B, B], "such as .bytes.; got 2"),
        ([B, {"name": "transpose", "configuration": {"order": [0]}}], "transpose"),
        ([{"name": "transpose", "configuration": {"order": [1]}}, B], "permutation of 1 axes"),
        ([{"name": "zfp"}, B], "zfp"),
        ([B, {"name": "pcodec"}], "pcodec.*zarr-python"),
        ([{"name": "bytes", "configuration": {"endian": "middle"}}], "'endian' is 'middle'"),
        ([B, {"name": "blosc", "configuration": {"cname": "lz4", "shuffle": "other"}}], "shuffle"),
        ([{"name": "vlen-utf8"}], "does not support elements of uint16"),
        (sharded(chunk_shape=[3]), "does not divide"),
        (sharded(chunk_shape=[0]), "1 whole numbers"),
        (sharded(index_codecs=[B, COMPRESSORS[0]]), "must be constant"),
        (sharded(index_location="middle"), "index_location"),
        (nested(6), "expected a list of codecs"),
    ],
)
def test_chains_that_are_not_legal_are_refused(tmp_path: Path, codecs: Any, message: str) -> None:
    (tmp_path / "zarr.json").write_text(document(codecs, [4], [4]))
    with pytest.raises((MetadataError, UnknownCompressionError), match=message) as raised:
        open_array(tmp_path)
    assert "zarr.json" in str(raised.value)


def test_a_shard_of_countless_chunks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zarr.json").write_text(document(sharded(chunk_shape=[1]), [1 << 40], [1 << 40]))
    with pytest.raises(MetadataError, match="inner chunks"):
        open_array(tmp_path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"zarr_format": 4}, "'zarr_format' is 4"),
        ({"node_type": "table"}, "'node_type' is 'table'"),
        ({"extension": {"name": "x"}}, "unknown member 'extension'"),
        ({"extension": 1}, "unknown member 'extension'"),
        ({"storage_transformers": [{"name": "x"}]}, "storage transformer"),
        ({"chunk_grid": {"name": "rectilinear"}}, "'rectilinear' is not supported"),
        ({"chunk_key_encoding": {"name": "fanout"}}, "fanout"),
        (
            {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": ["/"]}}},
            "chunk_key_encoding",
        ),
        ({"data_type": "float8_e4m3"}, "float8_e4m3"),
        ({"data_type": {"name": "numpy.datetime64", "configuration": {"unit": "q"}}}, "'q'"),
        ({"fill_value": "NaN"}, "fill_value"),
        ({"fill_value": 1 << 16}, "fill_value"),
        ({"chunk_grid": {"name": "regular"}}, "whole numbers"),
        ({"dimension_names": ["a", "b"]}, "dimension_names"),
        ({"attributes": []}, "'attributes'"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(
    tmp_path: Path, members: dict[str, Any], message: str
) -> None:
    (tmp_path / "zarr.json").write_text(document([B], [4], [4], **members))
    with pytest.raises(MetadataError, match=message):
        open_array(tmp_path)


def test_a_mask_that_the_type_cannot_hold_is_an_attribute_like_others(tmp_path: Path) -> None:
    attributes = {"_FillValue": 10**400}
    (tmp_path / "zarr.json").write_text(document([B], [4], [4], attributes=attributes))
    assert open_array(tmp_path).attrs["_FillValue"] == 10**400


def test_what_need_not_be_understood_is_ignored(tmp_path: Path) -> None:
    optional = {"name": "x", "must_understand": False}
    text = document([B, optional], [4], [4], extension=optional, storage_transformers=[optional])
    (tmp_path / "zarr.json").write_text(text)
    array = open_array(tmp_path, mode="r+")
    array[...] = 5
    array.attrs["k"] = 1
    assert open_array(tmp_path)[...].tolist() == [5] * 4
    assert json.loads((tmp_path / "zarr.json").read_text())["extension"] == optional


@pytest.mark.parametrize(
    ("data_type", "fill", "bits"),
    [
        ("float32", "0x7fc00001", "0100c07f"),
        ("float64", "-Infinity", "000000000000f0ff"),
        ("float16", "NaN", "007e"),
        ("complex64", ["Infinity", -1.5], "0000807f0000c0bf"),
        ("r24", [1, 2, 3], "010203"),
        ("int64", -(2**63), "0000000000000080"),
    ],
)
def test_fill_values_are_exact(tmp_path: Path, data_type: str, fill: Any, bits: str) -> None:
    (tmp_path / "zarr.json").write_text(
        document([B], [2], [2], data_type=data_type, fill_value=fill)
    )
    array = open_array(tmp_path, mode="r+")
    assert array[:1].tobytes().hex() == bits
    array.attrs["k"] = 1
    assert json.loads((tmp_path / "zarr.json").read_text())["fill_value"] == fill


def test_dimensions_without_names_get_default_ones(tmp_path: Path) -> None:
    (tmp_path / "zarr.json").write_text(document([B], [2, 2], [2, 2], dimension_names=["y", None]))
    array = open_array(tmp_path, mode="r+")
    assert [axis.name for axis in array.axes] == ["y", "dim_1"]
    array.attrs["k"] = 1
    assert json.loads((tmp_path / "zarr.json").read_text())["dimension_names"] == ["y", None]


@pytest.mark.parametrize("shards", [None, 8])
@pytest.mark.parametrize("shuffle", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["u1", "i4", "c16", "S300"])
def test_blosc_is_written_with_the_size_of_elements(
    tmp_path: Path, dtype: str, shuffle: int, shards: int | None
) -> None:
    how = {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": shuffle}
    values = np.arange(16).astype(dtype)
    to_n5(values, tmp_path, format="zarr3", chunks=4, shards=shards, compression=how)
    codecs = json.loads((tmp_path / "zarr.json").read_text())["codecs"]
    if shards:
        codecs = codecs[-1]["configuration"]["codecs"]
    assert codecs[-1]["configuration"]["typesize"] == min(np.dtype(dtype).itemsize, 255)
    np.testing.assert_array_equal(open_array(tmp_path)[...], values)
