"""`digest`: one short string for the values of arrays."""

from __future__ import annotations

import json

import click

from xarray_n5_cli.arguments import Options, on_node
from xarray_n5_cli.errors import echo
from xarray_n5_cli.options import computing


@click.command()
@click.option("--each", is_flag=True, help="Print the digest of each array, too, with its path.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for programs.")
@computing
@on_node()
def digest(url: str, path: str, *, each: bool, as_json: bool, options: Options) -> None:
    """Print a digest of the values of the array at URL, or of all arrays in a group.

    Arrays of the same type, shape and values have the same digest, in any format, with any chunks
    and compression. It finds damage, not forgery. With --json, the digest of the whole is
    digest, and arrays has those of the arrays by path.

    \b
    Examples:
      xarray-n5 digest cells.n5
      xarray-n5 digest cells.zarr/raw
      xarray-n5 digest em.n5 --each --workers 8
    """
    from xarray_n5.arrays.walk import Walk
    from xarray_n5.integrity.digest import digest_of, digests_by_path
    from xarray_n5_cli.progress import task_progress

    walk = Walk.at(url, path, options, whole=True)
    with task_progress():
        digests = digests_by_path(walk)
    whole = digest_of(digests)
    if as_json:
        click.echo(json.dumps({"digest": whole, "arrays": digests}, indent=2))
        return
    for name, found in digests.items() if each else ():
        echo(f"{found}  {name or '/'}")
    echo(whole)
