"""`digest`: one short string for the values of arrays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from xarray_n5.cli.arguments import on_node
from xarray_n5.cli.errors import echo
from xarray_n5.cli.options import computing

if TYPE_CHECKING:
    from xarray_n5.cli.arguments import Options


@click.command()
@click.option("--each", is_flag=True, help="Print the digest of each array, too, with its path.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@computing
@on_node()
def digest(url: str, path: str, *, each: bool, as_json: bool, options: Options) -> None:
    """Print a digest of the values of the array at URL, or of all arrays in a group.

    Arrays of the same type, shape and values have the same digest, in any format, with any chunks
    and compression. It finds damage, not forgery. Of a project of BigDataViewer, given by its XML,
    the digest is that of the container. With --json, the digest of the whole is digest, and arrays
    has those of the arrays by path.

    \b
    Examples:
      xarray-n5 digest cells.n5
      xarray-n5 digest cells.zarr/raw
      xarray-n5 digest em.n5 --each --workers 8
    """
    from xarray_n5.arrays.open import Walk
    from xarray_n5.cli.progress import task_progress
    from xarray_n5.formats.containers import find_scene
    from xarray_n5.integrity.digest import digest_of, digests_by_path

    scene = find_scene(url, options)
    place: Any = (url, path, options)
    if scene is not None:
        place = (scene.container(options), path, None)
    walk = Walk.at(*place, whole=True)
    with task_progress():
        digests = dict(sorted(digests_by_path(walk).items()))
    whole = digest_of(digests)
    if as_json:
        click.echo(json.dumps({"digest": whole, "arrays": digests}, indent=2))
        return
    for name, value in digests.items() if each else ():
        echo(f"{value}  {name or '/'}")
    echo(whole)
