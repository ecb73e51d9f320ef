"""`copy`: copy arrays, groups and trees between formats."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import click

from xarray_n5.cli.arguments import for_url, multisets_option, split_url, storage_option
from xarray_n5.cli.errors import echo, redact
from xarray_n5.cli.options import computing, storing


def _region(_: object, __: object, text: str | None) -> tuple[slice, ...] | None:
    """Return the slices of a selection such as `0:100,:,50:60`."""
    return None if text is None else tuple(_side(side) for side in text.split(","))


def _side(text: str) -> slice:
    parts = text.split(":")
    try:
        start, stop = (int(part) if part.strip() else None for part in parts)
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected START:STOP for each axis, such as 0:100,:,50:60"
        ) from None
    return slice(start, stop)


def _bounds(_: object, __: object, text: str | None) -> Any:
    """Return the coordinates of a selection such as `z=100:220 um, y=:50`, by dimension."""
    if text is None:
        return None
    from xarray_n5.sampling.crop import pair_of

    found: dict[str, Any] = {}
    for part in text.split(","):
        dim, _, ends = (each.strip() for each in part.partition("="))
        pair = None
        with suppress(ValueError):
            pair = pair_of(dim, ends)
        if not dim or dim in found or pair is None:
            raise click.BadParameter(
                f"{part.strip()!r}: expected START:STOP once for each dimension, such as "
                "'z=100:220 um, y=:50'"
            )
        found[dim] = pair
    return found


def _dtype(_: object, __: object, text: str | None) -> Any:
    if text is None:
        return None
    import numpy as np

    try:
        return np.dtype(text)
    except TypeError as error:
        raise click.BadParameter(f"{error}; expected a type such as uint8 or float32") from None


def _dialect(_: object, __: object, names: tuple[str, ...]) -> Any:
    """Return the names of dialects, the word "same", or None."""
    if "same" in names and names != ("same",):
        raise click.BadParameter("'same' excludes other dialects")
    return names[0] if len(names) == 1 else names or None


@click.command()
@click.argument("src", type=click.Path())
@click.argument("dst", type=click.Path())
@storing
@click.option("--dtype", callback=_dtype, help="The data type of DST; integers must fit.")
@click.option(
    "--region",
    callback=_region,
    metavar="0:100,:,50:60",
    help="The part of SRC to copy, in NumPy's axis order.",
)
@click.option(
    "--bounds",
    callback=_bounds,
    metavar="'z=100:220 um, y=:50'",
    help="The part of SRC to copy, in coordinates; both ends are included. Of a group, all arrays "
    "and levels are cropped.",
)
@click.option(
    "--level", help="Copy a level of the pyramid at SRC: its number (-1 for the coarsest) or name."
)
@click.option(
    "--without",
    multiple=True,
    metavar="PATTERN",
    help="Exclude paths below SRC, such as em/*.",
)
@click.option(
    "--mode",
    type=click.Choice(["w-", "a", "w"]),
    default="w-",
    show_default=True,
    help="w-: fail if DST exists. a: add to a group. w: also replace arrays at the same paths.",
)
@click.option(
    "--dialect",
    multiple=True,
    callback=_dialect,
    metavar="NAME",
    help="The dialect that describes axes in DST, such as ngff or cosem; same: as in SRC. By "
    "default, pyramids become OME-NGFF 0.4 in Zarr v2 and 0.5 in Zarr v3. Repeatable.",
)
@click.option("--resume", is_flag=True, help="Resume an interrupted copy.")
@click.option(
    "--verify",
    is_flag=True,
    help="Read SRC and DST again, and compare all values; with --resume, also of a finished copy.",
)
@multisets_option()
@computing
@storage_option()
@storage_option("dst_options", ("-O", "--dst-storage-option"), " of DST")
def copy(
    src: str,
    dst: str,
    *,
    level: str | None,
    without: tuple[str, ...],
    mode: Literal["w-", "a", "w"],
    form: str | None,
    resume: bool,
    verify: bool,
    options: dict[str, Any],
    dst_options: dict[str, Any],
    **changes: Any,
) -> None:
    """Copy the array or group at SRC, with everything in it, to DST.

    The name of DST selects its format: *.zarr is Zarr v2 (Zarr v3 with --format zarr3), *.ozx one
    ZIP archive of Zarr v3, *.h5 HDF5, anything else N5. Axes are preserved, the metadata of
    pyramids is converted for the readers of the new format, and copying back restores the original
    attributes. An interrupted copy is resumed with --resume.

    \b
    Examples:
      xarray-n5 copy cells.n5 cells.zarr
      xarray-n5 copy big.n5 big.zarr --format zarr3 --shards 512,512,512
      xarray-n5 copy em.n5/raw part.h5/raw --region 0:100,:,50:60 --compression gzip
      xarray-n5 copy big.n5 big.ozx --shards 512,512,512
      xarray-n5 copy em.n5 part.n5 --bounds "z=100:220 um, y=:50 um"
      xarray-n5 copy s3://bucket/em.n5/s2 em.n5/s2 -o anon=true --workers 16 --resume
      xarray-n5 copy cells.n5 /archive/cells.n5 --verify
    """
    from xarray_n5.cli.progress import progress, task_progress
    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.copying.copy import begin_copy
    from xarray_n5.copying.pyramids import level_path
    from xarray_n5.errors import NodeNotFoundError

    (source, source_path), (target, path) = split_url(src), split_url(dst)
    source_options = for_url(source, options)
    if level is not None:
        try:
            source_path = level_path(source, source_path, level, source_options)
        except NodeNotFoundError:  # raised again, unless it is a number
            number = int(level) if level.lstrip("-").isdigit() else level
            source_path = level_path(source, source_path, number, source_options)
    how: dict[str, Any] = {
        "mode": mode,
        "options": CopyOptions(**changes),
        "without": without,
        "resume": resume,
        "source_options": source_options,
        "storage_options": for_url(target, dst_options),
    }
    begun = begin_copy(source, source_path, target, path, format=form, verify=verify, **how)
    if begun.ended and not verify:
        echo(f"nothing to resume: {redact(dst)} is complete")
        return
    with task_progress() if begun.ended else progress("copied"):
        report = begun.compute()
    if begun.ended:
        echo(f"nothing to resume: {redact(dst)} is complete")
    if verify:
        echo(f"verified: {report.attrs['verified']} chunks are equal to those of the source")
