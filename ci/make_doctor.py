"""The picture in docs/howto/doctor.md, made anew: python ci/make_doctor.py."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import xarray_n5

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "howto" / "doctor.md"
READERS = {
    "neuroglancer": ("Neuroglancer", "cyan", "-", 3.0),
    "n5_universe": ("n5-universe (Fiji)", "red", "--", 1.5),
}
PLANE, WINDOW = 46, {"y": slice(36, 62), "x": slice(10, 48)}


def draw(ax: Axes) -> None:
    """Draw the finest level, and the outlines of nuclei by the coarsest one, by each reader."""
    base, coarse = (
        xr.open_dataset("em.n5", engine="n5", group=f"raw/{s}")["raw"] for s in ("s0", "s2")
    )
    section = base.sel(z=PLANE, **WINDOW)
    section.plot.imshow(ax=ax, cmap="gray", vmax=45, yincrease=False, add_colorbar=False)
    found = xarray_n5.doctor.examine("em.n5", "raw").sel(level="s2")
    for reader, (title, colour, style, width) in READERS.items():
        axes = found.sel(reader=reader)
        y, x = (
            float(axes.offset.sel(axis=dim))
            + np.arange(coarse.sizes[dim]) * float(axes.scale.sel(axis=dim))
            for dim in "yx"
        )
        how = {"linestyles": style, "linewidths": width}
        ax.contour(x, y, coarse.sel(z=PLANE), levels=[14], colors=colour, **how)
        ax.plot([], color=colour, linestyle=style, linewidth=width, label=title)
    ax.set(aspect="equal", xlabel="x [um]", ylabel="y [um]")
    ax.set_xlim(WINDOW["x"].start, WINDOW["x"].stop)
    ax.set_ylim(WINDOW["y"].stop, WINDOW["y"].start)


mpl.use("Agg")
figure, (before, after) = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    shutil.copytree(xarray_n5.tutorial.path("cells"), "cells.n5")
    prepared = re.search(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    exec(prepared[1])  # noqa: S102 - our own page
    draw(before)
    xarray_n5.doctor.examine("em.n5", dialect="neuroglancer", fix=True)
    draw(after)
    os.chdir(ROOT)
before.set_title("level s2 over s0, as stored")
after.set_title("after --fix")
after.legend(loc="lower right")
figure.savefig(ROOT / "docs" / "images" / "doctor.png", dpi=80)
