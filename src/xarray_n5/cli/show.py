"""Commands that show images: `preview` draws a section, `view` opens Neuroglancer."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import click

from xarray_n5.cli.errors import echo
from xarray_n5.cli.options import Options, on_node

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
def preview(url: str, path: str, *, output: Path, options: Options, **section: Any) -> None:
    """Draw a section through the first image at URL, by default through its middle.

    Of a pyramid, the coarsest level with as many samples as the picture has pixels is read. Other
    axes than those of the section are cut at their first sample.

    \b
    Examples:
      xarray-n5 preview cells.n5/raw -o raw.png
      xarray-n5 preview em.n5/raw -o em.png --at 12.5 --axis z --pixels 1200
    """
    from xarray_n5.viewing.preview import draw

    echo(f"{output}: {draw(url, path, output, storage_options=options, **section)}")


@click.command()
@click.option(
    "--labels/--no-labels",
    default=None,
    help="Show arrays as segmentations; the default for uint64 and for labels.",
)
@click.option(
    "--link/--serve",
    default=None,
    help="Link N5 or Zarr from Neuroglancer's public page, or serve it from this machine; --link "
    "is the default for public URLs.",
)
@click.option("--browser/--no-browser", default=True, help="Open a browser.")
@click.option("--address", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port; by default, any free one."
)
@click.option("--seconds", type=click.FloatRange(0), help="Stop after this many seconds.")
@on_node()
def view(
    url: str, path: str, *, browser: bool, seconds: float | None, options: Options, **how: Any
) -> None:
    """Open the images at URL in Neuroglancer, in a browser.

    Each array with at least two dimensions is a layer; a pyramid, or an image of a project of
    BigDataViewer, is one layer for each channel. The viewer's URL is printed; it is served until
    Ctrl-C. N5 and Zarr on public servers are linked from Neuroglancer's public page instead.

    \b
    Examples:
      xarray-n5 view cells.n5
      xarray-n5 view dataset.xml --no-browser --port 8080
    """
    from xarray_n5.viewing.api import page_of
    from xarray_n5.viewing.api import view as serve

    with serve(url, path, storage_options=options, **how) as shown:
        echo(shown.url)
        if browser:
            click.launch(page_of(shown))
        if shown.running:
            try:
                threading.Event().wait(seconds)
            except KeyboardInterrupt:
                echo("stopped", err=True)
