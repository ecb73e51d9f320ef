"""The shape of the house: what is public, who imports what is private, how large files are."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import xarray_n5
from ci.lines import LEAVES
from xarray_n5 import errors
from xarray_n5.codecs import COMPRESSIONS
from xarray_n5.dialects import DIALECTS
from xarray_n5.formats import FORMATS
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.formats.protocol import Format, KeyedFormat
from xarray_n5.stores import Store

SOURCE = Path(xarray_n5.__file__).parent

TESTS = Path(__file__).parents[1]

CORE = "xarray_n5"
ENGINE = "xarray_n5_engine"

ALL_MODULES = sorted(SOURCE.parent.rglob("*.py"))

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


def module_name(path: Path) -> str:
    """The full name of a file's module."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path): path for path in ALL_MODULES}


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


@cache
def imports(path: Path) -> set[str]:
    """The modules of the package that a file imports anywhere, for types alone as well."""
    tree = nodes_of(path)
    found = {a.name for node in tree if isinstance(node, ast.Import) for a in node.names}
    for node in tree:
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            inner = {f"{module}.{alias.name}" for alias in node.names} & NAMES.keys()
            found |= inner or {module}
    return {name for name in found if name.partition(".")[0] == CORE}


def test_no_module_imports_names_from_the_root() -> None:
    roots = [path for path in ALL_MODULES if CORE in imports(path)]
    assert roots == [NAMES[ENGINE]]  # for what the import attaches


PRIVATE = {
    "graph": r"dask\.(array\.core|base\.get_scheduler|blockwise|core|highlevelgraph|layers)\b",
    "datasets.xarray_internals": r"xarray\.(backends\.[a-z]+|coding|conventions|core|namedarray)\b",
}
"""Files of the core that alone import what Dask and xarray do not document, as patterns."""


def names_imported(path: Path) -> set[str]:
    """All names that a file imports, with their modules."""
    nodes = nodes_of(path)
    plain = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    of = [(node.module, node.names) for node in nodes if isinstance(node, ast.ImportFrom)]
    return plain | {f"{module}.{alias.name}" for module, names in of for alias in names}


@pytest.mark.parametrize(("alone", "private"), PRIVATE.items())
def test_one_file_imports_what_others_do_not_document(alone: str, private: str) -> None:
    for path in {*ALL_MODULES} - {NAMES[f"{CORE}.{alone}"], NAMES[ENGINE]}:
        found = names_imported(path)
        assert not {each for each in found if re.match(private, each)}, path
        assert not {each for each in found if re.match(r"(dask|xarray)\b.*\._", each)}, path


LEVEL_NAMES = re.compile(r"""r"[^"\n]*(?:\bs\??\(?\\d|(?:setup|timepoint)[(\\[]|ch\(?\\d)""")
"""Patterns of the names of levels and parts, in source code."""


def test_names_of_levels_are_parsed_in_one_module() -> None:
    found = [path for path in ALL_MODULES if LEVEL_NAMES.search(path.read_text(encoding="utf-8"))]
    assert found == []


NAMES_OF_LEVELS = {
    "arrays.context",
    "datasets.overwrite",
    "dialects.protocol",
    "formats.hdf5.nodes",
    "formats.structure",
    "images.find",
}
"""The modules of the core that ask for names of levels; docs/design.md says why. To be fewer."""


def test_few_modules_of_the_core_ask_for_names_of_levels() -> None:
    asking = {name for name in NAMES if f"{CORE}.model.level_names" in imports(NAMES[name])}
    asking = {name.removeprefix(f"{CORE}.") for name in asking}
    assert {name for name in asking if name.partition(".")[0] not in LEAVES} == NAMES_OF_LEVELS


ONE_CALLER = {
    Store: {"fetch", "get_ranges", "set_many"},
    KeyedContainer: {
        *("complete_group", "delete_chunks", "matches", "quiet", "renew", "renews"),
    },
    KeyedFormat: {"assume", "complete", "states_kind", "with_attributes"},
}
"""The members that one file uses, besides implementations; docs/design.md says why. To be fewer."""

IMPLEMENTATIONS = {
    Store: ("stores/",),
    KeyedContainer: ("formats/keyed.py", "formats/hdf5/container.py"),
    KeyedFormat: ("formats/n5/", "formats/zarr2/", "formats/zarr3/", "formats/hdf5/"),
}


@pytest.mark.parametrize("kind", ONE_CALLER)
def test_members_of_protocols_have_several_callers(kind: type) -> None:
    own = tuple(f"{SOURCE}/{folder}" for folder in IMPLEMENTATIONS[kind])
    others = [path for path in ALL_MODULES if not str(path).startswith(own)]
    used = [{n.attr for n in nodes_of(path) if isinstance(n, ast.Attribute)} for path in others]
    named = {name for each in kind.__mro__[:-1] for name in {*vars(each), *_annotated(each)}}
    members = {name for name in named if not name.startswith("_")} - {"store", "format"}
    counts = {name: sum(name in attributes for attributes in used) for name in members}
    assert {name for name, count in counts.items() if count < 2} == ONE_CALLER[kind]


