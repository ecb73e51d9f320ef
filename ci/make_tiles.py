"""Makes the sample project src/xarray_n5/samples/tiles: two tiles of the sample cells.n5.

Their channels are the nuclei and everything else, at two time points. The same versions of the
packages make the same bytes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import xarray as xr

import xarray_n5

SAMPLE = Path(__file__).parent.parent / "src" / "xarray_n5" / "samples" / "tiles"
PLANES = slice(18, 26)
TILES = {
    "left": {"y": slice(46, 110), "x": slice(40, 104)},
    "right": {"y": slice(50, 114), "x": slice(96, 160)},
}
"""Where the tiles lie in the volume; they overlap by 8 samples along x, which are 4 um."""
STEP = 2
"""Values are multiples of this, so that the files are small."""


def main() -> None:
    """Write the sample anew."""
    cells = xarray_n5.tutorial.open_dataset("cells").isel(z=PLANES).load()
    light = smoothed(cells["raw"])
    nuclei = light.where(cells["nuclei"] > 0, 0)
    channels = xr.concat([nuclei, light - nuclei], xr.Variable("channel", ["DAPI", "GFP"]))
    times = xr.concat([channels, 0.7 * channels], xr.Variable("t", [0, 1]))
    image = xr.concat(
        [placed(times.isel(place), cells.isel(TILES["left"])) for place in TILES.values()],
        xr.Variable("tile", list(TILES)),
        join="override",
    )
    image = (image / STEP).round().astype("uint16") * np.uint16(STEP)
    image = image.transpose("t", "channel", "tile", "z", "y", "x")
    shutil.rmtree(SAMPLE, ignore_errors=True)
    SAMPLE.mkdir()
    gzip = {"type": "gzip", "level": 9}
    encoding = {"tiles": {"chunks": (8, 64, 64), "compression": gzip}}
    image.rename("tiles").n5.to_bdv(SAMPLE / "tiles.xml", encoding=encoding, factors=[(1, 2, 2)])
    sizes = [file.stat().st_size for file in SAMPLE.rglob("*") if file.is_file()]
    print(f"{SAMPLE}: {len(sizes)} files, {sum(sizes) / 1000:.0f} kB")


def smoothed(image: xr.DataArray) -> xr.DataArray:
    """Return means of windows of 1 x 3 x 3 samples, twice."""
    values = image.astype("float32")
    for _ in range(2):
        values = values.rolling(y=3, x=3, center=True, min_periods=1).mean()
    return values


def placed(tile: xr.DataArray, first: xr.Dataset) -> xr.DataArray:
    """Return a tile whose coordinates begin at 0, and its position in the first one."""
    um = {"units": "um"}
    starts = {axis: tile[axis].values[0] for axis in "zyx"}
    zero = {axis: (axis, tile[axis].values - start, um) for axis, start in starts.items()}
    origins = {
        f"origin_{axis}": ((), start - first[axis].values[0], um) for axis, start in starts.items()
    }
    return tile.assign_coords({**zero, **origins})


if __name__ == "__main__":
    main()
