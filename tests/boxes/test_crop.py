"""``.n5.crop``: boxes in physical coordinates."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from tests.support.stores import CountingStore
from xarray_n5.boxes.sources import stored_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHAPE = (12, 10)


def image(
    step: float = 0.5, start: float = 3.0, dtype: str = "u2", unit: str = "um"
) -> xr.DataArray:
    """An image of 12 x 10 that descends along y."""
    y = xr.Variable("y", (start + step * np.arange(SHAPE[0]))[::-1], {"units": unit})
    x = xr.Variable("x", start + 2 * step * np.arange(SHAPE[1]), {"units": unit})
    values = np.arange(1, 1 + SHAPE[0] * SHAPE[1]).reshape(SHAPE).astype(dtype)
    return xr.DataArray(values, {"y": y, "x": x}, ("y", "x"), "raw", {"made by": "a test"})


def stored(array: xr.DataArray, **how: Any) -> tuple[CountingStore, xr.DataArray]:
    """The array opened from chunks of 4 x 4, and the store that counts."""
    store: Any = CountingStore()
    array.n5.to_n5(store, "em", encoding={"raw": {"chunks": (4, 4)}})
    opened = xr.open_dataset(store, engine="n5", group="em", **how)["raw"]
    store.chunks_read()
    return store, opened


KINDS: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    "memory": lambda array: array,
    "lazy": lambda array: stored(array)[1],
    "dask": lambda array: stored(array, chunks={})[1],
}


@cache
def opened(kind: str) -> xr.DataArray:
    """The image as a kind, for all examples of a test."""
    return KINDS[kind](image())


@contextmanager
def nothing_or_a_warning(expected: xr.DataArray) -> Iterator[None]:
    """A warning is given if the result is empty, and else none."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        yield
    assert bool(given) == (0 in expected.shape)
    assert all("no samples are within the bounds" in str(each.message) for each in given)


ends = st.integers(-50, 200).map(lambda tenth: tenth / 10) | st.sampled_from([3.5, 8.25])


@pytest.mark.parametrize("kind", KINDS)
@given(bounds=st.tuples(ends, ends), flip=st.booleans())
def test_a_crop_is_the_selection_of_both_ends(
    kind: str, bounds: tuple[float, float], *, flip: bool
) -> None:
    low, high = sorted(bounds)
    expected = image().sel(y=slice(high, low), x=slice(low, high))
    with nothing_or_a_warning(expected):
        found = opened(kind).n5.crop(y=bounds, x=bounds[::-1] if flip else bounds)
    xr.testing.assert_identical(found, expected)
    with nothing_or_a_warning(expected):
        found = opened(kind).n5.crop({"y": slice(low, high)}, x=f"{low}:{high} um")
    xr.testing.assert_identical(found, expected)


def test_rounded_coordinates_belong_to_the_box_that_ends_there() -> None:
    x = xr.Variable("x", 0.1 * np.arange(10), {"units": "um"})
    array = xr.DataArray(np.arange(10), {"x": x}, "x")
    assert x.values[3] > 0.3
    assert array.n5.crop(x=(0.1, 0.3)).values.tolist() == [1, 2, 3]
    assert array.n5.crop(x=("100 nm", "300nm")).values.tolist() == [1, 2, 3]
    assert array.n5.crop(x=(0.6, 1.2)).values.tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (("4000 nm", "0.005 mm"), [4.0, 5.0]),
        (("4", 5), [4.0, 5.0]),
        ((None, "3.9 microns"), [3.0]),
        (("11 um", None), [11.0, 12.0]),
        (("-1 nm", "+3e3 nm"), [3.0]),
    ],
)
def test_strings_have_units(bounds: tuple[Any, Any], expected: list[float]) -> None:
    assert image().n5.crop(x=bounds).x.values.tolist() == expected


