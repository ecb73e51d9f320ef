"""The progress bar of a copy: chunks, bytes and their rate."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

import click
from dask.callbacks import Callback
from dask.utils import format_bytes

from xarray_n5.model.receipts import Receipts

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def progress(chunks: int) -> Iterator[None]:
    """Show how many of the chunks are written, and the bytes per second, if stderr is a terminal.

    Only tasks of Dask's threads are seen.
    """
    if not sys.stderr.isatty():
        yield
        return
    written, began = 0, time.monotonic()
    bar: Any = click.progressbar(
        length=chunks, file=sys.stderr, show_pos=True, item_show_func=lambda text: text
    )

    def after(key: Any, result: Any, *_: object) -> None:
        nonlocal written
        name = key[0] if isinstance(key, tuple) else key
        if not str(name).startswith("write_n5-"):
            return
        count, size = _written(result)
        written += size
        rate = written / max(time.monotonic() - began, 1e-9)
        bar.update(count, f"{format_bytes(written)}, {format_bytes(int(rate))}/s")

    with bar, Callback(posttask=after):
        yield


def _written(result: Any) -> tuple[int, int]:
    """Return the numbers of chunks and bytes that a task wrote."""
    if isinstance(result, Receipts):
        return len(result), int(result.sizes.sum())
    # The task of a single block also ends the write, and returns its report.
    return int(result.attrs["chunks"]), int(result["bytes"].sum())
