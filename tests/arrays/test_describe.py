"""Descriptions of arrays, groups and axes: text, and tables that are never markup of a file."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import xarray as xr

from tests.support.stores import CountingStore
from xarray_n5 import Axis, create_array, create_group, open_array, open_group

ODD = "<script>document.title='owned'</script>\"'&<img src=x onerror=alert(1)>"


class Strict(HTMLParser):
    """What is in a page; every element is closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style"}
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(thing: Any) -> Strict:
    page = Strict(thing._repr_html_())
    assert set(page.tags) <= {"div", "strong", "table", "tr", "th", "td"}
    return page


def container(place: Any) -> Any:
    """A volume with axes, and a line."""
    scales = {"z": 2.0, "y": 0.5, "x": 0.5}
    create_array(
        *(place, "volumes/raw"),
        shape=(160, 1100, 1800),
        dtype="u2",
        chunks=(32, 256, 256),
        compression="zstd",
        axes=[Axis(name=name, unit="um", scale=scale) for name, scale in scales.items()],
        attributes={"maxId": 381},
    )
    create_array(place, "line", shape=(400,), dtype="f8", chunks=(100,), axes=["t"])
    return place


def test_array_is_described_with_its_chunks_axes_and_attributes() -> None:
    array = open_array(container(CountingStore()), "volumes/raw")
    lines = repr(array).splitlines()
    assert lines[0].startswith("<xarray_n5.Array ")
    facts = dict(line.strip().split(maxsplit=1) for line in lines[1:])
    expected = {
        "shape": "160 x 1100 x 1800",
        "dtype": "uint16",
        "chunks": "32 x 256 x 256, 200 chunks of 4.00 MiB",
        "y": "start 0, step 0.5 µm",
        "attributes": ", ".join(array.attrs),
    }
    assert facts | expected == facts
    assert "maxId" in facts["attributes"]
    assert all(value in shown(array).text for value in facts.values())
    assert repr(array.info) == repr(array)
    assert not array.info.unfinished


def test_shards_are_described_beside_their_chunks() -> None:
    place = CountingStore()
    create_array(place, "a", shape=(8, 9), dtype="u1", chunks=3, shards=(3, 6), format="zarr3")
    facts = dict(open_array(place, "a").info.rows)
    assert facts["chunks"] == "3 x 3, 9 chunks of 9 B"
    assert facts["shards"] == "3 x 6, 6 shards of 18 B"
    assert "8 x 9 uint8, chunks 3 x 3, shards 3 x 6, gzip" in repr(open_group(place))


@pytest.mark.parametrize(
    ("shape", "words", "count"), [((), "one number", "1 chunk"), ((0, 3), "0 x 3", "0 chunks")]
)
def test_arrays_without_axes_or_elements_are_described(
    shape: tuple[int, ...], words: str, count: str
) -> None:
    array = create_array(CountingStore(), shape=shape, dtype="u1", chunks=(1,) * len(shape))
    facts = dict(array.info.rows)
    assert facts["shape"] == words
    assert count in facts["chunks"]
    shown(array)


def test_group_is_described_by_the_nodes_in_it() -> None:
    group = open_group(container(CountingStore()))
    assert repr(group).splitlines()[1:] == [
        "    line      400 float64, chunks 100, gzip",
        "    volumes/  group",
    ]


IRREGULAR = xr.Dataset(
    {"a": ("x", [1, 2, 3])}, {"x": ("x", np.array(["2020", "2021", "2024"], "M8[ns]"))}
)


@pytest.mark.filterwarnings("error")
def test_accessors_describe_the_axes_of_each_variable_without_warnings() -> None:
    regular = IRREGULAR.assign_coords(x=("x", [3.0, 5.0, 7.0], {"units": "um"}))
    tree = xr.DataTree.from_dict({"/": IRREGULAR, "/b": regular.rename(a="c", x="z")})
    assert repr(tree.n5) == f"{IRREGULAR.n5!r}\nb/c\n    z  start 3, step 2 µm"
    assert repr(regular["a"].n5).endswith("\n    x  start 3, step 2 µm")
    assert "<strong>b/c</strong>" in tree.n5._repr_html_()
    assert repr(xr.Dataset().n5) == "no variables"


def test_strings_of_files_are_never_markup() -> None:
    place = CountingStore()
    create_group(place, "g", attributes={ODD: ODD})
    axes = [Axis(name=ODD, unit=ODD, scale=2.0), Axis(name="x", unit=ODD, scale=2.0)]
    name = ODD.replace("/", "\N{DIVISION SLASH}")
    create_array(place, f"g/{name}", shape=(3, 4), dtype="u1", axes=axes, attributes={ODD: 1})
    group = open_group(place, "g")
    opened = xr.open_dataset(place, engine="n5", group=f"g/{name}")  # type: ignore[arg-type]
    assert ODD in repr(group)
    for thing in (open_array(place, f"g/{name}"), opened.n5, next(iter(opened.values())).n5):
        assert ODD in shown(thing).text
        assert "<script" not in thing._repr_html_()
        assert ODD in repr(thing)


def test_long_strings_are_truncated() -> None:
    store, long = CountingStore(), "a" * 50_000
    create_array(store, "x", shape=(2,), dtype="u1", attributes={long: long}, axes=[long])
    create_group(store, "g", attributes=dict.fromkeys(map(str, range(500)), long[:1000]))
    assert len(open_array(store, "x")._repr_html_()) < 8_000
    assert len(repr(open_group(store, "g"))) < 500


def test_group_of_thousands_is_described_by_some_with_few_requests() -> None:
    store = CountingStore()
    create_array(store, "0", shape=(64,), dtype="u1", chunks=(8,))
    document = store.inner.get("0/attributes.json")
    assert document is not None
    for number in range(3000):
        store.inner.set(f"{number:04}/attributes.json", document)
    group = open_group(store)
    store.requests()
    text = repr(group)
    assert "2961 more" in text
    assert len(text) < 50_000
    assert sum(store.requests().values()) <= 5
