"""Makes docs/errors.md of the docstrings of the errors and of their messages in the tests."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from pathlib import Path

from xarray_n5 import errors

ROOT = Path(__file__).parents[1]

PAGE = ROOT / "docs" / "errors.md"

MESSAGES = ROOT / "tests" / "docs" / "messages.json"

TEXT = """\
# Errors and warnings

Every error about a container is an `N5Error`, and also the builtin that one would catch. Its facts
are attributes (`error.key`, `error.url`), even if a worker raised it. Messages are safe to print:
control characters in names and units are escaped, long messages are shortened, and credentials are
not shown. An invalid argument is a plain `ValueError`, `TypeError` or `IndexError`, as in NumPy and
xarray.

## Errors

Seven are in `xarray_n5`, all in `xarray_n5.errors`.

{errors}

Their messages look like these (`…` differs from run to run):

```text
{messages}
```

## Warnings

Warnings are `UserWarning`s; those about tasks are Dask's `PerformanceWarning`. They do not change
the data that is read, and refer to the line of your program that caused them. Silence them like any
other:

```python
import warnings

warnings.filterwarnings("ignore", message=".*metadata disagree")
```

{warnings}
"""


WARNINGS = [
    (
        "axes",
        "two dialects disagree, or metadata is invalid and ignored; opening never fails",
        "pass the right one as `dialect=`, or correct the attribute that the message names",
    ),
    (
        "coordinates",
        "a written coordinate is not evenly spaced, or too long",
        "store it as a variable of a Dataset",
    ),
    (
        "coordinate systems",
        "a transformation of OME-Zarr cannot be applied, or a copy cannot keep it",
        "see [Scenes](howto/scenes.md)",
    ),
    (
        "projects",
        "a view, a level or an attribute of an XML is damaged or missing",
        "correct the XML, or the container",
    ),
    (
        "values",
        "a variable cannot be decoded, or a note of this package was changed",
        "open with `decode_cf=False`",
    ),
    (
        "nodes",
        "an array, a file or consolidated metadata cannot be read; others are opened",
        "open it alone, which raises the error",
    ),
    (
        "writes",
        '`UnfinishedWriteWarning`; `mode="w"` replaces an unfinished write',
        "wait, or repeat the write with [`resume=True`](writing.md#resume)",
    ),
    (
        "tasks",
        "blocks cut stored chunks, or tasks are too small or too many",
        "[choose Dask's chunks](howto/read.md#choose-dasks-chunks)",
    ),
    (
        "views",
        "a viewer cannot show a variable, or not all of them",
        "open one of its groups",
    ),
]
"""What warnings are about, when they are shown, and what to do."""


def row(name: str) -> tuple[str, ...]:
    """Return the row of an error: its builtins, and the first paragraphs of its docstring."""
    kind = getattr(errors, name)
    bases = [f"`{base.__name__}`" for base in kind.__bases__ if base is not errors.N5Error]
    when, do, *_ = (inspect.getdoc(kind) or "").split("\n\n")
    plain = (
        re.sub(r":\w+:`(\w+\.)*(\w+)`", r"`\2`", text.replace("``", "`")) for text in (when, do)
    )
    return (f"`{name}`", ", ".join(bases), *(" ".join(text.split()) for text in plain))


def table(*rows: tuple[str, ...]) -> str:
    """Return a table whose first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows = (rows[0], tuple("-" * width for width in widths), *rows[1:])
    padded = ([f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


def page() -> str:
    """Return the page."""
    messages = json.loads(MESSAGES.read_text(encoding="utf-8"))
    kinds = [name for name in vars(errors) if name in errors.__all__]
    lines = [
        textwrap.fill(f"{name}: {messages[name]}", 118, subsequent_indent="    ")
        for name in kinds
        if name in messages
    ]
    return TEXT.format(
        errors=table(("error", "also", "when", "what to do"), *map(row, kinds)),
        messages="\n".join(lines),
        warnings=table(("about", "when", "what to do"), *WARNINGS),
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
