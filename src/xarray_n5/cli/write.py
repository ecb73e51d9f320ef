"""Commands that write arrays: `copy`, `pyramid`, and `run` for saved writes."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from dask.utils import format_bytes, format_time

from xarray_n5.arrays.open import open_array
from xarray_n5.cli.options import computing, echo, for_url, plural, storing
from xarray_n5.formats import split_url
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xarray_n5.writing.progress import ProgressBar


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], str]]:
    """Show the progress of a write, and yield a function that returns what was written."""
    from xarray_n5.writing.progress import ProgressBar

    began = time.monotonic()
    with ProgressBar(final=False) as bar:
        yield lambda verb: _summary(bar, verb, time.monotonic() - began)


def _summary(bar: ProgressBar, verb: str, seconds: float) -> str:
    """Return what was written; "" if nothing was left to write."""
    if not bar.arrays:
        return ""
    kept = f", {bar.kept} kept" if bar.kept else ""
    size = f", {format_bytes(bar.nbytes)}" if bar.nbytes else ""  # HDF5 reports no sizes
    written = f"{plural(bar.written, (bar.units or 'chunks').removesuffix('s'))} written"
    return f"{verb} {plural(bar.arrays, 'array')}: {written}{kept}{size}, {format_time(seconds)}"


@click.command()
@click.argument("src", type=click.Path())
@click.argument("dst", type=click.Path())
@click.option(
    "--without", multiple=True, metavar="PATTERN", help="Exclude paths below SRC, such as em/*."
)
@click.option(
    "--dialect",
    multiple=True,
    metavar="NAME",
    help="The dialect that describes axes in DST, such as ngff or cosem. By default, pyramids "
    "become OME-NGFF 0.4 in Zarr v2 and 0.5 in Zarr v3. Repeatable.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Read SRC and DST again, and compare all values; with --resume, also of a finished copy.",
)
@storing("w-", "a", "w")
def copy(
    src: str,
    dst: str,
    *,
    dialect: tuple[str, ...],
    verify: bool,
    options: dict[str, Any],
    dst_options: dict[str, Any],
    **storage: Any,
) -> None:
    """Copy the array or group at SRC, with everything in it, to DST.

    The name of DST selects its format: *.zarr is Zarr v2 (Zarr v3 with --format zarr3), *.ozx one
    ZIP archive of Zarr v3, *.h5 HDF5, anything else N5. Axes are preserved, and pyramids described
    for the readers of the new format. An interrupted copy is resumed with --resume.

    \b
    Examples:
      xarray-n5 copy cells.n5 cells.zarr
      xarray-n5 copy big.n5 big.zarr --format zarr3 --shards 512,512,512
      xarray-n5 copy em.n5/raw part.h5/raw --chunks 10,80,50 --compression gzip
      xarray-n5 copy s3://bucket/em.n5/s2 em.n5/s2 -o anon=true --workers 16 --resume
      xarray-n5 copy cells.n5 /archive/cells.n5 --verify
    """
    from xarray_n5.copying.copy import copy as write_copy

    storage |= {"source_options": for_url(src, options)}
    storage |= {"storage_options": for_url(dst, dst_options)}
    dialects = dialect[0] if len(dialect) == 1 else dialect or None
    with _progress() as summary:
        report = write_copy(src, dst, dialect=dialects, verify=verify, **storage)
    echo(summary("copied") or f"nothing to resume: {redact_urls(dst)} is complete")
    if verify:
        echo(f"verified: {report.verified} chunks are equal to those of the source")


def _factors(_: object, __: object, given: tuple[str, ...]) -> Any:
    """Return one factor for all levels, or for each level one factor or one per axis."""
    try:
        steps = [tuple(map(int, text.split(","))) for text in given]
    except ValueError:
        expected = "expected 2, or 1,2,2 in NumPy's axis order"
        raise click.BadParameter(f"{', '.join(given)}: {expected}") from None
    levels: list[Any] = [step[0] if len(step) == 1 else step for step in steps]
    # One number applies to all levels. A single tuple stays in a list: it belongs to one level.
    return levels[0] if len(levels) == 1 and isinstance(levels[0], int) else levels or None


@click.command()
@click.argument("src", type=click.Path())
@click.argument("dst", default="", type=click.Path())
@click.option(
    "--factors",
    multiple=True,
    callback=_factors,
    metavar="2 | 1,2,2",
    help="The factor between two levels: give it once for all levels, or once for each.",
)
@click.option("--levels", type=click.IntRange(0), help="The number of coarser levels.")
@click.option(
    "--method",
    type=click.Choice(["mean", "mode", "nearest", "max", "min"]),
    help="The reduction of samples. Default: mode for labels (uint64, bool, in 'labels' of an "
    "image of OME-Zarr), else mean.",
)
@storing("w-", "w")
def pyramid(
    src: str,
    dst: str,
    *,
    options: dict[str, Any],
    dst_options: dict[str, Any],
    **how: Any,
) -> None:
    """Write coarser levels of the array at SRC: next to it if it is named s0, or all at DST.

    By default, the space axes with the smallest voxel size are halved, level by level, until a
    level fits into one chunk. An interrupted pyramid is resumed with --resume.

    \b
    Examples:
      xarray-n5 pyramid em.n5/em/s0
      xarray-n5 pyramid cells.n5/raw views.zarr/cells --chunks 32
      xarray-n5 pyramid em.n5/labels/s0 --method mode --factors 1,2,2 --factors 2
    """
    from xarray_n5.pyramids.api import add_levels
    from xarray_n5.pyramids.api import pyramid as write_pyramid

    container, path = split_url(src)
    source_options = for_url(container, options)
    with _progress():
        if dst:
            target, group = split_url(dst)
            source = open_array(container, path, storage_options=source_options)
            how |= {"storage_options": for_url(target, dst_options)}
            report = write_pyramid(source, target, group, **how)
        elif how.pop("format") is not None:
            raise click.UsageError("--format requires DST: SRC itself keeps its format")
        else:
            report = add_levels(container, path, storage_options=source_options, **how)
    if not report.written:
        echo(f"nothing to resume: the levels of {redact_urls(dst or src)} are complete")
        return
    for name, level in report.arrays.items():
        count = plural(level.chunks, "shard" if how.get("shards") is not None else "chunk")
        count += f" ({level.kept} kept)" if level.kept else ""
        echo(f"{name}: {count}, {format_bytes(int(level.receipts.sizes.sum()))}")


def _share(_: object, __: object, text: str | None) -> tuple[int, int] | None:
    """Return the two numbers of a share."""
    share = re.fullmatch(r"(\d+)/(\d+)", text or "1/1")
    if share is None or not 1 <= int(share[1]) <= int(share[2]):
        raise click.BadParameter(f"{text!r} is not such as 3/100, the third of a hundred")
    return None if text is None else (int(share[1]), int(share[2]))


@click.command()
@click.option("--share", metavar="K/N", callback=_share, help="Compute the K-th of N shares alone.")
@computing
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def run(file: Path, *, share: tuple[int, int] | None) -> None:
    """Compute a write that plan.save(FILE) has begun, or a share of it.

    Shares need no scheduler: run each in a job of its own, and the command without --share when
    they have ended, which computes what is missing and finishes the write. FILE is a pickle, which
    can run any code: use only your own.

    \b
    Examples:
      xarray-n5 run plan.bin --share 3/100
      xarray-n5 run plan.bin
    """
    from xarray_n5.writing.deferred import SavedWrite

    with _progress() as summary:
        report = SavedWrite.load(file).run(share)
    if report is None and share is None:
        echo("the write has finished: nothing is left to do")
    elif done := summary("written"):
        echo(done)
