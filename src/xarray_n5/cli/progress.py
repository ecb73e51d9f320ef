"""Progress bars on stderr, and what a write has done."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.writing.progress import ProgressBar


@contextlib.contextmanager
def progress(verb: str | None = None) -> Iterator[ProgressBar]:
    """Show the progress of a write: a bar in a terminal, otherwise a line a minute.

    With a `verb`, such as "copied", print at the end what was written.
    """
    from dask.utils import format_bytes, format_time

    from xarray_n5.cli.errors import echo, plural
    from xarray_n5.writing.progress import ProgressBar

    began = time.monotonic()
    with ProgressBar(final=False) as bar:
        yield bar
    if verb is None:
        return
    arrays, chunks = plural(bar.arrays, "array"), (bar.units or "chunks").removesuffix("s")
    kept = f", {bar.kept} kept" if bar.kept else ""
    size = f", {format_bytes(bar.nbytes)}" if bar.nbytes else ""  # HDF5 reports no sizes
    written = f"{plural(bar.written, chunks)} written{kept}{size}"
    echo(f"{verb} {arrays}: {written}, {format_time(time.monotonic() - began)}")


def task_progress() -> contextlib.AbstractContextManager[Any]:
    """Show the number of Dask's finished tasks, if stderr is a terminal."""
    from dask.diagnostics.progress import ProgressBar

    if not sys.stderr.isatty():
        return contextlib.nullcontext()
    return ProgressBar(minimum=1, out=sys.stderr)
