"""`verify`: whether all chunks are whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from xarray_n5.cli.failing import one_line
from xarray_n5.cli.places import for_url, split_place, storage_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.array import Array
    from xarray_n5.group import Group

_SHOWN = 10
"""How many damaged chunks of an array are named."""

_HARMLESS = ("ok", "missing")


@click.command()
@click.argument("url")
@click.argument("path", default="")
@click.option(
    "--deep/--quick",
    default=True,
    help="Decode all chunks and compare digests (the default), or look at headers and sizes only.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for programs.")
@storage_option()
@one_line
def verify(url: str, path: str, *, deep: bool, as_json: bool, options: dict[str, Any]) -> None:
    r"""Look at each chunk of each array at URL, or at PATH in it.

    A chunk that was never stored is "missing", which is no damage. With --json each array has its
    path, chunks (how many in each state), damaged (their keys), stray files, unfinished writes,
    and whether digests were kept. The exit code is 1 where a chunk is damaged.

    \b
    Examples:
      xarray-n5 verify cells.n5
      xarray-n5 verify /data/em.n5/s0 --quick --json
    """
    from xarray_n5.group import open_node

    container, inner = split_place(url, path)
    node = open_node(container, inner, storage_options=for_url(container, options))
    reports = [_report(array, deep=deep) for array in arrays_of(node)]
    if as_json:
        click.echo(json.dumps(reports, indent=2))
    else:
        _show(reports)
    if any(report["damaged"] for report in reports):
        raise click.exceptions.Exit(1)


def arrays_of(node: Array | Group) -> Iterator[Array]:
    """Iterate over an array, or over all that are in a group and its groups; strict."""
    from xarray_n5.array import Array

    if isinstance(node, Array):
        yield node
        return
    for _, child in sorted(node.nodes(node, strict=True).items()):
        yield from arrays_of(child)


def _report(array: Array, *, deep: bool) -> dict[str, Any]:
    import numpy as np

    from xarray_n5.integrity import verify as look

    found = look(array.container, array.path, deep=deep).compute()
    states = found["state"].to_numpy()
    names, counts = np.unique(states, return_counts=True)
    damaged = [tuple(map(int, at)) for at in np.argwhere(~np.isin(states, _HARMLESS))]
    return {
        "path": array.path,
        "chunks": dict(zip(names.tolist(), counts.tolist(), strict=True)),
        "damaged": {array.chunk_key(at): str(states[at]) for at in damaged},
        "stray": found.attrs["stray"],
        "unfinished": found.attrs["unfinished"],
        "digests": found.attrs["digests"],
    }


def _show(reports: list[dict[str, Any]]) -> None:
    width = max((len(report["path"] or "/") for report in reports), default=0)
    for report in reports:
        counts = ", ".join(f"{count} {state}" for state, count in report["chunks"].items())
        more = [
            f"{len(report[key])} {text}"
            for key, text in (("stray", "stray files"), ("unfinished", "unfinished writes"))
            if report[key]
        ]
        more += ["digests kept"] if report["digests"] else []
        text = "; ".join([counts or "no chunks", *more])
        click.echo(f"{report['path'] or '/':{width}}  {text}")
        for key, state in list(report["damaged"].items())[:_SHOWN]:
            click.echo(f"    {state}: {key}")
        if len(report["damaged"]) > _SHOWN:
            click.echo(f"    ... and {len(report['damaged']) - _SHOWN} more")
    bad = sum(bool(report["damaged"]) for report in reports)
    if bad:
        click.echo(f"{bad} of {len(reports)} arrays have damaged chunks", err=True)
