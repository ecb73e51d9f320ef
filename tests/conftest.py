"""What several tests need: data that others wrote (N5_CORPUS says where), and a cluster."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, settings

from tests.servers import SERVERS, Bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A busy machine must not fail a test: speed is guarded by counting.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

_PLACE = Path(os.environ.get("N5_CORPUS") or Path(__file__).parents[2] / "shared/corpus")

CORPUS = _PLACE if (_PLACE / "MANIFEST.json").exists() else None

NO_CORPUS = f"no corpus of other implementations' data at {_PLACE}; set N5_CORPUS"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of data that other implementations wrote."""
    if CORPUS is None:
        pytest.skip(NO_CORPUS)
    return CORPUS


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Bucket]]:
    """A function that starts a server by its name in SERVERS, once."""
    found: dict[str, Bucket | str] = {}
    with ExitStack() as servers:

        def start(name: str) -> Bucket:
            if name not in found:
                folder = tmp_path_factory.mktemp(name)
                try:
                    found[name] = servers.enter_context(SERVERS[name](folder))
                except pytest.skip.Exception as reason:
                    found[name] = str(reason)
            bucket = found[name]
            return pytest.skip(bucket) if isinstance(bucket, str) else bucket

        yield start


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
