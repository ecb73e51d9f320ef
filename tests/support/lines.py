"""Lines of code: those with code, without docstrings, comments and blank lines.

`python -m tests.support.lines` prints them by folder.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections import Counter
from pathlib import Path

import xarray_n5

SOURCE = Path(xarray_n5.__file__).parent.parent

LEAVES = frozenset({"bdv", "cli", "doctor", "hangar", "imaris", "napari", "scenes", "viewing"})
"""The folders above the core, and the command line above these."""

_EMPTY = frozenset(
    {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING),
    }
)


def lines_of_code(path: Path) -> int:
    """Return how many lines of a file have code; strings that document variables have none."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                prose |= {*range(each.lineno, (each.end_lineno or each.lineno) + 1)}
    code: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in _EMPTY:
                code |= {*range(token.start[0], token.end[0] + 1)}
    return len(code - prose)


def by_folder() -> Counter[str]:
    """Return the lines of code of each folder, of the core (all but `LEAVES`), and of all."""
    counts = Counter[str]()
    for path in sorted(SOURCE.rglob("*.py")):
        package, *inner = path.relative_to(SOURCE).with_suffix("").parts
        folder = package if not inner else inner[0] if len(inner) > 1 else "*.py"
        lines = lines_of_code(path)
        counts["all"] += lines
        counts[folder] += lines
        if inner and folder not in LEAVES:
            counts["core"] += lines
    return counts


def main() -> None:
    """Print a line for each folder."""
    for name, count in sorted(by_folder().items()):
        sys.stdout.write(f"{count:7,} {name}\n")


if __name__ == "__main__":
    main()
