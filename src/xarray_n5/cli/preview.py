"""`preview`: draw a section through a volume."""

from __future__ import annotations

from pathlib import Path

import click

from xarray_n5.cli.arguments import Options, on_node
from xarray_n5.cli.errors import echo

_KINDS = (".png", ".jpg", ".jpeg", ".pdf", ".svg", ".tif", ".tiff", ".webp")
"""The suffixes of pictures."""


def _picture(_: object, __: object, picture: Path) -> Path:
    """Return the path of the picture; -o sets storage options in other commands."""
    hint = "-o is the output file here; use --storage-option for storage options"
    if picture.suffix.lower() not in _KINDS:
        raise click.BadParameter(f"'{picture}' does not end in {', '.join(_KINDS)}; {hint}")
    if not picture.parent.is_dir():
        raise click.BadParameter(f"the folder '{picture.parent}' does not exist")
    return picture


@click.command()
@click.option(
    "-o",
    "--output",
    required=True,
    callback=_picture,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help=f"The output file, which ends in {', '.join(_KINDS)}.",
)
@click.option("--axis", help="The axis to cut across; by default z, or the third from last.")
@click.option("--at", type=float, help="Where to cut: a coordinate in the axis's unit.")
@click.option(
    "--pixels",
    type=click.IntRange(16),
    default=800,
    show_default=True,
    help="The length of the longer side, in pixels.",
)
@on_node(flags=("--storage-option",))
def preview(
    url: str,
    path: str,
    *,
    output: Path,
    axis: str | None,
    at: float | None,
    pixels: int,
    options: Options,
) -> None:
    """Draw a section through the first image at URL, by default through its middle.

    Of a pyramid, the coarsest level with as many samples as the picture has pixels is read. Other
    axes than those of the section are cut at their first sample.

    \b
    Examples:
      xarray-n5 preview cells.n5/raw -o raw.png
      xarray-n5 preview em.n5/raw -o em.png --at 12.5 --axis z --pixels 1200
    """
    from xarray_n5.viewing.preview import draw

    title = draw(url, path, output, axis=axis, at=at, pixels=pixels, storage_options=options)
    echo(f"{output}: {title}")
