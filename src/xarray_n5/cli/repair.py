"""`repair`: damaged chunks are taken away, to be written again."""

from __future__ import annotations

from typing import Any

import click

from xarray_n5.cli.failing import one_line
from xarray_n5.cli.places import for_url, split_place, storage_option


@click.command()
@click.argument("url")
@click.argument("path", default="")
@click.option("--remove", is_flag=True, help="Remove damaged chunks, and keep no copy of them.")
@click.option("--missing", is_flag=True, help="Have missing chunks written again, too.")
@storage_option()
@one_line
def repair(url: str, path: str, *, remove: bool, missing: bool, options: dict[str, Any]) -> None:
    r"""Take the damaged chunks of the array at URL away.

    They go into the folder .quarantine beside the others, and read as the fill value from then
    on. The array is marked: to_n5(..., resume=True) with the same values, or copy --resume from
    the same source, writes exactly these chunks again.

    \b
    Examples:
      xarray-n5 repair cells.n5/raw
      xarray-n5 repair copy.n5 raw && xarray-n5 copy cells.n5/raw copy.n5/raw --resume
    """
    from xarray_n5.integrity import repair as mend

    container, inner = split_place(url, path)
    found = mend(
        container,
        inner,
        how="remove" if remove else "quarantine",
        missing=missing,
        storage_options=for_url(container, options),
    )
    count = found.attrs["repaired"]
    where = "removed" if remove else "moved into .quarantine"
    click.echo(f"{count} damaged chunk{'s' * (count != 1)} {where}")
