"""Make the pictures of docs/howto from what its code writes: python ci/make_howto.py [PAGE ...]."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.patches import Polygon, Rectangle
from PIL import Image

import xarray_n5

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "howto"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DONE = 20
"""The number of chunks that a stopped write has stored."""

BLUE, ORANGE, GREY, GREEN = "#3b6ea5", "#d98324", "#8c959f", "#4c9a5b"


def names_of(page: str, blocks: int | None = None) -> dict[str, Any]:
    """Return what the first blocks of code on a page define, or all of them."""
    names: dict[str, Any] = {"__name__": "page"}
    for code in CODE.findall((ROOT / f"docs/howto/{page}.md").read_text("utf-8"))[:blocks]:
        exec(compile(code, page, "exec"), names)  # noqa: S102 - our own page
    return names


def panels(count: int, width: float = 8.0, height: float = 2.9) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side."""
    figure, axes = plt.subplots(1, count, figsize=(width, height), layout="constrained")
    return figure, list(np.atleast_1d(axes))


def cells() -> xr.Dataset:
    """Return the sample."""
    return xr.open_dataset("cells.n5", engine="n5")


def show(axes: Axes, image: xr.DataArray, title: str, **how: Any) -> None:
    """Show a section with its coordinates."""
    how = {"cmap": "gray", "vmax": 45} | how
    image.plot.imshow(ax=axes, add_colorbar=False, yincrease=False, **how)
    axes.set(aspect="equal", title=title)


def coloured(labels: np.ndarray) -> np.ndarray:
    """Return a colour for each label, black for 0."""
    colours = np.random.default_rng(4).uniform(0.25, 1, (4096, 3))
    return np.where(labels[..., None] == 0, 0.0, colours[labels.astype("int64") % 4093])


def outline(axes: Axes, corners: Sequence[Any], label: str, colour: str) -> None:
    """Draw a tile by its corners as (y, x)."""
    points = [(x, y) for y, x in corners]
    axes.add_patch(Polygon(points, facecolor=colour, alpha=0.35, edgecolor=colour, lw=1.5))
    axes.annotate(label, np.min(points, axis=0), (4, -4), textcoords="offset points", va="top")


def grid(
    axes: Axes, states: np.ndarray, chunks: tuple[int, int], colours: Mapping[Any, str]
) -> None:
    """Draw a grid of chunks in colours of their states."""
    for (row, column), state in np.ndenumerate(states):
        where = column * chunks[1], row * chunks[0]
        colour = colours[state]
        axes.add_patch(Rectangle(where, chunks[1], chunks[0], fc=colour, ec="white", lw=1.5))
    for state, colour in colours.items():
        axes.plot([], [], "s", color=colour, label=state)
    rows, columns = np.multiply(states.shape, chunks)
    axes.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal", xlabel="x", ylabel="y")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def read() -> Figure:
    """Draw a section, and a crop of it."""
    section = cells()["raw"].sel(z=46.0)
    figure, (left, right) = panels(2)
    show(left, section, "raw.sel(z=46.0)")
    left.add_patch(Rectangle((30, 20), 30, 20, fill=False, ec=ORANGE, lw=2))
    crop = section.sel(y=slice(20, 40), x=slice(30, 60))
    show(right, crop, "y=slice(20, 40), x=slice(30, 60)", vmax=25)
    return figure


def open() -> Figure:  # noqa: A001
    """Draw the two variables of the sample."""
    sections = cells().sel(z=46.0)
    figure, (left, right) = panels(2)
    show(left, sections["raw"], 'cells["raw"]')
    labels = sections["nuclei"]
    right.imshow(coloured(labels.values), extent=(0, 100, 80, 0))
    right.set(title='cells["nuclei"]', xlabel=left.get_xlabel(), ylabel=left.get_ylabel())
    return figure


def axes() -> Figure:
    """Draw the same voxels with steps in both orders."""
    section = cells()["raw"].isel(y=80)
    figure, (left, right) = panels(2)
    right_steps, wrong_steps = section, section.assign_coords(z=section.z / 4, x=section.x * 4)
    show(left, wrong_steps, "steps in the other order")
    show(right, right_steps, "steps of the axes")
    return figure


