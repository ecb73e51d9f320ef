"""The user's code is recorded, so that a resumed write notices changes of it."""

from __future__ import annotations

import ast
import functools
import importlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.base import optimize
from dask.delayed import delayed as delay

from xarray_n5 import to_n5
from xarray_n5.writing import inputs
from xarray_n5.writing.inputs import code_of, objects_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILES = {
    "steps_of_a_user.py": """
        import functools
        import numpy as np
        from params_of_a_user import LEVEL
        def plain(function):
            return lambda block: function(block)
        @functools.lru_cache
        def cached(number):
            return number
        def above(block, level=0):
            import package_of_a_user.late
            return block > LEVEL + level
        class Filter:
            def __call__(self, block):
                return above(block)
            def method(self, block):
                return above(block)
    """,
    "params_of_a_user.py": "LEVEL = 10",
    "wrapped_of_a_user.py": """
        from steps_of_a_user import plain
        @plain
        def above(block):
            return block > 3
    """,
    "package_of_a_user/__init__.py": "",
    "package_of_a_user/late.py": "from . import params",
    "package_of_a_user/params.py": "LEVEL = 20",
    "unused_of_a_user.py": "LEVEL = 30",
}

LATE = {f"package_of_a_user/{name}" for name in ("__init__.py", "late.py", "params.py")}

STEPS = {"steps_of_a_user.py", "params_of_a_user.py"} | LATE

ONES: Any = da.ones((8, 8), chunks=2)


def write(folder: Path, name: str, source: str) -> None:
    lines = source.splitlines()
    indent = " " * 8 if len(lines) > 1 else ""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(line.removeprefix(indent) for line in lines), encoding="utf-8")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Import a module of the user's, after a change of one of the files."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name, source in FILES.items():
        write(tmp_path, name, source)

    def forget() -> None:
        for name in [name for name in sys.modules if "_of_a_user" in name]:
            del sys.modules[name]

    def imported(
        module: str = "steps_of_a_user", file: str = "", change: tuple[str, str] = ("", "")
    ) -> Any:
        if file:
            write(tmp_path, file, FILES[file].replace(*change))
        forget()
        importlib.invalidate_caches()
        for name in ("package_of_a_user.late", "unused_of_a_user"):
            importlib.import_module(name)
        return importlib.import_module(module)

    yield imported
    forget()


def in_blocks(steps: Any) -> Any:
    return ONES.map_blocks(steps.above, dtype=bool)


def in_xarray(steps: Any) -> Any:
    array, options = xr.DataArray(ONES), {"dask": "parallelized", "output_dtypes": [bool]}
    return xr.apply_ufunc(steps.above, array, vectorize=True, **options).data  # type: ignore[arg-type]


def in_a_lambda(steps: Any) -> Any:
    above = steps.above
    return ONES.map_blocks(lambda block: above(block) + 1, dtype="i8")


WAYS: dict[str, Callable[[Any], Any]] = {
    "in blocks": in_blocks,
    "in xarray": in_xarray,
    "in a lambda": in_a_lambda,
    "keyword": lambda m: da.apply_along_axis(m.above, 0, ONES, dtype=bool, shape=(8,)),
    "partial": lambda m: ONES.map_blocks(functools.partial(m.above, level=1), dtype=bool),
    "object": lambda m: ONES.map_blocks(m.Filter(), dtype=bool),
    "method": lambda m: ONES.map_blocks(m.Filter().method, dtype=bool),
    "delayed": lambda m: da.from_delayed(delay(m.above)(np.ones(8)), (8,), bool),
    "optimised": lambda m: optimize(in_blocks(m)[1:].rechunk(3) + 1)[0],
}


def users_part(code: dict[str, str]) -> dict[str, str]:
    """Leave out the tests themselves, whose functions are a user's, too."""
    return {name: digest for name, digest in code.items() if "_of_a_user" in name}


@pytest.mark.parametrize("way", WAYS)
def test_files_of_functions_and_of_their_imports_are_recorded(way: str, user: Any) -> None:
    assert users_part(code_of(WAYS[way](user()).dask)).keys() == STEPS


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("steps_of_a_user.py", ("LEVEL + level", "LEVEL - level")),
        ("params_of_a_user.py", ("10", "11")),
        ("package_of_a_user/params.py", ("20", "21")),
        ("package_of_a_user/__init__.py", ("", "LEVEL = 1")),
    ],
)
def test_a_change_is_named_by_its_file(file: str, change: tuple[str, str], user: Any) -> None:
    before = code_of(in_blocks(user()).dask)
    assert code_of(in_blocks(user()).dask) == before
    after = code_of(in_blocks(user(file=file, change=change)).dask)
    assert [name for name in after if after[name] != before.get(name)] == [file]


def test_files_that_are_not_imported_do_not_count(user: Any) -> None:
    before = code_of(in_blocks(user()).dask)
    after = code_of(in_blocks(user(file="unused_of_a_user.py", change=("30", "31"))).dask)
    assert before == after


def test_the_file_of_a_decorated_function_counts(user: Any) -> None:
    name = "wrapped_of_a_user"
    graph = ONES.map_blocks(user(name).above, dtype=bool).dask
    assert users_part(code_of(graph)).keys() == {f"{name}.py", *STEPS}


def test_functions_of_a_notebook_count_by_what_they_call(user: Any) -> None:
    cells: dict[str, Any] = {"__name__": "__main__", "steps": user(), "params": 3}
    exec("def work(block):\n    return steps.above(block)", cells)  # noqa: S102
    assert code_of(ONES.map_blocks(cells["work"], dtype=bool).dask).keys() == STEPS


@pytest.mark.parametrize(
    "function", [np.negative, np.linalg.norm, xr.zeros_like, functools.cache(abs), len]
)
def test_installed_packages_do_not_count(function: Any) -> None:
    assert code_of(ONES.map_blocks(function, dtype="f8", meta=np.ones((0, 0))).dask) == {}


def test_of_many_tasks_some_are_searched() -> None:
    for count in (1, 10, 100, 100_000):
        tasks = {("tasks", i): (abs, object()) for i in range(count)}
        objects = [*objects_in(tasks, most=100)]
        assert min(count, 100) < len(objects) < 200


def test_files_are_parsed_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    together, most = [0], [0]

    def parse(_: bytes) -> ast.Module:
        together[0] += 1
        most[0] = max(most[0], together[0])
        time.sleep(0.01)
        together[0] -= 1
        return ast.Module([], [])

    monkeypatch.setattr(ast, "parse", parse)
    with ThreadPoolExecutor(4) as pool:
        contents = [f"import a{number}".encode() for number in range(8)]
        list(pool.map(inputs._imports_of, contents, ["p"] * 8))
    assert most == [1]


class Hidden:
    """A function whose attributes cannot be read."""

    def __call__(self, block: Any) -> Any:
        return block

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(name)


def test_objects_that_fail_when_they_are_looked_at_are_written(tmp_path: Path) -> None:
    to_n5(ONES.map_blocks(Hidden(), dtype="f8", name="hidden"), tmp_path, "a", resume=True)
