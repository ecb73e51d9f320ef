"""The names of the core that the packages beside it import.

`python -m tests.support.surface` prints them by module, with the packages.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

import xarray_n5

SOURCE = Path(xarray_n5.__file__).parent.parent

LEAVES = tuple(
    f"xarray_n5_{name}" for name in ("bdv", "cli", "doctor", "hangar", "napari", "scenes", "view")
)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_module(path) for path in (SOURCE / "xarray_n5").rglob("*.py")}


def used_by_leaves() -> dict[str, dict[str, set[str]]]:
    """Return the names that are imported of each module of the core, and by which packages.

    A module that is imported itself has the name "".
    """
    used: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for leaf in LEAVES:
        for path in (SOURCE / leaf).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for module, name in _imported(node):
                    if f"{module}.{name}" in MODULES:
                        used[f"{module}.{name}"][""].add(leaf)
                    elif module in MODULES:
                        used[module][name].add(leaf)
    return used


def _imported(node: ast.AST) -> list[tuple[str, str]]:
    """Return the modules and the names that a statement imports."""
    match node:
        case ast.Import(names):
            return [(alias.name, "") for alias in names]
        case ast.ImportFrom(str(module), names):
            return [(module, alias.name) for alias in names]
    return []


def main() -> None:
    """Print a line for each name."""
    for module, names in sorted(used_by_leaves().items()):
        for name, leaves in sorted(names.items()):
            sys.stdout.write(f"{module} {name or '(module)'} {' '.join(sorted(leaves))}\n")


if __name__ == "__main__":
    main()
