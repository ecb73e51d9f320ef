"""Progress bars on stderr, where that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def progress() -> contextlib.AbstractContextManager[Any]:
    """Show the number of chunks that a write has stored, and its speed, if stderr is a terminal."""
    from xarray_n5.writing.progress import ProgressBar

    return ProgressBar() if sys.stderr.isatty() else contextlib.nullcontext()


def task_progress() -> contextlib.AbstractContextManager[Any]:
    """Show the number of Dask's finished tasks, if stderr is a terminal."""
    from dask.diagnostics.progress import ProgressBar

    if not sys.stderr.isatty():
        return contextlib.nullcontext()
    return ProgressBar(minimum=1, out=sys.stderr)
