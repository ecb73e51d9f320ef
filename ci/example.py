"""Open the sample volume, remove its haze, write the result in parallel, and plot both."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.colors import PowerNorm

import xarray_n5

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "example-output"


def main() -> None:
    """Open, compute, write, read back, show."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()

    sample = xarray_n5.tutorial.path("cells")
    print(f"1. Open {sample.name}, a light-sheet volume written by TensorStore")
    cells = xr.open_dataset(sample, engine="n5", chunks={})
    for name, array in cells.items():
        print(f"   {name}: {sides(array.shape)} {array.dtype}, {chunks_of(array)}")
    for name, positions in cells.coords.items():
        first, second, last = positions.to_numpy()[[0, 1, -1]]
        print(f"   {name}: {first:g} to {last:g} µm, every {second - first:g} µm")

    target = OUTPUT / "cleaned.n5"
    print(f"\n2. Remove the haze with Dask, and write {target.relative_to(ROOT)} in parallel")
    cleaned = without_haze(cells["raw"]).rename("cleaned")
    with xarray_n5.ProgressBar():
        written = xarray_n5.to_n5(
            cleaned, target, "cleaned", chunks=(16, 64, 64), compression="zstd"
        )
    again = xr.open_dataset(target, engine="n5", chunks={})["cleaned"]
    print(f"   cleaned: {sides(again.shape)} {again.dtype}, {chunks_of(again)}")
    print(f"   {written.nbytes / 1e6:.1f} MB, compressed by zstd")

    print("\n3. Read it back")
    xr.testing.assert_equal(again, cleaned)
    print("   values and coordinates are those that were computed")
    print("   maximum along z:\n")
    print(as_text(again.max("z")))

    picture = OUTPUT / "example.png"
    save_picture(cells, again, picture)
    print(f"\nThe same in colour, before and after: {picture.relative_to(ROOT)}")


def sides(shape: tuple[int, ...]) -> str:
    """Return a shape as "48 x 160 x 200"."""
    return " x ".join(map(str, shape))


def chunks_of(array: xr.DataArray) -> str:
    """Return the number and the shape of an array's stored chunks."""
    shape = array.encoding["chunks"]
    count = math.prod(-(-size // side) for size, side in zip(array.shape, shape, strict=True))
    return f"{count} chunks of {sides(shape)}"


def without_haze(raw: xr.DataArray) -> xr.DataArray:
    """Subtract the smooth background from a denoised volume, lazily."""
    sharp = blurred(raw.astype("float32"), z=0.5, y=1.0, x=1.0)
    haze = blurred(sharp, y=8.0, x=8.0)
    return (sharp - haze).clip(0)


def blurred(volume: xr.DataArray, **sigmas: float) -> xr.DataArray:
    """Convolve the volume with a Gaussian; `sigmas` are in samples, and blocks overlap."""
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
    """Return an image as ASCII art; letters are about twice as high as they are wide."""
    means = image.coarsen(y=6, x=3, boundary="trim").mean().to_numpy()
    shades = np.array(list(" .:-=+*#%@"))
    brightness = (means / means.max()) ** 0.7 * (shades.size - 1)
    return "\n".join("".join(row) for row in shades[brightness.astype(int)])


def save_picture(cells: xr.Dataset, cleaned: xr.DataArray, path: Path) -> None:
    """Plot maximum projections of the volume before and after, in micrometres."""
    mpl.use("Agg")
    figure, axes = plt.subplots(
        *(2, 2), figsize=(9, 7.6), height_ratios=(80, 96), sharex=True, layout="constrained"
    )
    for column, volume in zip(axes.T, (cells["raw"], cleaned), strict=True):
        show(volume.max("z"), column[0])
        show(volume.max("y"), column[1])
    axes[0, 0].set_title("as stored, maximum along z")
    axes[0, 1].set_title("haze removed, maximum along z")
    axes[1, 0].set_title("as stored, maximum along y")
    axes[1, 1].set_title("haze removed, maximum along y")
    figure.savefig(path, dpi=110)


def show(image: xr.DataArray, axes: Axes) -> None:
    """Plot an image in its coordinates, with equal scales."""
    # The gamma brightens the membranes, which would be black.
    norm = PowerNorm(0.6, vmin=0)
    image.plot.imshow(ax=axes, cmap="magma", norm=norm, yincrease=False)
    axes.set_aspect("equal")


if __name__ == "__main__":
    main()
