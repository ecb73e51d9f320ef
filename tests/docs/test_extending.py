"""What the page on extending builds keeps the contracts that ours keep."""

from __future__ import annotations

import inspect
import sys
import types
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.docs.test_pages import ROOT, blocks, unchanged_tables
from tests.stores import test_stores
from tests.support.stores import MinimalStore
from xarray_n5.stores.base import Store

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
    assert len(CONTRACT) > 6


def test_seven_members_are_enough_to_write_in_parallel_to_resume_and_to_verify(
    tmp_path: Path,
) -> None:
    store: Any = MinimalStore(str(tmp_path / "store"))
    assert {name for name in dir(Store) if not name.startswith("_")} == {
        name for name in dir(store) if not name.startswith("_")
    } - {"root"}
    values = np.arange(1, 401, dtype="u2").reshape(20, 20)
    lazy = da.from_array(values, chunks=10)
    failing = tmp_path / "failing"
    failing.touch()
    blocks = lazy.map_blocks(fail_at_the_last, str(failing), dtype=lazy.dtype, meta=values[:0, :0])
    with dask.config.set(scheduler="threads"):
        with pytest.raises(ZeroDivisionError):
            xarray_n5.to_n5(blocks, store, "a", chunks=5)
        begun = set(store.list("a/.xn5")[1])
        failing.unlink()
        xarray_n5.to_n5(blocks, store, "a", chunks=5, resume=True)
    assert any(name.startswith("open-") for name in begun)
    np.testing.assert_array_equal(xarray_n5.from_n5(store, "a").compute(), values)
    assert set(xarray_n5.verify(store, "a").state.values.flat) == {"ok"}
    measured = xr.Dataset({"a": (("y", "x"), lazy)}, {"y": np.arange(20.0)})
    measured.n5.to_n5(store, "g")
    xr.testing.assert_equal(xr.open_dataset(store, engine="n5", group="g").load(), measured)
    del xarray_n5.open_group(store, mode="r+")["g"]
    assert "g" not in store.list("")[0]


def fail_at_the_last(block: np.ndarray, failing: str) -> np.ndarray:
    """Return a block, unless it is the array's last and a file says that it fails."""
    if block[-1, -1] == 400 and Path(failing).exists():
        raise ZeroDivisionError
    return block
