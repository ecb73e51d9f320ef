"""The shape of the house: what is public, which way imports point, how large files are."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import xarray_n5
from xarray_n5 import errors
from xarray_n5.compression import COMPRESSIONS
from xarray_n5.dialects import DIALECTS
from xarray_n5.formats import FORMATS
from xarray_n5.storage import STORES

SOURCE = Path(xarray_n5.__file__).parent

LADDER = [
    {"printable"},
    {"alerts", "errors", "options", "datasets.notes"},
    {"parsing"},
    {
        "parallel",
        "paths",
        "selection",
        "datasets.misspelt",
        "datasets.unpacking",
        "units",
        "views.drawings",
        "views.markup",
        "writing.planning",
        "writing.receipts",
    },
    {"pyramids.windows", "writing.marks", "writing.promises"},
    {"axes"},
    {"grid", "pyramids.scaling"},
    {"compression", "storage"},
    {"consolidated", "metadata", "writing.underway"},
    {"dialects", "formats", "writing.finished", "writing.forgetting"},
    {"documents"},
    {"structure"},
    {"attributes", "chunks", "writing.orders"},
    {"blocks", "reading", "surroundings", "views.reprs"},
    {"points", "views.trees"},
    {"array"},
    {"nodes", "probes"},
    {"block_sizes", "creation", "reads", "describing", "copies.converting", "copies.translating"},
    {"group"},
    {
        "chunkmaps",
        "coordinates",
        "graphs",
        "sparse",
        "datasets.decoding",
        "datasets.images",
        "datasets.lazy",
        "datasets.naming",
        "datasets.packing",
        "walking",
        "writing.gathering",
    },
    {"datasets.native", "datasets.noted", "writing.digests", "writing.sources", "writing.writes"},
    {"datasets.packings", "writing.leftovers"},
    {"writing.storing"},
    {"writing.resuming"},
    {"pyramids.coarsening", "writing.batches", "writing.beginning"},
    {"dask", "hangar_columns", "datasets.faithful", "datasets.fitting", "datasets.picking"},
    {
        "hangar",
        "integrity",
        "copies.destinations",
        "copies.replicas",
        "datasets.encoding",
        "pyramids.bases",
        "views.sections",
    },
    {"copies.copying", "datasets.building", "repairing", "verification", "views.pictures"},
    {"datasets.multiscales", "datasets.room", "pyramids.room"},
    {"backend", "writer", "pyramids.plans"},
    {"multiscale", "datasets.updating"},
    {"accessor"},
]
"""Layers from the ground up; a module imports from layers below its own."""

STEPS = {"copies", "datasets", "pyramids", "views", "writing"}
"""Folders whose modules stand on steps of their own."""

LEVEL = {name: level for level, names in enumerate(LADDER) for name in names}

MODULES = sorted(SOURCE.rglob("*.py"))

COMMANDS = sorted((SOURCE.parent / "xarray_n5_cli").rglob("*.py"))
"""The command line, which stands beside the package and above all of it."""

PUBLIC = {
    *("open_array", "open_group", "create_array", "create_group", "Array", "Group", "Axis"),
    *("Geometry", "from_n5", "to_n5", "register_compression", "register_dialect"),
    *("chunk_map", "pyramid", "repair", "verify"),
    *("from_hangar", "to_hangar", "hangar_records", "HangarWriter"),
    *("__version__", *errors.__all__),
}


def layer(path: Path) -> str:
    """The module of the package that a file is, or the folder whose files are alike."""
    first, *others = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join([first, *others]) if first in STEPS and others != ["__init__"] else first


def imports(tree: ast.AST) -> set[str]:
    """The package's modules that a file imports when it runs, wherever in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xarray_n5"):
            module: list[str] = (node.module or "").split(".")[1:]
            if module and module[0] in STEPS:
                names = module[1:2] or [alias.name for alias in node.names]
                found |= {f"{module[0]}.{name}" for name in names}
            else:
                found |= {module[0]} if module else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            places = [alias.name.split(".") for alias in node.names]
            found |= {parts[1] for parts in places if parts[0] == "xarray_n5" and len(parts) > 1}
    return found


@pytest.mark.parametrize("path", MODULES, ids=[str(p.relative_to(SOURCE)) for p in MODULES])
def test_imports_point_down_the_ladder(path: Path) -> None:
    own = layer(path)
    if own in {"__init__", *STEPS}:
        return
    for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        same_folder = name == own and (SOURCE / own).is_dir()
        assert same_folder or LEVEL[name] < LEVEL[own], f"{own} imports {name}"


def test_every_module_stands_on_the_ladder() -> None:
    assert {layer(path) for path in MODULES} - {"__init__", *STEPS} == set(LEVEL)


def test_the_public_names_are_these() -> None:
    assert set(xarray_n5.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(xarray_n5, name) is not None


@pytest.mark.parametrize("page", ["docs/api.md", "docs/errors.md"])
def test_every_error_stands_in_the_documentation(page: str) -> None:
    text = (Path(__file__).parent.parent / page).read_text("utf-8")
    assert [name for name in errors.__all__ if name not in text] == []


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_public_names_are_documented(name: str) -> None:
    assert len(inspect.getdoc(getattr(xarray_n5, name)) or "") > 20


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
        assert kind.__bases__ == (object,)
        assert getattr(kind, "name", name) == name or table is STORES
        assert kind.__module__.startswith("xarray_n5.")


@pytest.mark.parametrize(
    "path",
    [*MODULES, *COMMANDS],
    ids=[str(p.relative_to(SOURCE.parent)) for p in [*MODULES, *COMMANDS]],
)
def test_files_stay_small(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    # Most of these are mostly the documentation of what users call.
    large = {"accessor.py": 320, "array.py": 510, "group.py": 585, "dask.py": 360}
    large |= {"chunks.py": 320, "updating.py": 310, "beginning.py": 310, "hdf5.py": 310}
    large |= {"plans.py": 305, "creation.py": 310, "underway.py": 330, "__init__.py": 310}
    assert lines <= large.get(path.name, 300)


def modules() -> list[str]:
    """The names of all modules of the package, and of the command line."""
    places = {"xarray_n5.": SOURCE, "xarray_n5_cli.": SOURCE.parent / "xarray_n5_cli"}
    return [
        found.name
        for prefix, place in places.items()
        for found in pkgutil.walk_packages([str(place)], prefix)
    ]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
