"""Progress bars on stderr, and what a write has done."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Self


class Progress(contextlib.AbstractContextManager["Progress"]):
    """Show the progress of a write: a bar in a terminal, otherwise a line a minute."""

    def __init__(self) -> None:
        from xarray_n5.writing.progress import ProgressBar

        self._bar, self._began = ProgressBar(final=False), time.monotonic()

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, error: type[BaseException] | None, *more: object) -> None:
        self._bar.__exit__(error, *more)

    def summary(self, verb: str) -> str:
        """Return what was written; "" if nothing was left to write."""
        from dask.utils import format_bytes, format_time

        from xarray_n5.cli.errors import plural

        bar = self._bar
        if not bar.arrays:
            return ""
        kept = f", {bar.kept} kept" if bar.kept else ""
        size = f", {format_bytes(bar.nbytes)}" if bar.nbytes else ""  # HDF5 reports no sizes
        written = plural(bar.written, (bar.units or "chunks").removesuffix("s"))
        seconds = format_time(time.monotonic() - self._began)
        return f"{verb} {plural(bar.arrays, 'array')}: {written} written{kept}{size}, {seconds}"


def task_progress() -> contextlib.AbstractContextManager[Any]:
    """Show the number of Dask's finished tasks, if stderr is a terminal."""
    from dask.diagnostics.progress import ProgressBar

    if not sys.stderr.isatty():
        return contextlib.nullcontext()
    return ProgressBar(minimum=1, out=sys.stderr)
