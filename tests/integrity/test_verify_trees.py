"""``verify`` of a container or a group: a tree of reports, as the command line has a list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.support.containers import NAMES
from xarray_n5 import NodeNotFoundError, create_group, to_n5, verify
from xarray_n5.cli import main

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(1, 25, dtype="i4").reshape(4, 6)


@pytest.fixture(params=list(NAMES.values()))
def container(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Three arrays at two depths."""
    place: Path = tmp_path / request.param
    for name in ("a", "g/b", "g/h/c"):
        to_n5(VALUES, place, name, chunks=2)
    return place


def test_a_container_is_verified_array_by_array(container: Path) -> None:
    tree = verify(container).compute()
    assert isinstance(tree, xr.DataTree)
    assert {node.path for node in tree.leaves} == {"/a", "/g/b", "/g/h/c"}
    for node in tree.leaves:
        assert (node["state"] == "ok").all()
        xr.testing.assert_identical(
            node.to_dataset(), verify(container, node.path.strip("/")).compute()
        )
    assert tree.attrs["errors"] == {}


def test_a_group_is_verified_by_paths_in_it(container: Path) -> None:
    assert {node.path for node in verify(container, "g").leaves} == {"/b", "/h/c"}


def test_what_cannot_be_read_is_named_beside_the_reports(tmp_path: Path) -> None:
    for name in ("a", "g/b"):
        to_n5(VALUES, tmp_path / "b.n5", name, chunks=2, compression=None)
    document = tmp_path / "b.n5/g/b/attributes.json"
    document.write_text(document.read_text().replace("int32", "int33"))
    damaged = tmp_path / "b.n5/a/0/1"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    tree = verify(tmp_path / "b.n5").compute()
    assert [node.path for node in tree.leaves] == ["/a"]
    assert int((tree["a/state"] == "truncated").sum()) == 1
    assert list(tree.attrs["errors"]) == ["g/b"]
    assert "'int33'" in tree.attrs["errors"]["g/b"]
    listed = json.loads(
        CliRunner().invoke(main, ["verify", str(tmp_path / "b.n5"), "--json"]).stdout
    )
    assert {each["path"] for each in listed} == {"a", "g/b"}


def test_a_group_without_arrays_is_an_error(tmp_path: Path) -> None:
    create_group(tmp_path / "b.n5", "g")
    with pytest.raises(NodeNotFoundError, match="no arrays found"):
        verify(tmp_path / "b.n5", "g")
