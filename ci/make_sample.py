"""Makes the sample volume src/xarray_n5/samples/cells.n5: a light-sheet picture of a ball of cells.

The volume is computed, not recorded, and written by TensorStore: another implementation of N5 than
the one that reads it here. The same versions of numpy and TensorStore make the same bytes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import tensorstore as ts

SAMPLE = Path(__file__).parent.parent / "src" / "xarray_n5" / "samples" / "cells.n5"
SHAPE = (48, 160, 200)
SPACING = (2.0, 0.5, 0.5)
"""Distance of samples in um, along z, y, x."""
CHUNKS = (32, 64, 64)
CENTRE = np.array([46.0, 41.0, 50.0])
RADII = np.array([38.0, 32.0, 40.0])
"""Where the ball lies and how large it is, in um."""
GAP = 12.0
"""The least distance of two cells' centres, in um."""


def main() -> None:
    """Write the sample anew."""
    random = np.random.default_rng(seed=5)
    photons, labels = cells(random)
    raw = random.poisson(photons).clip(0, 255).astype("uint8")
    shutil.rmtree(SAMPLE, ignore_errors=True)
    write("raw", raw)
    write("nuclei", labels)
    size = sum(file.stat().st_size for file in SAMPLE.rglob("*") if file.is_file())
    print(f"{SAMPLE}: {labels.max()} cells, {size / 1000:.0f} kB")


def cells(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return how many photons each voxel is expected to send, and which nucleus it belongs to."""
    places = np.stack(
        np.meshgrid(
            *(np.arange(n) * d for n, d in zip(SHAPE, SPACING, strict=True)), indexing="ij"
        ),
        axis=-1,
    )
    centres = scattered(random)
    # Rounder than round: each cell has a size of its own, and its surface bulges a little.
    warped = places + 1.2 * waves(random, places)
    distances = np.stack([np.linalg.norm(warped - centre, axis=-1) for centre in centres])
    nearest = distances.argmin(axis=0)
    first, second = np.partition(distances, 1, axis=0)[:2]
    ball = 1 - np.linalg.norm((warped - CENTRE) / RADII, axis=-1)

    membrane = np.exp(-(((second - first) / 1.2) ** 2)) * (ball > 0)
    skin = np.exp(-((ball / 0.03) ** 2))
    radii = random.uniform(3.8, 5.0, len(centres))[nearest]
    nucleus = (first < radii) & (ball > 0)
    texture = (1 + 0.4 * waves(random, places * 3.0)[..., 0]).clip(0.3, 2)
    brightness = random.uniform(0.65, 1.2, len(centres))[nearest]

    light = 26 * nucleus * texture * brightness + 7 * np.maximum(membrane, skin)
    light += 0.7 * (ball > 0)
    light = blurred(light, sigmas=(0.7, 0.9, 0.9))
    # The sheet comes from the left and dims on its way; deep planes are seen through the ball.
    dimming = np.exp(-places[..., 2] / 110) * np.exp(-places[..., 0] / 150)
    haze = 0.7 * np.exp(-((np.linalg.norm((places - CENTRE) / (1.6 * RADII), axis=-1)) ** 2))
    labels = np.where(nucleus, nearest + 1, 0).astype("uint8")
    return 0.1 + haze + light * dimming * 1.5, labels


def scattered(random: np.random.Generator) -> np.ndarray:
    """Return the centres of cells that fill the ball and keep their distance."""
    found: list[np.ndarray] = []
    for _ in range(20_000):
        place = CENTRE + RADII * random.uniform(-1, 1, 3)
        inside = np.linalg.norm((place - CENTRE) / (RADII - 5)) < 1
        if inside and all(np.linalg.norm(place - other) > GAP for other in found):
            found.append(place)
    return np.array(found)


def waves(random: np.random.Generator, places: np.ndarray) -> np.ndarray:
    """Return a smooth random displacement of each place, of about 1 in size."""
    result = np.zeros_like(places)
    for _ in range(8):
        direction = random.normal(size=3)
        length = random.uniform(9, 25)
        phase = places @ (direction / np.linalg.norm(direction)) * (2 * np.pi / length)
        result += random.normal(size=3) * np.sin(phase + random.uniform(0, 2 * np.pi))[..., None]
    return result / 2


def blurred(image: np.ndarray, sigmas: tuple[float, ...]) -> np.ndarray:
    """Return the image as a lens sees it: a Gaussian along each axis, in samples."""
    for axis, sigma in enumerate(sigmas):
        offsets = np.arange(-3, 4)
        weights = np.exp(-((offsets / sigma) ** 2) / 2)
        padded = np.pad(image, [(3, 3) if i == axis else (0, 0) for i in range(3)], mode="edge")
        window = np.lib.stride_tricks.sliding_window_view(padded, 7, axis)
        image = window @ (weights / weights.sum())
    return image


def write(path: str, values: np.ndarray) -> None:
    """Store `values` with names, units and spacing of the axes; N5 names x first."""
    store = ts.open(
        {
            "driver": "n5",
            "kvstore": {"driver": "file", "path": f"{SAMPLE / path}/"},
            "metadata": {
                "dimensions": values.shape[::-1],
                "blockSize": CHUNKS[::-1],
                "dataType": str(values.dtype),
                "compression": {"type": "gzip", "level": 9},
                "axes": ["x", "y", "z"],
                "units": ["um", "um", "um"],
                "resolution": SPACING[::-1],
            },
        },
        create=True,
    ).result()
    store.write(values.T).result()


if __name__ == "__main__":
    main()
