"""`repair`: damaged chunks are taken away, to be written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from xarray_n5_cli.failing import one_line, say, say_unfinished_elsewhere, told_of
from xarray_n5_cli.places import files, for_url, split_place, storage_option
from xarray_n5_cli.verify import counted

if TYPE_CHECKING:
    from xarray_n5.stores.protocol import Store


@click.command()
@click.argument("url", shell_complete=files)
@click.argument("path", default="")
@click.option("--remove", is_flag=True, help="Remove damaged chunks, and keep no copy of them.")
@click.option("--missing", is_flag=True, help="Have missing chunks written again, too.")
@storage_option()
@one_line
def repair(url: str, path: str, *, remove: bool, missing: bool, options: dict[str, Any]) -> None:
    """Take the damaged chunks of each array at URL away.

    They go into the folder .quarantine beside the others, and read as the fill value from then
    on. The array is marked: copy --resume from the same source, or to_n5(..., resume=True) with
    the same values, writes exactly these chunks again. Nothing reads .quarantine: remove it when
    nobody wants to look at the damaged chunks any more.

    \b
    Examples:
      xarray-n5 repair cells.n5/raw
      xarray-n5 repair copy.n5 raw && xarray-n5 copy cells.n5/raw copy.n5/raw --resume
    """
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.detect import open_place
    from xarray_n5.arrays.walk import Walk

    say_unfinished_elsewhere()
    container, inner = split_place(url, path)
    stored = for_url(container, options)
    walk = Walk.at(container, inner, stored, whole=True)
    store, _ = open_place(container, inner, stored, None)
    broken = False
    for found in walk.arrays():
        head = "" if isinstance(walk.root, Array) else f"{found.path or '/'}: "
        if isinstance(found.node, Array):
            how: Literal["remove", "quarantine"] = "remove" if remove else "quarantine"
            say(f"{head}{_mended(store, found.path, how, missing=missing)}")
        else:
            broken = True
            say(f"{head}{told_of(found.problem)}")
    if broken:
        raise click.exceptions.Exit(1)


def _mended(store: Store, path: str, how: Literal["remove", "quarantine"], *, missing: bool) -> str:
    """Repair an array, and return what was done."""
    from xarray_n5.integrity.repair import repair as mend

    found = mend(store, path, how=how, missing=missing)
    done = []
    if count := found.attrs["repaired"]:
        where = "removed" if how == "remove" else "moved into .quarantine"
        done.append(f"{counted(count, 'damaged chunk')} {where}")
    if missing and (count := int((found["state"] == "missing").sum())):
        done.append(f"{counted(count, 'missing chunk')} marked to be written again")
    return ", ".join(done) or "nothing to repair"
