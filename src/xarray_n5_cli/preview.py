"""`preview`: a section through a volume, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xarray_n5_cli.failing import one_line, say
from xarray_n5_cli.places import files, for_url, split_place, storage_option

_KINDS = (".png", ".jpg", ".jpeg", ".pdf", ".svg", ".tif", ".tiff", ".webp")
"""What pictures are called."""


def _picture(_: object, __: object, given: tuple[Path, ...]) -> Path:
    """Return the picture, which is named once: -o means something else in other commands."""
    hint = "-o is the picture here, and storage options stand behind --storage-option"
    if len(given) > 1:
        raise click.BadParameter(f"{', '.join(map(str, given))} are more than one; {hint}")
    (place,) = given
    if place.suffix.lower() not in _KINDS:
        raise click.BadParameter(f"'{place}' is not called *{', *'.join(_KINDS)}; {hint}")
    if not place.parent.is_dir():
        raise click.BadParameter(f"the folder '{place.parent}' does not exist")
    return place


@click.command()
@click.argument("url", shell_complete=files)
@click.argument("path", default="")
@click.option(
    "-o",
    "--output",
    required=True,
    multiple=True,
    callback=_picture,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="The picture: .png, .jpg, .pdf, .svg.",
)
@click.option("--axis", help="The axis that is cut; z, or the third from the end.")
@click.option("--index", "--z", type=int, help="Where it is cut: a sample of the finest level.")
@click.option("--at", type=float, help="Where it is cut: a place, in the axis's unit.")
@click.option(
    "--pixels",
    type=click.IntRange(16),
    default=800,
    show_default=True,
    help="Length of the longer side.",
)
@click.option(
    "--percentile",
    type=(float, float),
    default=(0.1, 99.9),
    show_default=True,
    help="What is black, and what is white.",
)
@click.option(
    "--labels/--no-labels", default=None, help="One colour per label; default for uint64."
)
@storage_option(flags=("--storage-option",))
@one_line
def preview(
    url: str,
    path: str,
    *,
    output: Path,
    axis: str | None,
    index: int | None,
    at: float | None,
    pixels: int,
    percentile: tuple[float, float],
    labels: bool | None,
    options: dict[str, Any],
) -> None:
    """Draw a section through the array or pyramid at URL, with a scale bar.

    Of a pyramid, the coarsest level is read that has as many samples as the picture has pixels. Of
    a container of BigDataViewer, the first timepoint and setup are drawn. Pictures of less than 64
    pixels have no scale bar.

    \b
    Examples:
      xarray-n5 preview cells.n5/raw -o raw.png
      xarray-n5 preview em.n5/raw -o em.png --at 12.5 --axis z --pixels 1200
    """
    if index is not None and at is not None:
        raise click.UsageError("--index and --at both say where to cut; give one of them")
    if not 0 <= percentile[0] < percentile[1] <= 100:  # noqa: PLR2004 - per cent
        raise click.BadParameter("two numbers from 0 to 100 are needed, the smaller one first")
    from xarray_n5.arrays.group import open_node
    from xarray_n5.views.pictures import draw
    from xarray_n5.views.sections import section

    container, inner = split_place(url, path)
    node = open_node(container, inner, storage_options=for_url(container, options))
    cut = section(node, axis=axis, index=index, at=at, pixels=pixels)
    draw(cut, output, pixels=pixels, percentile=percentile, labels=labels)
    say(f"{output}: {cut.title}{'' if cut.stored else '; no chunk is stored here'}")
