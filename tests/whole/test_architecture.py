"""The shape of the house: what is public, which way imports point, how large files are."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import xarray_n5
from tests.support.lines import by_folder, lines_of_code
from tests.support.surface import used_by_leaves
from xarray_n5 import errors
from xarray_n5.codecs import COMPRESSIONS
from xarray_n5.dialects import DIALECTS
from xarray_n5.formats import FORMATS
from xarray_n5.formats.containers import STORES
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.formats.protocol import KeyedFormat
from xarray_n5.stores import Store

SOURCE = Path(xarray_n5.__file__).parent

TESTS = Path(__file__).parents[1]

RANKS = {
    "errors": 0,
    "graph": 0,
    "leaves": 0,
    "model": 0,
    "codecs": 1,
    "dialects": 1,
    "stores": 2,
    "formats": 3,
    "arrays": 4,
    "writing": 5,
    "dask": 6,
    "images": 7,
    "datasets": 8,
    "integrity": 8,
    "pyramids": 9,
    "sampling": 9,
    "tutorial": 9,
    "copying": 10,
}
"""The ranks of the core's folders and files; each imports only lower ranks."""

CORE = "xarray_n5"
ENGINE = "xarray_n5_engine"
COMMANDS = "xarray_n5.cli"
LEAVES = {path.name for path in SOURCE.parent.glob("xarray_n5_*/")} - {COMMANDS}

MAY_IMPORT = {
    CORE: {CORE},
    ENGINE: {ENGINE, CORE},
    **{leaf: {leaf, ENGINE, CORE} for leaf in LEAVES},
    COMMANDS: {COMMANDS, ENGINE, CORE, *LEAVES},
}
"""What each package in ``src`` imports: the core knows no leaf, and a leaf knows no other leaf."""

ALL_MODULES = sorted(SOURCE.parent.rglob("*.py"))

PUBLIC = {
    *("open_array", "open_group", "create_array", "create_group", "Array", "Group", "Axis"),
    *("Geometry", "from_n5", "to_n5", "register_compression", "register_dialect"),
    "register_scene",
    *("ProgressBar", "chunk_map", "copy", "digest", "doctor", "map_overlap", "pyramid", "repair"),
    *("verify", "tutorial", "view", "world_grid"),
    *("from_hangar", "to_hangar", "hangar_records", "HangarWriter"),
    *("__version__", *errors.__all__),
}


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
    """The modules of ``src`` that a file imports anywhere in it, for the types alone as well."""
    tree = nodes_of(path)
    found = {a.name for node in tree if isinstance(node, ast.Import) for a in node.names}
    for node in tree:
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            inner = {f"{module}.{alias.name}" for alias in node.names} & NAMES.keys()
            found |= inner or {module}
    return {name for name in found if top(name) in MAY_IMPORT}


def top(name: str) -> str:
    return name.partition(".")[0]


def folder(name: str) -> str:
    """The folder or file of the core that a module is in."""
    return name.split(".")[1] if "." in name else ""


def points_down(name: str, other: str) -> bool:
    """Return whether a module of the core may import another one of it."""
    same_folder = folder(other) == folder(name)
    errors_of_model = (folder(name), other) == ("model", "xarray_n5.errors")
    below = RANKS.get(folder(other), 99) < RANKS.get(folder(name), -1)
    return same_folder or errors_of_model or below


def test_imports_point_down_the_ranks() -> None:
    core = [name for name in NAMES if top(name) == CORE and name not in {CORE, TABLE}]
    pairs = [(name, other) for name in core for other in imports(NAMES[name])]
    pairs = [pair for pair in pairs if top(pair[1]) == CORE]
    assert [pair for pair in pairs if not points_down(*pair)] == []


TABLE = "xarray_n5.leaves"
"""The table of public names that live in leaves, which names them for type checkers."""


def test_the_core_knows_no_leaf_and_a_leaf_knows_no_other() -> None:
    pairs = [(name, other) for name, path in NAMES.items() for other in imports(path)]
    wrong = [(a, b) for a, b in pairs if top(b) not in MAY_IMPORT[top(a)] and a != TABLE]
    assert wrong == []


PAGE = (SOURCE.parents[1] / "docs" / "extending.md").read_text("utf-8")

SURFACE = {*re.findall(r"^\| `(xarray_n5[.\w]*)` +\|", PAGE, re.MULTILINE)}
"""The modules that a leaf may import: the table of docs/extending.md."""

