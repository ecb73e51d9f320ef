"""The picture of a view in docs/looking.md, made anew: python ci/make_view.py, after ci/viewer."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import xarray as xr
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import browsing  # noqa: E402 - after the path is known

PICTURE = ROOT / "docs" / "images" / "view.png"

cells = xr.open_datatree(ROOT / "tests" / "data" / "cells.n5", engine="n5")
smooth = cells["raw/raw"].chunk(z=16).rolling(z=3, center=True, min_periods=1).mean()
shown = xr.Dataset({"smooth": smooth, "nuclei": cells["nuclei/nuclei"]})
with (
    tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    shown.n5.view(labels=["nuclei"]) as view,
    browsing(view.url, Path(folder)),
):
    taken = view.viewer.screenshot(size=[900, 560]).screenshot.image
    picture = Image.open(io.BytesIO(taken)).convert("RGB")
    picture.quantize(128).save(PICTURE, optimize=True)
print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")
