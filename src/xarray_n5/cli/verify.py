"""`verify`: check that all chunks are complete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from xarray_n5.cli.arguments import Options, on_node
from xarray_n5.cli.errors import echo, format_error, ignore_unfinished_writes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.open import Entry, Walk
    from xarray_n5.leaves import Scene

_SHOWN = 10
"""The maximum number of damaged chunks and stray files that are named for an array."""

_HARMLESS = ("ok", "missing")


@click.command()
@click.option(
    "--deep/--quick",
    default=True,
    help="Decode all chunks and compare digests (the default), or check headers and sizes only.",
)
@click.option("--strict", is_flag=True, help="Fail if chunks, or views, are missing, too.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for programs.")
@on_node()
def verify(
    url: str, path: str, *, deep: bool, strict: bool, as_json: bool, options: Options
) -> None:
    """Check all chunks of each array at URL, or at PATH in it.

    Of a project of BigDataViewer, given by its XML, the container is checked, and PATH is in it.
    A chunk that was never stored is "missing", which is not damage. With --json, each array has its
    path, chunks (their number in each state), damaged (keys and states), stray files, unfinished
    writes, digests (whether there are any), shards (their shape, or null; they are counted instead
    of chunks), and the error if it cannot be read. The exit code is 1 if a chunk is damaged, a
    write is unfinished, an array cannot be read, or no arrays are found; with --strict, also if a
    chunk, or a view of a project, is missing.

    \b
    Examples:
      xarray-n5 verify cells.n5
      xarray-n5 verify /data/em.n5/s0 --quick --json
      xarray-n5 verify copy.zarr --strict
      xarray-n5 verify dataset.xml
    """
    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.open import Walk
    from xarray_n5.cli.progress import task_progress
    from xarray_n5.errors import NodeNotFoundError
    from xarray_n5.formats.containers import find_scene
    from xarray_n5.integrity.verify import add_groups

    ignore_unfinished_writes()
    scene = find_scene(url, options)
    place = (url, path, options) if scene is None else (scene.container(options), path, None)
    walk = Walk.at(*place, whole=True)
    lost = _lost_images(scene, walk) if strict and scene is not None and not path else ""
    nodes = [*walk.nodes()]
    with task_progress():
        reports = [_report(node, deep=deep) for node in nodes if not isinstance(node.node, Group)]
    unfinished = {report["path"]: report["unfinished"] for report in reports}
    arrays = {*unfinished}
    add_groups(walk, nodes, unfinished)
    groups = sorted(filter(unfinished.get, unfinished.keys() - arrays))
    reports += [_blank(group) | {"unfinished": unfinished[group]} for group in groups]
    if as_json:
        click.echo(json.dumps(reports, indent=2))
    else:
        width = max((len(report["path"] or "/") for report in reports), default=0)
        for report in reports:
            echo(*_lines(report, width))
    if not reports:
        why = "no arrays found; check the URL and the path"
        raise NodeNotFoundError(walk.container.url, walk.root.path, "array", why)
    problems = [*filter(None, (*_problems(reports, strict=strict), lost))]
    for problem in problems:
        echo(problem, err=True)
    if problems:
        raise click.exceptions.Exit(1)


def _lost_images(scene: Scene, walk: Walk) -> str:
    """Return a message about images of a scene that its container lacks, or ""."""
    from xarray_n5.leaves import scene_reader

    if (reader := scene_reader(document := scene.document or b"")) is None:
        return ""
    nodes = {entry.path: entry.node for entry in walk.nodes() if entry.node is not None}
    return reader.missing_images(document, nodes)


def _report(entry: Entry, *, deep: bool) -> dict[str, Any]:
    """Return the report on an array, with the error if it cannot be read."""
    from xarray_n5.arrays.array import Array

    report = _blank(entry.path)
    if not isinstance(entry.node, Array):
        return report | {"error": format_error(entry.problem)}
    try:
        return report | _facts(entry.node, deep=deep)
    except (OSError, ValueError) as error:
        return report | {"error": format_error(error)}


def _blank(path: str) -> dict[str, Any]:
    """Return the report on nothing."""
    report: dict[str, Any] = {"path": path, "chunks": {}, "damaged": {}, "stray": []}
    return report | {"unfinished": [], "digests": False, "error": None, "shards": None}


def _facts(array: Array, *, deep: bool) -> dict[str, Any]:
    import numpy as np

    from xarray_n5.integrity.report import report

    table = report(array, deep=deep).load()
    states = table["state"].to_numpy()
    names, counts = np.unique(states, return_counts=True)
    damaged = [tuple(map(int, at)) for at in np.argwhere(~np.isin(states, _HARMLESS))]
    return {
        "chunks": dict(zip(names.tolist(), counts.tolist(), strict=True)),
        "damaged": {array.node.key(at): str(states[at]) for at in damaged},
        **{key: table.attrs[key] for key in ("stray", "unfinished", "digests")},
        "shards": array.shards,
    }


def _lines(report: dict[str, Any], width: int) -> Iterator[str]:
    """Iterate over the lines about an array."""
    counts = ", ".join(f"{count} {state}" for state, count in report["chunks"].items())
    facts = [(counts or "no chunks") + " (shards)" * (report["shards"] is not None)]
    for key, thing in (("stray", "stray file"), ("unfinished", "unfinished write")):
        facts += [plural(len(report[key]), thing)] if report[key] else []
    facts += ["digests kept"] if report["digests"] else []
    yield f"{report['path'] or '/':{width}}  {report['error'] or '; '.join(facts)}"
    for named in (
        [f"{state}: {key}" for key, state in report["damaged"].items()],
        [f"stray: {report['path']}/{key}".replace(": /", ": ") for key in report["stray"]],
    ):
        yield from (f"    {line}" for line in named[:_SHOWN])
        if len(named) > _SHOWN:
            yield f"    ... and {len(named) - _SHOWN} more"


def _problems(reports: list[dict[str, Any]], *, strict: bool) -> Iterator[str]:
    """Iterate over the kinds of problems, with what to do."""
    total = plural(len(reports), "array")
    for key, problem in (
        ("damaged", "damaged chunks: remove them with xarray-n5 repair, then write them again"),
        ("unfinished", "unfinished writes: repeat them with resume=True or --resume"),
        ("error", "not been verified"),
    ):
        if count := sum(bool(report[key]) for report in reports):
            yield f"{count} of {total} {'has' if count == 1 else 'have'} {problem}"
    if strict and (count := sum("missing" in report["chunks"] for report in reports)):
        yield f"{count} of {total} {'has' if count == 1 else 'have'} missing chunks"
