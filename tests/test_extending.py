"""What the page on extending builds keeps the contracts that ours keep."""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

import numpy as np
import pytest

import xarray_n5
from tests import test_storage
from tests.test_readme import ROOT, blocks, unchanged_tables
from xarray_n5.formats.protocol import KeyedFormat
from xarray_n5.stores.protocol import Store

PAGE = ROOT / "docs" / "extending.md"

CONTRACT = {
    name: test
    for name, test in vars(test_storage).items()
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
    ("protocol", "name"), [(Store, "SqliteStore"), (KeyedFormat, "Npy")], ids=["store", "format"]
)
def test_its_classes_have_all_members_of_their_protocols(protocol: type, name: str) -> None:
    kind = DEFINED[name]
    members = [each for each in dir(protocol) if not each.startswith("_")]
    members += [each for each in protocol.__annotations__ if not each.startswith("_")]
    assert [each for each in members if not hasattr(kind, each)] == []
    for each in members:
        ours, theirs = getattr(kind, each), getattr(protocol, each, None)
        if inspect.isfunction(theirs):
            wanted, given = inspect.signature(theirs), inspect.signature(ours)
            assert list(given.parameters) == list(wanted.parameters), each


def test_its_chunks_are_read_by_numpy() -> None:
    form, values = DEFINED["Npy"](), np.arange(6, dtype="<i4").reshape(2, 3)
    data = form.encode(None, values)
    assert form.peek(None, data, len(data)) == (2, 3)
    np.testing.assert_array_equal(form.decode(None, data), values)
    with pytest.raises(EOFError):
        form.peek(None, data, len(data) - 1)
