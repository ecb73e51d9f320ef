"""A progress bar of writes, on any of Dask's schedulers."""

from __future__ import annotations

import contextlib
import sys
import time
from contextvars import ContextVar
from typing import Any, Self, TextIO

from dask.callbacks import Callback
from dask.utils import format_bytes, format_time

from xarray_n5.model.receipts import Receipts

TOPIC = "xarray-n5-written"
"""The topic of the events by which a cluster's workers report written chunks."""

_WIDTH = 20
"""The characters of a full bar."""

_INTERVAL = 0.1
"""The minimum number of seconds between two updates in a terminal."""

_LOG_INTERVAL = 60.0
"""The minimum number of seconds between two lines in a file, such as the log of a job."""

_ERASE = "\r\x1b[K"
"""The characters that erase the line of a terminal."""

shown_bar: ContextVar[ProgressBar | None] = ContextVar("xarray_n5_progress", default=None)
"""The bar that shows writes."""


class ProgressBar:
    """Show the written chunks or shards, the speed and the time left while a write is computed.

    Works with threads, with processes and with a distributed client, for every function that
    computes a write itself: :func:`to_n5`, ``ds.n5.to_n5``, :func:`copy` and :func:`pyramid`. What
    ``compute=False`` returned is shown by :class:`dask.diagnostics.ProgressBar`, or by
    :func:`distributed.progress`.

    A terminal shows one line, which is updated. Any other stream, such as the log of a job, gets a
    line a minute, and one at the end.

    Parameters
    ----------
    out : file, optional
        The text stream to draw the bar on; by default `sys.stderr`.
    final : bool, default: True
        Whether to keep the bar, or to write a last line, after success.

    Attributes
    ----------
    written : int
        The number of chunks or shards that are written.
    total : int
        The number of chunks or shards to write.
    kept : int
        The number of chunks or shards that an interrupted write had stored before.
    nbytes : int
        The stored size of the written chunks, in bytes.
    arrays : int
        The number of arrays that are written.
    units : str
        "chunks", "shards", or "chunks and shards".

    Examples
    --------
    >>> import sys
    >>> values = da.ones((4, 6), chunks=(2, 3))
    >>> with xarray_n5.ProgressBar(out=sys.stdout) as bar:
    ...     report = xarray_n5.to_n5(values, "cells.n5", "raw")
    [...] 100%, 4/4 chunks, ... B, ...
    >>> bar.written, bar.total
    (4, 4)
    """

    def __init__(self, out: TextIO | None = None, final: bool = True) -> None:
        self.out, self.final = sys.stderr if out is None else out, final
        self.written = self.total = self.kept = self.nbytes = self.arrays = 0
        self.units = ""
        self._tokens = set[str]()  # others may run on the same cluster
        self._began = self._drawn = time.monotonic()
        self._stack = contextlib.ExitStack()
        self._erase = _ERASE if self.out.isatty() else ""

    def __enter__(self) -> Self:
        self._began = self._drawn = time.monotonic()
        self._stack.callback(shown_bar.reset, shown_bar.set(self))
        self._stack.enter_context(Callback(posttask=self._after_task))
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._stack.close()
        self._tokens = set()  # events that are still under way come too late
        if error is None:
            self.written = self.total
        if self.arrays and (error is not None or self.final):
            self._draw("\n")
        elif self.arrays:
            self.out.write(self._erase)

    def _expect(self, total: int, kept: int, unit: str, token: str) -> None:
        """Show the write of an array that is about to be computed.

        Parameters
        ----------
        total
            The number of chunks to write.
        kept
            The number of those that an interrupted write has stored before.
        unit
            "chunks" or "shards".
        token
            The token of the write, which the names of its tasks contain after "write_n5-".
        """
        if not self._tokens and "distributed" in sys.modules:
            self._subscribe()
        self._tokens.add(token)
        self.arrays += 1
        self.total += total
        self.kept += kept
        self.units = unit if self.units in {"", unit} else "chunks and shards"
        if self._erase:
            self._draw()

    def _subscribe(self) -> None:
        """Receive the events of the workers of the client in use, if there is one."""
        from distributed import get_client

        with contextlib.suppress(ValueError):
            client: Any = get_client()
            client.subscribe_topic(TOPIC, lambda event: self._advance(*event[1]))
            self._stack.callback(client.unsubscribe_topic, TOPIC)

    def _after_task(self, key: Any, result: Any, *_: object) -> None:
        """Count the chunks of a task of a local scheduler."""
        name = str(key[0] if isinstance(key, tuple) else key)
        # The name of a task that is fused with the last one begins like this, too.
        if name.startswith("write_n5-") and isinstance(result, Receipts):
            tokens = [token for token in self._tokens if token in name]
            self._advance("".join(tokens), len(result), int(result.sizes.sum()))

    def _advance(self, token: str, chunks: int, nbytes: int) -> None:
        """Count the chunks of a task, unless it is of another write."""
        if token not in self._tokens:
            return
        # Tasks of a lost worker run twice, and those of a repair look at chunks that are kept.
        self.written = min(self.total, self.written + chunks)
        self.nbytes += nbytes
        if time.monotonic() - self._drawn >= (_INTERVAL if self._erase else _LOG_INTERVAL):
            self._draw()

    def _draw(self, end: str = "") -> None:
        self._drawn = time.monotonic()
        seconds = max(self._drawn - self._began, 1e-9)
        done = self.written / self.total if self.total else 1.0
        kept = f" ({self.kept} kept)" if self.kept else ""
        rest = f"{format_time(seconds * (1 - done) / done)} left" if 0 < done < 1 else ""
        line = (
            f"[{'#' * int(done * _WIDTH):{_WIDTH}}] {done:.0%}, "
            f"{self.written}/{self.total} {self.units}{kept}, {format_bytes(self.nbytes)}, "
            f"{format_bytes(int(self.nbytes / seconds))}/s, {rest or format_time(seconds)}"
        )
        self.out.write(f"{self._erase}{line}{end}" if self._erase else f"{line}\n")
        self.out.flush()
