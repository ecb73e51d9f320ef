"""The comparison of speeds compares like with like: same values, data that are like data."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ci.benchmarks.clock import Cost, Done, in_turns
from ci.benchmarks.contests import Contest, Place
from ci.benchmarks.data import VOLUMES, volume
from ci.benchmarks.peers import PEERS
from ci.benchmarks.table import Row
from ci.benchmarks.targets import TARGETS, judged

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_are_neither_noise_nor_constant_and_always_the_same(name: str) -> None:
    values = volume(name, 1)
    assert values.dtype == VOLUMES[name][0]
    assert values.nbytes == 1 << 20
    assert 1.03 < values.nbytes / len(zlib.compress(values.tobytes())) < 100
    np.testing.assert_array_equal(values, volume(name, 1))


def test_all_libraries_find_the_same(tmp_path: Path) -> None:
    place = Place(tmp_path, 1)
    path = place.stored("light sheet", "gzip", 16)
    corners = [[8, 9, 10], [24, 25, 26]]
    for runs in (
        place.runs("read", path),
        place.runs("total", path, 32),
        place.runs("cutouts", path, corners, 16),
    ):
        costs, failed = in_turns(runs, 2)
        assert not failed
        assert {name: len(each) for name, each in costs.items()} == dict.fromkeys(PEERS, 2)


def test_who_fails_or_finds_other_values_is_left_out_and_named() -> None:
    def broken() -> Done:
        raise OSError("no such luck")

    cost = Cost(1.0, 1.0)
    runs = {
        "ours": lambda: Done(cost, 5),
        "theirs": lambda: Done(cost, 6),
        "others": broken,
    }
    costs, failed = in_turns(runs, 3)
    assert costs == {"ours": [cost] * 3}
    assert failed == {"theirs": "other values", "others": "OSError: no such luck"}


def test_a_target_is_judged_by_its_worst_row() -> None:
    def row(compression: str, seconds: float) -> Row:
        contest = Contest("reads", compression, "em", "", {})
        costs = {"ours": [Cost(1.0, 1.0)] * 2, "TensorStore": [Cost(2.0, seconds)] * 2}
        return Row(contest, costs, {})

    met = {line[0]: line[-1] for line in judged([row("gzip", 3.0), row("raw", 0.5)])}
    gzip, raw = TARGETS[1].text, TARGETS[2].text
    assert (met[gzip], met[raw], met[TARGETS[0].text]) == ("yes", "no, by CPU", "no, by CPU")
    assert met[TARGETS[-1].text] == "not run"
