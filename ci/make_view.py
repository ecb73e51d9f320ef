"""Make the pictures of views in the documentation: python ci/make_view.py, after ci/viewer."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import xarray_n5  # noqa: E402 - likewise
from tests.support.browser import browsing  # noqa: E402 - after the path is known

if TYPE_CHECKING:
    from xarray_n5.viewing.api import View


def save(view: View, target: Path, size: tuple[int, int] = (900, 560)) -> None:
    """Save what a view shows in a browser."""
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with folder, view, browsing(view.url, Path(folder.name)):
        taken = view.viewer.screenshot(size=[*size]).screenshot.image
    picture = Image.open(io.BytesIO(taken)).convert("RGB")
    picture.quantize(128).save(target, optimize=True)
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


def save_card(picture: Path, target: Path) -> None:
    """Save one plane of a picture, for the gallery of notebooks."""
    card = Image.open(picture).convert("RGB").crop((17, 0, 448, 280)).resize((400, 260))
    card.quantize(128).save(target, optimize=True)


def view_of_notebook(path: Path) -> Any:
    """Return the view that a notebook ends in."""
    names: dict[str, Any] = {}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102 - our own notebook
    return names["view"]


cells = xr.open_datatree(xarray_n5.tutorial.path("cells"), engine="n5")
raw = cells["raw/raw"].chunk(z=16)
averaged = raw.rolling(z=3, center=True, min_periods=1).mean()
shown = xr.Dataset({"smooth": averaged, "nuclei": cells["nuclei/nuclei"]})
save(shown.n5.view(labels=["nuclei"]), ROOT / "docs" / "images" / "view.png")
tiles = xr.open_datatree(xarray_n5.tutorial.path("tiles")).n5.view()
with tiles.viewer.txn() as state:
    state.layout, state.cross_section_scale = "xy", 0.085
save(tiles, ROOT / "docs" / "images" / "tiles.png", (760, 480))
notebook = ROOT / "notebooks" / "look.ipynb"
picture = notebook.with_suffix(".png")
save(view_of_notebook(notebook), picture)
save_card(picture, ROOT / "docs" / "images" / "gallery" / picture.name)
