"""How chunks are shaped and compressed, and who computes: options of what writes arrays."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE = 10
"""How many seconds a scheduler has to answer."""


def _parse_chunks(_: object, __: object, text: str | None) -> tuple[int, ...] | int | str | None:
    if text is None or text == "auto":
        return text
    try:
        sides = tuple(int(side) for side in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r}: give 64,64,64 or 64 or auto") from None
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


def storing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of how arrays are stored."""
    for option in (
        click.option(
            "--format",
            "form",
            type=click.Choice(["n5", "zarr2", "hdf5"]),
            help="The format of DST; by default its name tells.",
        ),
        click.option(
            "--compression",
            callback=_parse_compression,
            default="same",
            show_default=True,
            help="A name, raw, or N5's JSON object; one that the format of DST lacks becomes gzip.",
        ),
        click.option(
            "--chunks", callback=_parse_chunks, metavar="64,64,64", help="Another shape of chunks."
        ),
    ):
        command = option(command)
    return command


def computing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of who computes."""
    for option in (
        click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler that does it."),
        click.option("--processes", is_flag=True, help="Let processes do the work."),
        click.option("--workers", type=click.IntRange(1), help="How many threads, or processes."),
    ):
        command = option(command)
    return command


@contextlib.contextmanager
def workers_of(workers: int | None, scheduler: str | None, *, processes: bool) -> Iterator[None]:
    """Compute on threads, on processes of this host, or where a scheduler sends tasks."""
    import dask

    if scheduler is None and not processes:
        count: dict[str, Any] = {} if workers is None else {"num_workers": workers}
        with dask.config.set(scheduler="threads", **count):
            yield
        return
    if scheduler is not None and (processes or workers is not None):
        raise click.UsageError("--scheduler has workers of its own: leave out --workers")
    from distributed import Client, LocalCluster

    with contextlib.ExitStack() as stack:
        place: Any = scheduler
        if scheduler is None:
            cluster: Any = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            )
            place = stack.enter_context(cluster)
        try:
            client: Any = Client(place, timeout=_PATIENCE)
        except OSError as error:
            raise OSError(
                f"no Dask scheduler answers at {place} ({error}): start one there with `dask "
                "scheduler`, or leave --scheduler out"
            ) from error
        stack.enter_context(client)
        yield
