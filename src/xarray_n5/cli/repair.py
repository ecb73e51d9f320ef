"""`repair`: remove damaged chunks so that they are written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from xarray_n5.cli.arguments import Options, on_node
from xarray_n5.cli.errors import echo, format_error, ignore_unfinished_writes, plural

if TYPE_CHECKING:
    from xarray_n5.formats.containers import Container


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
    from xarray_n5.arrays.walk import Walk

    ignore_unfinished_writes()
    walk = Walk.at(url, path, options, whole=True)
    broken = False
    for found in walk.arrays():
        head = "" if isinstance(walk.root, Array) else f"{found.path or '/'}: "
        if isinstance(found.node, Array):
            how: Literal["remove", "quarantine"] = "remove" if remove else "quarantine"
            echo(f"{head}{_repair(walk.container.fresh(), found.path, how, missing=missing)}")
        else:
            broken = True
            echo(f"{head}{format_error(found.problem)}")
    if broken:
        raise click.exceptions.Exit(1)


def _repair(
    container: Container, path: str, how: Literal["remove", "quarantine"], *, missing: bool
) -> str:
    """Repair an array, and return a line that describes the result."""
    from xarray_n5.integrity.repair import repair as repair_array

    found = repair_array(container, path, how=how, missing=missing)
    done = []
    if count := found.attrs["repaired"]:
        where = "removed" if how == "remove" else "moved to .xn5/quarantine"
        done.append(f"{plural(count, 'damaged chunk')} {where}")
    if missing and (count := int((found["state"] == "missing").sum())):
        done.append(f"{plural(count, 'missing chunk')} marked to be written again")
    return ", ".join(done) or "nothing to repair"
