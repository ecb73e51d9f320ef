"""What notebooks show of arrays and groups: pages that any theme suits, small, and never markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import xarray as xr

from tests.support.browser import dom, needs_chromium, screenshot, viewer
from tests.support.stores import CountingStore
from xarray_n5 import Axis, create_array, create_group, open_array, open_group
from xarray_n5.arrays.repr import chunk_picture
from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

ODD = "<script>document.title='owned'</script>\"'&<img src=x onerror=alert(1)>"

ALONE = {"path", "br"}


class Strict(HTMLParser):
    """What is in a page; every element is closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALONE
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def container(place: Any) -> Any:
    """A volume in levels, a plane, and a line."""
    scales = {"z": 2.0, "y": 0.5, "x": 0.5}
    axes = [Axis(name=name, unit="um", scale=scale) for name, scale in scales.items()]
    create_array(
        *(place, "volumes/raw/s0"),
        shape=(160, 1100, 1800),
        dtype="u2",
        chunks=(32, 256, 256),
        compression="zstd",
        axes=axes,
        attributes={"maxId": 381},
    )
    create_array(
        place, "volumes/plane", shape=(90, 140), dtype="u1", chunks=(50, 50), axes=axes[1:]
    )
    create_array(place, "line", shape=(400,), dtype="f8", chunks=(100,), axes=["t"])
    return place


def shown(thing: Any) -> Strict:
    page = Strict(thing._repr_html_())
    for name, value in page.attributes:
        assert name not in {"href", "src", "class", "id"}
        assert not name.startswith("on")
        assert "url" not in (value or "")
    # Colours are those of the page around, but that of the chunk.
    assert len(re.findall("#[0-9a-f]{6}", thing._repr_html_())) == page.tags.count("svg")
    return page


def test_an_array_is_shown_with_its_axes_and_its_chunks() -> None:
    page = shown(open_array(container(CountingStore()), "volumes/raw/s0"))
    for text in ("160 x 1100 x 1800", "200 chunks of 4.00 MiB", "start 0, step 0.5 µm", "maxId"):
        assert text in page.text
    assert page.tags.count("svg") == 1
    assert "z 160" in page.text


def test_a_group_is_a_tree_that_unfolds() -> None:
    page = shown(open_group(container(CountingStore())))
    # Two groups, three arrays, and the attributes of each of these.
    assert page.tags.count("details") == page.tags.count("summary") == 2 + 3 + 3
    for text in ("volumes/ group of 2", "raw/ group of 1", "s0 160 x 1100 x 1800 uint16"):
        assert text in page.text
    assert page.tags.count("svg") == 3


def test_a_tree_is_text_and_html() -> None:
    group = open_group(container(CountingStore()))
    assert repr(group.tree()).splitlines() == [
        "/",
        "├── line  400 float64, chunks 100, gzip",
        "└── volumes/",
        "    ├── plane  90 x 140 uint8, chunks 50 x 50, gzip",
        "    └── raw/",
        "        └── s0  160 x 1100 x 1800 uint16, chunks 32 x 256 x 256, zstd",
    ]
    assert repr(group.tree(depth=1)).splitlines()[-1] == "└── volumes/ ..."
    assert "raw/ group of 1" in shown(group.tree()).text


def test_facts_are_values() -> None:
    group = open_group(container(CountingStore()))
    info = open_array(container(CountingStore()), "line").info
    assert (info.shape, info.nchunks, info.nbytes, info.unfinished) == ((400,), 4, 3200, False)
    assert info.geometry is not None
    assert set(group.info.children or ()) == {"line", "volumes"}
    assert repr(group) == repr(group.info)


IRREGULAR = xr.Dataset(
    {"a": ("x", [1, 2, 3])}, {"x": ("x", np.array(["2020", "2021", "2024"], "M8[ns]"))}
)


@pytest.mark.filterwarnings("error")
def test_accessors_show_the_axes_of_each_variable_without_warnings() -> None:
    regular = IRREGULAR.assign_coords(x=("x", [3.0, 5.0, 7.0], {"units": "um"}))
    tree = xr.DataTree.from_dict({"/": IRREGULAR, "/b": regular.rename(a="c", x="z")})
    assert repr(tree.n5) == f"{IRREGULAR.n5!r}\nb/c\n    z  start 3, step 2 µm"
    assert repr(regular["a"].n5).endswith("\n    x  start 3, step 2 µm")
    assert "<strong>b/c</strong>" in tree.n5._repr_html_()
    assert repr(xr.Dataset().n5) == "no variables"


def odd(place: Any) -> Any:
    """A container of which all texts want to be markup."""
    create_group(place, "g", attributes={ODD: ODD})
    axes = [Axis(name=ODD, unit=ODD, scale=2.0), Axis(name="x", unit=ODD, scale=2.0)]
    name = ODD.replace("/", "\N{DIVISION SLASH}")
    create_array(
        place, f"g/{name}", shape=(3, 4), dtype="u1", axes=axes, attributes={"a": [{ODD: ODD}]}
    )
    return place


def test_what_files_say_is_never_markup() -> None:
    group = open_group(odd(CountingStore()), "g")
    for page in (shown(group), shown(next(iter(group.values())))):
        assert not {"script", "img"} & set(page.tags)
        assert ODD in page.text or ODD[:100] in page.text


