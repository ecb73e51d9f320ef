"""Promises of the documentation name tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TEXTS = ("README.md", "SECURITY.md", "docs/errors.md", "docs/writing.md", "docs/promises.md")

TEST = re.compile(r"`((?:\w+/)?test_\w+\.py)::(\w+)`")


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
