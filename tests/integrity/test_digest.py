"""Digests of what is stored: the same in each format and for any chunks, different after damage."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.support.containers import FULL, NAMES
from tests.support.exhaustive import seeds
from tests.support.killing import begin
from tests.support.stores import ReadingStore
from xarray_n5 import (
    ChunkError,
    MetadataError,
    NodeNotFoundError,
    UnfinishedWriteWarning,
    create_array,
    create_group,
    digest,
    to_n5,
)
from xarray_n5.cli import main
from xarray_n5.dask import value_digest
from xarray_n5.datasets import lazy
from xarray_n5.model.value_sums import array_digest, group_digest, sum_values

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (13, 17, 19)

RANDOM = np.random.default_rng(0)

IMAGES = {
    "u1": RANDOM.integers(0, 3, SHAPE).astype("u1"),
    "i2": RANDOM.integers(-99, 99, SHAPE).astype("i2"),
    "f4": np.where(RANDOM.random(SHAPE) < 0.1, np.nan, RANDOM.normal(size=SHAPE)).astype("f4"),
    "u8": np.repeat(RANDOM.integers(0, 1 << 40, (13, 17, 1)), 19, axis=2).astype("u8"),
}


def direct(values: np.ndarray) -> str:
    """The digest of values in memory."""
    sums = sum_values(values, (0,) * values.ndim, values.shape)
    return array_digest(values.dtype, values.shape, sums)


@pytest.fixture(params=["at once", "in tasks"])
def _how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are read at once; here also in tasks, as large ones."""
    if request.param == "in tasks":
        monkeypatch.setattr(value_digest, "_FEW", -1)
        monkeypatch.setattr(lazy, "_FEW", -1)
        monkeypatch.setattr("xarray_n5.dask.block_sizes._AUTO", 2000)
        monkeypatch.setattr(lazy, "_BLOCK", 2000)


@FULL
@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.usefixtures("_how")
def test_a_digest_is_the_same_in_each_format_with_any_chunks(
    form: str, seed: int, tmp_path: Path
) -> None:
    random = np.random.default_rng(seed)
    name, values = list(IMAGES.items())[seed % len(IMAGES)]
    chunks = tuple(int(random.integers(1 if seed % 5 else 4, 1 + n)) for n in SHAPE)
    blocks = tuple(int(random.integers(1, 1 + n)) for n in SHAPE)
    options: dict[str, Any] = {"compression": ["gzip", None, "zstd"][seed % 3], "format": form}
    if form == "hdf5":
        options["compression"] = ["gzip", None][seed % 2]
    if form == "zarr3" and seed % 2:
        options["shards"] = tuple(c * int(random.integers(1, 4)) for c in chunks)
    if form == "zarr2" and seed % 2:
        options["layout"] = {"order": "F"}
    if seed % 4 == 0:
        options["write_empty_chunks"] = False
    source = da.from_array(values.astype(f">{name}"), chunks=blocks)
    with dask.config.set(num_workers=1 + seed % 4):
        to_n5(source, tmp_path / NAMES[form], "a", chunks=chunks, **options)
        assert digest(tmp_path / NAMES[form], "a") == direct(values)


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
@pytest.mark.parametrize("fill", [0, 7])
@pytest.mark.usefixtures("_how")
def test_missing_chunks_count_as_the_fill_value(form: Any, fill: int, tmp_path: Path) -> None:
    layout = {"fill_value": fill}
    array = create_array(
        tmp_path / NAMES[form], "a", shape=SHAPE, dtype="u2", chunks=4, format=form, layout=layout
    )
    array[4:8, :8, 5:9] = IMAGES["u1"][4:8, :8, 5:9]
    expected = np.full(SHAPE, fill, "u2")
    expected[4:8, :8, 5:9] = IMAGES["u1"][4:8, :8, 5:9]
    assert len(list(array.node.stored_chunks())) < array.grid.size
    assert digest(tmp_path / NAMES[form], "a") == direct(expected)


def test_missing_chunks_are_not_requested_where_one_listing_names_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(value_digest, "_FEW", -1)
    monkeypatch.setattr("xarray_n5.dask.block_sizes._AUTO", 1)
    store: Any = ReadingStore()
    array = create_array(store, "a", shape=(400,), dtype="u1", chunks=4)
    array[20:24] = 5
    store.keys.clear()
    expected = np.zeros(400, "u1")
    expected[20:24] = 5
    assert digest(store, "a") == direct(expected)
    assert [key for key in store.keys if re.fullmatch(r"a/\d+", key)] == ["a/5"]


