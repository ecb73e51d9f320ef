"""Sums over values that do not depend on how an array is cut: the core of digests.

A digest is made of the sums of a mixture of each value with its position, so that blocks are summed
alone, in any order, and added. `docs/howto/verify.md` specifies it for other implementations.
"""

from __future__ import annotations

import hashlib
import json
import math
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Sums: TypeAlias = tuple[int, int]
"""Two sums modulo 2^64."""

PREFIX = "n5d1:"
"""The version of the specification, with which each digest begins."""

_MASK = (1 << 64) - 1

_GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: its multiples, for positions, are far from each other."""

_FIRST = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None))
"""Shifts and factors of SplitMix64, whose results are added to the first sum."""

_SECOND = 0xD6E8FEB86659FD93
"""The factor that makes the term of the second sum from that of the first."""

_PIECE = 1 << 14
"""The number of words that are mixed at a time: two buffers of 128 KiB stay in the cache."""

_WORD = 8
"""The bytes of a word."""


def sum_values(values: np.ndarray, start: Sequence[int], shape: Sequence[int]) -> Sums:
    """Return the sums of a block of values, which begins at `start` in an array of `shape`.

    The sums of several blocks are added; see :func:`add_sums`.

    >>> values = np.arange(6, dtype="uint8").reshape(2, 3)
    >>> one = sum_values(values[:, :2], (0, 0), values.shape)
    >>> other = sum_values(values[:, 2:], (0, 2), values.shape)
    >>> add_sums([one, other]) == sum_values(values, (0, 0), values.shape)
    True
    """
    if not values.ndim:
        values, start, shape = values.reshape(1), (0,), (1,)
    width = _words_per_value(values.dtype)
    if not values.size or not width:
        return 0, 0
    steps = [math.prod(shape[axis + 1 :]) * width for axis in range(values.ndim)]
    axis, count = _cut(values.shape, width)
    length = values.shape[axis]
    keys = _keys((min(count, length), *values.shape[axis + 1 :], width), (*steps[axis:], 1))
    room = np.empty((2, keys.size), np.uint64)
    first = _position(start, steps)
    parts = []
    for outer in np.ndindex(values.shape[:axis]):
        begin = first + _position(outer, steps)
        for row in range(0, length, count):
            words = _words(values[(*outer, slice(row, row + count))], width)
            parts.append(_mixed(keys[: words.size], begin + row * steps[axis], words, room))
    return add_sums(parts)


def add_sums(parts: Iterable[Sums]) -> Sums:
    """Return the sums of several blocks as those of all.

    >>> add_sums([(1, 2), (2**64 - 1, 3)])
    (0, 5)
    """
    return reduce(lambda a, b: ((a[0] + b[0]) & _MASK, (a[1] + b[1]) & _MASK), parts, (0, 0))


def array_digest(dtype: np.dtype[Any], shape: Sequence[int], sums: Sums) -> str:
    """Return the digest of an array from its type, its shape and the sums of its values.

    >>> array_digest(np.dtype("uint16"), (2, 3), (0, 0))
    'n5d1:2f2c3f05016d8002dc0432c0eacf8d24'
    """
    head = f"{dtype_name(dtype)} {','.join(map(str, shape))}\n".encode()
    return _spelled(head + b"".join(total.to_bytes(_WORD, "little") for total in sums))


def group_digest(digests: Mapping[str, str]) -> str:
    """Return the digest of a group from those of its arrays, by their paths in it.

    >>> group_digest({"b": "n5d1:2", "a": "n5d1:1"}) == group_digest({"a": "n5d1:1", "b": "n5d1:2"})
    True
    """
    lines = sorted((path.encode(), digest.encode()) for path, digest in digests.items())
    return _spelled(b"group\n" + b"".join(digest + b" " + path + b"\n" for path, digest in lines))


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a type in digests, without its byte order.

    >>> dtype_name(np.dtype(">u2")), dtype_name(np.dtype([("a", "<i4"), ("b", ">f8", (2,))]))
    ('u2', '["a":i4,"b":(2)f8]')
    """
    if _is_text(dtype):
        return "string"
    if dtype.subdtype is not None:
        base, sides = dtype.subdtype
        return f"({','.join(map(str, sides))}){dtype_name(base)}"
    if dtype.names is not None:
        fields = (f"{json.dumps(name)}:{dtype_name(dtype[name])}" for name in dtype.names)
        return f"[{','.join(fields)}]"
    return dtype.str[1:] if dtype.isbuiltin != 2 else dtype.name  # noqa: PLR2004 - of a package


