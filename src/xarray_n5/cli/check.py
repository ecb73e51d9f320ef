"""Commands that find damage: `verify`, `repair`, `digest`, and `doctor` for what programs read."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.describe import times
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import Entry, Walk
from xarray_n5.cli.options import (
    Options,
    computing,
    echo,
    format_error,
    ignore_unfinished_writes,
    on_node,
    plural,
)
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats.containers import find_scene

if TYPE_CHECKING:
    from collections.abc import Iterator


_SHOWN = 10
"""The maximum number of damaged chunks and stray files that are named for an array."""

_WORDS = {"unread": "not read", "silent": "no axes"}
"""Verdicts about programs, in other words."""


def _walk(url: str, path: str, options: Options) -> Walk:
    """Return a walk over a container, or over that of a project."""
    if (scene := find_scene(url, options)) is None:
        return Walk.at(url, path, options, whole=True)
    return Walk.at(scene.container(options), path, None, whole=True)


def _progress() -> contextlib.AbstractContextManager[Any]:
    """Show the number of Dask's finished tasks, if stderr is a terminal."""
    from dask.diagnostics.progress import ProgressBar

    if not sys.stderr.isatty():
        return contextlib.nullcontext()
    return ProgressBar(minimum=1, out=sys.stderr)


@click.command()
@click.option(
    "--deep/--quick",
    default=True,
    help="Decode all chunks and compare digests (the default), or check headers and sizes only.",
)
@click.option("--strict", is_flag=True, help="Fail if chunks are missing, too.")
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
    chunk is missing.

    \b
    Examples:
      xarray-n5 verify cells.n5
      xarray-n5 verify /data/em.n5/s0 --quick --json
      xarray-n5 verify copy.zarr --strict
      xarray-n5 verify dataset.xml
    """
    from xarray_n5.integrity.verify import add_groups

    ignore_unfinished_writes()
    walk = _walk(url, path, options)
    nodes = [*walk.nodes()]
    with _progress():
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
    problems = [*_problems(reports, strict=strict)]
    for problem in problems:
        echo(problem, err=True)
    if problems:
        raise click.exceptions.Exit(1)


def _report(entry: Entry, *, deep: bool) -> dict[str, Any]:
    """Return the report on an array, with the error if it cannot be read."""
    from xarray_n5.integrity.report import report

    array = entry.node
    if not isinstance(array, Array):
        return _blank(entry.path) | {"error": format_error(entry.problem)}
    try:
        table = report(array, deep=deep).load()
    except (OSError, ValueError) as error:
        return _blank(entry.path) | {"error": format_error(error)}
    states = table["state"].to_numpy()
    names, counts = np.unique(states, return_counts=True)
    damaged = [tuple(map(int, at)) for at in np.argwhere(~np.isin(states, ["ok", "missing"]))]
    return _blank(entry.path) | {
        "chunks": dict(zip(names.tolist(), counts.tolist(), strict=True)),
        "damaged": {array.node.key(at): str(states[at]) for at in damaged},
        **{key: table.attrs[key] for key in ("stray", "unfinished", "digests")},
        "shards": array.shards,
    }


def _blank(path: str) -> dict[str, Any]:
    """Return the report on nothing."""
    report: dict[str, Any] = {"path": path, "chunks": {}, "damaged": {}, "stray": []}
    return report | {"unfinished": [], "digests": False, "error": None, "shards": None}


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


@click.command()
@click.option("--remove", is_flag=True, help="Delete damaged chunks instead of moving them.")
@click.option("--missing", is_flag=True, help="Mark missing chunks to be written again, too.")
@on_node()
def repair(url: str, path: str, *, remove: bool, missing: bool, options: Options) -> None:
    """Remove the damaged chunks of each array at URL, so that they are written again.

    They are moved to the folder .xn5/quarantine of their array, and read as the fill value. Use
    copy --resume with the same source, or to_n5(..., resume=True) with the same values, to write
    exactly these chunks again. That folder is never read; delete it at any time.

    \b
    Examples:
      xarray-n5 repair cells.n5/raw
      xarray-n5 repair copy.n5 raw && xarray-n5 copy cells.n5/raw copy.n5/raw --resume
    """
    from xarray_n5.integrity.repair import repair as repair_array

    ignore_unfinished_writes()
    walk = Walk.at(url, path, options, whole=True)
    how: Any = "remove" if remove else "quarantine"
    broken = False
    for entry in walk.arrays():
        if isinstance(entry.node, Array):
            container = walk.container.fresh()
            report = repair_array(container, entry.path, how=how, missing=missing)
            done = []
            if count := report.attrs["repaired"]:
                where = "removed" if remove else "moved to .xn5/quarantine"
                done.append(f"{plural(count, 'damaged chunk')} {where}")
            if missing and (count := int((report["state"] == "missing").sum())):
                done.append(f"{plural(count, 'missing chunk')} marked to be written again")
            line = ", ".join(done) or "nothing to repair"
        else:
            broken, line = True, format_error(entry.problem)
        echo(line if isinstance(walk.root, Array) else f"{entry.path or '/'}: {line}")
    if broken:
        raise click.exceptions.Exit(1)


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
    from xarray_n5.integrity.digest import digest_of, digests_by_path

    walk = _walk(url, path, options)
    with _progress():
        digests = dict(sorted(digests_by_path(walk).items()))
    whole = digest_of(digests)
    if as_json:
        click.echo(json.dumps({"digest": whole, "arrays": digests}, indent=2))
        return
    for name, value in digests.items() if each else ():
        echo(f"{value}  {name or '/'}")
    echo(whole)


@click.command()
@click.option("--fix", is_flag=True, help="Write the attributes that make the programs agree.")
@click.option("--dry-run", is_flag=True, help="Show what --fix would write; write nothing.")
@click.option("--dialect", help="The dialect that is right if several contradict each other.")
@on_node()
def doctor(
    url: str,
    path: str,
    *,
    fix: bool,
    dry_run: bool,
    dialect: str | None,
    options: Options,
) -> None:
    """Find damage at URL, or at PATH in it, and compare what other programs read.

    Each program has a line with the axes that it reads: their names, the distance between samples,
    and the position of the first one if it is not 0. Below are the programs that read something
    else or ignore an offset, the reason, and what makes them agree. Damage is looked for in the
    metadata of all nodes and in a sample of chunks. The exit code is 1 if a program disagrees or
    something is damaged; with --fix, if that is still so afterwards.

    \b
    Examples:
      xarray-n5 doctor cells.n5
      xarray-n5 doctor em.n5/raw --fix --dialect cosem --dry-run
    """
    from xarray_n5.doctor import examine

    ignore_unfinished_writes()
    how: dict[str, Any] = {"dialect": dialect, "fix": fix, "dry_run": dry_run}
    examined = examine(url, path, storage_options=options, **how)
    tree = examined if isinstance(examined, xr.DataTree) else xr.DataTree(examined)
    images = [node.to_dataset() for node in tree.subtree if node.data_vars]
    for image in images:
        echo(*_table(image), *_advice(image, fix=fix or dry_run))
    findings = tree.attrs["findings"]
    for finding in findings:
        text = f"{finding['path'] or '/'}: {finding['message']}; {finding['remedy']}"
        echo(f"damage: {format_error(text)}")
    if findings or not all(_agrees(image) for image in images):
        raise click.exceptions.Exit(1)


def _agrees(image: xr.Dataset) -> bool:
    """Return whether no program reads an image in another way, and no dialect contradicts it."""
    return bool(image.agrees.all()) and not image.attrs["contradictions"]


def _table(image: xr.Dataset) -> Iterator[str]:
    """Iterate over the lines about what programs read of an image."""
    is_group = image.array.values.tolist() != [image.attrs["path"]]
    listed = f", levels {', '.join(image.level.values.tolist())}" if is_group else ""
    facts = f"{image.attrs['format']}, {times(image.attrs['shape'])}{listed}"
    yield f"{image.attrs['path'] or '/'}  {facts}"
    width = max(map(len, image.title.values))
    for at, title in enumerate(image.title.values):
        program = image.isel(reader=at, level=0)
        verdict, attribute = program.verdict.item(), program.attribute.item()
        cells = "  ".join(filter(None, [_axes(program), attribute and f"({attribute})"]))
        yield f"    {title:{width}}  {_WORDS.get(verdict, verdict):8}  {cells}".rstrip()
    for title, verdict, reason in zip(
        image.title.values, image.verdict.values, image.reason.values, strict=True
    ):
        if reason and verdict != "unread":
            yield f"    {title}: {'agrees, but ' * (verdict == 'agrees')}{reason}"


def _axes(level: xr.Dataset) -> str:
    """Return the axes of a level as one line, such as "z 40 nm from 20, y 4 nm"."""
    parts = []
    columns = (level[key].values for key in ("name", "scale", "offset", "unit"))
    for name, scale, offset, unit in zip(*columns, strict=True) if level.opens else ():
        size = "" if scale != scale else f"{scale:g} {unit}".strip()  # noqa: PLR0124 - NaN
        start = f" from {offset:g}" if size and abs(offset) > 0 else ""
        parts.append(f"{name} {size}{start}".strip() or "-")
    return ", ".join(parts)


def _advice(image: xr.Dataset, *, fix: bool) -> Iterator[str]:
    """Iterate over what to do, or over the changes."""
    from xarray_n5.doctor.fix import NO_AXES

    if set(image.verdict.values) <= {*_WORDS}:
        yield f"    {NO_AXES}"
    elif obstacle := image.attrs["obstacle"]:
        yield f"    {format_error(obstacle)}"
    changes, replaced = image.attrs["changes"], image.attrs["replaced"]
    if changes and not fix:
        yield "    --fix makes more programs agree; --fix --dry-run shows the changes"
    for path, values in changes.items() if fix else ():
        yield f"    {path or '/'}:"
        for key in sorted(values):
            for sign, value in (("-", replaced[path].get(key)), ("+", values[key])):
                if value is not None:
                    yield f"      {sign} {key}: {json.dumps(value, ensure_ascii=False)}"
