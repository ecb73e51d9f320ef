"""`copy`: arrays, groups and trees, from any format into any other."""

from __future__ import annotations

from typing import Any, Literal

import click

from xarray_n5_cli.computing import computing, storing, workers_of
from xarray_n5_cli.failing import one_line, say, scrubbed
from xarray_n5_cli.places import files, for_url, split_place, storage_option


def _region(_: object, __: object, text: str | None) -> tuple[slice, ...] | None:
    """Return what `0:100,:,50:60` selects."""
    return None if text is None else tuple(_side(side) for side in text.split(","))


def _side(text: str) -> slice:
    parts = text.split(":")
    try:
        start, stop = (int(part) if part.strip() else None for part in parts)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no part of an axis: give START:STOP for each axis, such as 0:100,:,50:60"
        ) from None
    return slice(start, stop)


def _dtype(_: object, __: object, text: str | None) -> Any:
    if text is None:
        return None
    import numpy as np

    try:
        return np.dtype(text)
    except TypeError as error:
        raise click.BadParameter(f"{error}; give one such as uint8 or float32") from None


@click.command()
@click.argument("src", shell_complete=files)
@click.argument("dst", shell_complete=files)
@storing
@click.option("--dtype", callback=_dtype, help="Another type; whole numbers must fit into it.")
@click.option(
    "--region", callback=_region, metavar="0:100,:,50:60", help="A part, in numpy's order of axes."
)
@click.option(
    "--level", help="A level of the pyramid at SRC: a number (-1 the coarsest), or a name."
)
@click.option(
    "--without",
    multiple=True,
    metavar="PATTERN",
    help="Paths below SRC to leave out, such as em/*.",
)
@click.option(
    "--mode",
    type=click.Choice(["w-", "a", "w"]),
    default="w-",
    show_default=True,
    help="w-: DST must be new. a: add to a group. w: replace arrays of the same paths, too.",
)
@click.option("--resume", is_flag=True, help="Go on with this copy, where it was stopped.")
@computing
@storage_option()
@storage_option("dst_options", ("-O", "--dst-storage-option"), " of DST")
@one_line
def copy(
    src: str,
    dst: str,
    *,
    level: str | None,
    without: tuple[str, ...],
    mode: Literal["w-", "a", "w"],
    form: str | None,
    resume: bool,
    workers: int | None,
    processes: bool,
    scheduler: str | None,
    options: dict[str, Any],
    dst_options: dict[str, Any],
    **changes: Any,
) -> None:
    """Copy the array or the group at SRC, with all that is in it, to DST.

    The name of DST tells its format: *.zarr is Zarr v2, *.h5 HDF5, all else N5. Axes read the
    same in all of them, attributes stay, and copying back restores them as they were. A copy that
    was stopped, by whatever means, goes on with --resume.

    \b
    Examples:
      xarray-n5 copy cells.n5 cells.zarr
      xarray-n5 copy em.n5/raw part.h5/raw --region 0:100,:,50:60 --compression gzip
      xarray-n5 copy s3://bucket/em.n5/s2 em.n5/s2 -o anon=true --workers 16 --resume
    """
    from xarray_n5.copying.copy import begin_copy, level_path
    from xarray_n5.copying.replica import Changes
    from xarray_n5_cli.progress import progress

    (source, source_path), (target, path) = split_place(src), split_place(dst)
    source_options = for_url(source, options)
    if level is not None:
        source_path = level_path(source, source_path, level, source_options)
    with workers_of(workers, scheduler, processes=processes):
        begun = begin_copy(
            source,
            source_path,
            target,
            path,
            mode=mode,
            format=form,
            changes=Changes(**changes),
            without=without,
            resume=resume,
            source_options=source_options,
            storage_options=for_url(target, dst_options),
        )
        if begun.ended:
            say(f"nothing to resume: {scrubbed(dst)} is there, and whole")
            return
        with progress(begun.chunks):
            begun.compute()
