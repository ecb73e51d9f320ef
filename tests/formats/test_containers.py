"""What containers of every format have in common: nodes as metadata, chunks by index."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.containers import NAMES
from xarray_n5 import MetadataError, NodeNotFoundError
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.formats.containers import open_container
from xarray_n5.formats.keyed import not_found
from xarray_n5.formats.protocol import Node
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.formats.containers import Container
    from xarray_n5.model.grid import Index

pytest.importorskip("h5py")


@pytest.fixture(params=NAMES)
def container(request: pytest.FixtureRequest, tmp_path: Path) -> Container:
    """A container that does not exist yet."""
    found, path = open_container(tmp_path / NAMES[request.param], format=request.param)
    assert (found.format.name, path) == (request.param, "")
    return found


def metadata(container: Container, **changes: Any) -> ArrayMetadata:
    """Return the metadata of a new array."""
    facts: dict[str, Any] = {"shape": (5, 7), "chunks": (2, 3), "dtype": np.dtype("u2")}
    facts["compression"] = Gzip()
    return container.format.complete(ArrayMetadata(**(facts | changes)))


def put(container: Container, path: str, **changes: Any) -> ArrayMetadata:
    """Create an array and the groups around it; return its metadata."""
    parts = path.split("/")[:-1]
    for depth in range(len(parts) + 1):
        group = container.node("/".join(parts[:depth]))
        container.complete_group(group, fresh=not depth and not group.described)
    array = metadata(container, **changes)
    container.create(container.node(path), array)
    return array


def array_at(container: Container, path: str) -> ArrayMetadata:
    """Return the metadata of an array."""
    found = container.node(path).metadata
    assert isinstance(found, ArrayMetadata)
    return found


def block(value: int) -> np.ndarray:
    """Return a whole chunk."""
    return np.full((2, 3), value, "u2")


def test_absent_nodes_are_groups_that_nothing_describes(container: Container) -> None:
    node = container.node("g/a")
    assert node == Node(path="g/a", metadata=GroupMetadata(), described=False)
    assert not container.exists(node)
    assert container.children("g") == ()
    assert container.etag("g/a") is None
    error = not_found(container, node, "array")
    assert isinstance(error, NodeNotFoundError)
    assert "does not exist" in str(error)


def test_nodes_are_read_as_they_were_created(container: Container) -> None:
    array = put(container, "g/a", attributes={"x": [1, 2], "y": {"z": None}})
    found = array_at(container, "g/a")
    assert (found.shape, found.chunks, found.dtype) == (array.shape, array.chunks, array.dtype)
    assert found.compression.name == "gzip"
    assert dict(found.attributes) == {"x": [1, 2], "y": {"z": None}}
    assert container.children("") == ("g",)
    assert container.children("g") == ("a",)
    assert [node.path for node in container.nodes(["g", "g/a"]) if isinstance(node, Node)] == [
        "g",
        "g/a",
    ]
    assert "'/' holds g" in str(not_found(container, container.node("b"), "array"))


def test_attributes_are_changed_by_what_they_are(container: Container) -> None:
    put(container, "a", attributes={"x": 1})
    after = container.change_attributes("a", lambda before: {**before, "y": 2.5}, "array")
    assert after == {"x": 1, "y": 2.5} == dict(container.node("a").metadata.attributes)
    container.change_attributes("a", lambda _: {"x": 3}, "array or group")
    assert dict(container.node("a").metadata.attributes) == {"x": 3}
    with pytest.raises(NodeNotFoundError):
        container.change_attributes("b", dict, "array")
    with pytest.raises(MetadataError, match="JSON"):
        container.change_attributes("a", lambda _: {"x": object()}, "array")


def test_shapes_are_changed(container: Container) -> None:
    put(container, "a")
    before = container.etag("a")
    container.resize("a", (9, 4))
    assert array_at(container, "a").shape == (9, 4)
    assert container.etag("a") != before is not None


def test_nodes_are_deleted_with_all_in_them(container: Container) -> None:
    array = put(container, "g/a")
    list(
        container.set_chunks("g/a", array, [((0, 0), container.format.encode(array, block(1)))], 1)
    )
    assert container.occupant("g") == "a"
    container.delete("g")
    assert not container.exists(container.node("g"))
    assert container.children("") == ()


def test_chunks_are_kept_by_index(container: Container) -> None:
    array = put(container, "a")
    form = container.format
    assert container.get_chunk("a", array, (0, 0)) is None
    data: dict[Index, np.ndarray] = {(0, 0): block(1), (2, 2): block(2), (1, 0): block(3)}
    items = [(index, form.encode(array, each)) for index, each in data.items()]
    assert len(list(container.set_chunks("a", array, items, 2))) == len(items)
    assert sorted(container.list_chunks("a", array)) == sorted(data)
    for index, found in container.get_chunks("a", array, [*data, (0, 1)], 2):
        assert (found is None) == (index not in data) != container.has_chunk("a", array, index)
        assert found is None or (form.decode(array, found) == data[index]).all()
    heads = list(container.head_chunks("a", array, [(0, 0), (0, 1)], 8))
    stored = container.get_chunk("a", array, (0, 0))
    assert stored is not None
    assert heads == [(bytes(stored[:8]), len(stored)), None]
    sizes = {index: info.size for index, info in container.list_chunk_info("a", array)}
    assert sizes[0, 0] == len(stored)
    keys = {container.chunk_key("a", array, index).removeprefix("a/"): index for index in data}
    assert {key: container.chunk_index(array, key) for key in keys} == keys
    assert keys.keys() <= set(container.walk("a"))


def test_chunks_that_are_deleted_read_as_the_fill_value(container: Container) -> None:
    array = put(container, "a")
    list(container.set_chunks("a", array, [((0, 0), container.format.encode(array, block(7)))], 1))
    container.delete_chunks("a", array, [(0, 0), (1, 1)])
    found = container.get_chunk("a", array, (0, 0))
    assert found is None or not container.format.decode(array, found).any()
    assert container.get_chunk("a", array, (1, 1)) is None


def test_containers_pickle_and_know_their_nodes(container: Container) -> None:
    array = put(container, "a")
    again = pickle.loads(pickle.dumps(container))  # noqa: S301 - made here
    assert again == container
    assert again.identity("a") == container.identity("a") != container.identity("")
    assert array_at(again, "a").bare() == array_at(container, "a")
    assert array.shape == (5, 7)


def test_hidden_files_are_kept_outside_of_the_nodes(container: Container) -> None:
    put(container, "a")
    container.store.set("a/.kept", b"1")
    assert container.store.get("a/.kept") == b"1"
    assert container.children("") == ("a",)
    container.delete("a")
    assert container.store.get("a/.kept") is None