def chunks_of(box: tuple[slice, ...]) -> set[tuple[int, ...]]:
    """The chunks of 4 x 4 that a box overlaps, in N5's order."""
    return set(product(*(range(each.start // 4, -(-each.stop // 4)) for each in box[::-1])))


@pytest.mark.parametrize("how", [{}, {"chunks": {}}], ids=["lazy", "dask"])
def test_nothing_outside_is_read(how: dict[str, Any]) -> None:
    store, array = stored(image(), **how)
    # Along y, the samples of 7 and less begin at index 3; along x, that of 5 is at index 2.
    found = array.n5.crop(y=(4, 7), x=(5, 30))
    assert found.shape == (7, 8)
    assert store.chunks_read() == set()
    expected = image().values[3:10, 2:]
    np.testing.assert_array_equal(found.values, expected)
    assert store.chunks_read() == chunks_of((slice(3, 10), slice(2, 10)))
    with pytest.warns(UserWarning, match="no samples are within"):
        outside = array.n5.crop(x=(100, 120)).load()
    assert outside.sizes["x"] == 0
    assert store.chunks_read() == set()


def test_a_box_within_the_array_is_a_plain_selection() -> None:
    _, array = stored(image())
    found = stored_source(array.n5.crop(x=(4, 9), y=(4, 5)))
    assert found is not None
    assert found.selection == (range(7, 10), range(1, 7))


def test_a_dataset_is_cropped_with_all_that_belongs_to_it() -> None:
    dataset = image().to_dataset()
    dataset["mean"] = ("y", np.arange(12.0))
    dataset["affine"] = (("row", "column"), np.eye(3))
    dataset = dataset.assign_coords(label=("x", list("abcdefghij")), time=5).assign_attrs(a=1)
    found = dataset.n5.crop(x=(4, 6))
    xr.testing.assert_identical(found, dataset.sel(x=slice(4, 6)))


def test_the_levels_of_a_tree_are_cropped_alike() -> None:
    levels = {"s0": image().to_dataset(), "s1": image()[::2, ::2].to_dataset()}
    tree = xr.DataTree.from_dict(
        {"/em": xr.Dataset(attrs={"a": 1}), **{f"/em/{k}": v for k, v in levels.items()}}
    )
    found = tree.n5.crop(x=(5, 8), y=(4, 6))
    for name, level in levels.items():
        expected = level.sel(x=slice(5, 8), y=slice(6, 4))
        xr.testing.assert_identical(found[f"em/{name}"].to_dataset(), expected)
    assert found["em"].attrs == {"a": 1}


def test_views_of_a_project_keep_their_matrices() -> None:
    affine = xr.DataArray(
        np.array([[0.0, 0, 2, 5], [0, 3, 0, 0], [1, 0, 0, 0]]),
        dims=("axis", "column"),
        attrs={
            "coordinates_start": [0.0, 0.0, 0.0],
            "coordinates_step": [1.0, 1.0, 1.0],
        },
    )
    coords = {dim: np.arange(6.0) for dim in "zyx"}
    array = xr.DataArray(np.zeros((6, 6, 6)), coords, list("zyx"), "raw")
    dataset = array.to_dataset().assign_coords(affine=affine)
    point = dataset.n5.to_world([4, 2, 3])
    np.testing.assert_array_equal(dataset.n5.crop(z=(1, 5)).n5.to_world([3, 2, 3]), point)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda a: a.drop_vars("x"), {"x": (0, 5)}, "dimension 'x' has no coordinates"),
        (lambda a: a, {"z": (0, 5)}, "no dimension 'z'"),
        (lambda a: a, {"x": 5}, "x=5 is not a range"),
        (lambda a: a, {"x": (1, 2, 3)}, "is not a range"),
        (lambda a: a, {"x": "5 um"}, "x='5 um' is not a range"),
        (lambda a: a, {"x": "1:2:3"}, "or a string such as x='20:60 um'"),
        (lambda a: a, {"x": ":"}, "is not a range"),
        (lambda a: a, {"x": ("all", 5)}, "x is 'all'; expected a number"),
        (lambda a: a, {"x": (np.nan, 5)}, "x is nan; expected a number"),
        (lambda a: a, {"x": ("1 s", 5)}, "the coordinates of 'x' are in 'um'"),
        (lambda a: a.assign_coords(x=range(10)), {"x": ("1 um", 5)}, "have no unit"),
        (lambda a: a.assign_coords(x=[0, 2, 1, *range(3, 10)]), {"x": (0, 5)}, "sortby"),
        (lambda a: a.assign_coords(x=list("abcdefghij")), {"x": (0, 5)}, "not numbers"),
        (lambda a: a, {"x": (0, 5), "pad": True}, "no dimension 'pad'.*reindex"),
        (lambda a: a, {"x": (0, 5), "fill_value": 7}, "no dimension 'fill_value'.*reindex"),
    ],
)
def test_boxes_that_have_no_meaning_are_refused(
    change: Callable[[xr.DataArray], xr.DataArray], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        change(image()).n5.crop(**arguments)


def test_coordinates_that_a_tree_shares_are_cropped_once() -> None:
    x = {"x": np.arange(6.0)}
    values = xr.Dataset({"raw": ("x", np.arange(6))})
    other = xr.Dataset({"mean": ("y", [1, 2])})
    tree = xr.DataTree.from_dict({"/": xr.Dataset(coords=x), "/s0": values, "/more": other})
    found = tree.n5.crop(x=(4, 8))
    assert found["s0/raw"].values.tolist() == [4, 5]
    assert found["x"].values.tolist() == [4, 5]
    assert found["more/mean"].values.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("2:6", (2, 6)),
        ("2000:6000 nm", (2, 6)),
        ("2 um : 6000nm", (2, 6)),
        (":6 um", (None, 6)),
        ("-1e0:", (-1, None)),
    ],
)
def test_a_string_has_both_ends(text: str, pair: Any) -> None:
    x = xr.Variable("x", np.arange(-3.0, 9), {"units": "um"})
    image = xr.DataArray(np.arange(12), dims="x", coords={"x": x})
    xr.testing.assert_identical(image.n5.crop(x=text), image.n5.crop(x=pair))
