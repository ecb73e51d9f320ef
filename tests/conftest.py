"""Data that other implementations wrote: beside the project, or where N5_CORPUS points."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_PLACE = Path(os.environ.get("N5_CORPUS") or Path(__file__).parents[2] / "shared/corpus")

CORPUS = _PLACE if (_PLACE / "MANIFEST.json").exists() else None

NO_CORPUS = f"no corpus of other implementations' data at {_PLACE}; set N5_CORPUS"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of data that other implementations wrote."""
    if CORPUS is None:
        pytest.skip(NO_CORPUS)
    return CORPUS
