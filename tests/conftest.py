"""What several tests need: data that others wrote (N5_CORPUS says where), and a cluster."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import dask
import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, settings

from tests.support.processes import START, prepare
from tests.support.servers import CLIENTS, SERVERS, Bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A busy machine must not fail a test: speed is guarded by counting.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The scripts in ci/ find tomorrow what they found today.
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
settings.load_profile("dev")


# Processes of Dask and of its clusters need not import the package, unless a test wants that.
dask.config.set(
    {"multiprocessing.context": START, "distributed.worker.multiprocessing-method": START}
)


OTHERS = ("zarr2", "zarr3", "hdf5")

# Set once, for all processes: a run may go on past midnight.
TODAY = os.environ.setdefault("N5_FORMAT", OTHERS[datetime.now(UTC).toordinal() % len(OTHERS)])
"""The format that ``bash ci/test`` tries besides N5; the others have their days."""


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to ``bash ci/exhaustive`` other formats than N5 and today's, and most of matrices."""
    rest = {*OTHERS} - {TODAY}
    for item in items:
        case = item.nodeid.partition("[")[2]
        if not rest.isdisjoint(re.split(r"[^a-z0-9]", case)):
            item.add_marker("exhaustive")
    matrices: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("matrix") and not item.get_closest_marker("exhaustive"):
            matrices[item.nodeid.partition("[")[0]].append(item)
    for cases in matrices.values():
        mark: Any = cases[0].get_closest_marker("matrix")
        # In the order of a checksum, the few lie anywhere along each axis of the matrix.
        cases.sort(key=lambda item: crc32(item.nodeid.encode()))
        for item in cases[mark.args[0] :]:
            item.add_marker("exhaustive")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and which command runs it."""
    if skipped := len(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(f"{skipped} tests were skipped: -rs says why.")
    if "not exhaustive" in terminalreporter.config.getoption("markexpr"):
        terminalreporter.write_line(
            "Servers, a browser, zarr-python 2, most of the kills and large matrices, and formats "
            f"other than N5 and {TODAY} were left out: bash ci/exhaustive runs them."
        )


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
    """A function that starts a server by its name in SERVED, once."""
    found: dict[str, Bucket | str] = {}
    with ExitStack() as servers:

        def start(name: str) -> Bucket:
            if name not in found:
                server, _, client = name.partition("-")
                try:
                    if client:
                        found[name] = CLIENTS[client](start(server))
                    else:
                        folder = tmp_path_factory.mktemp(name)
                        found[name] = servers.enter_context(SERVERS[name](folder))
                except pytest.skip.Exception as reason:
                    found[name] = str(reason)
            bucket = found[name]
            return pytest.skip(bucket) if isinstance(bucket, str) else bucket

        yield start


CALM = {
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "1s",
    "distributed.comm.timeouts.connect": "120s",
    "distributed.worker.profile.enabled": False,
}
"""A cluster that takes little time while it is idle, and has patience where a machine is busy."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Client]:
    """Two workers, for all tests of a process."""
    prepare()
    with ExitStack() as stack:
        with dask.config.set(CALM):
            here: Any = stack.enter_context(
                LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
            )
            client: Any = stack.enter_context(Client(here, set_as_default=False))
        yield client
