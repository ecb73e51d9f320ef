"""`view`: show a container in Neuroglancer."""

from __future__ import annotations

import threading

import click

from xarray_n5.cli.arguments import Options, on_node
from xarray_n5.cli.errors import echo


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
    url: str,
    path: str,
    *,
    labels: bool | None,
    link: bool | None,
    browser: bool,
    address: str,
    port: int,
    seconds: float | None,
    options: Options,
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

    shown = serve(
        url,
        path,
        labels=labels,
        link=link,
        address=address,
        port=port,
        storage_options=options,
    )
    with shown:
        echo(shown.url)
        if browser:
            click.launch(page_of(shown))
        if shown.running:
            try:
                threading.Event().wait(seconds)
            except KeyboardInterrupt:
                echo("stopped", err=True)
