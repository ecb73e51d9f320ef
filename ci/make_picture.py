"""The picture of docs/tutorial.md, made anew: python ci/make_picture.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import xarray as xr

import xarray_n5

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "images"


def save_section() -> None:
    """Save the plot of the tutorial."""
    mpl.use("Agg")
    with xr.open_dataset(xarray_n5.tutorial.path("cells"), engine="n5") as cells:
        figure, axes = plt.subplots(figsize=(7, 5.6), layout="constrained")
        cells["raw"].sel(y=42.0).plot.imshow(ax=axes, cmap="magma", vmax=50, yincrease=False)
    axes.set_aspect("equal")
    figure.savefig(PICTURES / "tutorial.png", dpi=80)


if __name__ == "__main__":
    save_section()
