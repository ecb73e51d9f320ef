"""Sums over values: as the specification says, for any blocks, and different for each fault."""

from __future__ import annotations

import json
import math
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xarray_n5.model.value_sums import (
    add_sums,
    array_digest,
    dtype_name,
    group_digest,
    sum_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "digests.json").read_text("utf-8"))

MASK = (1 << 64) - 1


def scalar_sums(words: Sequence[int], start: int = 0) -> tuple[int, int]:
    """The sums of words in C order from a position, as docs/howto/verify.md defines them."""
    first = second = 0
    for position, word in enumerate(words, start):
        x = (position * 0x9E3779B97F4A7C15 & MASK) ^ word
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
        x ^= x >> 31
        y = (x + 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93 & MASK
        first += x if word else 0
        second += y ^ (y >> 32) if word else 0
    return first & MASK, second & MASK


def words_of(data: bytes, itemsize: int) -> list[int]:
    return [
        int.from_bytes(data[start : start + itemsize][low : low + 8], "little")
        for start in range(0, len(data), itemsize)
        for low in range(0, itemsize, 8)
    ]


def whole(values: np.ndarray) -> tuple[int, int]:
    return sum_values(values, (0,) * values.ndim, values.shape)


def digest(values: np.ndarray) -> str:
    return array_digest(values.dtype, values.shape, whole(values))


@pytest.mark.parametrize("vector", VECTORS["arrays"], ids=lambda each: each["digest"])
def test_the_vectors_of_the_specification_hold(vector: dict[str, Any]) -> None:
    shape = vector["shape"]
    if "strings" in vector:
        values = np.array(vector["strings"], object).reshape(shape)
    else:
        data = bytes.fromhex(vector["values"])
        dtype = TYPES[vector["dtype"]]
        values = np.frombuffer(data, dtype).reshape(shape)
        assert whole(values) == scalar_sums(words_of(data, vector["itemsize"]))
    assert dtype_name(values.dtype) == vector["dtype"]
    assert [f"{each:016x}" for each in whole(values)] == vector["sums"]
    assert digest(values) == vector["digest"]


PLAIN = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")

TYPES = {
    dtype_name(dtype): dtype
    for dtype in (
        *map(np.dtype, PLAIN),
        np.dtype("S9"),
        np.dtype("<U2"),
        np.dtype("<M8[ns]"),
        np.dtype("<M8[D]"),
        np.dtype([("a", "<i4"), ("b", "<f8", (2,))]),
    )
}


@pytest.mark.parametrize("vector", VECTORS["groups"])
def test_the_vectors_of_groups_hold(vector: dict[str, Any]) -> None:
    assert group_digest(vector["arrays"]) == vector["digest"]


@given(
    st.sampled_from([*map(np.dtype, PLAIN), np.dtype("S3"), np.dtype("U3"), np.dtype("V10")]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6),
    st.integers(0, 1000),
    st.data(),
)
def test_blocks_of_any_shape_and_order_add_up_to_the_definition(
    dtype: np.dtype[Any], shape: tuple[int, ...], seed: int, data: st.DataObject
) -> None:
    size = math.prod(shape) * dtype.itemsize
    few = np.random.default_rng(seed).integers(0, 2, size, "u1")  # also bools and characters
    values = few.view(dtype).reshape(shape) if size else np.empty(shape, dtype)
    expected = scalar_sums(words_of(values.tobytes(), values.dtype.itemsize))
    cuts = [sorted({0, n, *data.draw(st.sets(st.integers(0, n)))}) for n in values.shape]
    boxes = product(*[list(pairwise(each)) or [(0, 0)] for each in cuts])
    changes: list[Callable[[np.ndarray], np.ndarray]] = [in_c_order, in_fortran_order, swapped]
    changed = data.draw(st.sampled_from(changes))
    parts = []
    for box in boxes:
        block = changed(values[tuple(slice(a, b) for a, b in box)]).reshape([b - a for a, b in box])
        parts.append(sum_values(block, [a for a, _ in box], values.shape))
    parts = data.draw(st.permutations(parts))
    assert add_sums(parts) == expected == whole(values)


def in_c_order(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values)


def in_fortran_order(values: np.ndarray) -> np.ndarray:
    return np.asfortranarray(values)


def swapped(values: np.ndarray) -> np.ndarray:
    """The same values in the other byte order."""
    return values.astype(values.dtype.newbyteorder())


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("u1", (3, 200, 100)),  # several pieces along the last axes
        ("u2", (40000,)),
        ("u1", (16385, 1)),
        ("u1", (1, 16384, 2)),
        ("S20", (7000, 3)),
        ("S140001", (2, 2)),  # values larger than a piece
        ("c16", (130, 9, 8)),
    ],
)
def test_blocks_that_are_mixed_in_pieces_follow_the_definition(
    dtype: str, shape: tuple[int, ...]
) -> None:
    random = np.random.default_rng(1)
    kind = np.dtype(dtype)
    values = np.frombuffer(random.bytes(math.prod(shape) * kind.itemsize), kind).reshape(shape)
    assert whole(values) == scalar_sums(words_of(values.tobytes(), kind.itemsize))


def test_fields_of_structures_are_packed() -> None:
    packed = np.array([(1, 2.5), (3, -0.0)], [("a", "u1"), ("b", ">f4")])
    spread = packed.astype(
        np.dtype({"names": ["a", "b"], "formats": ["u1", "<f4"], "offsets": [3, 8], "itemsize": 16})
    )
    assert digest(packed) == digest(spread)
    assert digest(packed) != digest(packed[["b", "a"]])


def test_positions_beyond_64_bits_of_a_large_array_are_cheap() -> None:
    expected = scalar_sums([9], 3 * (1 << 40) + 5)
    assert sum_values(np.array([[9]], "u1"), (3, 5), (1 << 40, 1 << 40)) == expected


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="numbers, strings and structures, got a list"):
        whole(np.array([["a"], None], object))
    with pytest.raises(TypeError, match="structures with objects"):
        whole(np.zeros(2, [("a", "O")]))


# Faults
