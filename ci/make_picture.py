"""The pictures of docs/tutorial.md and docs/looking.md, made anew: python ci/make_picture.py.

Chromium draws the reprs; `bash ci/viewer` installs it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import xarray as xr
from PIL import Image, ImageChops

import xarray_n5

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "images"

PAGE = """<html><body style="margin: 16px; width: {width}px; font: 15px sans-serif;
color: {ink}; background: {paper}">{content}</body></html>"""


def save_section() -> None:
    """Save the plot of the tutorial."""
    mpl.use("Agg")
    with xr.open_dataset(xarray_n5.tutorial.path("cells"), engine="n5") as cells:
        figure, axes = plt.subplots(figsize=(7, 5.6), layout="constrained")
        cells["raw"].sel(y=42.0).plot.imshow(ax=axes, cmap="magma", vmax=50, yincrease=False)
    axes.set_aspect("equal")
    figure.savefig(PICTURES / "tutorial.png", dpi=80)


def names_of(page: Path) -> dict[str, Any]:
    """Return what the code of a page defines."""
    names: dict[str, Any] = {}
    blocks = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for code in blocks.findall(page.read_text("utf-8")):
        exec(code, names)  # noqa: S102 - our own page
        if "brain" in names:
            break
    return names


def save_repr(shown: Any, name: str, *, width: int, ink: str, paper: str) -> None:
    """Save what a notebook shows for an array or a group."""
    html, png = Path(f"{name}.html").resolve(), Path(f"{name}.png").resolve()
    content = re.sub(r"(<details)(?=[^>]*><summary[^>]*>s1 )", r"\1 open", shown._repr_html_())
    content = content.replace(f"{Path.cwd()}/", "")
    html.write_text(PAGE.format(content=content, width=width, ink=ink, paper=paper), "utf-8")
    command = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={html.parent / 'browser'}", f"--screenshot={png}"]
    command += [f"--window-size={width + 32},900", html.as_uri()]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is missing")
    subprocess.run([chromium, *command], check=True, capture_output=True)  # noqa: S603
    picture = Image.open(png).convert("RGB")
    empty = Image.new("RGB", picture.size, picture.getpixel((1, 1)))
    left, top, right, bottom = ImageChops.difference(picture, empty).getbbox() or (0, 0, 1, 1)
    picture = picture.crop((max(left - 12, 0), max(top - 12, 0), right + 12, bottom + 12))
    picture.quantize(64).save(PICTURES / f"{name}.png", optimize=True)
    print(name, picture.size)


if __name__ == "__main__":
    save_section()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        names = names_of(ROOT / "docs" / "looking.md")
        save_repr(names["raw"], "array", width=720, ink="black", paper="white")
        save_repr(names["brain"], "group", width=720, ink="#ced6dd", paper="#14181e")
