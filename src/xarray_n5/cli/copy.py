"""`copy`: copy arrays, groups and trees between formats."""

from __future__ import annotations

from typing import Any

import click

from xarray_n5.cli.arguments import for_url, storage_option
from xarray_n5.cli.errors import echo, redact
from xarray_n5.cli.options import computing, storing


@click.command()
@click.argument("src", type=click.Path())
@click.argument("dst", type=click.Path())
@storing
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
    help="w-: fail if DST exists. a: add to a group. w: first remove what DST holds.",
)
@click.option(
    "--dialect",
    multiple=True,
    metavar="NAME",
    help="The dialect that describes axes in DST, such as ngff or cosem. By default, pyramids "
    "become OME-NGFF 0.4 in Zarr v2 and 0.5 in Zarr v3. Repeatable.",
)
@click.option("--resume", is_flag=True, help="Resume an interrupted copy.")
@click.option(
    "--verify",
    is_flag=True,
    help="Read SRC and DST again, and compare all values; with --resume, also of a finished copy.",
)
@computing
@storage_option()
@storage_option("dst_options", ("-O", "--dst-storage-option"), " of DST")
def copy(
    src: str,
    dst: str,
    *,
    form: Any,
    dialect: tuple[str, ...],
    resume: bool,
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
    from xarray_n5.cli.progress import Progress
    from xarray_n5.copying.api import copy as write_copy

    with Progress() as progress:
        report = write_copy(
            src,
            dst,
            format=form,
            dialect=dialect[0] if len(dialect) == 1 else dialect or None,
            resume=resume,
            source_options=for_url(src, options),
            storage_options=for_url(dst, dst_options),
            verify=verify,
            **storage,
        )
    echo(progress.summary("copied") or f"nothing to resume: {redact(dst)} is complete")
    if verify:
        echo(f"verified: {report.verified} chunks are equal to those of the source")
