"""The page on labels: each step is killed and resumed, and computes missing blocks only."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING

import numpy as np
import pytest
import xarray as xr
from scipy import ndimage

import xarray_n5
from tests.support.killing import kill, when
from tests.support.processes import Python

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]

PAGE = (ROOT / "docs" / "howto" / "labels.md").read_text("utf-8")

STEPS = ("segment", "tabulate", "join", "relabel")

NOTED = '''
import functools
import os
import time
from pathlib import Path


def note(step):
    with open(f"log/{step}", "ab", 0) as file:
        file.write(b"x")
    time.sleep(float(os.environ["PAUSE"]))
    held, _, count = os.environ["HELD"].partition(" ")
    while step == held and os.path.getsize(f"log/{step}") >= int(count):
        time.sleep(1)  # until it is killed: however late that is, the step is under way


def noted(function):
    """Note each call with a whole block, or for a file that does not exist."""
    @functools.wraps(function)
    def run(first, *args, **kwargs):
        new = not first.exists() if isinstance(first, Path) else first.size > 1
        found = function(first, *args, **kwargs)
        if new:
            note(function.__name__)
        return found
    return run
'''


def script() -> str:
    """The steps of the page; each of its functions notes that it has computed a block."""
    _, *blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    more = ("image.zarr",)  # what is stored besides
    *steps, check = [b for b in blocks if not any(name in b for name in more)]
    assert len(steps) == len(STEPS)
    assert "assert" in check
    steps[STEPS.index("join")] = f"note('join')\n{steps[STEPS.index('join')]}"
    text, count = re.subn(r"^def ", "@noted\ndef ", "\n".join(steps), flags=re.MULTILINE)
    assert count == len(STEPS) - 1
    return f"{NOTED}\n{text}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    found = tmp_path_factory.mktemp("labels")
    shutil.copytree(xarray_n5.tutorial.path("cells"), found / "cells.n5")
    (found / "labelling.py").write_text(script(), encoding="utf-8")
    (found / "log").mkdir()
    with start(found, 0) as process:
        assert process.wait() == 0
    return found


def start(folder: Path, pause: float, held: str = "") -> Python:
    code = "import dask; dask.config.set(num_workers=2); import labelling"
    env = {"PAUSE": str(pause), "HELD": held}
    return Python("-c", code, cwd=folder, env=env, stdout=DEVNULL)


def noted(folder: Path) -> dict[str, int]:
    """How many blocks each step has computed."""
    sizes = {name: folder / "log" / name for name in STEPS}
    return {name: path.stat().st_size for name, path in sizes.items() if path.exists()}


def stored_blocks(folder: Path, name: str, blocks: Sequence[Sequence[int]]) -> int:
    """The number of blocks all of whose chunks are stored."""
    if not (folder / name).exists():
        return 0
    array = xarray_n5.open_array(folder / name, Path(name).stem)
    stored = np.zeros([-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)], bool)
    for index in array.node.stored_chunks():
        stored[index] = True
    firsts = [
        np.concatenate([[0], np.cumsum(sizes)])[:-1] // side
        for sizes, side in zip(blocks, array.chunks, strict=True)
    ]
    for axis, starts in enumerate(firsts):
        stored = np.logical_and.reduceat(stored, starts, axis)
    return int(stored.sum())


def blocks_in(folder: Path, name: str, group: str, depth: int) -> Sequence[Sequence[int]]:
    opened = xr.open_dataset(folder / name, engine="n5", chunks={})[group]
    blocks: Sequence[Sequence[int]] = opened.n5.map_overlap(np.copy, depth=depth).chunks
    return blocks


@pytest.mark.exhaustive
def test_labels_are_those_of_the_whole_volume(tmp_path: Path) -> None:
    # In this one, samples that are wrong at the ends of a block's halo would join two objects.
    values = ndimage.gaussian_filter(np.random.default_rng(11).random((40, 40, 40)), 2)
    values = (values - values.min()) / (values.max() - values.min()) * 30
    coords = {dim: (dim, np.arange(40) * 1.0, {"units": "um"}) for dim in "zyx"}
    volume = xr.DataArray(values.astype("u1"), coords, ("z", "y", "x"), name="raw")
    volume.n5.to_n5(tmp_path / "cells.n5", encoding={"raw": {"chunks": (20, 20, 20)}})
    (tmp_path / "labelling.py").write_text(script(), encoding="utf-8")
    (tmp_path / "log").mkdir()
    with start(tmp_path, 0) as process:
        assert process.wait() == 0


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_step_is_resumed_with_the_same_labels(
    folder: Path, tmp_path: Path, step: str
) -> None:
    whole = noted(folder)
    assert whole["segment"] == whole["tabulate"] > 4
    work = tmp_path / "work"
    shutil.copytree(folder / "cells.n5", work / "cells.n5")
    shutil.copy(folder / "labelling.py", work)
    (work / "log").mkdir()
    half = (whole[step] + 1) // 2
    with start(work, 0.1, f"{step} {half}") as process:
        when(lambda: noted(work).get(step, 0) >= half, process)
        assert kill(process)
    before = noted(work)
    segmented = blocks_in(work, "cells.n5", "raw", 4)
    done = {
        "segment": stored_blocks(work, "pieces.n5", segmented),
        "tabulate": len(list((work / "tables").glob("*[0-9].npz"))) if step != "segment" else 0,
        "join": 0,
        "relabel": 0,
    }
    if step == "relabel":
        blocks = blocks_in(work, "pieces.n5", "pieces", 0)
        done["relabel"] = stored_blocks(work, "labels.n5", blocks)
    earlier = STEPS[: STEPS.index(step)]
    assert all(done[name] == whole[name] for name in earlier if name != "join")
    assert done[step] < whole[step]
    with start(work, 0) as process:
        assert process.wait() == 0
    after = noted(work)
    again = {name: after[name] - before.get(name, 0) for name in STEPS}
    assert again == {name: whole[name] - done[name] for name in STEPS}
    for name in ("pieces", "labels"):
        path = f"{name}.n5"
        found, wanted = (xarray_n5.open_array(each / path, name) for each in (work, folder))
        np.testing.assert_array_equal(found[...], wanted[...])
        assert set(xarray_n5.verify(work / path, name).state.values.ravel()) == {"ok"}