@pytest.mark.usefixtures("_how")
def test_strings_of_any_length_have_a_digest(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    values = np.array([["a", "", "µm"], ["longer", "x", "y"]], object)
    for number, chunks in enumerate([(1, 2), (2, 3)]):
        stored = zarr.create_array(
            tmp_path / f"{number}.zarr", shape=(2, 3), chunks=chunks, dtype=str, zarr_format=2
        )
        stored[:] = values
        assert digest(tmp_path / f"{number}.zarr") == direct(values)


def test_an_array_without_axes_or_values_has_a_digest(tmp_path: Path) -> None:
    for name, values in {"point": np.array(7, "u2"), "none": np.empty((0, 4), "f8")}.items():
        to_n5(values, tmp_path / "a.zarr", name)
        assert digest(tmp_path / "a.zarr", name) == direct(values)


def test_processes_compute_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_digest, "_FEW", -1)
    to_n5(IMAGES["f4"], tmp_path / "a.n5", "a", chunks=8)
    with dask.config.set(scheduler="processes", num_workers=2):
        assert digest(tmp_path / "a.n5", "a") == direct(IMAGES["f4"])


def test_an_array_with_too_many_blocks_is_refused(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "huge", shape=(1 << 20,) * 3, dtype="u1", chunks=64)
    with pytest.raises(ValueError, match="too many for one digest; open it with xarray"):
        digest(tmp_path / "a.n5")


# Groups


def test_the_digest_of_an_unfinished_array_warns(tmp_path: Path) -> None:
    to_n5(np.ones((4, 4)), tmp_path / "a.n5", "g/a", chunks=2, compute=False, resume=True)
    begin(tmp_path / "a.n5", "g/a")
    with pytest.warns(UnfinishedWriteWarning, match="'g/a' in .*a.n5' has an unfinished write"):
        digest(tmp_path / "a.n5")
    found = CliRunner().invoke(main, ["digest", str(tmp_path / "a.n5")])
    assert "has an unfinished write" in found.stderr


def test_the_digest_of_a_group_is_that_of_its_arrays_by_path(tmp_path: Path) -> None:
    for form, name in NAMES.items():
        for path in ("em/s0", "em/s1", "labels"):
            to_n5(IMAGES["u8"][: len(path)], tmp_path / name, path, chunks=5, format=form)
        found = digest(tmp_path / name)
        digests = {path: direct(IMAGES["u8"][: len(path)]) for path in ("em/s0", "em/s1", "labels")}
        assert found == group_digest(digests)
        levels = {"s0": digests["em/s0"], "s1": digests["em/s1"]}
        assert digest(tmp_path / name, "em") == group_digest(levels) != found


def test_a_moved_or_lost_array_changes_the_digest_of_its_group() -> None:
    one, other = direct(IMAGES["u1"]), direct(IMAGES["i2"])
    groups = [
        {"a": one, "b": other},
        {"a": other, "b": one},
        {"a": one},
        {"a": one, "c": other},
        {"a/b": one, "b": other},
        {"": one},
        {},
    ]
    assert len({group_digest(each) for each in groups}) == len(groups)


def test_what_cannot_be_read_has_no_digest(tmp_path: Path) -> None:
    create_group(tmp_path / "empty.n5")
    with pytest.raises(NodeNotFoundError, match="no arrays found"):
        digest(tmp_path / "empty.n5")
    with pytest.raises(NodeNotFoundError):
        digest(tmp_path / "nothing.n5")
    to_n5(IMAGES["u1"], tmp_path / "a.n5", "a", chunks=8)
    chunk = tmp_path / "a.n5/a/1/1/1"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(ChunkError, match="a/1/1/1"):
        digest(tmp_path / "a.n5")
    chunk.unlink()
    to_n5(IMAGES["u1"], tmp_path / "a.n5", "b")
    document = tmp_path / "a.n5/b/attributes.json"
    document.write_text(document.read_text("utf-8").replace("uint8", "uint9"), "utf-8")
    with pytest.raises(MetadataError, match=r"a\.n5/b"):
        digest(tmp_path / "a.n5")


# xarray


