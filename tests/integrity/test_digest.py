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
        monkeypatch.setattr("xarray_n5.dask.from_n5._AUTO", 2000)
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
    scheduler = "processes" if seed % 20 == 1 else "threads"
    to_n5(source, tmp_path / NAMES[form], "a", chunks=chunks, **options)
    with dask.config.set(num_workers=1 + seed % 4, scheduler=scheduler):
        assert digest(tmp_path / NAMES[form], "a") == direct(values)


@pytest.mark.parametrize("fill", [0, 7])
def test_missing_chunks_count_as_the_fill_value_and_are_not_requested(
    monkeypatch: pytest.MonkeyPatch, fill: int
) -> None:
    monkeypatch.setattr(value_digest, "_FEW", -1)
    monkeypatch.setattr("xarray_n5.dask.from_n5._AUTO", 1)
    store: Any = ReadingStore()
    layout: Any = {"format": "zarr2", "layout": {"fill_value": fill}} if fill else {"format": "n5"}
    array = create_array(store, "a", shape=(400,), dtype="u1", chunks=4, **layout)
    array[20:24] = 5
    store.keys.clear()
    expected = np.full(400, fill, "u1")
    expected[20:24] = 5
    assert digest(store, "a") == direct(expected)
    assert [key for key in store.keys if re.fullmatch(r"a/\d+", key)] == ["a/5"]


@pytest.mark.usefixtures("_how")
def test_strings_points_and_empty_arrays_have_a_digest(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    values = np.array([["a", "", "µm"], ["longer", "x", "y"]], object)
    for chunks in ((1, 2), (2, 3)):
        path = tmp_path / f"{chunks[0]}.zarr"
        stored = zarr.create_array(path, shape=(2, 3), chunks=chunks, dtype=str, zarr_format=2)
        stored[:] = values
        assert digest(path) == direct(values)
    for name, array in {"point": np.array(7, "u2"), "none": np.empty((0, 4), "f8")}.items():
        to_n5(array, tmp_path / "a.zarr", name)
        assert digest(tmp_path / "a.zarr", name) == direct(array)


def test_what_cannot_be_read_has_no_digest(tmp_path: Path) -> None:
    create_group(tmp_path / "empty.n5")
    for name in ("empty.n5", "nothing.n5"):
        with pytest.raises(NodeNotFoundError):
            digest(tmp_path / name)
    create_array(tmp_path / "a.n5", "huge", shape=(1 << 20,) * 3, dtype="u1", chunks=64)
    with pytest.raises(ValueError, match="too many for one digest; open it with xarray"):
        digest(tmp_path / "a.n5")
    to_n5(IMAGES["u1"], tmp_path / "b.n5", "a", chunks=8)
    chunk = tmp_path / "b.n5/a/1/1/1"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(ChunkError, match="a/1/1/1"):
        digest(tmp_path / "b.n5")
    document = tmp_path / "b.n5/a/attributes.json"
    document.write_text(document.read_text("utf-8").replace("uint8", "uint9"), "utf-8")
    with pytest.raises(MetadataError, match=r"b\.n5/a"):
        digest(tmp_path / "b.n5")


def test_the_digest_of_an_unfinished_array_warns(tmp_path: Path) -> None:
    to_n5(np.ones((4, 4)), tmp_path, "g/a", chunks=2, compute=False, resume=True)
    begin(tmp_path, "g/a")
    with pytest.warns(UnfinishedWriteWarning, match="'g/a' in .* has an unfinished write"):
        digest(tmp_path)
    result = CliRunner().invoke(main, ["digest", str(tmp_path)])
    assert "has an unfinished write" in result.stderr


@FULL
def test_the_digest_of_a_group_is_that_of_its_arrays_by_path(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    digests = {}
    for size, path in enumerate(("em/s0", "em/s1", "labels"), 3):
        to_n5(IMAGES["u8"][:size], place, path, chunks=5, format=form)
        digests[path] = direct(IMAGES["u8"][:size])
    assert digest(place) == group_digest(digests)
    levels = {"s0": digests["em/s0"], "s1": digests["em/s1"]}
    assert digest(place, "em") == group_digest(levels)
    moved = {**digests, "labels": digests["em/s0"], "em/s0": digests["labels"]}
    renamed = {path.replace("em", "tem"): digests[path] for path in digests}
    groups = [digests, levels, moved, renamed, {"": digests["labels"]}, {}]
    assert len({group_digest(group) for group in groups}) == len(groups)


@pytest.mark.matrix(3)
@FULL
@pytest.mark.usefixtures("_how")
def test_what_is_open_in_xarray_has_the_digest_of_what_is_stored(form: str, tmp_path: Path) -> None:
    names = {name: (("z", "y", "x"), values) for name, values in IMAGES.items()}
    encoding = {"u1": {"chunks": (4, 5, 6)}}
    xr.Dataset(names).n5.to_n5(tmp_path / NAMES[form], encoding=encoding, format=form)
    stored = digest(tmp_path / NAMES[form])
    for chunks in (None, {}, {"z": -1}):
        with xr.open_dataset(tmp_path / NAMES[form], engine="n5", chunks=chunks) as ds:
            assert ds.n5.digest() == stored
            for name, values in IMAGES.items():
                assert ds[name].n5.digest() == direct(values)
                part = ds[name].isel(z=slice(3, 11), x=slice(None, None, -2))
                assert part.n5.digest() == direct(values[3:11, :, ::-2])
                turned = ds[name].transpose("x", "z", "y")
                assert turned.n5.digest() == direct(values.transpose(2, 0, 1))


def test_a_digest_of_computed_values_follows_their_blocks() -> None:
    values = np.arange(20_000, dtype="u4").reshape(100, 200)
    blocks = da.from_array(values, chunks=((30, 70), (1, 150, 49)))
    assert xr.DataArray(blocks + 1, dims=("y", "x")).n5.digest() == direct(values + 1)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        value_digest.digests_of({"": blocks[blocks > 7]})


# Command line


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["digest", *map(str, words)])
    return result.exit_code, result.stdout


def test_the_command_prints_what_python_returns(tmp_path: Path) -> None:
    to_n5(IMAGES["u1"], tmp_path / "a.n5", "em/raw", chunks=5)
    to_n5(IMAGES["u8"], tmp_path / "a.n5", "labels", chunks=5)
    place, em, labels = tmp_path / "a.n5", direct(IMAGES["u1"]), direct(IMAGES["u8"])
    whole = digest(place)
    assert run(place / "labels") == (0, f"{labels}\n")
    assert run(place) == (0, f"{whole}\n")
    lines = f"{em}  em/raw\n{labels}  labels\n{whole}\n"
    assert run(place, "--each", "--workers", 2) == (0, lines)
    printed = json.loads(run(place, "--json")[1])
    assert printed == {"digest": whole, "arrays": {"em/raw": em, "labels": labels}}
    assert run(tmp_path / "none.n5")[0] == 1
