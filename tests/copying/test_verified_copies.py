"""Copies that are compared with their sources: what differs is found, chunk by chunk."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.support.containers import FULL, NAMES, PAIRS
from tests.support.memory_store import MemoryStore
from tests.support.stores import ReadingStore
from xarray_n5 import (
    N5Error,
    NodeExistsError,
    copy,
    create_array,
    digest,
    open_array,
    to_n5,
)
from xarray_n5.cli import main
from xarray_n5.errors import DifferenceError

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.model.metadata import Buffer

VALUES = np.random.default_rng(0).integers(1, 200, (9, 20, 17)).astype("u2")


@dataclass(frozen=True, eq=False)
class FlippingStore(MemoryStore):
    """A store that changes a bit of one object while it stores it, and says nothing."""

    key: str = ""
    place: int = -1
    flipped: list[str] = field(default_factory=list)

    def set(self, key: str, data: Buffer) -> None:
        if key == self.key:
            changed = bytearray(data)
            changed[self.place] ^= 0x10
            self.flipped.append(key)
            data = bytes(changed)
        super().set(key, data)


KEYS = {"n5": "raw/0/1/0", "zarr2": "raw/0.1.0", "zarr3": "raw/c/0/1/0"}
"""The same chunk in each format, which is not at an end, where Zarr stores more than is read."""


@pytest.mark.parametrize(
    ("form", "shards"), [*((form, None) for form in KEYS), ("zarr3", (9, 8, 9))]
)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_byte_that_the_store_flips_is_found(
    form: str, compression: str | None, shards: tuple[int, ...] | None
) -> None:
    to_n5(VALUES, source := MemoryStore(), "raw", chunks=(9, 8, 9))
    store = FlippingStore(key=KEYS[form], place=-60)
    how: Any = {"format": form, "compression": compression}
    how |= {"chunks": (3, 4, 9), "shards": shards} if shards else {}
    with pytest.raises(DifferenceError) as caught:
        copy(source, store, verify=True, **how)
    assert store.flipped == [KEYS[form]]
    assert (caught.value.keys, caught.value.count) == ((KEYS[form],), 6)
    assert caught.value.url == store.url
    # It is found again, and copying again without the fault heals it.
    with pytest.raises(DifferenceError, match=re.escape(repr(KEYS[form]))):
        copy(source, store, verify=True, resume=True, **how)
    object.__setattr__(store, "key", "")
    report = copy(source, store, verify=True, mode="w", **how)
    assert report.verified == 6
    assert digest(store) == digest(source)


@pytest.mark.matrix(3)
@PAIRS
def test_copies_between_formats_are_equal(first: Any, second: Any, tmp_path: Path) -> None:
    one, other = tmp_path / "1" / NAMES[first], tmp_path / "2" / NAMES[second]
    to_n5(VALUES, one, "em/raw", chunks=(4, 7, 9), format=first)
    to_n5(VALUES.astype("f4") - 7, one, "scores", chunks=6, format=first)
    report = copy(one, other, format=second, verify=True)
    chunks = 3 * 3 * 2 + 2 * 4 * 3
    assert report.verified == chunks
    again = copy(one, other, format=second, verify=True, resume=True)
    assert again.verified == chunks
    assert copy(one, other, format=second, resume=True).verified is None


def test_a_source_that_has_changed_since_is_found(tmp_path: Path) -> None:
    array = create_array(tmp_path / "a.n5", "raw", shape=(40, 60), dtype="f4", chunks=10)
    array[...] = 1.5
    assert copy(tmp_path / "a.n5", tmp_path / "b.zarr", verify=True).verified == 24
    for change in ((5, 17), (20, 30)):  # the latter in the middle, which `resume` compares anyway
        before = array[change]
        array[change] = -1.5
        with pytest.raises(DifferenceError) as caught:
            copy(tmp_path / "a.n5", tmp_path / "b.zarr", verify=True, resume=True)
        assert caught.value.keys == (f"raw/{change[0] // 10}.{change[1] // 10}",)
        array[change] = before
    array[0, 0] = 0.0
    copy(tmp_path / "a.n5", tmp_path / "c.zarr")
    array[0, 0] = -0.0
    with pytest.raises(DifferenceError, match=r"1 of 24 chunks.*'raw/0\.0'.*mode='w'"):
        copy(tmp_path / "a.n5", tmp_path / "c.zarr", verify=True, resume=True)


def test_a_changed_array_alone_is_found_and_without_verify_refused(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "a.n5", "raw", chunks=5)
    source, target = tmp_path / "a.n5/raw", tmp_path / "b.n5/copy"
    copy(source, target)
    open_array(tmp_path / "a.n5", "raw", mode="r+")[...] = 9
    with pytest.raises(NodeExistsError):
        copy(source, target, resume=True)
    with pytest.raises(DifferenceError) as caught:
        copy(source, target, resume=True, verify=True)
    assert len(caught.value.keys) == caught.value.count == 2 * 4 * 4
    assert str(caught.value).count("copy/") == 10  # the first ones


def test_chunks_that_are_lost_or_damaged_later_are_named(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "a.n5", "raw", chunks=5)
    copy(tmp_path / "a.n5", tmp_path / "b.n5")
    (tmp_path / "b.n5/raw/0/1/1").write_bytes(b"damaged")
    with pytest.raises(DifferenceError) as caught:
        copy(tmp_path / "a.n5", tmp_path / "b.n5", resume=True, verify=True)
    assert caught.value.keys == ("raw/0/1/1",)
    (tmp_path / "a.n5/raw/0/1/1").write_bytes(b"damaged")
    with pytest.raises(N5Error, match=r"cannot decode chunk 'raw/0/1/1' in '.*a\.n5'"):
        copy(tmp_path / "a.n5", tmp_path / "b.n5", resume=True, verify=True)


@FULL
def test_other_chunks_are_no_differences(form: Any, tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "a.n5", "raw", chunks=5)
    place = tmp_path / "b" / NAMES[form]
    report = copy(tmp_path / "a.n5", place, format=form, verify=True, chunks=4)
    assert report.verified == 3 * 5 * 5


def test_what_has_no_values_or_axes_or_is_sparse_is_compared(tmp_path: Path) -> None:
    create_array(tmp_path / "a.zarr", "none", shape=(0, 4), dtype="u2", chunks=2)
    create_array(tmp_path / "a.zarr", "point", shape=(), dtype="u2", chunks=())[...] = 7
    create_array(tmp_path / "a.zarr", "sparse", shape=(100,), dtype="u2", chunks=10)[31:35] = 7
    to_n5(np.array([["a", "µm"]], "U2"), tmp_path / "a.zarr", "text", chunks=1)
    report = copy(tmp_path / "a.zarr", tmp_path / "b.zarr", verify=True)
    assert report.verified == 0 + 1 + 10 + 2
    copied = open_array(tmp_path / "b.zarr", "sparse", mode="r+")
    copied[95] = 1
    with pytest.raises(DifferenceError, match=r"'sparse/9'"):
        copy(tmp_path / "a.zarr", tmp_path / "b.zarr", resume=True, verify=True)


def test_nothing_is_read_back_unless_it_is_requested() -> None:
    for verify in (False, True):
        to_n5(VALUES, source := ReadingStore(), "raw", chunks=5)
        source.keys.clear()
        copy(source, target := ReadingStore(), verify=verify)
        of_source, of_target = (
            Counter(key for key in store.keys if re.fullmatch(r"raw/\d/\d/\d", key))
            for store in (source, target)
        )
        assert len(of_source) == 32
        assert set(of_source.values()) == {2 if verify else 1}
        assert (len(of_target), set(of_target.values())) == ((32, {1}) if verify else (0, set()))


@pytest.mark.filterwarnings("ignore:.* changed since")
def test_an_interrupted_copy_is_compared_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_n5(VALUES, source := MemoryStore(), "raw", chunks=5)
    monkeypatch.setattr("xarray_n5.dask.from_n5._AUTO", 1)
    (tmp_path / "b.n5").mkdir()
    good = source.items["raw/1/2/1"]
    source.items["raw/1/2/1"] = b"damaged"
    with pytest.raises(N5Error), dask.config.set(scheduler="synchronous"):
        copy(source, tmp_path / "b.n5", verify=True)
    stored = sorted(tmp_path.glob("b.n5/raw/[0-9]/[0-9]/[0-9]"))
    assert 1 < len(stored) < 32
    stored[0].write_bytes(stored[1].read_bytes())  # by an earlier run: `resume` keeps it
    source.items["raw/1/2/1"] = good
    with pytest.raises(DifferenceError) as caught:
        copy(source, tmp_path / "b.n5", verify=True, resume=True)
    assert caught.value.keys == (stored[0].relative_to(tmp_path / "b.n5").as_posix(),)


def test_the_command_compares_and_fails(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "a.n5", "raw", chunks=5)
    arguments = ["copy", str(tmp_path / "a.n5"), str(tmp_path / "b.zarr"), "--verify"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0
    assert "verified: 32 chunks are equal" in done.stdout
    again = CliRunner().invoke(main, [*arguments, "--resume"])
    assert again.exit_code == 0
    assert "nothing to resume" in again.stdout
    assert "verified: 32 chunks are equal" in again.stdout
    open_array(tmp_path / "b.zarr", "raw", mode="r+")[0, 0, 0] = 0
    failed = CliRunner().invoke(main, [*arguments, "--resume"])
    assert failed.exit_code == 1
    assert "1 of 32 chunks" in failed.stderr
    assert "'raw/0.0.0'" in failed.stderr
    assert "nothing to resume" not in failed.stdout
    assert (
        "or, if chunks are files, delete these, run 'xarray-n5 repair --missing'" in failed.stderr
    )
    (tmp_path / "b.zarr/raw/0.0.0").unlink()
    marked = CliRunner().invoke(main, ["repair", str(tmp_path / "b.zarr"), "--missing"])
    assert marked.exit_code == 0, marked.output
    mended = CliRunner().invoke(main, [*arguments, "--resume"])
    assert mended.exit_code == 0, mended.output
    assert "verified: 32 chunks are equal" in mended.stdout


def test_projects_are_compared_when_they_are_copied(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "a.n5", "raw", chunks=5, axes=["z", "y", "x"])
    project, copied = str(tmp_path / "a.xml"), str(tmp_path / "b.zarr")
    xr.open_dataset(tmp_path / "a.n5", engine="n5").n5.to_bdv(project, tmp_path / "p.n5")
    for resume in (False, True):
        verified = copy(project, copied, verify=True, resume=resume).verified
        assert verified is not None
        assert verified >= 32
