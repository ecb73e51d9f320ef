"""What several tests need: data that others wrote (N5_CORPUS says where), and a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from distributed import Client, LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACE = Path(os.environ.get("N5_CORPUS") or Path(__file__).parents[2] / "shared/corpus")

CORPUS = _PLACE if (_PLACE / "MANIFEST.json").exists() else None

NO_CORPUS = f"no corpus of other implementations' data at {_PLACE}; set N5_CORPUS"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of data that other implementations wrote."""
    if CORPUS is None:
        pytest.skip(NO_CORPUS)
    return CORPUS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """Two workers."""
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as here,
        Client(here, set_as_default=False) as client,  # type: ignore[no-untyped-call]
    ):
        yield client