def _is_text(dtype: np.dtype[Any]) -> bool:
    return dtype.hasobject and dtype.names is None


def _spelled(data: bytes) -> str:
    return PREFIX + hashlib.sha256(data).hexdigest()[:32]


def _words_per_value(dtype: np.dtype[Any]) -> int:
    """Return the number of words of 8 bytes of one value, the last of which may be shorter."""
    return 1 if _is_text(dtype) else -(-_packed(dtype).itemsize // _WORD)


def _cut(shape: tuple[int, ...], width: int) -> tuple[int, int]:
    """Return the first axis whose items are no larger than a piece, and their number in one."""
    sizes = [math.prod(shape[axis + 1 :]) * width for axis in range(len(shape))]
    last = len(shape) - 1
    axis = next((axis for axis, size in enumerate(sizes) if size <= _PIECE), last)
    return axis, max(1, _PIECE // sizes[axis])


def _position(index: Sequence[int], steps: Sequence[int]) -> int:
    return sum(number * step for number, step in zip(index, steps, strict=False))


def _keys(sides: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """Return the multiplied positions of words, relative to the first, in C order."""
    positions = np.zeros(1, np.uint64)
    for side, step in zip(sides, steps, strict=True):
        along = np.arange(side, dtype=np.uint64) * np.uint64(step * _GOLDEN & _MASK)
        positions = (positions[:, None] + along).reshape(-1)
    return positions


def _words(piece: np.ndarray, width: int) -> np.ndarray:
    """Return values as unsigned integers in C order, `width` for each value.

    Only single words may be of less than 8 bytes.
    """
    if _is_text(piece.dtype):
        return np.array([_text_word(text) for text in piece.flat], np.uint64)
    dtype = _packed(piece.dtype)
    size = dtype.itemsize
    flat = np.ascontiguousarray(piece, dtype).reshape(-1)
    if size in {1, 2, 4} or size % _WORD == 0:
        return flat.view(f"<u{min(size, _WORD)}")
    padded = np.zeros((flat.size, width * _WORD), np.uint8)
    padded[:, :size] = flat.view(np.uint8).reshape(flat.size, size)
    return padded.reshape(-1).view("<u8")


def _text_word(value: object) -> int:
    if not isinstance(value, str):
        raise TypeError(
            f"digests are for numbers, strings and structures, got a {type(value).__name__}"
        )
    return xxhash.xxh3_64_intdigest(value.encode())


def _packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type in little-endian order, without space between the fields of structures."""
    if dtype.subdtype is not None:
        base, sides = dtype.subdtype
        return np.dtype((_packed(base), sides))
    if dtype.names is not None:
        if dtype.hasobject:
            raise TypeError(f"digests are not for structures with objects: {dtype}")
        return np.dtype([(name, _packed(dtype[name])) for name in dtype.names])
    return dtype.newbyteorder("<")


def _mixed(keys: np.ndarray, position: int, words: np.ndarray, room: np.ndarray) -> Sums:
    """Return the sums of words whose first one is at `position`; words of 0 add nothing."""
    if not words.all():
        chosen = np.flatnonzero(words != 0)  # NumPy finds them four times faster in bools
        if not chosen.size:
            return 0, 0
        keys, words = keys.take(chosen), words.take(chosen)
    mixed, shifted = room[0, : words.size], room[1, : words.size]
    np.add(keys, np.uint64(position * _GOLDEN & _MASK), out=mixed)
    np.bitwise_xor(mixed, words, out=mixed)
    for bits, factor in _FIRST:
        np.right_shift(mixed, np.uint64(bits), out=shifted)
        np.bitwise_xor(mixed, shifted, out=mixed)
        if factor is not None:
            np.multiply(mixed, np.uint64(factor), out=mixed)
    one = int(np.add.reduce(mixed))
    np.add(mixed, np.uint64(_GOLDEN), out=mixed)
    np.multiply(mixed, np.uint64(_SECOND), out=mixed)
    np.right_shift(mixed, np.uint64(32), out=shifted)
    np.bitwise_xor(mixed, shifted, out=mixed)
    return one, int(np.add.reduce(mixed))
