"""`doctor`: compare what other programs make of a container, and make them agree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from xarray_n5.cli.arguments import Name, Options, on_node
from xarray_n5.cli.errors import echo, format_error, ignore_unfinished_writes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.doctor.api import Examined
    from xarray_n5.doctor.readers.compare import Comparison

_WORDS = {"unread": "not read", "silent": "no axes"}


def _dialects() -> Iterable[str]:
    from xarray_n5.dialects import DIALECTS

    return DIALECTS


@click.command()
@click.option("--fix", is_flag=True, help="Write the attributes that make the programs agree.")
@click.option("--dry-run", is_flag=True, help="Show what --fix would write; write nothing.")
@click.option(
    "--dialect",
    type=Name("dialect", _dialects),
    help="The dialect that is right if several contradict each other.",
)
@click.option("--levels", is_flag=True, help="Show the axes of all levels, not of the first only.")
@click.option(
    "--all", "whole", is_flag=True, help="Show programs that cannot read the images, too."
)
@on_node()
def doctor(
    url: str,
    path: str,
    *,
    fix: bool,
    dry_run: bool,
    dialect: str | None,
    levels: bool,
    whole: bool,
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
    from xarray_n5.doctor.api import diagnose_images, write

    ignore_unfinished_writes()
    found = diagnose_images(url, path, dialect=dialect, storage_options=options)
    for each in found.images:
        for line in _report(each, whole=whole, levels=levels, fix=fix or dry_run):
            echo(line)
        if fix and not dry_run:
            write(found.source, each, options)
    for finding in found.findings:
        echo(f"damage: {format_error(str(finding))}")
    if fix and not dry_run:
        found = diagnose_images(url, path, storage_options=options)
    if not found.is_healthy:
        raise click.exceptions.Exit(1)


def _report(found: Examined, *, whole: bool, levels: bool, fix: bool) -> Iterator[str]:
    """Iterate over the lines about an image."""
    from xarray_n5.arrays.describe import times
    from xarray_n5.doctor.readers import READERS
    from xarray_n5.doctor.readers.compare import reason_of
    from xarray_n5.doctor.readers.fix import NO_AXES

    image = found.image
    names = image.names if image.grouped else ()
    shape = times(image.levels[0].context.shape)
    listed = f", levels {', '.join(names)}" if names else ""
    yield f"{image.path or '/'}  {image.format}, {shape}{listed}"
    if not whole and all(each.verdict in _WORDS for each in found.comparisons):
        yield f"    {NO_AXES}"
        return
    shown = [each for each in found.comparisons if whole or each.verdict != "unread"]
    rows = [row for each in shown for row in _rows(each, names, levels=levels)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "    " + "  ".join(f"{cell:{width}}" for cell, width in cells).rstrip()
    for each in shown:
        if reason := reason_of(each, image, found.expected):
            but = "agrees, but " if each.verdict == "agrees" else ""
            yield f"    {READERS[each.reader].title}: {but}{reason}"
    yield from (f"    {line}" for line in _advice(found, fix=fix))


def _rows(
    comparison: Comparison, names: Sequence[str], *, levels: bool
) -> Iterator[tuple[str, ...]]:
    """Iterate over a program's lines: its name, its verdict, a level, the axes, the attributes."""
    from xarray_n5.doctor.readers import READERS
    from xarray_n5.doctor.readers.compare import summary

    first = (READERS[comparison.reader].title, _WORDS.get(comparison.verdict, comparison.verdict))
    shown = comparison.readings if levels else comparison.readings[:1]
    for number, reading in enumerate(shown):
        name = names[number] if names and levels else ""
        said = f"({reading.attribute})" if reading.attribute else ""
        yield *(first if number == 0 else ("", "")), name, summary(reading), said


def _advice(found: Examined, *, fix: bool) -> Iterator[str]:
    """Iterate over what to do, or over the changes."""
    if found.agrees:
        return
    if found.plan is None:
        yield format_error(found.obstacle)
        return
    if fix:
        for change in found.plan.changes:
            yield f"{change.path or '/'}:"
            for key in sorted({*change.before, *change.after}):
                if key in change.before:
                    yield f"  - {key}: {json.dumps(change.before[key], ensure_ascii=False)}"
                if key in change.after:
                    yield f"  + {key}: {json.dumps(change.after[key], ensure_ascii=False)}"
    elif found.plan.changes:
        gained = _titles(found.plan.gained)
        yield f"--fix makes {gained} agree; --fix --dry-run shows the changes"
    if found.plan.left:
        yield f"no attributes make {_titles(found.plan.left)} agree"


def _titles(names: Sequence[str]) -> str:
    from xarray_n5.doctor.readers import READERS

    *others, last = (READERS[name].title for name in names)
    return f"{', '.join(others)} and {last}" if others else last
