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

from tests.support.exhaustive import cases
from xarray_n5.model.value_sums import (
    add_sums,
    array_digest,
    dtype_name,
    group_digest,
    sum_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "digests.json").read_text("utf-8"))

MASK = (1 << 64) - 1


def scalar_sums(words: Sequence[int]) -> tuple[int, int]:
    """The sums of an array's words in C order, as docs/digests.md defines them."""
    first = second = 0
    for position, word in enumerate(words):
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
    shape, start = (1 << 40, 1 << 40), (3, 5)
    position = 3 * (1 << 40) + 5
    block = np.array([[9]], "u1")
    expected = scalar_sums_at(position, 9)
    assert sum_values(block, start, shape) == expected


def scalar_sums_at(position: int, word: int) -> tuple[int, int]:
    x = (position * 0x9E3779B97F4A7C15 & MASK) ^ word
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    x ^= x >> 31
    y = (x + 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93 & MASK
    return x, y ^ (y >> 32)


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="numbers, strings and structures, got a list"):
        whole(np.array([["a"], None], object))
    with pytest.raises(TypeError, match="structures with objects"):
        whole(np.zeros(2, [("a", "O")]))


# Faults


def images() -> Iterator[np.ndarray]:
    """Small images: noise, ramps, labels, constants, whole numbers as floats."""
    random = np.random.default_rng(3)
    shape = (6, 8, 10)
    for dtype in ("u1", "u2", "i4", "u8"):
        yield random.integers(0, 100, shape).astype(dtype)
        yield np.arange(480).reshape(shape).astype(dtype)
        yield np.repeat(random.integers(0, 3, (6, 8, 2)), 5, axis=2).astype(dtype)
        yield np.full(shape, 7, dtype)
        yield np.zeros(shape, dtype)
    for dtype in ("f4", "f8", "c16"):
        yield random.normal(size=shape).astype(dtype)
        yield random.integers(-4, 4, shape).astype(dtype)
        yield np.where(random.random(shape) < 0.5, 1.0, -1.0).astype(dtype)


def a_bit(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    data = np.frombuffer(bytearray(values.tobytes()), "u1")
    data[random.integers(data.size)] ^= np.uint8(1 << random.integers(8))
    return data.view(values.dtype).reshape(values.shape)


def two_bits(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The same bit of two values, such as their signs, or the lowest ones."""
    data = np.frombuffer(bytearray(values.tobytes()), "u1").reshape(values.size, -1)
    rows = random.choice(values.size, 2, replace=False)
    data[rows, random.integers(data.shape[1])] ^= np.uint8(1 << random.integers(8))
    return data.reshape(-1).view(values.dtype).reshape(values.shape)


def a_value(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    changed = values.copy()
    changed.flat[[random.integers(values.size)]] += values.dtype.type(random.integers(1, 50))
    return changed


def compensated(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One more here, one less there: plain sums are the same."""
    changed = values.copy()
    more, less = random.choice(values.size, 2, replace=False)
    changed.flat[[more]] += values.dtype.type(1)
    changed.flat[[less]] -= values.dtype.type(1)
    return changed


def exchanged(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    changed = values.copy()
    one, other = random.choice(values.size, 2, replace=False)
    changed.flat[[one, other]] = changed.flat[[other, one]]
    return changed


def chunks_exchanged(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    changed = values.copy()
    sides = [int(random.integers(1, 1 + n // 2)) for n in values.shape]
    places = [random.choice(n // s, 2) * s for n, s in zip(values.shape, sides, strict=True)]
    one, other = (
        tuple(slice(at[i], at[i] + s) for at, s in zip(places, sides, strict=True)) for i in (0, 1)
    )
    changed[one], changed[other] = values[other], values[one]
    return changed


def a_chunk_is_lost(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    changed = values.copy()
    changed[tuple(slice(a := int(random.integers(n)), a + 3) for n in values.shape)] = 0
    return changed


def shifted(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    axis = int(random.integers(values.ndim))
    return np.roll(values, int(random.integers(1, values.shape[axis])), axis)


def a_row_is_shifted(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    changed = values.copy()
    row = int(random.integers(values.shape[0])), int(random.integers(values.shape[1]))
    changed[row] = np.roll(changed[row], 1)
    return changed


def flipped(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return np.flip(values, int(random.integers(values.ndim)))


def transposed(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The axes in another order, and what that changes in memory as the same shape."""
    axes = [(2, 1, 0), (0, 2, 1), (1, 0, 2)][random.integers(3)]
    moved = values.transpose(axes)
    return moved if random.random() < 0.5 else moved.reshape(values.shape)


def another_type(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    size = values.dtype.itemsize
    types = [*TYPES.values(), np.dtype(f"V{size}")]
    kinds = [each for each in types if each.itemsize == size and each != values.dtype]
    return values.view(kinds[random.integers(len(kinds))])


def bytes_reversed(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One value in the other byte order."""
    changed = values.copy()
    at = random.integers(values.size)
    changed.flat[at : at + 1] = changed.flat[at : at + 1].byteswap()
    return changed


def another_shape(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return values.reshape([(48, 10), (6, 80), (480,), (1, 6, 8, 10)][random.integers(4)])


def one_more(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A plane of zeros at an end."""
    width = [(0, 0)] * values.ndim
    width[random.integers(values.ndim)] = (0, 1)
    return np.pad(values, width)


FAULTS: list[Callable[[np.ndarray, np.random.Generator], np.ndarray]] = [
    *(a_bit, two_bits, a_value, compensated, exchanged, chunks_exchanged, a_chunk_is_lost),
    *(shifted, a_row_is_shifted, flipped, transposed, bytes_reversed),
    *(another_type, another_shape, one_more),
]


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    same = (one.dtype, one.shape) == (other.dtype, other.shape)
    return same and one.tobytes() == other.tobytes()


@pytest.mark.more
def test_every_random_fault_is_found() -> None:
    known = [(values, digest(values), whole(values)) for values in images()]
    count, drawn = cases(2_000, 100_000), 0
    found = dict.fromkeys(FAULTS, 0)
    random = np.random.default_rng(4)
    while sum(found.values()) < count:
        values, before, sums = known[drawn % len(known)]
        fault = FAULTS[drawn // len(known) % len(FAULTS)]
        drawn += 1
        changed = fault(values, random)
        if is_same(values, changed):
            continue  # a row of equal values is the same when it is shifted
        assert digest(changed) != before, (fault.__name__, values.dtype)
        if changed.dtype == values.dtype and changed.shape == values.shape:
            pair = zip(whole(changed), sums, strict=True)
            assert all(now != then for now, then in pair), (fault.__name__, values.dtype)
        found[fault] += 1
    assert min(found.values()) > count // len(FAULTS) // 4
