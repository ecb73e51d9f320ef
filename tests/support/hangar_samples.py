"""Samples, compressions and processes that tests of Hangar's files share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from subprocess import PIPE
from typing import TYPE_CHECKING

import hdf5plugin  # noqa: F401 - plain h5py needs its filters
import numpy as np

from tests.support.processes import Python

if TYPE_CHECKING:
    from pathlib import Path


LZF = {"complib": "lzf", "complevel": None, "shuffle": True}

BLOSC = {"complib": "blosc:zstd", "complevel": 3, "shuffle": "bit"}


WRITING = """
    import sys
    import numpy as np
    import xarray_n5

    with xarray_n5.hangar.HangarWriter(sys.argv[1], (50, 40), "u4") as writer:
        for number in range(int(sys.argv[2])):
            print(writer.write(np.full((50, 40), number, "u4")), flush=True)
"""


def samples(count: int = 7, shape: tuple[int, ...] = (3, 5), dtype: str = "int16") -> np.ndarray:
    numbers = np.random.default_rng(1).integers(0, 100, (count, *shape))
    return numbers.astype(dtype)


def only_file(folder: Path) -> Path:
    (file,) = folder.glob("*.hdf5")
    return file


def run_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run code in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(  # noqa: S603
        command, env=environment, stdout=subprocess.PIPE, text=True
    )


def fork_python(code: str, *arguments: object) -> Python:
    """Run code in a process that has imported the package."""
    return Python("-c", textwrap.dedent(code), *arguments, stdout=PIPE)
