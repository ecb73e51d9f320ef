"""What is public."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import xarray_n5
from xarray_n5 import errors

PUBLIC = {
    "xarray_n5": {
        *("open_array", "open_group", "create_array", "create_group", "Array", "Group", "Axis"),
        *("Geometry", "from_n5", "to_n5", "register_compression", "register_dialect"),
        *("ProgressBar", "chunk_map", "copy", "digest", "map_overlap", "pyramid", "repair"),
        *("add_levels",),
        *("set_options", "verify", "view", "world_grid", "tutorial", "__version__"),
        *("N5Error", "NodeNotFoundError", "NodeExistsError", "ChunkError", "MetadataError"),
        *("ResumeError", "UnfinishedWriteWarning"),
    },
    "xarray_n5.bdv": {"register", "to_bdv"},
    "xarray_n5.doctor": {"examine"},
    "xarray_n5.hangar": {"from_hangar", "to_hangar"},
}
"""The public names of each module that has some."""

MODULES = {"xarray_n5": {"bdv", "doctor", "errors", "hangar"}}
"""Modules with names of their own that are attributes after one import."""


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names_are_these(name: str) -> None:
    module = import_module(name)
    stub = ast.parse(Path(module.__file__ or "").with_suffix(".pyi").read_text("utf-8"))
    (listed,) = (ast.literal_eval(n.value) for n in stub.body if isinstance(n, ast.Assign))
    assert set(listed) == set(module.__all__) == PUBLIC[name]
    assert set(dir(module)) == PUBLIC[name] | MODULES.get(name, set())
    assert all(getattr(module, each) is not None for each in PUBLIC[name])


def test_modules_with_public_names_are_reached_after_one_import() -> None:
    code = "import xarray_n5 as x; print(x.bdv.to_bdv, x.hangar.from_hangar, x.doctor.examine)"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


SHOWN = {
    xarray_n5.Array: {
        *("shape", "dtype", "ndim", "size", "chunks", "shards", "grid"),
        *("path", "url", "axes", "fill_value", "compression", "info"),
        *("resize", "refresh", "geometry", "read_chunk", "write_chunk", "delete_chunk"),
        *("chunk_exists", "read_only", "attrs", "node", "container"),
    },
    xarray_n5.Group: {
        *("attrs", "path", "url", "format", "arrays"),
        *("node", "container", "nodes"),  # for extensions
    },
}


@pytest.mark.parametrize("kind", SHOWN)
def test_a_class_shows_what_users_need_and_no_more(kind: type) -> None:
    assert {name for name in vars(kind) if not name.startswith("_")} == SHOWN[kind]


def test_every_error_is_ours_and_a_builtin() -> None:
    for name in {*errors.__all__} - {"N5Error"}:
        kind = getattr(errors, name)
        if not issubclass(kind, UserWarning):
            assert issubclass(kind, errors.N5Error)
            assert any(base.__module__ == "builtins" for base in kind.__mro__[2:-3]), name
