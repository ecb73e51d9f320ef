"""Samples and processes that tests of Hangar's files share."""

from __future__ import annotations

import textwrap
from subprocess import PIPE
from typing import TYPE_CHECKING

import hdf5plugin  # noqa: F401 - plain h5py needs its filters
import numpy as np

from tests.support.processes import Python

if TYPE_CHECKING:
    from pathlib import Path


def samples(count: int = 7, shape: tuple[int, ...] = (3, 5), dtype: str = "int16") -> np.ndarray:
    numbers = np.random.default_rng(1).integers(0, 100, (count, *shape))
    return numbers.astype(dtype)


def only_file(folder: Path) -> Path:
    (file,) = folder.glob("*.hdf5")
    return file


def fork_python(code: str, *arguments: object) -> Python:
    """Run code in a process that has imported the package."""
    return Python("-c", textwrap.dedent(code), *arguments, stdout=PIPE)
