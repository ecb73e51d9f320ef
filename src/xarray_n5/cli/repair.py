"""`repair`: remove damaged chunks so that they are written again."""

from __future__ import annotations

from typing import Any

import click

from xarray_n5.cli.arguments import Options, on_node
from xarray_n5.cli.errors import echo, format_error, ignore_unfinished_writes, plural


@click.command()
@click.option("--remove", is_flag=True, help="Delete damaged chunks instead of moving them.")
@click.option("--missing", is_flag=True, help="Mark missing chunks to be written again, too.")
@on_node()
def repair(url: str, path: str, *, remove: bool, missing: bool, options: Options) -> None:
    """Remove the damaged chunks of each array at URL, so that they are written again.

    They are moved to the folder .xn5/quarantine of their array, and read as the fill value. Use
    copy --resume with the same source, or to_n5(..., resume=True) with the same values, to write
    exactly these chunks again. That folder is never read; delete it at any time.

    \b
    Examples:
      xarray-n5 repair cells.n5/raw
      xarray-n5 repair copy.n5 raw && xarray-n5 copy cells.n5/raw copy.n5/raw --resume
    """
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.open import Walk
    from xarray_n5.integrity.repair import repair as repair_array

    ignore_unfinished_writes()
    walk = Walk.at(url, path, options, whole=True)
    broken = False
    for entry in walk.arrays():
        if isinstance(entry.node, Array):
            report = repair_array(
                walk.container.fresh(),
                entry.path,
                how="remove" if remove else "quarantine",
                missing=missing,
            )
            line = _summary(report, remove=remove, missing=missing)
        else:
            broken, line = True, format_error(entry.problem)
        echo(line if isinstance(walk.root, Array) else f"{entry.path or '/'}: {line}")
    if broken:
        raise click.exceptions.Exit(1)


def _summary(report: Any, *, remove: bool, missing: bool) -> str:
    done = []
    if count := report.attrs["repaired"]:
        where = "removed" if remove else "moved to .xn5/quarantine"
        done.append(f"{plural(count, 'damaged chunk')} {where}")
    if missing and (count := int((report["state"] == "missing").sum())):
        done.append(f"{plural(count, 'missing chunk')} marked to be written again")
    return ", ".join(done) or "nothing to repair"
