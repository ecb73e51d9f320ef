"""Promises of the documentation name tests that exist, and releases are made as described."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TEXTS = ("README.md", "SECURITY.md", "docs/errors.md", "docs/writing.md", "docs/promises.md")

TEST = re.compile(r"`(test_\w+\.py)::(\w+)`")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def items(part: str) -> list[str]:
    """The items of the lists in a part of a text, each in one line."""
    found = re.findall(r"^- (.*?)(?=^\S|^$|\Z)", part, re.MULTILINE | re.DOTALL)
    return [" ".join(item.split()) for item in found]


def section(name: str, title: str) -> str:
    """A part of a text, by its heading, with the headings below it."""
    level = len(title) - len(title.lstrip("#"))
    return re.split(rf"^#{{1,{level}}} ", text(name).split(f"\n{title}\n")[1], flags=re.MULTILINE)[
        0
    ]


@cache
def functions_of(name: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in ast.walk(tree) if isinstance(each, kinds)}


@pytest.mark.parametrize("name", TEXTS)
def test_tests_that_are_named_exist(name: str) -> None:
    for file, test in TEST.findall(text(name)):
        assert test in functions_of(file), f"{name} names {file}::{test}"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("SECURITY.md", "## Guarantees for untrusted data"),
        ("docs/errors.md", "## Guarantees"),
        ("docs/promises.md", "## Reading and writing"),
        ("docs/promises.md", "## Limits"),
        ("docs/promises.md", "## Writes"),
    ],
)
def test_every_promise_names_a_test(name: str, title: str) -> None:
    promises = items(section(name, title))
    assert promises
    assert [promise for promise in promises if not TEST.search(promise)] == []


@pytest.mark.parametrize(
    ("name", "title", "kept"),
    [
        ("README.md", "## What works", "## Reading and writing"),
        ("README.md", "## Limits", "## Limits"),
        ("docs/writing.md", "## Guarantees", "## Writes"),
    ],
)
def test_every_promise_is_listed_with_its_tests(name: str, title: str, kept: str) -> None:
    """A promise starts an item or a table row in bold, and an item of the page with the tests."""
    promises = re.findall(r"^(?:-|\|) \*\*(.+?)\*\*", section(name, title), re.MULTILINE)
    tested = re.findall(r"^- \*\*(.+?)\*\*", section("docs/promises.md", kept), re.MULTILINE)
    assert promises
    assert [promise for promise in promises if promise not in tested] == []


def test_build_tools_are_pinned_by_hashes() -> None:
    lines = [line for line in text("ci/build.txt").splitlines() if not line.startswith("#")]
    assert lines
    assert all(re.fullmatch(r"[\w-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert {"build", "hatchling"} <= {line.partition("==")[0] for line in lines}


def test_the_release_is_built_by_pinned_tools_alone() -> None:
    build = text(".github/workflows/release.yml").split("\n  build:\n")[1].split("\n  try:\n")[0]
    assert re.findall(r"run: (.*)", build) == ["bash ci/build"]
    commands = text("ci/build")
    assert "--require-hashes -r ci/build.txt" in commands
    assert "--no-isolation" in commands


def test_extras_have_lower_bounds() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    assert [each for each in [*project["dependencies"], *extras] if ">=" not in each] == []


def test_no_dependency_has_an_upper_bound() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    bounds = [project["requires-python"], *project["dependencies"], *extras]
    assert [each for each in bounds if re.search("<|==|~=|!=", each)] == []


def test_version_and_dependencies_are_the_same_everywhere() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    recipe, names = text("ci/recipe.yaml"), {"dask-core": "dask[array]", "python-xxhash": "xxhash"}
    run = recipe.partition("\n  run:\n")[2].partition("\n\n")[0]
    dependencies = re.findall(r"- (\S+) (>=\d\S*)$", run, re.MULTILINE)
    assert {names.get(name, name) + bound for name, bound in dependencies} == {
        *project["dependencies"]
    }
    assert f'version: "{project["version"]}"' in recipe
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in recipe
    assert f"version: {project['version']}\n" in text("CITATION.cff")


def test_the_source_distribution_holds_what_it_refers_to() -> None:
    build = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["build"]
    assert {"README.md", "SECURITY.md"} <= {*build["targets"]["sdist"]["only-include"]}
