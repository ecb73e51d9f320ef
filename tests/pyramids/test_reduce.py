"""What becomes of windows of samples, against plain Python, numpy and TensorStore."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import xarray_n5
import xarray_n5.bdv
from xarray_n5.cli.write import pyramid as cli_pyramid
from xarray_n5.pyramids.reduce import Method, check_type, coarse_shape, reduce_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTEGERS = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"]

ORACLES: dict[Method, Callable[[np.ndarray], Any]] = {
    # Python rounds halves of fractions to even whole numbers, too.
    "mean": lambda window: round(Fraction(sum(map(int, window.flat)), window.size)),
    "mode": lambda window: min(
        (-count, value) for value, count in Counter(window.ravel().tolist()).items()
    )[1],
    "nearest": lambda window: window.flat[0],
    "max": np.max,
    "min": np.min,
}


def test_methods_are_listed_where_users_look() -> None:
    methods = set(get_args(Method))
    assert set(ORACLES) == methods
    for function, but in ((xarray_n5.pyramid, set()), (xarray_n5.bdv.to_bdv, {"nearest"})):
        listed = re.search(r"method : \{([^}]+)\}", str(function.__doc__))
        assert listed is not None
        assert set(re.findall(r'"(\w+)"', listed[1])) == methods - but
    options = {option.name: option.type for option in cli_pyramid.params}
    assert set(options["method"].choices) == methods  # type: ignore[attr-defined]
    page = Path(__file__).parents[2] / "docs" / "howto" / "pyramids.md"
    assert {name for name in methods if f'"{name}"' in page.read_text("utf-8")} == methods


def windows(block: np.ndarray, factors: tuple[int, ...]) -> Iterator[tuple[Any, np.ndarray]]:
    """Iterate over windows one by one, with the place of each."""
    for place in np.ndindex(*coarse_shape(block.shape, factors)):
        sides = zip(place, factors, strict=True)
        yield place, block[tuple(slice(at * side, (at + 1) * side) for at, side in sides)]


@st.composite
def blocks(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...]]:
    """Integers of all types, also at their limits, and windows of all shapes."""
    dtype: np.dtype[Any] = np.dtype(draw(st.sampled_from(INTEGERS)))
    shape = draw(npst.array_shapes(min_dims=1, max_dims=3, max_side=7))
    limits = np.iinfo(dtype)
    few = st.integers(max(-2, limits.min), 2)
    edge = st.sampled_from([limits.min, limits.max - 1, limits.max])
    values = draw(st.sampled_from([few, edge, st.integers(limits.min, limits.max)]))
    block = draw(npst.arrays(dtype, shape, elements=values))
    factors = draw(st.tuples(*[st.integers(1, 5)] * len(shape)))
    return block, factors


@pytest.mark.matrix(3)
@pytest.mark.parametrize("method", ORACLES)
@given(case=blocks())
def test_integers_are_reduced_exactly(
    method: Method, case: tuple[np.ndarray, tuple[int, ...]]
) -> None:
    block, factors = case
    before = block.copy()
    found = reduce_windows(block, factors, method)
    expected = np.empty(coarse_shape(block.shape, factors), block.dtype)
    for place, window in windows(block, factors):
        expected[place] = ORACLES[method](window)
    assert found.dtype == block.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(block, before)


@pytest.mark.parametrize("dtype", [*INTEGERS, "f4", "f8"])
@pytest.mark.parametrize("method", ORACLES)
def test_tensorstore_reduces_alike(method: Method, dtype: str) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    name = {"nearest": "stride"}.get(method, method)
    rng = np.random.default_rng(7)
    for shape, factors in [((9, 8, 7), (2, 2, 2)), ((16, 5), (4, 3)), ((3,), (5,))]:
        block = rng.integers(0, 5, shape).astype(dtype)
        if np.dtype(dtype).kind in "iu" and method != "mode":
            limits = np.iinfo(dtype)
            block = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        view = tensorstore.downsample(tensorstore.array(block), factors, name)
        # TensorStore reduces incomplete windows at the ends, too.
        kept = tuple(map(slice, coarse_shape(shape, factors)))
        expected = view.read().result()[kept]
        np.testing.assert_allclose(reduce_windows(block, factors, method), expected, rtol=1e-6)
        if np.dtype(dtype).kind in "iu":
            np.testing.assert_array_equal(reduce_windows(block, factors, method), expected)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_floats_are_reduced_as_numpy_does_it(dtype: str) -> None:
    block = np.random.default_rng(3).normal(size=(5, 7)).astype(dtype)
    block[0, 1] = np.nan
    for method in ("mean", "max", "min"):
        found = reduce_windows(block, (2, 3), method)
        for place, window in windows(block, (2, 3)):
            np.testing.assert_allclose(found[place], getattr(np, method)(window), rtol=1e-3)
        assert np.isnan(found[0, 0])
        assert np.isfinite(found[1:]).all()


def test_the_mean_of_floats_does_not_overflow_or_lose_digits() -> None:
    large = np.full(4, np.finfo("f4").max, "f4")
    assert reduce_windows(large, [4], "mean")[0] == large[0]
    uneven = np.array([1e8, 1, 1, 1], "f4")
    assert reduce_windows(uneven, [4], "mean")[0] == np.float32(25_000_000.75)


def test_labels_beyond_what_floats_can_tell_apart_stay_themselves() -> None:
    one, other = 2**64 - 1, 2**64 - 2
    labels = np.array([[one, other], [other, 0]], "u8")
    assert reduce_windows(labels, (2, 2), "mode")[0, 0] == other
    assert reduce_windows(labels, (1, 2), "mode").ravel().tolist() == [other, 0]


@pytest.mark.parametrize("method", ORACLES)
def test_a_block_may_lie_in_memory_in_any_order(method: Method) -> None:
    block = np.random.default_rng(2).integers(0, 3, (7, 6, 5))
    expected = reduce_windows(block, (2, 3, 1), method)
    for turned in (np.asfortranarray(block), block[::-1, :, ::-1][::-1, :, ::-1]):
        np.testing.assert_array_equal(reduce_windows(turned, (2, 3, 1), method), expected)


def test_no_number_counts_as_one_value_among_labels() -> None:
    labels = np.array([np.nan, 1.0, np.nan, 2.0], "f4")
    assert np.isnan(reduce_windows(labels, [4], "mode")[0])


def test_booleans_have_no_mean() -> None:
    yes = np.array([True, False, True, True])
    assert reduce_windows(yes, [2], "mode").tolist() == [False, True]
    for dtype, method in (("?", "mean"), ("c8", "max"), ("U3", "nearest")):
        with pytest.raises(ValueError, match=f"a {method} of"):
            check_type(np.dtype(dtype), method)  # type: ignore[arg-type]


def test_large_windows_of_small_integers_do_not_overflow() -> None:
    block = np.full((64, 64, 64), 255, "u1")
    assert reduce_windows(block, (64, 64, 64), "mean").tolist() == [[[255]]]
    assert reduce_windows(block.view("i1") | np.int8(-128), (64,) * 3, "mean").item() == -1


def test_what_is_empty_stays_empty() -> None:
    for method in ORACLES:
        assert reduce_windows(np.zeros((0, 3), "u1"), (2, 2), method).shape == (0, 1)
