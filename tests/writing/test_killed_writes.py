"""Writes that are killed leave whole chunks only, and go on as if nothing had been."""

from __future__ import annotations

import json
import os
import random
import signal
from itertools import product
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest

from tests.support.containers import contents
from tests.support.exhaustive import seeds
from tests.support.killing import (
    BLOCKS,
    OPTIONS,
    SHAPE,
    hold,
    kill,
    prepare,
    refuse,
    source,
    when,
)
from tests.support.processes import Python
from xarray_n5 import open_array, set_options, to_n5, verify

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings(
    "ignore::xarray_n5.errors.UnfinishedWriteWarning"  # what was killed is looked at
)

NUMBERS = np.arange(1, np.prod(SHAPE) + 1, dtype="u4").reshape(SHAPE)


def files(place: Path) -> dict[str, bytes | str]:
    """All that is stored, but for the rows of finished writes."""
    stored = contents(place)
    return {name: stored[name] for name in sorted(stored) if "/.xn5/done/" not in f"/{name}"}


def computed(log: Path) -> dict[str, int]:
    """How often each block was computed."""
    return {file.name: file.stat().st_size for file in log.iterdir()}


def wanted(how: str) -> np.ndarray:
    if how != "region":
        return NUMBERS
    whole = np.full((50, 40, 30), 7, "u4")
    whole[OPTIONS[how]["region"]] = NUMBERS
    return whole


def start(place: Path, log: Path, how: str, scheduler: str) -> Python:
    return Python("-m", "tests.support.killing", place, log, how, scheduler, stdout=PIPE)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    log = tmp_path / "log"
    log.mkdir()
    return tmp_path / "a.n5", tmp_path / "b.n5", log


def check_whole(place: Path, how: str, before: dict[str, bytes | str]) -> None:
    """Every chunk is as it was, or exactly as it was meant."""
    if not (place / "a" / ("zarr.json" if how == "shards" else "attributes.json")).exists():
        return
    array, expected = open_array(place, "a"), wanted(how)
    for index in array.node.stored_chunks():
        key = array.node.key(index)
        # The file first: other workers go on, and a chunk may become new in between.
        if (place / key).read_bytes() != before.get(key):
            chunk = array.read_chunk(index)
            np.testing.assert_array_equal(chunk, expected[array.grid.slices(index)])


def check_files(place: Path, other: Path, log: Path, how: str) -> None:
    """The values are there, in the very same bytes as after an uninterrupted write."""
    np.testing.assert_array_equal(open_array(place, "a")[...], wanted(how))
    prepare(other, how)
    (log.parent / "log2").mkdir()
    with set_options(checksums=how == "checksums"):
        to_n5(source(log.parent / "log2"), other, "a", **OPTIONS[how])
    assert files(place) == files(other)


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_a_killed_write_goes_on_where_it_was(
    places: tuple[Path, Path, Path], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refuse)
    place, other, log = places
    how = list(OPTIONS)[seed % len(OPTIONS)]
    prepare(place, how)
    before = files(place) if place.exists() else {}
    moment, held = random.Random(seed).randrange(2, 16), hold(log)  # noqa: S311
    with start(place, log, how, "threads") as writer:
        when(lambda: len(list(log.iterdir())) >= moment, writer)
        assert kill(writer)
    held.unlink()
    check_whole(place, how, before)
    finished = {
        key: (place / key).stat().st_ino
        for key, content in files(place).items()
        if before.get(key) != content and "/." not in key
    }
    first = computed(log)
    with set_options(checksums=how == "checksums"):
        to_n5(source(log), place, "a", **OPTIONS[how], resume=True)
    check_files(place, other, log, how)
    if how in {"plain", "misaligned", "shards"}:
        # What was there was not written again, and blocks that were done not computed.
        for key, inode in finished.items():
            assert (place / key).stat().st_ino == inode
    if how == "plain":
        array, again = open_array(place, "a"), computed(log)
        for name, times in first.items():
            low = np.unravel_index(int(name) - 1, SHAPE)
            sides = zip(low, BLOCKS, array.chunks, strict=True)
            inside = product(*(range(a // c, (a + b) // c) for a, b, c in sides))
            if {array.node.key(index) for index in inside} <= finished.keys():
                assert again[name] == times
    assert set(verify(place, "a").state.values.ravel()) == {"ok"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(6))
def test_a_killed_worker_leaves_a_whole_array(places: tuple[Path, Path, Path], seed: int) -> None:
    place, other, log = places
    how = list(OPTIONS)[seed % len(OPTIONS)]
    prepare(place, how)
    before = files(place) if place.exists() else {}
    chance = random.Random(seed)  # noqa: S311
    moment, held = chance.randrange(2, 14), hold(log)
    with start(place, log, how, "cluster") as writer:
        assert writer.stdout is not None
        victim = chance.choice(json.loads(writer.stdout.readline()))
        when(lambda: len(list(log.iterdir())) >= moment, writer)
        os.kill(victim, signal.SIGKILL)
        held.unlink()
        check_whole(place, how, before)
        assert writer.wait() == 0
    check_files(place, other, log, how)
