"""Releases are made as described, and what says their version and dependencies agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import xarray_n5
from tests.docs.test_promises import text

SOURCE = Path(xarray_n5.__file__).parents[1]


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


def test_the_wheel_holds_all_packages() -> None:
    build = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["build"]
    present = {f"src/{path.name}" for path in SOURCE.glob("xarray_n5*")}
    assert {*build["targets"]["wheel"]["only-include"]} == present