def test_long_texts_are_cut() -> None:
    store = CountingStore()
    long = "a" * 50_000
    create_array(store, "x", shape=(2,), dtype="u1", attributes={long: long}, axes=[long])
    create_group(store, "g", attributes=dict.fromkeys(map(str, range(500)), long[:1000]))
    assert len(open_array(store, "x")._repr_html_()) < 8_000
    page = open_group(store, "g")._repr_html_()
    assert len(page) < 40_000
    assert "460 more" in page


def test_of_thousands_a_group_shows_some_and_asks_for_no_more() -> None:
    store = CountingStore()
    create_array(store, "0", shape=(64,), dtype="u1", chunks=(8,))
    document = store.inner.get("0/attributes.json")
    assert document is not None
    for number in range(3000):
        store.inner.set(f"{number:04}/attributes.json", document)
        store.inner.set(f"groups/{number:04}/deep/attributes.json", b"{}")
    group = open_group(store)
    store.requests()
    page = group._repr_html_()
    asked = store.requests()
    assert "2962 more" in page
    assert len(page) < 250_000
    assert sum(asked.values()) < 80
    assert "2962 more" in repr(group)
    assert sum(store.requests().values()) < 5
    assert len(open_group(store, "groups")._repr_html_()) < 100_000


def test_a_group_below_that_cannot_be_listed_is_shown_all_the_same(tmp_path: Path) -> None:
    container(tmp_path)

    class Guarded(LocalStore):
        __slots__ = ()

        def list(self, prefix: str) -> Any:
            if prefix:
                raise PermissionError(prefix)
            return super().list(prefix)

    group = open_group(Guarded(str(tmp_path)))
    page = shown(group)
    assert "volumes/ group, not looked into" in page.text
    assert "line 400 float64" in page.text


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [((5,), (5,)), ((7, 9), (3, 9)), ((7, 9, 2), (3, 1, 2)), ((2, 7, 9, 2), (1, 3, 1, 2))],
)
def test_a_picture_has_a_line_for_each_cut(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    names = [f"axis {number}" for number in range(len(shape))]
    drawn = ET.fromstring(chunk_picture(names, shape, chunks, shape))  # noqa: S314
    lines = drawn.findall("path")[1].get("d", "").count("M")
    cuts = [-(-s // c) + 1 for s, c in zip(shape[-3:], chunks[-3:], strict=True)]
    flat = {1: 2, 2: 0, 3: 0}.get(len(cuts), 0)
    assert lines == sum(cuts) + flat
    texts = [each.text for each in drawn.iter("text")]
    assert sorted(texts, key=str) == [f"{n} {s}" for n, s in zip(names, shape, strict=True)][-3:]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 4)])
def test_nothing_has_no_picture(shape: tuple[int, ...]) -> None:
    assert chunk_picture(["x"] * len(shape), shape, (1,) * len(shape), shape) == ""
    array = create_array(CountingStore(), "x", shape=shape, dtype="u1", chunks=(1,) * len(shape))
    assert "svg" not in shown(array).tags


def test_a_picture_of_a_million_chunks_is_small() -> None:
    shape = (10_000_000,) * 3
    assert len(chunk_picture("zyx", shape, (1, 10, 100), shape)) < 4_000


CLICKS = """
<script>
const all = [...document.querySelectorAll("details")];
const before = all.map(each => each.open);
const heights = [document.body.scrollHeight];
for (const each of all) { if (!each.open) { each.querySelector("summary").click(); } }
heights.push(document.body.scrollHeight);  // which lays the page out: no need to wait for a frame
document.title = JSON.stringify([before, all.map(each => each.open), heights]);
</script>
"""


@viewer
@needs_chromium
def test_in_a_browser_groups_unfold_by_a_click(tmp_path: Path) -> None:
    html = open_group(container(tmp_path / "c.n5"))._repr_html_()
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8>{html}{CLICKS}", "utf-8")
    title = re.search("<title>(.*)</title>", dom(page, tmp_path / "browser"))
    assert title
    before, after, heights = json.loads(title[1])
    assert sorted(before) == [False] * 6 + [True] * 2  # small groups are open at once
    assert all(after)
    assert heights[1] > heights[0] + 300


@viewer
@needs_chromium
def test_in_a_browser_no_text_of_a_file_runs(tmp_path: Path) -> None:
    html = open_group(odd(tmp_path / "c.n5"))._repr_html_()
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><title>ours</title>{html}", "utf-8")
    found = dom(page, tmp_path / "browser")
    assert "<title>ours</title>" in found
    assert "<img" not in found
    assert "&lt;script&gt;" in found


@viewer
@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser_text_and_picture_have_the_colours_of_the_page(
    tmp_path: Path, *, dark: bool
) -> None:
    image = pytest.importorskip("matplotlib.image")
    html = open_array(container(tmp_path / "c.n5"), "volumes/raw/s0")._repr_html_()
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(
        '<!doctype html><meta charset=utf-8><meta name="color-scheme" content="light dark">' + html,
        "utf-8",
    )
    screenshot(page, picture, tmp_path / "browser", (700, 300), dark=dark)
    grey = image.imread(picture)[..., :3].mean(-1)
    paper = grey[-1, -1]
    assert paper < 0.2 if dark else paper > 0.8
    # Ink is far from paper, in the text on the left as in the picture on the right.
    for part in (grey[:, :350], grey[30:, 400:]):
        assert abs(part - paper).max() > 0.6
