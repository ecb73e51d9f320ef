"""zarr-python 2 and its N5Store, which need an interpreter of their own, asked through pipes."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.benchmarks.clock import Cost, Done
from ci.benchmarks.machine import cores

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Worker:
    """Another interpreter that does one thing at a time, and waits in between."""

    process: subprocess.Popen[str]

    def ask(self, do: str, place: Path, **request: Any) -> Done:
        """Have it done there, and return what it took there."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(
            json.dumps({"do": do, "place": str(place), **request}),
            file=self.process.stdin,
            flush=True,
        )
        found = json.loads(self.process.stdout.readline())
        if "error" in found:
            raise RuntimeError(found["error"])
        return Done(Cost(found["wall"], found["cpu"]), found["result"])


def interpreter() -> str | None:
    """Return a Python with zarr-python 2: that of ci/zarr2, or of N5_ZARR2_PYTHON, or none."""
    made = HERE.parents[1] / ".venv-zarr2/bin/python"
    return os.environ.get("N5_ZARR2_PYTHON") or (str(made) if made.exists() else None)


def version() -> str | None:
    """Return the version of zarr-python 2, or None where it or dask beside it is not there."""
    python = interpreter()
    if python is None:
        return None
    script = "import dask.array, zarr.n5; print(zarr.__version__)"
    done = subprocess.run(  # noqa: S603 - the script is the one above
        [python, "-c", script], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


@contextmanager
def working() -> Iterator[Worker | None]:
    """Have a worker, or None where there is no zarr-python 2."""
    python = interpreter()
    if python is None or version() is None:
        yield None
        return
    # What this process imports is for another version of Python, maybe.
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, str(HERE / "zarr2_worker.py"), str(cores())]
    with subprocess.Popen(  # noqa: S603 - the script is ours
        command, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Worker(process)
        assert process.stdin is not None
        process.stdin.close()