@pytest.mark.matrix(3)
@FULL
@pytest.mark.usefixtures("_how")
def test_what_is_open_in_xarray_has_the_digest_of_what_is_stored(form: str, tmp_path: Path) -> None:
    names = {name: (("z", "y", "x"), values) for name, values in IMAGES.items()}
    encoding = {"u1": {"chunks": (4, 5, 6)}}
    xr.Dataset(names).n5.to_n5(tmp_path / NAMES[form], encoding=encoding, format=form)
    stored = digest(tmp_path / NAMES[form])
    for chunks in (None, {}, {"z": -1}):
        ds = xr.open_dataset(tmp_path / NAMES[form], engine="n5", chunks=chunks)
        with ds:
            assert ds.n5.digest() == stored
            for name, values in IMAGES.items():
                assert ds[name].n5.digest() == direct(values)
                part = ds[name].isel(z=slice(3, 11), x=slice(None, None, -2))
                assert part.n5.digest() == direct(values[3:11, :, ::-2])
                turned = ds[name].transpose("x", "z", "y")
                assert turned.n5.digest() == direct(values.transpose(2, 0, 1))


def test_a_digest_of_computed_values_follows_their_blocks() -> None:
    values = np.arange(20_000, dtype="u4").reshape(100, 200)
    image = xr.DataArray(
        da.from_array(values, chunks=((30, 70), (1, 150, 49))) + 1, dims=("y", "x")
    )
    assert image.n5.digest() == direct(values + 1)
    unknown = da.from_array(values, chunks=50)
    unknown = unknown[unknown > 7]
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        value_digest.digests_of({"": unknown})


# Command line


def test_the_command_prints_what_python_returns(tmp_path: Path) -> None:
    to_n5(IMAGES["u1"], tmp_path / "a.n5", "em/raw", chunks=5)
    to_n5(IMAGES["u8"], tmp_path / "a.n5", "labels", chunks=5)

    def printed(*arguments: object) -> str:
        result = CliRunner().invoke(main, ["digest", *map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.stdout

    place = tmp_path / "a.n5"
    em, labels = direct(IMAGES["u1"]), direct(IMAGES["u8"])
    assert printed(place / "labels") == f"{labels}\n"
    assert printed(place) == f"{digest(place)}\n"
    assert printed(place, "--each", "--workers", 2) == (
        f"{em}  em/raw\n{labels}  labels\n{digest(place)}\n"
    )
    found = json.loads(printed(place, "--json"))
    assert found == {"digest": digest(place), "arrays": {"em/raw": em, "labels": labels}}
    failed = CliRunner().invoke(main, ["digest", str(tmp_path / "none.n5")])
    assert failed.exit_code == 1


def test_the_command_lists_levels_in_order_and_names_those_that_differ(tmp_path: Path) -> None:
    for name in ("a.n5", "b.n5"):
        for level in range(4):
            to_n5(IMAGES["u1"] + level, tmp_path / name, f"s{level}", chunks=7)
    for level in (1, 3):
        to_n5(IMAGES["u1"], tmp_path / "b.n5", f"s{level}", mode="w")
    found = CliRunner().invoke(main, ["digest", *map(str, tmp_path.iterdir()), "--each"])
    shown = [line.partition("  ")[2] for line in found.stdout.splitlines()]
    assert shown[:4] == shown[5:9] == ["s0", "s1", "s2", "s3"]
    assert found.stdout.splitlines()[-1] == "different: s1, s3"


def test_the_command_compares_several_containers(tmp_path: Path) -> None:
    to_n5(IMAGES["u1"], tmp_path / "a.n5", "em/raw", chunks=5)
    to_n5(IMAGES["u1"], tmp_path / "b.zarr", "em/raw", chunks=7)
    to_n5(IMAGES["u1"], tmp_path / "b.zarr", "other", chunks=7)
    to_n5(IMAGES["u1"] + 1, tmp_path / "c.zarr", "raw")
    one, same, other = (tmp_path / name for name in ("a.n5", "b.zarr", "c.zarr"))

    def run(*words: object) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["digest", *map(str, words)])
        return result.exit_code, result.stdout

    em = direct(IMAGES["u1"])
    lines = f"{em}  {one}/em/raw\n{em}  {same}/em/raw\n"
    for words in (
        (one, "em/raw", same, "em/raw"),
        (one / "em/raw", same / "em/raw"),
        (one, "em/raw", f"{same}/em/raw"),
    ):
        assert run(*words) == (0, f"{lines}equal\n")
    code, text = run(one, same)
    assert (code, text.splitlines()[-1]) == (1, "different")
    assert run(one, same, "--each")[1].splitlines()[-1] == "different: other"
    assert run(one, same / "em" / "raw", other, "--each")[0] == 1
    code, text = run(one / "em/raw", other / "raw", "--json")
    assert code == 1
    assert [each["digest"] for each in json.loads(text)] == [em, direct(IMAGES["u1"] + 1)]
    assert [each["path"] for each in json.loads(text)] == ["em/raw", "raw"]
    assert run(one, "em", "raw")[0] == 2
