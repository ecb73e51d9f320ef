"""Samples read as Dask arrays and Datasets: the corpus of Hangar 0.5.2, and files of our own."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import dask.array as da
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support.hangar_samples import only_file, samples
from xarray_n5.errors import MetadataError, NodeExistsError, NodeNotFoundError, PathError
from xarray_n5.hangar import from_hangar, to_hangar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_every_sample_of_the_corpus_equals_its_hash(corpus: Path) -> None:
    repo = corpus / "peers/hangar-0.5.2"
    rows = json.loads((repo / "manifest.json").read_text())["records"]
    rows = [row for row in rows if row["backend"] == "00"]
    for row in rows:
        uid, sizes = row["file"][-13:-5], " ".join(map(str, row["shape"]))
        record = f"{row['backend']}:{uid}${row['dataset']} {row['index']}*{sizes}"
        values = np.asarray(from_hangar(repo, [record]))[0]
        assert values.shape == tuple(row["shape"])
        assert values.dtype == row["dtype"]
        assert hashlib.sha256(values.tobytes()).hexdigest() == row["sha256"]
    assert len(rows) == 25
    with pytest.raises(MetadataError, match="several shapes or types"):
        from_hangar(repo)


@settings(deadline=None, max_examples=25)
@given(
    st.data(),
    st.sampled_from(["?", "u1", "<u2", ">i4", "i8", "f2", "f4", ">f8", "g"]),
    hnp.array_shapes(min_dims=0, max_dims=3, max_side=4),
    st.integers(1, 6),
)
def test_samples_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    dtype: str,
    shape: tuple[int, ...],
    count: int,
) -> None:
    values = data.draw(hnp.arrays(np.dtype(dtype), (count, *shape)))
    folder = tmp_path_factory.mktemp("hangar")
    records = to_hangar(values, folder)
    assert len(set(records)) == count
    order = data.draw(st.permutations(range(count)))
    chunks: Any = data.draw(st.sampled_from([None, 1, 2, 3]))
    every = from_hangar(folder, chunks=chunks)
    some = from_hangar(folder, [records[place] for place in order], chunks=chunks)
    for lazy, expected in ((every, values), (some, values[list(order)])):
        assert isinstance(lazy, da.Array)
        assert lazy.dtype == values.dtype.newbyteorder("=")
        found = lazy.compute()
        assert found.dtype == lazy.dtype
        np.testing.assert_array_equal(found, expected)


def test_smaller_samples_keep_their_shapes(tmp_path: Path) -> None:
    values = [samples(1, shape)[0] for shape in [(4, 5), (2, 3), (1, 5), (2, 3)]]
    records = to_hangar(values, tmp_path, shape=(4, 6))
    assert [each.rpartition(":")[2] for each in records] == ["4 5", "2 3", "1 5", "2 3"]
    for value, record in zip(values, records, strict=True):
        np.testing.assert_array_equal(from_hangar(tmp_path, [record]), value[None])
    np.testing.assert_array_equal(from_hangar(tmp_path, records[1::2]), values[1::2])
    with pytest.raises(MetadataError, match="several shapes"):
        from_hangar(tmp_path, records)
    rows = np.asarray(from_hangar(tmp_path))
    np.testing.assert_array_equal(rows[1].ravel(), [*values[1].ravel(), *[0] * 18])


def test_one_task_reads_one_run_of_rows(tmp_path: Path) -> None:
    values = samples(600, (2,))
    records = to_hangar(values, tmp_path)
    assert from_hangar(tmp_path).chunks == ((250, 250, 100), (2,))
    assert from_hangar(tmp_path, records).numblocks == (3, 1)
    picked = [*records[10:20], *records[240:260], *records[5:7]]
    lazy = from_hangar(tmp_path, picked)
    assert isinstance(lazy, da.Array)
    assert lazy.chunks[0] == (10, 10, 10, 2)
    assert len(lazy.dask.layers) == 1
    assert len(lazy[3:5].dask.cull(lazy[3:5].__dask_keys__())) <= 2
    assert from_hangar(tmp_path, picked, chunks=16).chunks[0] == (16, 16)
    expected = np.concatenate([values[10:20], values[240:260], values[5:7]])
    options: list[Any] = [None, 16, np.int64(16)]
    for chunks in options:
        np.testing.assert_array_equal(from_hangar(tmp_path, picked, chunks=chunks), expected)
    refused: list[Any] = [0, True, "big"]
    for wrong in refused:
        with pytest.raises(ValueError, match="expected a number of samples"):
            from_hangar(tmp_path, chunks=wrong)


def test_long_runs_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = samples(10, (2,))
    records = to_hangar(values, tmp_path)
    monkeypatch.setattr("xarray_n5.hangar.read._MOST", 4 * values[0].nbytes)
    picked = [*records[3:10], records[1]]
    assert from_hangar(tmp_path, picked).chunks[0] == (4, 3, 1)
    assert from_hangar(tmp_path, picked, chunks=4).chunks[0] == (4, 4)
    np.testing.assert_array_equal(from_hangar(tmp_path, picked), values[[*range(3, 10), 1]])


def test_names_in_the_graph_say_what_is_read(tmp_path: Path) -> None:
    records = to_hangar(samples(), tmp_path)
    assert from_hangar(tmp_path).name == from_hangar(tmp_path).name
    assert from_hangar(tmp_path, records).name == from_hangar(tmp_path, list(records)).name
    names = {from_hangar(tmp_path, records[:n]).name for n in range(1, 8)}
    assert len(names | {from_hangar(tmp_path).name}) == 8


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (record,) = to_hangar(samples(1), tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(MetadataError, match="names more than one file"):
        from_hangar([tmp_path / "a", tmp_path / "b"], [record])


def test_locations_without_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFoundError, match=r"files called \*\.hdf5"):
        from_hangar(tmp_path)
    with pytest.raises(NodeNotFoundError, match="no HDF5 file"):
        from_hangar(tmp_path / "none")
    with pytest.raises(PathError, match="local disks"):
        from_hangar("s3://bucket/data")
    (tmp_path / "a.hdf5").write_bytes(b"no HDF5 at all")
    with pytest.raises(MetadataError, match=r"a\.hdf5: "):
        from_hangar(tmp_path)
    (tmp_path / ".hangar").mkdir()
    with pytest.raises(NodeExistsError, match="a Hangar repository"):
        to_hangar(samples(), tmp_path)


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file.create_dataset("0", (4, 3), "u1", chunks=(1, 3), data=np.ones((4, 3), "u1"))
    makers: list[Callable[[h5py.File], object]] = [
        lambda file: file.create_group("a"),
        lambda file: file.__setitem__("0", h5py.ExternalLink(secret, "0")),
        lambda file: file.create_dataset("0", (4, 3), "u1"),
        lambda file: file.create_dataset("0", (4, 3), "c8", chunks=(1, 3)),
    ]
    for number, make in enumerate(makers):
        path = tmp_path / f"{number}.hdf5"
        with h5py.File(path, "w", libver="latest") as file:
            make(file)
        with pytest.raises(MetadataError, match=f"{number}.hdf5: "):
            from_hangar(path)


def test_a_file_has_several_paths(tmp_path: Path) -> None:
    values = samples(60, (64, 64))
    to_hangar(values, tmp_path)
    path = only_file(tmp_path)
    (tmp_path / "linked").mkdir()
    linked = tmp_path / "linked" / path.name
    linked.symlink_to(path)
    for _ in range(2):
        for each in (path, linked, tmp_path / "linked" / ".." / path.name):
            np.testing.assert_array_equal(from_hangar(each), values)