INTERNALS = {
    "xarray_n5.arrays.context",
    "xarray_n5.arrays.marker",
    "xarray_n5.arrays.overwrite",
    "xarray_n5.arrays.repr",
    "xarray_n5.arrays.unfinished",
    "xarray_n5.codecs.blosc",
    "xarray_n5.codecs.hdf5",
    "xarray_n5.copying.copy",
    "xarray_n5.copying.pyramids",
    "xarray_n5.copying.scenes",
    "xarray_n5.copying.started",
    "xarray_n5.dask.block_sizes",
    "xarray_n5.dialects.bdv",
    "xarray_n5.dialects.canonical",
    "xarray_n5.dialects.cosem",
    "xarray_n5.dialects.imagej",
    "xarray_n5.dialects.list_order",
    "xarray_n5.dialects.n5_viewer",
    "xarray_n5.dialects.ngff",
    "xarray_n5.dialects.ngff_attributes",
    "xarray_n5.dialects.paintera",
    "xarray_n5.dialects.values",
    "xarray_n5.integrity.diagnosis.diagnose",
    "xarray_n5.integrity.diagnosis.finding",
    "xarray_n5.integrity.digest",
    "xarray_n5.integrity.repair",
    "xarray_n5.integrity.report",
    "xarray_n5.pyramids.api",
    "xarray_n5.pyramids.base",
    "xarray_n5.pyramids.factors",
    "xarray_n5.pyramids.reduce",
    "xarray_n5.writing.chunk_table",
    "xarray_n5.writing.progress",
    "xarray_n5.writing.write",
}
"""Other modules of the core that leaves still import; none is added.

A leaf that needs one more gets a name in a module of `SURFACE`.
"""


def test_leaves_import_the_modules_that_are_listed_for_them() -> None:
    assert used_by_leaves().keys() - SURFACE == INTERNALS
    assert [name for name in SURFACE if name not in NAMES] == []


def test_the_names_that_are_listed_for_leaves_exist() -> None:
    rows = re.findall(r"^\| `(xarray_n5[.\w]*)` +\|([^|]+)\|", PAGE, re.MULTILINE)
    names = [(module, name) for module, text in rows for name in re.findall(r"`(\w+)`", text)]
    assert [each for each in names if not hasattr(import_module(each[0]), each[1])] == []


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
    "arrays.open",
    "copying.pyramids",
    "datasets.build",
    "datasets.engine",
    "datasets.overwrite",
    "dialects.bdv",
    "dialects.list_order",
    "dialects.protocol",
    "formats.hdf5.nodes",
    "formats.structure",
    "images.find",
    "images.levels",
    "images.select",
    "images.tree",
    "integrity.diagnosis.levels",
    "integrity.diagnosis.diagnose",
    "sampling.api",
}
"""The modules of the core that ask for names of levels; docs/design.md says why. To be fewer."""


def test_few_modules_of_the_core_ask_for_names_of_levels() -> None:
    asking = {name for name in NAMES if f"{CORE}.model.level_names" in imports(NAMES[name])}
    assert {name for name in asking if top(name) == CORE} == {
        f"{CORE}.{n}" for n in NAMES_OF_LEVELS
    }


