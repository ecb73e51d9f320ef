"""How far a copy is: chunks, bytes and their rate, on a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

import click
from dask.callbacks import Callback
from dask.utils import format_bytes

from xarray_n5.receipts import Receipts

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAUSE = 0.1
"""How many seconds lie between two looks at the clock."""


@contextlib.contextmanager
def progress(chunks: int) -> Iterator[None]:
    """Show how many of so many chunks have been written by threads, and how many bytes a second.

    Where stderr is no terminal, nothing is shown.
    """
    if not sys.stderr.isatty():
        yield
        return
    written, began, shown = 0, time.monotonic(), 0.0
    bar: Any = click.progressbar(
        length=chunks,
        file=sys.stderr,
        show_pos=True,
        item_show_func=lambda text: text,
    )

    def after(key: Any, result: Any, *_: object) -> None:
        nonlocal written, shown
        name = key[0] if isinstance(key, tuple) else key
        if not str(name).startswith("write_n5-") or not isinstance(result, Receipts):
            return
        written += int(result.sizes.sum())
        now = time.monotonic()
        rate = written / max(now - began, 1e-9)
        bar.update(len(result), f"{format_bytes(written)}, {format_bytes(int(rate))}/s")
        if now - shown > _PAUSE:
            shown = now
            bar.render_progress()

    with bar, Callback(posttask=after):
        yield
