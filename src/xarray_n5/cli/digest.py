"""`digest`: one short string for the values of arrays."""

from __future__ import annotations

import json
from typing import Any

import click

from xarray_n5.cli.arguments import for_url, split_url, storage_option
from xarray_n5.cli.errors import echo, redact
from xarray_n5.cli.options import computing


def _nodes(_: object, __: object, words: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return URLs and paths; a word that names no container is the PATH in the one before."""
    found: list[tuple[str, str]] = []
    for word in words:
        is_url = "://" in word or word.lower().endswith(".xml")
        if not found or is_url or split_url(f"{word}/")[0] != f"{word}/":
            found.append(split_url(word))
        elif found[-1][1]:
            raise click.BadParameter(f"{word!r} follows a path; expected another container")
        else:
            found[-1] = found[-1][0], word
    return found


@click.command()
@click.option("--each", is_flag=True, help="Print the digest of each array, too, with its path.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@computing
@storage_option()
@click.argument(
    "nodes",
    nargs=-1,
    required=True,
    metavar="URL [PATH] [URL [PATH]]...",
    callback=_nodes,
    type=click.Path(),
)
def digest(
    nodes: list[tuple[str, str]], *, each: bool, as_json: bool, options: dict[str, Any]
) -> None:
    """Print a digest of the values of the array at URL, or of all arrays in a group.

    Arrays of the same type, shape and values have the same digest, in any format, with any chunks
    and compression. It finds damage, not forgery. With several URLs, which must have the suffix of
    a container, print whether all digests are equal; if not, the exit code is 1, and --each
    names the arrays that differ. Of a project of BigDataViewer, given by its XML, the digest is
    that of the container. With --json, the digest of the whole is digest, and arrays has those of
    the arrays by path; several URLs make a list of such objects, with url and path.

    \b
    Examples:
      xarray-n5 digest cells.n5
      xarray-n5 digest cells.zarr/raw
      xarray-n5 digest cells.n5 cells.zarr
      xarray-n5 digest em.n5 --each --workers 8
    """
    from xarray_n5.arrays.walk import Walk
    from xarray_n5.cli.progress import task_progress
    from xarray_n5.formats.containers import find_scene
    from xarray_n5.integrity.digest import digest_of, digests_by_path

    remote = any("://" in url for url, _ in nodes)
    objects: list[dict[str, Any]] = []
    for url, path in nodes:
        own = {} if remote and "://" not in url else options  # they are for the other URLs
        scene = find_scene(url, for_url(url, own))
        opened: Any = (url, path, for_url(url, own))
        if scene is not None:
            opened = (scene.container(own), path, None)
        walk = Walk.at(*opened, whole=True)
        with task_progress():
            digests = dict(sorted(digests_by_path(walk).items()))
        whole = digest_of(digests)
        objects.append({"url": redact(url), "path": path, "digest": whole, "arrays": digests})
        if as_json:
            continue
        for name, found in digests.items() if each else ():
            echo(f"{found}  {name or '/'}")
        echo(whole if len(nodes) == 1 else f"{whole}  {redact(url)}{f'/{path}' if path else ''}")
    if as_json:
        alone = {key: objects[0][key] for key in ("digest", "arrays")}
        click.echo(json.dumps(objects if len(nodes) > 1 else alone, indent=2))
    equal = len({found["digest"] for found in objects}) == 1
    if len(nodes) > 1 and not as_json:
        first, *others = (found["arrays"].items() for found in objects)
        names = sorted({name for other in others for name, _ in first ^ other if name})
        listed = f": {', '.join(names)}" if each and names else ""
        echo("equal" if equal else f"different{listed}")
    if not equal:
        click.get_current_context().exit(1)
