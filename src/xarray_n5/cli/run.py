"""`run`: compute a write that was saved, or a share of it."""

from __future__ import annotations

import re
from pathlib import Path

import click

from xarray_n5.cli.errors import echo
from xarray_n5.cli.options import computing


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
    from xarray_n5.cli.progress import Progress
    from xarray_n5.writing.deferred import SavedWrite

    with Progress() as progress:
        report = SavedWrite.load(file).run(share)
    if report is None and share is None:
        echo("the write has finished: nothing is left to do")
    elif done := progress.summary("written"):
        echo(done)