ONE_CALLER = {
    Store: {"child", "fetch", "get_ranges", "is_link", "real_folders", "sender"},
    KeyedContainer: {
        *("complete_group", "delete_chunks", "has_chunk", "matches", "not_found", "set_chunks"),
        "sweep",
    },
    KeyedFormat: {"assume", "consolidates", "states_kind", "with_attributes"},
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


def test_every_folder_has_a_rank() -> None:
    assert {folder(name) for name in NAMES if top(name) == CORE} - {""} == RANKS.keys()
    assert {top(name) for name in NAMES} == MAY_IMPORT.keys()


BESIDE = {
    "benchmarks": "comparisons that are run by hand",
    "data": "files that tests read",
    "docs": "tests of what the pages in docs and the README say",
    "support": "what several tests use",
    "typing": "calls that type checkers accept, and refuse",
    "whole": "tests of what no folder of src does alone",
}
"""The folders of tests that are no folder of ``src``."""


def test_folders_of_tests_are_those_of_src() -> None:
    core = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    leaves = {path.parent.name for path in SOURCE.parent.glob("xarray_n5_*/__init__.py")}
    mirrored = core | {name.removeprefix("xarray_n5_") for name in leaves}
    found = {path.name for path in TESTS.iterdir() if path.is_dir()} - {"__pycache__"}
    assert found == mirrored | BESIDE.keys()


def test_folders_of_tests_hold_tests_and_support_holds_none() -> None:
    files = {path.relative_to(TESTS) for path in TESTS.rglob("*.py")}
    files = {path for path in files if path.name not in {"__init__.py", "conftest.py"}}
    code = {path for path in files if not path.name.startswith("test_")}
    assert {path.parts[0] for path in code} == {"benchmarks", "support"}
    assert not {path for path in files - code if path.parts[0] == "support"}
    assert not {path for path in files if len(path.parts) == 1}


def test_no_file_imports_itself_through_others() -> None:
    left = {name: imports(path) - {name} for name, path in NAMES.items() if name != TABLE}
    while ends := [name for name in left if not left[name] & left.keys()]:
        left = {name: others for name, others in left.items() if name not in ends}
    while starts := left.keys() - set().union(*left.values()):
        left = {name: others for name, others in left.items() if name not in starts}
    assert left == {}


def test_the_public_names_are_these() -> None:
    assert set(xarray_n5.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(xarray_n5, name) is not None


@pytest.mark.parametrize("page", ["docs/api.md", "docs/errors.md"])
def test_every_error_stands_in_the_documentation(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text("utf-8")
    assert [name for name in errors.__all__ if name not in text] == []


def test_public_names_are_documented() -> None:
    texts = {name: inspect.getdoc(getattr(xarray_n5, name)) for name in PUBLIC - {"__version__"}}
    assert [name for name, text in texts.items() if len(text or "") <= 20] == []


def public_members(kind: type) -> set[str]:
    """The names that a class defines itself and shows."""
    return {name for name in vars(kind) if not name.startswith("_")}


def test_an_array_shows_what_users_need_and_no_more() -> None:
    assert public_members(xarray_n5.Array) == {
        *("shape", "dtype", "ndim", "size", "nbytes", "chunks", "nchunks", "shards", "grid"),
        *("path", "name", "url", "axes", "fill_value", "compression", "info", "oindex", "vindex"),
        *("resize", "refresh", "geometry", "read_chunk", "write_chunk", "delete_chunk"),
        *("chunk_exists", "read_only", "attrs", "node", "container"),
    }


def test_a_group_shows_what_users_need_and_no_more() -> None:
    shown = {"attrs", "path", "url", "format", "arrays", "groups", "tree", "info"}
    shown |= {"node", "container", "nodes", "children"}  # for extensions
    assert public_members(xarray_n5.Group) == shown | {"create_array", "create_group"}


def test_every_error_is_ours_and_a_builtin() -> None:
    for name in set(errors.__all__) - {"N5Error"}:
        if issubclass(getattr(errors, name), UserWarning):
            continue
        kind = getattr(errors, name)
        assert issubclass(kind, errors.N5Error)
        assert any(base.__module__ == "builtins" for base in kind.__mro__[2:-3]), name


@pytest.mark.parametrize("table", [COMPRESSIONS, DIALECTS, FORMATS, STORES])
def test_variants_inherit_nothing_and_are_known_by_their_names(table: dict[str, object]) -> None:
    for name, variant in table.items():
        kind = variant if isinstance(variant, type) else type(variant)
        assert kind.__bases__ == ((Store,) if table is STORES else (object,))
        assert getattr(kind, "name", name) == name or table is STORES
        assert kind.__module__.startswith("xarray_n5.")


def lines_without_docstrings(path: Path) -> int:
    """Return how many lines a file has, but for its docstrings."""
    text = path.read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = [
        node.body[0]
        for node in nodes_of(path)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    ]
    prose = sum((each.end_lineno or 0) - each.lineno + 1 for each in docstrings)
    return text.count("\n") - prose


def test_files_stay_small() -> None:
    lines = {path: lines_without_docstrings(path) for path in ALL_MODULES}
    assert {path: count for path, count in lines.items() if count > 300} == {}


MOST_LINES = {
    CORE: 30_900,
    ENGINE: 230,
    COMMANDS: 1_470,
    "xarray_n5.bdv": 4_750,
    "xarray_n5.doctor": 1_800,
    "xarray_n5.hangar": 1_010,
    "xarray_n5.imaris": 380,
    "xarray_n5.napari": 320,
    "xarray_n5.scenes": 1_300,
    "xarray_n5.viewing": 1_180,
}
"""The most lines of code of each package; docs/design.md has a table of them. To be reduced."""


def test_packages_do_not_grow() -> None:
    counts = Counter[str]()
    for name, path in NAMES.items():
        counts[top(name)] += lines_of_code(path)
    assert counts.keys() == MOST_LINES.keys()
    over = [f"{n}: {c}, at most {MOST_LINES[n]}" for n, c in counts.items() if c > MOST_LINES[n]]
    assert over == [], "remove lines, or raise MOST_LINES here, and update docs/design.md"


def test_the_page_tells_how_large_folders_are() -> None:
    text = (SOURCE.parents[1] / "docs" / "design.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) +\| +([\d,]+) \|", text, re.MULTILINE)
    counts, wrong = by_folder(), []
    for names, said in rows:
        several = re.findall(r"`(\w+)`", names)
        keys = [f"xarray_n5{name}" if name.startswith("_") else name for name in several]
        found = sum(counts[key] or counts[f"{CORE}/{key}"] for key in keys)
        if abs(found - int(said.replace(",", ""))) > 100:
            wrong.append(f"{names}: {said}, found {found:,}")
    assert len(rows) > 12
    assert wrong == [], "update docs/design.md, by python -m tests.support.lines"


def test_names_of_hangar_are_found_where_they_are_imported_on_first_use() -> None:
    assert set(dir(xarray_n5)) >= PUBLIC
    with pytest.raises(AttributeError, match="has no attribute 'from_hanger'"):
        xarray_n5.from_hanger  # noqa: B018
