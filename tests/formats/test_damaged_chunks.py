"""Chunks that are damaged or hostile: right data, other data of the right shape, or ChunkError."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.exhaustive import cases, some

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux alone"),
    pytest.mark.more,
    pytest.mark.timeout(0),  # the process has a limit of its own, which grows with the cases
]

ROOT = Path(__file__).parents[2]
COUNT = cases(2, 10)
"""Damaged chunks of each of the ways to store one, read twice."""

PERTURBED = ("85", "170")
"""The bytes that glibc fills memory with: what is read beyond its end differs."""


@functools.cache
def report(perturbed: str) -> dict[str, Any]:
    """What a process of its own reports, whose address space is limited."""
    environment = {
        **os.environ,
        "MALLOC_PERTURB_": perturbed,
        "PYTHONMALLOC": "malloc",
        "MALLOC_ARENA_MAX": "2",
    }
    ran = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "tests.support.mutating", str(COUNT)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=cases(300, 1200),
    )
    assert ran.returncode == 0, f"stopped by {ran.returncode} at {ran.stderr[-500:]}"
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("perturbed", some(PERTURBED, 1))
def test_a_damaged_chunk_is_read_or_a_chunk_error(perturbed: str) -> None:
    found = report(perturbed)
    assert not found["faults"]
    total = sum((Counter(each) for each in found["counts"].values()), Counter())
    assert total["error"] > total.total() // 3
    assert total.total() == COUNT * len(found["counts"])


@pytest.mark.exhaustive
def test_no_memory_beyond_a_chunks_end_becomes_data() -> None:
    assert report(PERTURBED[0])["digest"] == report(PERTURBED[1])["digest"]


def test_a_damaged_chunk_takes_no_more_memory_than_a_whole_one() -> None:
    # Chunks have 160 KiB at most; the rest is what compressors and allocators take.
    assert report(PERTURBED[0])["grown"] < 24 << 20
    # Objects have 4 MiB at least, and 32 times the 2 MB of a bomb.
    assert report(PERTURBED[0])["grown_with_objects"] < 160 << 20
