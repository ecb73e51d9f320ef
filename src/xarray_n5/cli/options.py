"""Options of the commands that write arrays: storage, and where to compute."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import click

from xarray_n5.cli.arguments import Name
from xarray_n5.cli.errors import report_errors, resumes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_TIMEOUT = 10
"""The seconds to wait for a scheduler."""


def _formats() -> Iterable[str]:
    from xarray_n5.formats import FORMATS

    return FORMATS


def _parse_chunks(_: object, __: object, text: str | None) -> tuple[int, ...] | int | str | None:
    if text is None or text == "auto":
        return text
    try:
        sides = tuple(int(side) for side in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected 64,64,64 or 64 or auto") from None
    return sides[0] if len(sides) == 1 else sides


def _parse_compression(_: object, __: object, text: str) -> Any:
    if text == "same":
        return text
    from xarray_n5.codecs import resolve
    from xarray_n5.errors import N5Error

    try:
        return resolve(json.loads(text) if text.startswith("{") else text)
    except (N5Error, ValueError) as error:
        raise click.BadParameter(str(error)) from None


def _set_option(context: click.Context, option: click.Parameter, value: bool) -> None:
    """Set an option of xarray-n5 while a command runs."""
    if value:
        from xarray_n5.writing.options import set_options

        context.with_resource(set_options(**{str(option.name): value}))


def storing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of storage."""
    for option in (
        click.option(
            "--format",
            "form",
            type=Name("format", _formats),
            help="The format of DST, such as zarr2; by default, its name decides.",
        ),
        click.option(
            "--compression",
            callback=_parse_compression,
            default="same",
            show_default=True,
            help="A name, raw for none, or a JSON object as in N5; gzip if DST's format lacks that "
            "of SRC.",
        ),
        click.option(
            "--shards",
            callback=_parse_chunks,
            metavar="512,512,512",
            help="The shape of shards, which are files of several chunks, or auto; for zarr3.",
        ),
        click.option(
            "--chunks", callback=_parse_chunks, metavar="64,64,64", help="The shape of chunks."
        ),
        click.option(
            "--fsync",
            is_flag=True,
            expose_value=False,
            callback=_set_option,
            help="Flush each chunk to disk, to survive a power cut.",
        ),
        click.option(
            "--checksums",
            is_flag=True,
            expose_value=False,
            callback=_set_option,
            help="Store a digest of each chunk, for verify.",
        ),
    ):
        command = option(command)
    return command


def computing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select workers, and compute there; errors are one line each."""

    @functools.wraps(command)
    def run(workers: int | None, scheduler: str | None, *, processes: bool, **more: Any) -> None:
        with _workers(workers, scheduler, processes=processes):
            command(**more)

    found: Callable[..., None] = report_errors(run)
    for option in (
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Compute on the Dask cluster of this scheduler, such as tcp://host:8786.",
        ),
        click.option("--processes", is_flag=True, help="Compute in processes instead of threads."),
        click.option("--workers", type=click.IntRange(1), help="Number of threads or processes."),
    ):
        found = option(found)
    return found


@contextlib.contextmanager
def _workers(workers: int | None, scheduler: str | None, *, processes: bool) -> Iterator[None]:
    """Compute in threads, in local processes, or on the cluster of a scheduler."""
    import dask

    if scheduler is None and not processes:
        count: dict[str, Any] = {} if workers is None else {"num_workers": workers}
        with dask.config.set(scheduler="threads", **count):
            yield
        return
    if scheduler is not None and (processes or workers is not None):
        raise click.UsageError("--scheduler uses its own workers; omit --workers and --processes")
    from distributed import Client, KilledWorker, LocalCluster

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what it says is below
    with contextlib.ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            address = stack.enter_context(
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            )
        try:
            client: Any = Client(address, timeout=_TIMEOUT)
        except OSError as error:
            raise OSError(
                f"cannot connect to a Dask scheduler at {address} ({error}); check the address, "
                "start one there with `dask scheduler`, or omit --scheduler"
            ) from error
        stack.enter_context(client)
        try:
            yield
        except (CancelledError, KilledWorker) as error:
            hint = " What is stored is kept: repeat it with --resume" * resumes()
            raise OSError(f"{error}{hint}") from error
