"""Options of the commands that write arrays: storage, and the number of threads."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import click

from xarray_n5.cli.errors import report_errors

if TYPE_CHECKING:
    from collections.abc import Callable


def _parse_chunks(_: object, __: object, text: str | None) -> tuple[int, ...] | int | str | None:
    if text is None or text == "auto":
        return text
    try:
        sides = tuple(int(side) for side in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected 64,64,64 or 64 or auto") from None
    return sides[0] if len(sides) == 1 else sides


def _parse_compression(_: object, __: object, text: str) -> Any:
    try:
        return json.loads(text) if text.startswith("{") else text
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not JSON: {error}") from None


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
            type=click.Choice(["n5", "zarr2", "zarr3", "hdf5"]),
            help="The format of DST; by default, its name decides.",
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
    """Add the number of threads, and compute there; errors are one line each."""

    @functools.wraps(command)
    def run(workers: int | None, **more: Any) -> None:
        import dask

        count: dict[str, Any] = {} if workers is None else {"num_workers": workers}
        with dask.config.set(**count):
            command(**more)

    workers = click.option("--workers", type=click.IntRange(1), help="Number of threads.")
    return workers(report_errors(run))
