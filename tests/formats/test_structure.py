"""Groups that claim to be arrays: what a node holds decides, and no group reads as zeros."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.support.memory_store import MemoryStore
from tests.support.remote import Far
from tests.support.stores import CountingStore
from xarray_n5 import (
    Array,
    Group,
    MetadataError,
    NodeExistsError,
    NodeNotFoundError,
    copy,
    create_array,
    from_n5,
    open_array,
    open_group,
    repair,
    to_n5,
    verify,
)
from xarray_n5.stores import FsspecStore, LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from xarray_n5.stores.base import Store

CLAIM = {"dataType": "uint16", "blockSize": [4, 4, 4], "dimensions": [8, 8, 4]}
CLAIM |= {"compression": {"type": "gzip", "useZlib": False, "level": 1}}  # type: ignore[dict-item]

FACTORS = [[1, 1, 1], [2, 2, 1]]


def bigstitcher(store: Store, **more: Any) -> None:
    """What `resave` of BigStitcher writes (multiview-reconstruction, N5ApiTools)."""
    for setup in (0, 1):
        for time in (0, 1):
            view = f"setup{setup}/timepoint{time}"
            for level, (x, y, z) in enumerate(FACTORS):
                made = create_array(
                    store,
                    f"{view}/s{level}",
                    shape=(4 // z, 8 // y, 8 // x),
                    dtype="u2",
                    chunks=4,
                    attributes={"downsamplingFactors": [x, y, z]},
                )
                made[...] = 1 + setup + 10 * time
            told = {"resolution": [1.0, 1.0, 1.0], "saved_completely": True, "multiScale": True}
            store.set(f"{view}/attributes.json", json.dumps(told).encode())
        claim = {**CLAIM, "downsamplingFactors": FACTORS, **more}
        store.set(f"setup{setup}/attributes.json", json.dumps(claim).encode())


def claiming(store: Store, children: Sequence[str], **attributes: Any) -> None:
    """A group `em` with the metadata of an array, and arrays in it."""
    for child in children:
        create_array(store, f"em/{child}", shape=(4, 8, 8), dtype="u2", chunks=4)[...] = 7
    store.set("em/attributes.json", json.dumps({**CLAIM, **attributes}).encode())


def in_zarr(store: Store, children: Sequence[str]) -> None:
    """The same in Zarr v2: a `.zarray` beside nodes."""
    for child in children:
        made = create_array(
            store, f"em/{child}", shape=(4, 8), dtype="u2", chunks=4, format="zarr2"
        )
        made[...] = 7
    store.set("em/.zarray", store.get(f"em/{children[0]}/.zarray") or b"")


LAYOUTS: dict[str, tuple[str, str, Callable[[Store], None]]] = {
    "BigStitcher": ("setup0", "timepoint0/s0", bigstitcher),
    "BigStitcher without factors": (
        "setup0",
        "timepoint0/s0",
        lambda store: bigstitcher(store, downsamplingFactors=None),
    ),
    "levels": ("em", "s0", lambda store: claiming(store, ["s0", "s1"])),
    "levels and factors": (
        "em",
        "s0",
        lambda store: claiming(store, ["s0", "s1"], downsamplingFactors=FACTORS),
    ),
    "numbered levels": ("em", "0", lambda store: claiming(store, ["0", "1"])),
    "one numbered level": ("em", "0", lambda store: claiming(store, ["0"], multiScale=True)),
    "names": ("em", "raw", lambda store: claiming(store, ["raw", "labels"])),
    "Zarr": ("em", "s0", lambda store: in_zarr(store, ["s0", "s1"])),
    "Zarr, numbered": ("em", "0", lambda store: in_zarr(store, ["0", "1"])),
}
"""The group, an array in it, and what makes them."""


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[LocalStore, str, str]:
    path, inner, make = LAYOUTS[request.param]
    store = LocalStore(str(tmp_path / ("x.zarr" if "Zarr" in request.param else "x.n5")))
    make(store)
    return store, path, inner


def test_a_group_that_claims_to_be_an_array_is_a_group(layout: tuple[LocalStore, str, str]) -> None:
    store, path, inner = layout
    root = open_group(store)
    assert isinstance(root[path], Group)
    assert path in root.nodes()
    assert path not in root.arrays()
    group = open_group(store, path)
    found = group[inner]
    assert isinstance(found, Array)
    assert found[...].all()
    assert list(group) == sorted({each.split("/")[0] for each in group} | {inner.split("/")[0]})


def test_opening_it_as_an_array_says_what_to_open(layout: tuple[LocalStore, str, str]) -> None:
    store, path, _ = layout
    calls: list[Callable[[], object]] = [
        lambda: open_array(store, path),
        lambda: open_array(store, path, mode="r+"),
        lambda: from_n5(store, path),
        lambda: repair(store, path),
    ]
    for call in calls:
        with pytest.raises(NodeNotFoundError, match="it is a group"):
            call()


def test_datasets_and_trees_hold_its_arrays(layout: tuple[LocalStore, str, str]) -> None:
    store, path, inner = layout
    tree = xr.open_datatree(store.root, engine="n5")
    arrays = [node.dataset[name] for node in tree.subtree for name in node.data_vars]
    assert len(arrays) > 0
    assert all(bool((each > 0).all()) for each in arrays)
    if "/" not in inner:
        images = xr.open_dataset(store.root, engine="n5", group=path)
        assert inner in images
        assert int(images[inner].min()) == 7


@pytest.mark.matrix(3)
def test_a_copy_holds_the_data(layout: tuple[LocalStore, str, str], tmp_path: Path) -> None:
    store, path, inner = layout
    for url in (tmp_path / "copy.n5", tmp_path / "copy.zarr", tmp_path / "copy.h5"):
        copy(store, url)
        found = open_array(url, f"{path}/{inner}")[...]
        np.testing.assert_array_equal(found, open_array(store, f"{path}/{inner}")[...])
        with pytest.raises(NodeNotFoundError):
            open_array(url, path)


def test_nothing_is_written_over_it(layout: tuple[LocalStore, str, str]) -> None:
    store, path, inner = layout
    for mode in ("w-", "w", "a"):
        with pytest.raises((NodeExistsError, MetadataError)):
            create_array(store, path, shape=(4,), dtype="u1", mode=mode)  # type: ignore[arg-type]
    with pytest.raises(NodeNotFoundError):
        create_array(store, path, shape=(4, 8, 8), dtype="u2", mode="r+")
    assert open_array(store, f"{path}/{inner}")[...].all()
    create_array(store, f"{path}/more", shape=(4,), dtype="u1", chunks=4)
    assert open_array(store, f"{path}/more").shape == (4,)


def test_attributes_of_such_a_group_can_be_changed(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "x.n5"))
    bigstitcher(store)
    group = open_group(store, "setup0", mode="r+")
    assert group.attrs["dataType"] == "uint16"
    group.attrs["name"] = "left"
    written = json.loads((tmp_path / "x.n5/setup0/attributes.json").read_text())
    assert written == {**CLAIM, "downsamplingFactors": FACTORS, "name": "left"}
    assert open_group(store, "setup0").attrs["name"] == "left"


def test_setups_of_bigstitcher_are_one_image(tmp_path: Path) -> None:
    bigstitcher(LocalStore(str(tmp_path / "x.n5")))
    tree = xr.open_datatree(tmp_path / "x.n5", engine="n5")
    image = tree["s1/x_data"]
    assert image.dims == ("t", "setup", "z", "y", "x")
    assert image.x.values.tolist() == [0.5, 2.5, 4.5, 6.5]
    assert image[:, :, 0, 0, 0].values.tolist() == [[1, 2], [11, 12]]
    finest = xr.open_dataset(tmp_path / "x.n5", engine="n5", level=0)["x_data"]
    assert finest.shape == (2, 2, 4, 8, 8)


def far(make: Callable[[Store], None]) -> tuple[Far, FsspecStore]:
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    make(store)
    fs.reset()
    return fs, FsspecStore(fs, "b/x.n5")


ODD = ["BigStitcher", "BigStitcher without factors", "levels and factors", "one numbered level"]


@pytest.mark.parametrize("name", ODD)
def test_what_looks_odd_is_looked_into_far_away(name: str) -> None:
    path, _, make = LAYOUTS[name]
    _, store = far(make)
    assert isinstance(open_group(store)[path], Group)
    with pytest.raises(NodeNotFoundError, match="it is a group"):
        open_array(store, path)


@pytest.mark.parametrize("name", ["levels", "names", "numbered levels"])
def test_what_does_not_look_odd_never_reads_as_zeros_far_away(name: str, tmp_path: Path) -> None:
    path, _, make = LAYOUTS[name]
    _, store = far(make)
    place: Any = store
    reads: list[Callable[[], object]] = [
        lambda: open_array(store, path)[...],
        lambda: from_n5(store, path).compute(scheduler="sync"),
        lambda: xr.open_dataset(place, engine="n5", group=path).load(),
        lambda: list(open_array(store, path).node.stored_chunks()),
        lambda: verify(store, path),
        lambda: copy(open_group(store), tmp_path / "copy.n5"),
    ]
    for read in reads:
        with pytest.raises(NodeNotFoundError, match="it is a group"):
            read()


def test_sparse_arrays_far_away_are_looked_into_once() -> None:
    fs, store = far(_sparse)
    for _ in range(3):
        assert not open_array(store, "a")[...].any()
    # None where another test has looked there; the hidden folder each time.
    assert fs.counts["LIST"] <= 1 + 3


def _sparse(store: Store) -> None:
    document = json.dumps(CLAIM).encode()
    store.set("a/attributes.json", document)


class Unlisted(CountingStore):
    """A store that lists nothing, as many a web server."""

    def list(self, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        raise PermissionError(prefix)

    def list_many(self, prefixes: Sequence[str]) -> Any:
        raise PermissionError(str(prefixes))


@pytest.mark.parametrize("name", ["BigStitcher", "levels", "numbered levels"])
def test_groups_are_found_where_nothing_is_listed(name: str) -> None:
    path, _, make = LAYOUTS[name]
    full = CountingStore()
    make(full)
    store = Unlisted(inner=full.inner)
    with pytest.raises(NodeNotFoundError, match="it is a group"):
        open_array(store, path)[...]


def test_ordinary_arrays_cost_no_listing_of_chunks() -> None:
    store = CountingStore()
    create_array(store, "em/s1", shape=(8, 8), dtype="u2", chunks=4)[...] = 1
    attributes = {"downsamplingFactors": [2, 2], "pixelResolution": [4, 4], "axes": ["x", "y"]}
    open_array(store, "em/s1", mode="r+").attrs.update(attributes)
    store.requests()
    array = open_array(store, "em/s1")
    array[...]
    assert store.requests() == {"get_many": 2, "list": 1}  # that of the hidden folder


REAL: dict[str, Callable[[Store], None]] = {
    "nothing": lambda _: None,
    "a folder": lambda store: store.set("setup0/notes/readme.txt", b"!"),
    "an empty group": lambda store: store.set("setup0/notes/attributes.json", b"{}"),
    "a file": lambda store: store.set("setup0/notes.txt", b"!"),
    "what a write left": lambda store: store.set("setup0/.xn5/notes-0123abcd/0.0", b"{}"),
}


@pytest.mark.parametrize("make", REAL.values(), ids=REAL)
@pytest.mark.parametrize("shape", [(), (9,), (9, 9), (9, 9, 9)])
@pytest.mark.parametrize("form", ["n5", "zarr2"])
@pytest.mark.parametrize("filled", [True, False])
def test_arrays_stay_arrays(
    make: Callable[[Store], None], shape: tuple[int, ...], form: Any, *, filled: bool
) -> None:
    store = MemoryStore()
    made = create_array(store, "setup0", shape=shape, dtype="u2", chunks=4, format=form)
    if filled:
        made[...] = 3
    make(store)
    assert (open_array(store, "setup0", format=form)[...] == 3 * filled).all()


def test_an_array_with_chunks_and_nodes_is_the_array_and_says_so() -> None:
    store = MemoryStore()
    create_array(store, "a", shape=(8, 8), dtype="u2", chunks=4)[...] = 3
    store.set("a/mask/attributes.json", json.dumps(CLAIM).encode())
    with pytest.warns(UserWarning, match=r"array with chunks that also contains nodes \(mask\)"):
        array = open_array(store, "a")
    assert (array[...] == 3).all()


def test_an_array_with_chunks_stays_one_whatever_factors_it_lists() -> None:
    store = MemoryStore()
    create_array(store, "a", shape=(8, 8), dtype="u2", chunks=4)[...] = 3
    members = json.loads(store.get("a/attributes.json") or b"")
    store.set("a/attributes.json", json.dumps({**members, "downsamplingFactors": FACTORS}).encode())
    array = open_array(store, "a", mode="r+")
    assert (array[...] == 3).all()
    array.attrs["name"] = "kept"


def test_no_array_is_given_what_makes_it_a_group() -> None:
    store = MemoryStore()
    factors = {"downsamplingFactors": FACTORS}
    with pytest.raises(MetadataError, match="'downsamplingFactors'"):
        create_array(store, "a", shape=(8, 8), dtype="u2", attributes=factors)
    array = create_array(store, "a", shape=(8, 8), dtype="u2")
    with pytest.raises(MetadataError, match="'downsamplingFactors'"):
        array.attrs.update(factors)


def test_a_pyramid_is_added_to_a_group_that_claims_to_be_an_array(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "x.n5"))
    to_n5(np.ones((16, 16, 16), "u2"), store, "em/s0", chunks=8)
    store.set("em/attributes.json", json.dumps(CLAIM).encode())
    xarray_n5.add_levels(store, path="em/s0", factors=[2])
    assert xr.open_dataset(store.root, engine="n5", group="em", level=1)["em"].shape == (8, 8, 8)
