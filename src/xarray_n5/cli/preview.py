"""`preview`: draw a section through a volume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xarray_n5.cli.arguments import Options, multisets_option, on_node, order_option
from xarray_n5.cli.errors import echo

_KINDS = (".png", ".jpg", ".jpeg", ".pdf", ".svg", ".tif", ".tiff", ".webp")
"""The suffixes of pictures."""


def _picture(_: object, __: object, given: tuple[Path, ...]) -> Path:
    """Return the path of the picture; -o sets storage options in other commands."""
    hint = "-o is the output file here; use --storage-option for storage options"
    if len(given) > 1:
        raise click.BadParameter(f"expected one picture, got {', '.join(map(str, given))}; {hint}")
    (picture,) = given
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
    multiple=True,
    callback=_picture,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help=f"The output file, which ends in {', '.join(_KINDS)}.",
)
@click.option("--axis", help="The axis to cut across; by default z, or the third from last.")
@click.option("--index", "--z", type=int, help="Where to cut: an index at the finest level.")
@click.option("--at", type=float, help="Where to cut: a coordinate in the axis's unit.")
@click.option(
    "--pixels",
    type=click.IntRange(16),
    default=800,
    show_default=True,
    help="The length of the longer side, in pixels.",
)
@click.option(
    "--percentile",
    type=(float, float),
    default=(0.1, 99.9),
    show_default=True,
    help="The percentiles of values that are drawn black and white.",
)
@click.option(
    "--labels/--no-labels",
    default=None,
    help="Draw each label in its own colour; the default for uint64 and Paintera's labels.",
)
@multisets_option("argmax")
@order_option
@on_node(flags=("--storage-option",))
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
    options: Options,
    **opening: Any,
) -> None:
    """Draw a section through the array or pyramid at URL, with a scale bar.

    For a pyramid, the coarsest level with as many samples as the picture has pixels is read. For a
    container or project of BigDataViewer, the first timepoint and setup are drawn; for a dataset of
    Paintera, its data. Pictures smaller than 64 pixels have no scale bar.

    \b
    Examples:
      xarray-n5 preview cells.n5/raw -o raw.png
      xarray-n5 preview em.n5/raw -o em.png --at 12.5 --axis z --pixels 1200
    """
    if index is not None and at is not None:
        raise click.UsageError("--index and --at exclude each other; use one of them")
    if not 0 <= percentile[0] < percentile[1] <= 100:  # noqa: PLR2004 - per cent
        raise click.BadParameter("expected two numbers from 0 to 100, the smaller one first")
    from xarray_n5.arrays.open import open_node
    from xarray_n5.formats.containers import find_scene
    from xarray_n5.leaves import scene_in
    from xarray_n5.viewing.pictures import draw
    from xarray_n5.viewing.sections import section

    node: Any
    if (scene := find_scene(url, options)) is None:
        node = open_node(url, path, storage_options=options, **opening)
        scene, path = scene_in(node), ""
    if scene is not None:
        image = next(iter(scene.images(path, options).values()))
        node = [level.first for level in image.levels.values()]
    cut = section(node, axis=axis, index=index, at=at, pixels=pixels)
    draw(cut, output, pixels=pixels, percentile=percentile, labels=labels)
    echo(f"{output}: {cut.title}{'' if cut.stored else '; no chunk is stored here'}")
