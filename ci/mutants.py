"""Break the package on purpose, a line at a time, and tell which test notices.

It needs coverage and pytest-cov, and what a run of the tests with them left::

    pytest --cov=xarray_n5 --cov-context=test --durations=0 -vv > durations
    python ci/mutants.py .coverage durations --draw 30 | python ci/mutants.py .coverage durations
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import os
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from coverage import CoverageData

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("writing", "datasets/encode|copying|images", "stores|codecs|formats")
MOST_TESTS, MOST_SECONDS = 60, 20
"""What is tried of a mutant: the shortest of the tests that cover its line."""

IMPORTED = ("numpy", "xarray", "dask.array", "distributed", "h5py", "fsspec")
"""What each run finds imported."""

PAIRS: tuple[tuple[type[ast.AST], type[ast.AST]], ...] = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub)),
)
"""Operators that take each other's place."""

SWAPS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}


def changes(node: ast.AST) -> Iterator[tuple[Any, str]]:
    """Iterate over a node, or its condition, and the code that replaces it."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPS:
            twin = copy.copy(node)
            twin.ops = [SWAPS[type(operator)]()]  # type: ignore[list-item]
            yield node, f"({ast.unparse(twin)})"
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if type(operator) in SWAPS:
            changed = copy.copy(node)
            changed.op = SWAPS[type(operator)]()  # type: ignore[assignment]
            yield node, f"({ast.unparse(changed)})"
        case ast.Constant(value=bool() | int() as value):
            yield node, str(not value if isinstance(value, bool) else value + 1)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield node, "return None"
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield node, "pass"


def mutants(path: Path) -> Iterator[tuple[int, str]]:
    """Iterate over numbers of lines, and the lines before and after a change."""
    lines = path.read_bytes().splitlines()
    for node in ast.walk(ast.parse(path.read_bytes())):
        for old, new in changes(node):
            if old.lineno == old.end_lineno:
                line = lines[old.lineno - 1]
                changed = line[: old.col_offset] + new.encode() + line[old.end_col_offset :]
                yield old.lineno, f"{line.decode().strip()}\t{changed.decode().strip()}"


def draw(data: CoverageData, count: int, seed: int) -> Iterator[str]:
    """Iterate over rows of mutants of lines that tests cover, so many of each of `ROOMS`."""
    for room in ROOMS:
        rows = []
        for path in sorted((ROOT / "src/xarray_n5").rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if re.match(f"src/xarray_n5/({room})", name):
                tests = data.contexts_by_lineno(name)
                rows += [f"{name}:{n}\t{row}" for n, row in mutants(path) if any(tests.get(n, ()))]
        yield from sorted(random.Random(seed).sample(rows, count))  # noqa: S311


class Chosen:
    """Runs the chosen tests of the collected ones, in their order; keeps the first that fails."""

    def __init__(self, tests: list[str]) -> None:
        self.tests, self.outcome = tests, "no test"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop the others."""
        items[:] = [item for item in items if item.nodeid in self.tests]
        items.sort(key=lambda item: self.tests.index(item.nodeid))
        self.outcome = "survives" if items else "no test"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note that a file cannot be imported."""
        self.outcome = report.nodeid if report.failed else self.outcome

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self.outcome = report.nodeid if report.failed else self.outcome


def run(name: str, number: int, new: str, tests: list[str]) -> str:
    """Return the test that fails with a changed line, in a process that is forked off."""
    reads, writes = os.pipe()
    if os.fork() == 0:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "src", f"{folder}/src")
            lines = (path := Path(folder, name)).read_text("utf-8").splitlines()
            lines[number - 1] = re.sub(r"\S.*", lambda _: new, lines[number - 1])
            path.write_text("\n".join(lines), "utf-8")
            sys.path.insert(0, f"{folder}/src")
            os.environ["PYTHONPATH"] = f"{folder}/src"
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            files = {file for test in tests if Path(file := test.partition("::")[0]).exists()}
            options = ["-xq", "-pno:cacheprovider", "--hypothesis-profile=ci", "--timeout=100"]
            chosen = Chosen(tests)
            with contextlib.suppress(Exception):  # warnings at the end are errors, too
                pytest.main([*options, *sorted(files)], [chosen])
            os.write(writes, chosen.outcome.encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        answer = pipe.read()
    os.wait()
    return answer or "crash"


def main() -> None:
    """Print rows of mutants, or those of the standard input with the tests that fail."""
    parser = argparse.ArgumentParser()
    parser.add_argument("coverage")
    parser.add_argument("durations", type=Path)
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = CoverageData(options.coverage)
    data.read()
    if options.draw:
        print(*draw(data, options.draw, options.seed), sep="\n")
        return
    for module in IMPORTED:
        importlib.import_module(module)
    text = options.durations.read_text("utf-8")
    seconds = dict[str, float]()
    for taken, test in re.findall(r"^([\d.]+)s \w+ +(\S.*)$", text, re.MULTILINE):
        seconds[test] = seconds.get(test, 0) + float(taken)
    for row in sys.stdin:
        place, old, new, *before = row.rstrip("\n").split("\t")
        name, _, line = place.partition(":")
        lines = (ROOT / name).read_text("utf-8").splitlines() if (ROOT / name).exists() else []
        here = [number for number, text in enumerate(lines, 1) if text.strip() == old]
        killer = "no line"
        if here:
            number = min(here, key=lambda number: abs(number - int(line)))
            covering = data.contexts_by_lineno(name).get(int(line), [])
            tests = {context.rpartition("|")[0] for context in covering if context}
            shortest = sorted(tests, key=lambda test: seconds.get(test, 0))[:MOST_TESTS]
            left = MOST_SECONDS
            chosen = [t for t in shortest if (left := left - seconds.get(t, 0)) > 0]
            killer = run(name, number, new, [*before, *chosen])
        print(place, old, new, killer, sep="\t", flush=True)


if __name__ == "__main__":
    main()