def grids() -> Figure:
    """Draw labels of half the resolution, and on the grid of the image."""
    names = names_of("read", 8)
    box = {"y": slice(30, 50), "x": slice(35, 65)}
    raw, *found = (names[each].sel(box) for each in ("raw", "labels", "fine"))
    titles = ("labels", 'labels.n5.interp_like(raw, "nearest")')
    figure, both = panels(2)
    for axes, labels, title in zip(both, found, titles, strict=True):
        show(axes, raw.sel(z=48.0), title)
        plane = labels.sel(z=48.0, method="nearest")
        y, x = plane.y.values, plane.x.values
        dy, dx = (each[1] - each[0] for each in (y, x))
        extent = (x[0] - dx / 2, x[-1] + dx / 2, y[-1] + dy / 2, y[0] - dy / 2)
        colours = np.dstack([coloured(plane.values), 0.5 * (plane.values > 0)])
        axes.imshow(colours, extent=extent, interpolation="nearest")
    return figure


def labels() -> Figure:
    """Draw pieces of blocks, and joined objects."""
    names_of("labels")
    figure, found = panels(2)
    titles = {"pieces.n5": "pieces of each block", "labels.n5": "objects"}
    for axes, (path, title) in zip(found, titles.items(), strict=True):
        plane = xr.open_dataset(path, engine="n5")["raw"].max("z")
        _, small = np.unique(plane.values, return_inverse=True)
        axes.imshow(coloured(small.reshape(plane.shape)), extent=(0, 100, 80, 0))
        axes.set(title=title, xlabel="x [um]", ylabel="y [um]")
        for at in (32, 64):
            axes.axvline(at, color="white", lw=0.6, ls=":")
            axes.axhline(at, color="white", lw=0.6, ls=":")
        axes.axvline(96, color="white", lw=0.6, ls=":")
    return figure


def pyramids() -> Figure:
    """Draw the levels of a pyramid."""
    names_of("pyramids", 1)
    tree = xr.open_datatree("views.n5", engine="n5", group="em")
    figure, found = panels(len(tree.children), width=10, height=2)
    for axes, (name, level) in zip(found, tree.children.items(), strict=True):
        image = level["em"].sel(z=46.0, method="nearest")
        show(axes, image, f"{name}: {image.sizes['y']} x {image.sizes['x']}")
        axes.set(xlabel="", ylabel="")
    return figure


def verify() -> Figure:
    """Draw the states of chunks, two of which are not as they were stored."""
    raw = cells()["raw"].chunk()
    with xarray_n5.set_options(checksums=True):
        xarray_n5.to_n5(raw, "states.n5", "raw", chunks=(48, 32, 32))
    Path("states.n5/raw/3/1/0").unlink()
    damaged = Path("states.n5/raw/5/3/0")
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    states = xarray_n5.verify("states.n5", "raw").compute().state.values[0]
    others = sorted({*states.ravel()} - {"ok", "missing"})
    figure, (axes,) = panels(1, width=6)
    grid(axes, states, (32, 32), {"ok": GREEN, "missing": GREY} | dict.fromkeys(others, ORANGE))
    axes.set_title("xarray_n5.verify(...).state")
    return figure


