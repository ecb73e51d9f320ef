"""The picture in docs/howto/view.md, made anew: xvfb-run python ci/make_napari.py.

It needs a display, and an environment with "napari[all]" next to this package.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import napari
import xarray as xr
from PIL import Image
from qtpy.QtWidgets import QApplication

import xarray_n5

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "napari.png"

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder) / "levels.n5"
    with xr.open_datatree(xarray_n5.tutorial.path("cells"), engine="n5") as cells:
        nuclei = cells["nuclei/nuclei"].astype("uint64")
        xarray_n5.pyramid(cells["raw/raw"], place, "raw", levels=2)
        xarray_n5.pyramid(nuclei, place, "nuclei", levels=2, method="mode")
    viewer = napari.Viewer()
    viewer.open(place, plugin="xarray-n5")
    # Labels above the image; a contrast by the whole image, not by its empty first plane.
    viewer.layers.move(viewer.layers.index("nuclei"), len(viewer.layers))
    viewer.layers["nuclei"].opacity = 0.4
    viewer.layers["raw"].contrast_limits = (0, 40)
    viewer.layers.selection.active = viewer.layers["nuclei"]
    viewer.dims.set_point(0, 46)
    viewer.scale_bar.visible = True
    viewer.window.resize(1000, 660)
    end = time.monotonic() + 5
    while time.monotonic() < end:  # levels are loaded while events are processed
        QApplication.processEvents()
    viewer.reset_view()
    QApplication.processEvents()
    shot = viewer.screenshot(canvas_only=False, flash=False)
    viewer.close()
Image.fromarray(shot).convert("RGB").quantize(128).save(PICTURE, optimize=True)
print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")
