"""The main job, on the sample: open a volume, clean it, write it in parallel, look at it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from dask.diagnostics import ProgressBar
from matplotlib.colors import PowerNorm

import xarray_n5

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "tests" / "data" / "cells.n5"
OUTPUT = ROOT / "example-output"


def main() -> None:
    """Open, compute, write, read back, show."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()

    print(f"A light-sheet volume that TensorStore wrote, {SAMPLE.relative_to(ROOT)}:\n")
    cells = xr.open_dataset(SAMPLE, engine="n5", chunks={})
    print(cells)

    cleaned = without_haze(cells["raw"])

    target = OUTPUT / "cleaned.n5"
    print(f"\nThe haze is removed, and the result written to {target.relative_to(ROOT)}:")
    with ProgressBar(dt=0.5):
        written = xarray_n5.to_n5(
            cleaned.data,
            target,
            "cleaned",
            chunks=(16, 64, 64),
            compression="zstd",
            axes=xarray_n5.open_array(SAMPLE, "raw").axes,
            compute=False,
        ).compute()
    again = xr.open_dataset(target, engine="n5", chunks={})["cleaned"]
    xr.testing.assert_equal(again, cleaned)
    sides = " x ".join(map(str, again.encoding["chunks"]))
    count, kilobytes = written.bytes.size, int(written.bytes.sum()) / 1000
    print(f"{count} chunks of {sides}, {kilobytes:.0f} kB in all, were written.")
    print("Read back, they equal what was computed.")

    print("\nIts brightest values along z:\n")
    print(as_text(again.max("z")))

    picture = OUTPUT / "example.png"
    save_picture(cells, again, picture)
    print(f"\nThe picture is {picture.relative_to(ROOT)}")


def without_haze(raw: xr.DataArray) -> xr.DataArray:
    """Return the volume less its noise and its smooth background, lazily."""
    sharp = blurred(raw.astype("float32"), z=0.5, y=1.0, x=1.0)
    haze = blurred(sharp, y=8.0, x=8.0)
    return (sharp - haze).clip(0)


def blurred(volume: xr.DataArray, **sigmas: float) -> xr.DataArray:
    """Return the volume under a Gaussian, its sigmas in samples; each block sees its neighbours."""
    reach = {volume.get_axis_num(axis): round(3 * sigma) for axis, sigma in sigmas.items()}

    def blur(block: np.ndarray) -> np.ndarray:
        for (axis, samples), sigma in zip(reach.items(), sigmas.values(), strict=True):
            steps = np.arange(-samples, samples + 1)
            weights = np.exp(-((steps / sigma) ** 2) / 2)
            weights /= weights.sum()
            shifted = (
                weight * np.roll(block, step, axis)
                for step, weight in zip(steps, weights.astype(block.dtype), strict=True)
            )
            block = sum(shifted, start=np.zeros_like(block))
        return block

    blocks = volume.data.map_overlap(blur, depth=reach, boundary="nearest")
    return volume.copy(data=blocks)


def as_text(image: xr.DataArray) -> str:
    """Return a picture made of letters, which are about twice as high as they are wide."""
    means = image.coarsen(y=6, x=3, boundary="trim").mean().to_numpy()
    shades = np.array(list(" .:-=+*#%@"))
    brightness = (means / means.max()) ** 0.7 * (shades.size - 1)
    return "\n".join("".join(row) for row in shades[brightness.astype(int)])


def save_picture(cells: xr.Dataset, cleaned: xr.DataArray, path: Path) -> None:
    """Draw the volume before and after, from above and from the side, in micrometres."""
    mpl.use("Agg")
    figure, axes = plt.subplots(
        *(2, 2), figsize=(9, 7.6), height_ratios=(80, 96), sharex=True, layout="constrained"
    )
    for column, volume in zip(axes.T, (cells["raw"], cleaned), strict=True):
        show(volume.max("z"), column[0])
        show(volume.max("y"), column[1])
    axes[0, 0].set_title("as stored, brightest along z")
    axes[0, 1].set_title("haze removed, brightest along z")
    axes[1, 0].set_title("as stored, brightest along y")
    axes[1, 1].set_title("haze removed, brightest along y")
    figure.savefig(path, dpi=110)


def show(image: xr.DataArray, axes: Axes) -> None:
    """Draw an image where it lies, as wide and as high as it is."""
    # The fainter half gets more of the colours, or the membranes would be black.
    norm = PowerNorm(0.6, vmin=0)
    image.plot.imshow(ax=axes, cmap="magma", norm=norm, yincrease=False)
    axes.set_aspect("equal")


if __name__ == "__main__":
    main()
