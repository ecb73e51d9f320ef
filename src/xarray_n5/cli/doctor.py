"""`doctor`: compare what other programs read of a container, and make them agree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from xarray_n5.cli.arguments import Options, on_node
from xarray_n5.cli.errors import echo, format_error, ignore_unfinished_writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.doctor.api import Examined
    from xarray_n5.doctor.fix import Change
    from xarray_n5.doctor.readers import Reading

_WORDS = {"unread": "not read", "silent": "no axes"}


@click.command()
@click.option("--fix", is_flag=True, help="Write the attributes that make the programs agree.")
@click.option("--dry-run", is_flag=True, help="Show what --fix would write; write nothing.")
@click.option("--dialect", help="The dialect that is right if several contradict each other.")
@click.option("--levels", is_flag=True, help="Show the axes of all levels, not of the first only.")
@on_node()
def doctor(
    url: str,
    path: str,
    *,
    fix: bool,
    dry_run: bool,
    dialect: str | None,
    levels: bool,
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
    from xarray_n5.doctor.api import apply_fixes, diagnose_images

    ignore_unfinished_writes()
    diagnosis = diagnose_images(url, path, dialect=dialect, storage_options=options)
    for image in diagnosis.images:
        echo(*_report(image, levels=levels, fix=fix or dry_run))
    for finding in diagnosis.findings:
        echo(f"damage: {format_error(str(finding))}")
    if fix and not dry_run:
        diagnosis = apply_fixes(diagnosis, url, path, options)
    if not diagnosis.is_healthy:
        raise click.exceptions.Exit(1)


def _report(examined: Examined, *, levels: bool, fix: bool) -> Iterator[str]:
    """Iterate over the lines about an image."""
    from xarray_n5.arrays.describe import times
    from xarray_n5.doctor.compare import READERS

    image = examined.image
    names = image.names if image.grouped else ("",)
    listed = f", levels {', '.join(names)}" if image.grouped else ""
    yield f"{image.path or '/'}  {image.format}, {times(image.levels[0].context.shape)}{listed}"
    width = max(len(READERS[program.reader].title) for program in examined.comparisons)
    for program in examined.comparisons:
        head = READERS[program.reader].title, _WORDS.get(program.verdict, program.verdict)
        for name, reading in zip(names, program.readings, strict=True):
            attribute = f"({reading.attribute})" if reading.attribute else ""
            cells = (name if levels and reading.opens else "", _summary(reading), attribute)
            line = f"    {head[0]:{width}}  {head[1]:8}  {'  '.join(filter(None, cells))}"
            yield line.rstrip()
            head = "", ""
            if not (levels and reading.opens):
                break
    for program in examined.comparisons:
        if program.reason and program.verdict != "unread":
            but = "agrees, but " if program.verdict == "agrees" else ""
            yield f"    {READERS[program.reader].title}: {but}{program.reason}"
    yield from (f"    {line}" for line in _advice(examined, fix=fix))


def _summary(reading: Reading) -> str:
    """Return the axes of a level as one line, such as "z 40 nm from 20, y 4 nm"."""
    from xarray_n5.doctor.compare import size_of

    parts = []
    for axis in reading.axes or ():
        start = f" from {axis.offset:g}" if axis.offset else ""
        size = "" if axis.scale is None else f"{size_of(axis.scale, axis.unit)}{start}"
        parts.append(" ".join(filter(None, [axis.name, size])) or "-")
    return ", ".join(parts)


def _advice(examined: Examined, *, fix: bool) -> Iterator[str]:
    """Iterate over what to do, or over the changes."""
    from xarray_n5.doctor.fix import NO_AXES

    if all(program.verdict in _WORDS for program in examined.comparisons):
        yield NO_AXES
    if examined.agrees:
        return
    if examined.plan is None:
        yield format_error(examined.obstacle)
        return
    if fix:
        for change in examined.plan.changes:
            yield from _difference(change)
    elif examined.plan.changes:
        gained = _titles(examined.plan.gained) or "all dialects"
        yield f"--fix makes {gained} agree; --fix --dry-run shows the changes"
    if examined.plan.left:
        yield f"no attributes make {_titles(examined.plan.left)} agree"


def _difference(change: Change) -> Iterator[str]:
    """Iterate over the lines of the attributes of one node that change."""
    yield f"{change.path or '/'}:"
    for key in sorted({*change.before, *change.after}):
        if key in change.before:
            yield f"  - {key}: {json.dumps(change.before[key], ensure_ascii=False)}"
        if key in change.after:
            yield f"  + {key}: {json.dumps(change.after[key], ensure_ascii=False)}"


def _titles(names: Sequence[str]) -> str:
    from xarray_n5.doctor.compare import READERS

    return " and ".join(READERS[name].title for name in names)
