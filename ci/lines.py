"""Hold folders below their limits: lines with code, without docstrings, comments and blank lines.

``python ci/lines.py`` prints the lines of each folder, and fails where a limit is exceeded.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LEAVES = frozenset({"bdv", "cli", "doctor", "hangar", "imaris", "napari", "scenes", "viewing"})
"""The folders above the core, and the command line above these."""

MOST_LINES = {
    "core": 23_995,
    "xarray_n5_engine": 202,
    "bdv": 2_928,
    "cli": 812,
    "doctor": 949,
    "hangar": 472,
    "imaris": 243,
    "napari": 218,
    "scenes": 924,
    "viewing": 756,
    "tests": 36_868,
}
"""The most lines of code of a folder. Limits are only lowered."""

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
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                prose |= {*range(statement.lineno, (statement.end_lineno or 0) + 1)}
    code: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in _EMPTY:
                code |= {*range(token.start[0], token.end[0] + 1)}
    return len(code - prose)


def by_folder() -> Counter[str]:
    """Return the lines of code of each folder, of the core (all but `LEAVES`), and of tests."""
    counts = Counter[str]()
    for path in sorted((ROOT / "src").rglob("*.py")):
        package, *inner = path.relative_to(ROOT / "src").with_suffix("").parts
        folder = package if not inner else inner[0] if len(inner) > 1 else "*.py"
        lines = lines_of_code(path)
        counts["all"] += lines
        counts[folder] += lines
        if inner and folder not in LEAVES:
            counts["core"] += lines
    counts["tests"] = sum(map(lines_of_code, (ROOT / "tests").rglob("*.py")))
    return counts


def main() -> None:
    """Print a line for each folder."""
    counts = by_folder()
    for name, count in sorted(counts.items()):
        print(f"{count:7,} {name}")
    for name, most in MOST_LINES.items():
        if counts[name] > most:
            sys.exit(f"{name} has {counts[name]:,} lines of code, at most {most:,} are allowed")


if __name__ == "__main__":
    main()
