"""The pages for maintainers name files, tests and names on disk that exist."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from xarray_n5.model import paths
from xarray_n5.model.roundtrip_attrs import NOTES

ROOT = Path(__file__).parents[2]

SOURCE = ROOT / "src"

PAGES = [
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
    *(ROOT / "docs" / f"{name}.md" for name in ("assumptions", "compatibility", "design")),
]

PAGE = (ROOT / "docs" / "assumptions.md").read_text(encoding="utf-8")

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not re.match(r"\| (?:-|program |library )", line)
]
"""The cells of all tables: program, version and date, assumption, files, how to check."""


@cache
def code_of_tests() -> str:
    """Return the source of all tests."""
    return "".join(path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py")))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}, {row[2][:30]}" for row in ROWS])
def test_an_assumption_has_a_date_files_and_tests_that_exist(row: list[str]) -> None:
    _, version, _, files, check = row
    assert re.search(r"20\d\d-\d\d$", version)
    names = re.findall(r"`([^`]+)`", files)
    assert names
    assert [name for name in names if not (SOURCE / name).is_file()] == []
    tests = re.findall(r"`(test_\w+)`", check)
    assert [name for name in tests if f"def {name}(" not in code_of_tests()] == []
    scripts = re.findall(r"`bash (\S+)`", check)
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_files_of_the_source_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text(encoding="utf-8")))
    roots = (SOURCE, SOURCE / "xarray_n5", ROOT)
    assert [name for name in named if not any((root / name).is_file() for root in roots)] == []


def test_all_names_on_disk_are_listed() -> None:
    page = (ROOT / "docs" / "decisions" / "names.md").read_text(encoding="utf-8")
    hidden = {paths.DIGESTS, paths.QUARANTINE, paths.HIDDEN}
    folder = f"{paths.HIDDEN}/"
    hidden |= {f"{folder}{name}" for name in ("open-", "open-append-", "clears-", "template-")}
    hidden |= {f"{folder}{name}" for name in ("notes-", "done/", "done/append-")}
    assert [name for name in sorted(hidden | NOTES) if f"`{name}" not in page] == []
    assert paths.final_key(paths.partial_key("a")) == "a"
    assert "`.<name>.<32 hex digits>.partial`" in page


def test_the_oldest_supported_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([\w, ]+?) +\| ([\d.]+) +\|", page, re.MULTILINE))
    bounds = dict(re.findall(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", " ".join(_requirements(project))))
    bounds["python"] = project["requires-python"].removeprefix(">=")
    found = {name.lower(): rows[names] for names in rows for name in names.split(", ")}
    assert found == {name: bounds[name] for name in found}
    assert {"python", "numpy", "xarray", "dask"} <= found.keys()


def _requirements(project: dict[str, Any]) -> list[str]:
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(each for extra in extras for each in extra)]
