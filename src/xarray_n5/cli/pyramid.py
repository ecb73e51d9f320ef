"""`pyramid`: write coarser levels of an array."""

from __future__ import annotations

from typing import Any

import click

from xarray_n5.cli.arguments import for_url, storage_option
from xarray_n5.cli.errors import echo, plural, redact
from xarray_n5.cli.options import computing, storing
from xarray_n5.formats import split_url


def _factors(_: object, __: object, given: tuple[str, ...]) -> Any:
    """Return one factor for all levels, or for each level one factor or one per axis."""
    try:
        steps = [tuple(map(int, text.split(","))) for text in given]
    except ValueError:
        raise click.BadParameter(
            f"{', '.join(given)}: expected 2, or 1,2,2 in NumPy's axis order"
        ) from None
    levels: list[Any] = [step[0] if len(step) == 1 else step for step in steps]
    if not levels:
        return None
    # One number applies to all levels. A single tuple stays in a list: it belongs to one level.
    return levels[0] if len(levels) == 1 and isinstance(levels[0], int) else levels


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
@storing
@click.option(
    "--mode",
    type=click.Choice(["w-", "w"]),
    default="w-",
    show_default=True,
    help="w-: fail if the levels exist. w: replace them.",
)
@click.option("--resume", is_flag=True, help="Resume an interrupted pyramid.")
@computing
@storage_option()
@storage_option("dst_options", ("-O", "--dst-storage-option"), " of DST")
def pyramid(
    src: str,
    dst: str,
    *,
    form: str | None,
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
    from dask.utils import format_bytes

    from xarray_n5.arrays.open import open_array
    from xarray_n5.cli.progress import Progress
    from xarray_n5.pyramids.api import add_levels
    from xarray_n5.pyramids.api import pyramid as write_pyramid

    container, source_path = split_url(src)
    source_options = for_url(container, options)
    write: Any = add_levels
    source: Any = container
    if dst:
        target, path = split_url(dst)
        source = open_array(container, source_path, storage_options=source_options)
        write = write_pyramid
        how |= {"url": target, "group": path, "format": form}
        how |= {"storage_options": for_url(target, dst_options)}
    elif form is not None:
        raise click.UsageError("--format requires DST: SRC itself keeps its format")
    else:
        how |= {"path": source_path, "storage_options": source_options}
    with Progress():
        report = write(source, **how)
    if not report.written:
        echo(f"nothing to resume: the levels of {redact(dst or src)} are complete")
        return
    for name, level in report.arrays.items():
        count = plural(level.chunks, "shard" if how.get("shards") is not None else "chunk")
        count += f" ({level.kept} kept)" if level.kept else ""
        echo(f"{name}: {count}, {format_bytes(int(level.receipts.sizes.sum()))}")
