"""Volumes like those of microscopes, and their containers: the same values in each compression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import xarray_n5

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Shape = tuple[int, int, int]

COMPRESSIONS: dict[str, dict[str, Any]] = {
    "gzip": {"type": "gzip", "level": 6},
    "gzip-1": {"type": "gzip", "level": 1},
    "raw": {"type": "raw"},
    "blosc-lz4": {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    "blosc-zstd": {"type": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1},
    "zstd": {"type": "zstd", "level": 3},
    "lz4": {"type": "lz4"},
    "bzip2": {"type": "bzip2", "blockSize": 9},
}
"""As they stand in `attributes.json`."""


def waves(random: np.random.Generator, shape: Shape, length: float) -> np.ndarray:
    """Return a field that changes its sign about every `length` samples, from -1 to 1."""
    counts = [int(size / length) + 2 for size in shape]
    field = random.uniform(-1, 1, counts).astype("f4")
    for axis, size in enumerate(shape):
        place = (np.arange(size) / length).astype("f4")
        before = place.astype(int)
        share = (place % 1).reshape([-1 if i == axis else 1 for i in range(3)])
        field = field.take(before, axis) * (1 - share) + field.take(before + 1, axis) * share
    return field


def electrons(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return tissue in an electron microscope: grey, with dark membranes and some noise."""
    tissue = waves(random, shape, 40)
    picture = 150 + 30 * waves(random, shape, 12)
    picture -= 90 * np.exp(-((tissue / 0.04) ** 2))
    picture += 5 * random.standard_normal(shape, "f4")
    return picture.clip(0, 255).astype("u1")


def light_sheet(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return cells under a light sheet: bright blobs, haze, and the noise of a camera."""
    light = (3000 * (waves(random, shape, 24) - 0.35)).clip(0)
    light += 40 * (1 + waves(random, shape, 150))
    noise = random.standard_normal(shape, "f4")
    noise *= 4 + np.sqrt(light) / 3
    return (light + noise + 100).clip(0).astype("u2")


def labels(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return segments with numbers of 64 bits: pieces of space, each of one number."""
    place = np.zeros(shape, "u8")
    for _ in range(2):
        place = place * 16 + (8 * (waves(random, shape, 32) + 1)).clip(0, 15).astype("u8")
    numbers = random.integers(1, 1 << 40, 256, dtype="u8")
    return numbers[place]


def smooth(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return a field of a simulation: sums of waves of several lengths, in 32 bits."""
    return waves(random, shape, 90) + waves(random, shape, 30) / 4 + waves(random, shape, 10) / 16


VOLUMES: dict[str, tuple[str, Callable[[np.random.Generator, Shape], np.ndarray]]] = {
    "em": ("u1", electrons),
    "light sheet": ("u2", light_sheet),
    "labels": ("u8", labels),
    "smooth": ("f4", smooth),
}
"""The type of each, and what makes it."""


def volume(name: str, mebibytes: int) -> np.ndarray:
    """Return a volume of about this size; its sides are powers of two, alike as far as they can."""
    kind, make = VOLUMES[name]
    bits = (mebibytes * (1 << 20) // np.dtype(kind).itemsize).bit_length() - 1
    shape = (1 << bits // 3, 1 << (bits + 1) // 3, 1 << (bits + 2) // 3)
    return make(np.random.default_rng(1), shape)


def store(values: np.ndarray, container: Path, compression: str, side: int) -> Path:
    """Return a container with the values in its array "a", in cubes as chunks; make it if absent.

    The place tells all that matters of it.
    """
    place = container.with_name(f"{container.name}-{compression}-{side}.n5")
    if not place.exists():
        xarray_n5.to_n5(
            values, place, "a", chunks=(side,) * 3, compression=COMPRESSIONS[compression]
        )
    return place