def _annotated(kind: type) -> set[str]:
    return {*getattr(kind, "__annotations__", ())}


def test_an_image_is_one_class_and_a_level_is_another_one() -> None:
    classes = [
        (name, node.name)
        for name, path in NAMES.items()
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and node.name in {"Image", "Level"}
    ]
    of_the_core = [("xarray_n5.model.image", "Level"), ("xarray_n5.model.image", "Image")]
    assert classes == of_the_core


BESIDE = {
    "data": "files that tests read",
    "docs": "tests of what the pages in docs and the README say",
    "support": "what several tests use",
    "typing": "calls that type checkers accept, and refuse",
    "whole": "tests of what no folder of src does alone",
}
"""The folders of tests that are no folder of ``src``."""


def test_folders_of_tests_are_those_of_src() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    found = {path.name for path in TESTS.iterdir() if path.is_dir()} - {"__pycache__"}
    assert found == folders | BESIDE.keys()


def test_folders_of_tests_hold_tests_and_support_holds_none() -> None:
    files = {path.relative_to(TESTS) for path in TESTS.rglob("*.py")}
    files = {path for path in files if path.name not in {"__init__.py", "conftest.py"}}
    code = {path for path in files if not path.name.startswith("test_")}
    code -= {Path("writing", "model.py")}  # which the protocol of writes is tested by
    assert {path.parts[0] for path in code} == {"support"}
    assert not {path for path in files - code if path.parts[0] == "support"}
    assert not {path for path in files if len(path.parts) == 1}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names_are_these(name: str) -> None:
    module = import_module(name)
    stub = ast.parse(NAMES[name].with_suffix(".pyi").read_text("utf-8"))
    (listed,) = (ast.literal_eval(n.value) for n in stub.body if isinstance(n, ast.Assign))
    assert set(listed) == set(module.__all__) == PUBLIC[name]
    assert set(dir(module)) == PUBLIC[name] | MODULES.get(name, set())
    assert all(getattr(module, each) is not None for each in PUBLIC[name])


def test_modules_with_public_names_are_reached_after_one_import() -> None:
    code = "import xarray_n5 as x; print(x.bdv.to_bdv, x.hangar.from_hangar, x.doctor.examine)"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


@pytest.mark.parametrize("page", ["docs/api.md", "docs/errors.md"])
def test_every_error_stands_in_the_documentation(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text("utf-8")
    assert [name for name in errors.__all__ if name not in text] == []


def test_public_names_are_documented() -> None:
    names = [(module, name) for module in PUBLIC for name in PUBLIC[module] - {"__version__"}]
    texts = {f"{m}.{name}": inspect.getdoc(getattr(import_module(m), name)) for m, name in names}
    assert [name for name, text in texts.items() if len(text or "") <= 20] == []


def public_members(kind: type) -> set[str]:
    """The names that a class defines itself and shows."""
    return {name for name in vars(kind) if not name.startswith("_")}


def test_an_array_shows_what_users_need_and_no_more() -> None:
    assert public_members(xarray_n5.Array) == {
        *("shape", "dtype", "ndim", "size", "chunks", "shards", "grid"),
        *("path", "url", "axes", "fill_value", "compression", "info"),
        *("resize", "refresh", "geometry", "read_chunk", "write_chunk", "delete_chunk"),
        *("chunk_exists", "read_only", "attrs", "node", "container"),
    }


def test_a_group_shows_what_users_need_and_no_more() -> None:
    shown = {"attrs", "path", "url", "format", "arrays"}
    shown |= {"node", "container", "nodes"}  # for extensions
    assert public_members(xarray_n5.Group) == shown


def test_every_error_is_ours_and_a_builtin() -> None:
    for name in set(errors.__all__) - {"N5Error"}:
        if issubclass(getattr(errors, name), UserWarning):
            continue
        kind = getattr(errors, name)
        assert issubclass(kind, errors.N5Error)
        assert any(base.__module__ == "builtins" for base in kind.__mro__[2:-3]), name


@pytest.mark.parametrize("table", [COMPRESSIONS, DIALECTS, FORMATS])
def test_variants_inherit_protocols_at_most_and_are_known_by_name(table: dict[str, object]) -> None:
    for name, variant in table.items():
        kind = variant if isinstance(variant, type) else type(variant)
        assert {*kind.__bases__} <= {object, Format, KeyedFormat}
        assert getattr(kind, "name", name) == name
        assert kind.__module__.startswith("xarray_n5.")
