"""What the page on extending builds keeps the contracts that ours keep."""

from __future__ import annotations

import inspect
import sys
import types
from typing import TYPE_CHECKING, Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
from tests.docs.test_pages import ROOT, blocks, unchanged_tables
from tests.stores import test_stores
from tests.support.stores import MinimalStore
from xarray_n5.cli import main
from xarray_n5.formats.protocol import KeyedFormat
from xarray_n5.leaves import SCENES, Scene, SceneReader
from xarray_n5.stores.base import Store

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "extending.md"

CONTRACT = {
    name: test
    for name, test in vars(test_stores).items()
    if name.startswith("test_") and [*inspect.signature(test).parameters] == ["store"]
}
"""The tests that every store passes, as far as they need nothing else."""


def definitions() -> dict[str, Any]:
    """What the page defines: its blocks with classes, which need nothing of the others."""
    module = types.ModuleType("extending")
    sys.modules[module.__name__] = module  # what is pickled is found there again
    names = vars(module)
    names["xarray_n5"] = xarray_n5
    with unchanged_tables():
        for _, code in blocks(PAGE, "python"):
            if "@dataclass" in code:
                compiled = compile(code, PAGE, "exec", dont_inherit=True)
                exec(compiled, names)  # noqa: S102 - our own page
    return names


DEFINED = definitions()


@pytest.mark.parametrize("name", CONTRACT)
def test_its_store_keeps_the_contract_of_stores(name: str, tmp_path: Any) -> None:
    CONTRACT[name](DEFINED["SqliteStore"](str(tmp_path / "store.sqlite")))


def test_the_contract_is_of_some_length() -> None:
    assert len(CONTRACT) > 12


@pytest.mark.parametrize(
    ("protocol", "name"),
    [(Store, "SqliteStore"), (KeyedFormat, "Npy"), (SceneReader, "TilesReader"), (Scene, "Tiles")],
    ids=["store", "format", "reader", "scene"],
)
def test_its_classes_have_all_members_of_their_protocols(protocol: type, name: str) -> None:
    kind = DEFINED[name]
    members = [each for each in dir(protocol) if not each.startswith("_")]
    members += [each for each in protocol.__annotations__ if not each.startswith("_")]
    own = {*dir(kind), *kind.__annotations__}
    assert [each for each in members if each not in own] == []
    for each in own.intersection(members) & {*dir(kind)}:
        ours, theirs = getattr(kind, each), getattr(protocol, each, None)
        if inspect.isfunction(theirs) and ours.__name__ == each:
            wanted, given = inspect.signature(theirs), inspect.signature(ours)
            assert list(given.parameters) == list(wanted.parameters), each


def test_seven_members_are_enough_to_write_in_parallel_to_resume_and_to_verify(
    tmp_path: Path,
) -> None:
    store: Any = MinimalStore(str(tmp_path / "store"))
    assert {name for name in dir(Store) if not name.startswith("_")} == {
        name for name in dir(store) if not name.startswith("_")
    } - {"root"}
    values = np.arange(1, 401, dtype="u2").reshape(20, 20)
    lazy = da.from_array(values, chunks=10)
    broken = lazy.map_blocks(fail_at_the_last, dtype=lazy.dtype)
    with dask.config.set(scheduler="threads"):
        with pytest.raises(ZeroDivisionError):
            xarray_n5.to_n5(broken, store, "a", chunks=5, resume="same")
        begun = set(store.list("a")[0])
        xarray_n5.to_n5(lazy, store, "a", chunks=5, resume="same")
    assert any(name.startswith(".writing-") for name in begun)
    np.testing.assert_array_equal(xarray_n5.from_n5(store, "a").compute(), values)
    assert set(xarray_n5.verify(store, "a").state.values.flat) == {"ok"}
    measured = xr.Dataset({"a": (("y", "x"), lazy)}, {"y": np.arange(20.0)})
    measured.n5.to_n5(store, "g")
    xr.testing.assert_equal(xr.open_dataset(store, engine="n5", group="g").load(), measured)
    del xarray_n5.open_group(store, mode="r+")["g"]
    assert "g" not in store.list("")[0]


def fail_at_the_last(block: np.ndarray) -> np.ndarray:
    """Return a block, unless it is the array's last."""
    if block[-1, -1] == 400:
        raise ZeroDivisionError
    return block


def test_its_chunks_are_read_by_numpy() -> None:
    form, values = DEFINED["Npy"](), np.arange(6, dtype="<i4").reshape(2, 3)
    data = form.encode(None, values)
    assert form.peek(None, data, len(data)) == (2, 3)
    np.testing.assert_array_equal(form.decode(None, data), values)
    with pytest.raises(EOFError):
        form.peek(None, data, len(data) - 1)


def test_a_scene_is_registered_once_and_by_bytes(tmp_path: Path) -> None:
    reader = DEFINED["TilesReader"]()
    with mock.patch.dict(SCENES):
        xarray_n5.register_scene(b'"tiles"', reader)
        xarray_n5.register_scene(b'"tiles"', DEFINED["TilesReader"]())
        for mark in (b"", b"a\0b"):
            with pytest.raises(ValueError, match="expected bytes without NUL"):
                xarray_n5.register_scene(mark, reader)
        with pytest.raises(ValueError, match="already registered"):
            xarray_n5.register_scene(b"<SpimData", reader)
        with pytest.raises(TypeError, match="expected bytes"):
            xarray_n5.register_scene("tiles", reader)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="with the method recognizes"):
            xarray_n5.register_scene(b"tiles", "xarray_n5.bdv.hooks")  # type: ignore[arg-type]
        (tmp_path / "tiles.json").write_bytes(b'{"tiles": {"a": 0}, "container": "../a.n5"}')
        with pytest.raises(xarray_n5.PathError):
            xr.open_dataset(tmp_path / "tiles.json", engine="n5", group="a")
    with pytest.raises(xarray_n5.NodeNotFoundError):
        xr.open_dataset(tmp_path / "tiles.json", engine="n5", group="a")


def test_commands_of_a_program_that_imports_a_reader_describe_its_scenes(tmp_path: Path) -> None:
    xarray_n5.to_n5(np.ones((2, 3), "u1"), tmp_path / "a.n5", "left", axes=["y", "x"])
    path = tmp_path / "tiles.json"
    path.write_bytes(b'{"tiles": {"left": 4}, "container": "a.n5"}')
    with mock.patch.dict(SCENES):
        xarray_n5.register_scene(b'"tiles"', DEFINED["TilesReader"]())
        assert "left   begins at 4" in CliRunner().invoke(main, ["info", str(path)]).output
        xarray_n5.copy(path, tmp_path / "b.n5")
    assert CliRunner().invoke(main, ["info", str(path)]).exit_code == 1


@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_errors_of_readers_name_the_file_and_the_reader(tmp_path: Path, kind: type) -> None:
    path = tmp_path / "tiles.json"
    path.write_bytes(b'{"tiles": {}}')
    with mock.patch.dict(SCENES):
        reader = DEFINED["TilesReader"]()
        xarray_n5.register_scene(b'"tiles"', reader)
        broken = mock.patch.object(type(reader), "open_scene", side_effect=kind("no stage"))
        with (
            broken,
            pytest.raises(
                xarray_n5.MetadataError,
                match=rf"tiles.json: TilesReader cannot read the file: {kind.__name__}: '?no stage",
            ),
        ):
            xr.open_dataset(path, engine="n5", group="a")