def write() -> Figure:
    """Draw the chunks of a write that stopped, and those that its repetition computes."""
    raw = cells()["raw"].chunk({"z": 48, "y": 32, "x": 32}).data
    blocks = iter(range(100))

    def until_now(block: np.ndarray, block_id: tuple[int, ...] = (0,)) -> np.ndarray:
        if block.any() and block_id and next(blocks) >= DONE:
            raise RuntimeError("stop")
        return block

    with dask.config.set(scheduler="synchronous"), suppress(RuntimeError):
        da.to_n5(raw.map_blocks(until_now, dtype=raw.dtype), "stopped.n5", "raw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = xarray_n5.chunk_map("stopped.n5", "raw").values[0] > 0
    figure, (axes,) = panels(1, width=7)
    before, after = "stored before the kill", "computed by resume=True"
    grid(axes, np.where(stored, before, after), (32, 32), {before: BLUE, after: ORANGE})
    return figure


def cluster() -> Figure:
    """Draw which worker computed each chunk."""
    from distributed import Client, LocalCluster, get_worker

    def number(block: np.ndarray) -> np.ndarray:
        own = get_worker().name if block.size else 0
        return np.full(block.shape, own, "uint8")

    blocks = cells()["raw"].chunk({"z": 48, "y": 16, "x": 20}).data
    numbers = blocks.map_blocks(number, dtype="uint8")
    four = {"n_workers": 4, "threads_per_worker": 1, "processes": False}
    with LocalCluster(**four, dashboard_address=":0") as own, Client(own):
        da.to_n5(numbers, "workers.n5", "number")
    found = xarray_n5.open_array("workers.n5", "number")[0, ::16, ::20]
    states = np.array([f"worker {n}" for n in found.ravel()]).reshape(found.shape)
    colours = dict(zip(sorted({*states.ravel()}), (BLUE, ORANGE, GREEN, GREY), strict=False))
    figure, (axes,) = panels(1, width=6)
    grid(axes, states, (16, 20), colours)
    axes.set_title("each chunk is written by one task")
    return figure


def convert() -> Figure:
    """Draw the numbers of files and bytes of one volume in each format."""
    targets: dict[str, tuple[str, dict[str, Any]]] = {
        "N5": ("a.n5", {}),
        "Zarr v2": ("a.zarr", {}),
        "Zarr v3": ("b.zarr", {"format": "zarr3"}),
        "Zarr v3, shards": ("c.zarr", {"format": "zarr3", "shards": "auto"}),
        "one file, .ozx": ("d.ozx", {}),
        "HDF5": ("e.h5", {}),
    }
    counts, sizes = [], []
    for url, how in targets.values():
        xarray_n5.copy("cells.n5", url, **how)
        files = [each for each in (Path(url), *Path(url).rglob("*")) if each.is_file()]
        counts.append(len(files))
        sizes.append(sum(each.stat().st_size for each in files) / 1e6)
    figure, (left, right) = panels(2)
    for axes, values, title in ((left, counts, "files"), (right, sizes, "MB")):
        bars = axes.barh(list(targets), values, color=BLUE)
        axes.bar_label(bars, fmt="%d" if title == "files" else "%.2f", padding=3)
        axes.invert_yaxis()
        axes.set(title=title, xlim=(0, 1.15 * max(values)))
        axes.spines[["top", "right"]].set_visible(False)
    right.set_yticklabels([])
    return figure


def formats() -> Figure:
    """Draw chunks and shards over a section."""
    names_of("write", 9)
    array = xarray_n5.open_array("chosen.zarr", "raw/s0")
    figure, (axes,) = panels(1, width=6, height=3.2)
    image = cells()["raw"].isel(z=23)
    axes.imshow(image.values, cmap="gray", vmax=60)
    for sides, colour, width in ((array.chunks, BLUE, 0.8), (array.shards, ORANGE, 2.5)):
        for axis, draw in ((1, axes.axhline), (2, axes.axvline)):
            for at in range(0, array.shape[axis] + sides[axis], sides[axis]):
                draw(min(at, array.shape[axis]) - 0.5, color=colour, lw=width, clip_on=False)
    axes.plot([], [], color=BLUE, label=f"chunks: {array.chunks}")
    axes.plot([], [], color=ORANGE, label="shard, one file")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    axes.set(xlabel="x", ylabel="y")
    return figure


def training() -> Figure:
    """Draw some random crops."""
    crops = names_of("training", 1)["crops"]
    figure, found = panels(6, width=9, height=1.8)
    for index, axes in enumerate(found):
        image, labels = crops[index + 3]
        axes.imshow(image[8], cmap="gray", vmax=0.24)
        axes.contour(labels[8] > 0, levels=[0.5], colors=ORANGE, linewidths=1)
        axes.set(xticks=[], yticks=[], title=f"crops[{index + 3}]")
    return figure


def tiff() -> Figure:
    """Draw a stack without units, and with them."""
    image = cells()["raw"].isel(y=80)
    figure, (left, right) = panels(2, height=2.6)
    left.imshow(image.values, cmap="gray", vmax=60)
    left.set(title="planes of the stack", xlabel="column", ylabel="file")
    show(right, image, "with units")
    return figure


def extents(url: str, groups: Mapping[str, str]) -> Figure:
    """Draw where arrays are, along y and x."""
    figure, (axes,) = panels(1, width=6)
    for (label, group), colour in zip(groups.items(), (BLUE, ORANGE), strict=True):
        found = xr.open_dataset(url, engine="n5", group=group)
        (y0, y1), (x0, x1) = (found[dim].values[[0, -1]] for dim in "yx")
        outline(axes, [(y0, x0), (y0, x1), (y1, x1), (y1, x0)], label, colour)
    axes.autoscale_view()
    axes.set(aspect="equal", xlabel="x [nm]", ylabel="y [nm]")
    axes.invert_yaxis()
    return figure


def cosem() -> Figure:
    """Draw an image and a crop of the ground truth at their positions."""
    names_of("cosem")
    crop = "volumes/groundtruth/0003/Crop33/labels/mito"
    return extents("jrc_mini.n5", {"em": "em/fibsem-uint16/s0", "mito": crop})


def dacapo() -> Figure:
    """Draw an image and a prediction at their positions."""
    names_of("training", 3)
    return extents("volara.n5", {"raw": "raw", "prediction": "prediction"})


def remote() -> Figure:
    """Draw the chunks that reading a crop requests."""
    raw = cells()["raw"]
    crop = raw.n5.crop(y=(20, 40), x=(30, 60))
    requested = np.zeros((10, 13), dtype=bool)
    rows, columns = (np.unique(crop[dim].values // 8).astype(int) for dim in ("y", "x"))
    requested[np.ix_(rows, columns)] = True
    states = np.where(requested, "one request each", "not requested")
    figure, (axes,) = panels(1, width=6)
    grid(axes, states, (16, 16), {"one request each": ORANGE, "not requested": "#d7e6f7"})
    axes.add_patch(Rectangle((60, 40), 60, 40, fill=False, ec="black", lw=2))
    axes.set_title("raw.n5.crop(y=(20, 40), x=(30, 60))")
    return figure


def _tiles(dataset: xr.Dataset, dim: str) -> Figure:
    """Draw each tile in the world."""
    figure, (axes,) = panels(1, width=6)
    height, width = dataset.sizes["y"] - 1, dataset.sizes["x"] - 1
    corners = [(0, 0, 0), (0, 0, width), (0, height, width), (0, height, 0)]
    for number, colour in zip(range(dataset.sizes[dim]), (BLUE, ORANGE, GREEN, GREY), strict=False):
        tile = dataset.isel({dim: number})
        world = np.asarray(tile.n5.to_world(corners)).reshape(-1, 4, 3)[0]
        name = next(tile[each] for each in (f"{dim}_name", dim) if each in tile.coords)
        outline(axes, world[:, 1:].tolist(), f"{dim} {name.item()}", colour)
    axes.autoscale_view()
    axes.set(aspect="equal", xlabel="x [um]", ylabel="y [um]")
    axes.invert_yaxis()
    return figure


def bigstitcher() -> Figure:
    """Draw the tiles of the project."""
    names_of("bigstitcher", 2)
    return _tiles(xr.open_dataset("tiles.xml", engine="bdv", level=0), "tile")


def scenes() -> Figure:
    """Draw the tiles of the project on the page about scenes."""
    names_of("scenes", 2)
    tree = xr.open_datatree("tiles.xml", engine="bdv")
    return _tiles(tree["s0"].to_dataset(), "tile")


PAGES = {
    each.__name__: each
    for each in (
        *(axes, bigstitcher, cluster, convert, cosem, dacapo, formats, grids, labels, open),
        *(pyramids, read, remote, scenes, tiff, training, verify, write),
    )
}


def main(*pages: str) -> None:
    """Draw the pictures of pages, or of all."""
    mpl.use("Agg")
    for page in pages or PAGES:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            os.chdir(folder)
            for sample in xarray_n5.tutorial.names():
                path = xarray_n5.tutorial.path(sample)
                if path.is_dir():
                    Path(path.name).symlink_to(path)
            figure = PAGES[page]()
            data = io.BytesIO()
            figure.savefig(data, dpi=80)
            plt.close(figure)
            picture = Image.open(data).convert("RGB").quantize(64)
            picture.save(TARGET / f"{page}.png", optimize=True)
            print(page, picture.size, (TARGET / f"{page}.png").stat().st_size)
            os.chdir(ROOT)


if __name__ == "__main__":
    main(*sys.argv[1:])
