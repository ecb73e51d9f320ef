"""`verify`: whether all chunks are whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from xarray_n5_cli.failing import one_line, say, say_unfinished_elsewhere, told_of
from xarray_n5_cli.places import files, for_url, split_place, storage_option

if TYPE_CHECKING:
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.walk import Found

_SHOWN = 10
"""How many damaged chunks, and how many stray files, of an array are named."""

_HARMLESS = ("ok", "missing")


@click.command()
@click.argument("url", shell_complete=files)
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
    """Look at each chunk of each array at URL, or at PATH in it.

    A chunk that was never stored is "missing", which is no damage. With --json each array has its
    path, chunks (how many in each state), damaged (their keys), stray files, unfinished writes,
    whether digests were kept, and the error where it cannot be looked at. The exit code is 1 where
    a chunk is damaged, a write has not ended, an array cannot be read, or there is none.

    \b
    Examples:
      xarray-n5 verify cells.n5
      xarray-n5 verify /data/em.n5/s0 --quick --json
    """
    from xarray_n5.arrays.walk import Walk
    from xarray_n5.errors import NodeNotFoundError

    say_unfinished_elsewhere()
    container, inner = split_place(url, path)
    walk = Walk.at(container, inner, for_url(container, options), whole=True)
    reports = [_report(found, deep=deep) for found in walk.arrays()]
    if as_json:
        click.echo(json.dumps(reports, indent=2))
    else:
        _show(reports)
    if not reports:
        why = "there is nothing to verify: is that the right place?"
        raise NodeNotFoundError(walk.store.url, walk.root.path, "array", why)
    for problem in _problems(reports):
        say(problem, err=True)
    if any(map(_is_bad, reports)):
        raise click.exceptions.Exit(1)


def _report(found: Found, *, deep: bool) -> dict[str, Any]:
    """Return what is found of an array, or why it cannot be looked at."""
    from xarray_n5.arrays.array import Array

    report: dict[str, Any] = {"path": found.path, "chunks": {}, "damaged": {}, "stray": []}
    report |= {"unfinished": [], "digests": False, "error": None}
    if not isinstance(found.node, Array):
        return report | {"error": told_of(found.problem)}
    try:
        return report | _facts(found.node, deep=deep)
    except (OSError, ValueError) as error:
        return report | {"error": told_of(str(error))}


def _facts(array: Array, *, deep: bool) -> dict[str, Any]:
    import numpy as np

    from xarray_n5.arrays.repr import times
    from xarray_n5.integrity.report import look
    from xarray_n5.writing.chunk_table import MOST

    if array.grid.size > MOST:
        raise ValueError(
            f"not looked at: {times(array.grid.counts)} chunks are more than {MOST}, of which a "
            "report can be held in memory"
        )
    states, about = look(array, deep=deep)
    names, counts = np.unique(states, return_counts=True)
    damaged = [tuple(map(int, at)) for at in np.argwhere(~np.isin(states, _HARMLESS))]
    return {
        "chunks": dict(zip(names.tolist(), counts.tolist(), strict=True)),
        "damaged": {array.chunk_key(at): str(states[at]) for at in damaged},
        "stray": about["stray"],
        "unfinished": about["unfinished"],
        "digests": about["digests"],
    }


def _is_bad(report: dict[str, Any]) -> bool:
    return bool(report["damaged"] or report["unfinished"] or report["error"])


def _show(reports: list[dict[str, Any]]) -> None:
    from xarray_n5.model.paths import join

    width = max((len(report["path"] or "/") for report in reports), default=0)
    for report in reports:
        say(f"{report['path'] or '/':{width}}  {report['error'] or _counts(report)}")
        _some([f"{state}: {key}" for key, state in report["damaged"].items()])
        _some([f"stray: {join(report['path'], key)}" for key in report["stray"]])


def _counts(report: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in report["chunks"].items())
    more = [
        counted(len(report[key]), thing)
        for key, thing in (("stray", "stray file"), ("unfinished", "unfinished write"))
        if report[key]
    ]
    more += ["digests kept"] if report["digests"] else []
    return "; ".join([counts or "no chunks", *more])


def _some(lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        say(f"    {line}")
    if len(lines) > _SHOWN:
        say(f"    ... and {len(lines) - _SHOWN} more")


def _problems(reports: list[dict[str, Any]]) -> list[str]:
    """Return a line for each kind of problem, which says what to do."""
    found = []
    for key, problem in (
        ("damaged", "damaged chunks: xarray-n5 repair takes these away, to be written again"),
        ("unfinished", "unfinished writes: --resume goes on with these"),
        ("error", "not been verified"),
    ):
        if count := sum(bool(report[key]) for report in reports):
            of = counted(len(reports), "array")
            found.append(f"{count} of {of} {'has' if count == 1 else 'have'} {problem}")
    return found


def counted(count: int, thing: str) -> str:
    """Return a number of things.

    >>> counted(1, "chunk"), counted(0, "chunk")
    ('1 chunk', '0 chunks')
    """
    return f"{count} {thing}{'s' * (count != 1)}"
