"""Odd metadata only warns, huge metadata is refused, and nothing in it commands a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import textwrap
import time
import warnings
import zipfile
from itertools import product
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
from tests.support.exhaustive import EXHAUSTIVE
from tests.support.memory_store import MemoryStore
from xarray_n5.bdv.xml import looks_like_project
from xarray_n5.cli import main
from xarray_n5.model.metadata import lists_levels
from xarray_n5.model.units import split_unit
from xarray_n5_engine import BdvBackendEntrypoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ARRAY = {"dimensions": [4], "blockSize": [4], "dataType": "uint8", "compression": {"type": "raw"}}

CUBE = {**ARRAY, "dimensions": [4, 5, 6], "blockSize": [2, 2, 2]}

ESCAPES = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202eevil\r\n\u2028"
"""Retitles and clears a terminal, colours what follows, turns it round, ends the line."""

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def node(container: Path, path: str = "a", /, **members: Any) -> str:
    """Write a document by hand, and return its container."""
    return text_node(container, json.dumps(members), path)


def text_node(container: Path, text: str, path: str = "a") -> str:
    folder = container / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "attributes.json").write_text(text)
    return str(container)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def within(code: str, *arguments: object, megabytes: int = 1500, seconds: float = 240) -> str:
    """Run a program whose memory and time are limited, and return what it prints."""
    head = f"""
        import resource, sys, warnings
        import numpy, xarray as xr, xarray_n5
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20, {megabytes} << 20))
    """
    program = textwrap.dedent(head) + textwrap.dedent(code)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")


# Odd members of documents

N5_ARRAY = {
    "dimensions": [4, 3],
    "blockSize": [2, 3],
    "dataType": "uint8",
    "axes": ["x", "y"],
    "compression": {"type": "gzip", "level": 1, "useZlib": False},
    "resolution": [1, 2],
    "units": ["um", "um"],
    "downsamplingFactors": [1, 1],
}

ZARR2_ARRAY = {
    "zarr_format": 2,
    "shape": [4, 3],
    "chunks": [2, 3],
    "dtype": "<i4",
    "fill_value": 0,
    "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "filters": [{"id": "delta", "dtype": "<i4", "astype": "<i4"}],
    "order": "C",
    "dimension_separator": ".",
}

TIMES = {
    "_ARRAY_DIMENSIONS": ["y", "x"],
    "units": "days",
    "dtype": "timedelta64[s]",
    "_FillValue": 3,
    "scale_factor": 2.0,
    "add_offset": 1.0,
    "calendar": "standard",
}

ENDIAN = {"name": "bytes", "configuration": {"endian": "little"}}

ZARR3_ARRAY = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 3],
    "data_type": "uint8",
    "codecs": [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        ENDIAN,
        {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 1, "shuffle": "shuffle"}},
        {"name": "crc32c"},
    ],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "dimension_names": ["y", "x"],
    "storage_transformers": [],
    "attributes": {"units": "m", "_FillValue": "AAAAAAAA8D8="},
}

SHARDS = {
    "chunk_shape": [1, 3],
    "codecs": [ENDIAN, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    "index_codecs": [ENDIAN, {"name": "crc32c"}],
    "index_location": "end",
}

SECONDS = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 2}}

LETTERS = {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}

FIELDS = {"name": "struct", "configuration": {"fields": [["a", "int8"], ["b", LETTERS]]}}

IMAGE = {
    "version": "0.4",
    "axes": [{"name": "y", "type": "space", "unit": "um"}, {"name": "x", "type": "space"}],
    "datasets": [{"path": "a", "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}]}],
}

ZARR3_GROUP = {
    "zarr_format": 3,
    "node_type": "group",
    "attributes": {"ome": {"version": "0.5", "multiscales": [IMAGE]}},
}

SPACE = [
    {"name": "y", "type": "space", "unit": "micrometer"},
    {"name": "x", "type": "space", "longName": "width", "discrete": False},
]

STEPS: list[dict[str, Any]] = [
    {"type": "mapAxis", "mapAxis": [1, 0]},
    {"type": "rotation", "rotation": [[0, -1], [1, 0]]},
    {"type": "projectAxis", "droppedInputs": [0], "createdOutputs": [0]},
    {"type": "affine", "affine": [[1, 0, 2], [0, 1, 3]]},
    {"type": "bijection", "forward": {"type": "identity"}, "inverse": {"type": "identity"}},
    {
        "type": "byDimension",
        "transformations": [
            {
                "transformation": {"type": "translation", "translation": [1, 2]},
                "inputAxes": [1, 0],
                "outputAxes": [0, 1],
            }
        ],
    },
]

IMAGE_06 = {
    "coordinateSystems": [{"name": "world", "axes": SPACE}, {"name": "intrinsic", "axes": SPACE}],
    "datasets": [
        {
            "path": "a",
            "coordinateTransformations": [
                {
                    "type": "sequence",
                    "input": {"path": "a"},
                    "output": {"name": "intrinsic"},
                    "transformations": [
                        {"type": "scale", "scale": [1, 2]},
                        {"type": "translation", "translation": [3, 4]},
                    ],
                }
            ],
        }
    ],
    "coordinateTransformations": [
        {
            "type": "sequence",
            "name": "steps",
            "input": {"name": "intrinsic"},
            "output": {"name": "world"},
            "transformations": STEPS,
        },
        {
            "type": "affine",
            "path": "m",
            "input": {"path": "labels/a", "name": "x"},
            "output": {"name": "intrinsic"},
        },
        {
            "type": "affine",
            "path": "a",
            "input": {"name": "world"},
            "output": {"name": "intrinsic"},
        },
    ],
}

NOTE = {
    "axes": ["x"],
    "types": {"x": "<i4"},
    "name": "n",
    "own": ["units"],
    "dtype": "S1",
    "attributes": {"t": {"a": [1, 2]}},
    "text": {"nan": "[NaN, 1]"},
    "dtypes": {"scale_factor": "<f4"},
}

DOCUMENTS: dict[str, dict[str, Any]] = {
    "n5": {
        "attributes.json": {"n5": "2.0.0", "multiscales": [IMAGE]},
        "a/attributes.json": N5_ARRAY,
    },
    "n5 note": {"a/attributes.json": {**N5_ARRAY, "_XARRAY": NOTE}},
    "zarr2": {
        ".zgroup": {"zarr_format": 2},
        ".zattrs": {"multiscales": [IMAGE], "omero": {"channels": [{"label": "a"}]}},
        "a/.zarray": ZARR2_ARRAY,
        "a/.zattrs": TIMES,
    },
    "zarr2 structure": {
        "a/.zarray": {
            **ZARR2_ARRAY,
            "dtype": [["x", "<f4"], ["y", "<M8[s]", [2]]],
            "fill_value": None,
            "filters": None,
        }
    },
    "zarr2 scale": {
        "a/.zarray": {
            **ZARR2_ARRAY,
            "dtype": "<f8",
            "fill_value": "NaN",
            "filters": [
                {
                    "id": "fixedscaleoffset",
                    "scale": 2,
                    "offset": 1,
                    "dtype": "<f8",
                    "astype": "<i4",
                },
                {"id": "shuffle", "elementsize": 4},
            ],
            "compressor": {"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": None},
        }
    },
    "zarr2 consolidated": {
        ".zgroup": {"zarr_format": 2},
        ".zmetadata": {
            "zarr_consolidated_format": 1,
            "metadata": {".zgroup": {"zarr_format": 2}, "a/.zarray": ZARR2_ARRAY},
        },
        "a/.zarray": ZARR2_ARRAY,
    },
    "zarr3": {"zarr.json": ZARR3_GROUP, "a/zarr.json": ZARR3_ARRAY},
    "zarr3 systems": {
        "zarr.json": {
            **ZARR3_GROUP,
            "attributes": {"ome": {"version": "0.6", "multiscales": [IMAGE_06]}},
        },
        "a/zarr.json": ZARR3_ARRAY,
    },
    "zarr3 shards": {
        "a/zarr.json": {
            **ZARR3_ARRAY,
            "data_type": SECONDS,
            "codecs": [{"name": "sharding_indexed", "configuration": SHARDS}],
        }
    },
    "zarr3 structure": {
        "a/zarr.json": {
            **ZARR3_ARRAY,
            "data_type": FIELDS,
            "fill_value": "AAAAAAAAAAAA",
            "codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}],
        }
    },
    "zarr3 consolidated": {
        "zarr.json": {
            **ZARR3_GROUP,
            "consolidated_metadata": {
                "kind": "inline",
                "must_understand": False,
                "metadata": {"a": ZARR3_ARRAY},
            },
        },
        "a/zarr.json": ZARR3_ARRAY,
    },
}

MEMBERS: list[Any] = [
    *(None, True, False, -1, 0, 1.5, float("inf"), float("nan"), 2**64, "", "x", "/", [], {}),
    *([None], [[]], [{}], [-1], [True], [float("inf")], [2**64], ["x"], [["a", "<M8[0s]"]]),
    *({"name": []}, {"name": "x", "configuration": 5}, {"id": []}, {"type": []}, {"x": 1}),
    *(
        [1 << 62],
        [1] * 65,
        "|O",
        "<M8[5Y]",
        "<M8[0s]",
        "<m8[00D]",
        "<M8[1s/0]",
        "timedelta64[0s]",
        "timedelta64[1s/0]",
    ),
]


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Iterate over the keys and indices that lead to each member of a document."""
    if above:
        yield above
    items = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else items:
        yield from places(inner, (*above, key))


def replaced(value: Any, place: tuple[Any, ...], member: Any) -> Any:
    """Return a document with another value at a place."""
    if not place:
        return member
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = replaced(value[place[0]], place[1:], member)
    return copy


@pytest.mark.matrix(2)
@pytest.mark.more
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_an_odd_member_of_any_document_is_an_n5_error(kind: str) -> None:
    """Or none: it is ignored. The process goes on, whatever NumPy does with times."""
    tried = 0
    for name, document in DOCUMENTS[kind].items():
        for place, member in product(places(document), MEMBERS):
            tried += 1
            few = not EXHAUSTIVE and tried % 17
            # Those with times end the process if they reach NumPy, and are tried everywhere.
            if few and "M8[0s]" not in str(member):
                continue
            store = MemoryStore()
            for key, whole in DOCUMENTS[kind].items():
                found = replaced(whole, place, member) if key == name else whole
                store.set(key, json.dumps(found).encode())
            looks: tuple[Callable[[Any], Any], ...] = (
                lambda store: xr.open_dataset(store, engine="n5", group="a"),
                lambda store: xarray_n5.open_array(store, "a")[...],
                lambda store: xarray_n5.verify(store, "a"),
                lambda store: repr(xarray_n5.open_group(store)),
                lambda store: repr(xr.open_datatree(store, engine="n5")),
            )
            for look in looks[: 1 if few else 5]:
                with contextlib.suppress(xarray_n5.N5Error):
                    look(store)


# Odd values

ODD: list[Any] = [
    *(None, True, 0, -1, 1e308, 10**30, "", "x", "NaN", [], [[]], [None], [True], {}, {"a": 1}),
    *([1, 2], ["x"], [{}], [[1, 2], [3]], [-1], [0], {"dimensions": [1], "unit": 5}),
    *([["x"]], [ESCAPES], {"text": {"a": "["}}, {"dtypes": {"a": "<f4"}}, "9" * 5000),
]

KEYS = (
    *("axes", "units", "resolution", "offset", "pixelResolution", "downsamplingFactors"),
    *("transform", "spatialTransform", "coordinateArrays", "multiscales", "scales"),
    *("affineTransform", "_ARRAY_DIMENSIONS", "DIMENSION_LABELS", "_XARRAY", "_nc_note", "ome"),
    *("isLabelMultiset", "painteraData", "multiScale", "omero", "n5", "coordinates", "bounds"),
    *("_FillValue", "scale_factor", "add_offset", "calendar", "maxId", "xOrigin", "pixelWidth"),
    *("unit", "fov", "channels", "metadata", "translate", "order", "min", "dtype"),
    *("voxel_size", "axis_names", "types", "Bigstitcher-Spark"),
)


def look_at_all(container: str) -> None:
    xr.open_dataset(container, engine="n5", group="a")
    xr.open_dataset(container, engine="n5")
    repr(xr.open_datatree(container, engine="n5"))
    group = xarray_n5.open_group(container)
    repr(group)
    xarray_n5.open_array(container, "a").geometry()


@pytest.mark.matrix(4)
@pytest.mark.more
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", KEYS)
def test_odd_attributes_never_stop_opening(tmp_path: Path, key: str) -> None:
    few = ODD if EXHAUSTIVE else ODD[KEYS.index(key) % 5 :: 5]
    for number, (value, on_array) in enumerate(product(few, (True, False))):
        container = tmp_path / f"{number}.n5"
        members = {key: value} if key not in ARRAY else {}
        if on_array and lists_levels(members):
            continue  # the attributes are a group's
        node(container, **{**ARRAY, **(members if on_array else {})})
        node(container, "", **({} if on_array else members))
        look_at_all(str(container))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("order", ["C", "N5"])
def test_odd_lists_never_stop_opening_in_any_order(tmp_path: Path, order: Any) -> None:
    lists = (*KEYS[: KEYS.index("_XARRAY")], "translate", "voxel_size", "axis_names", "types")
    for number, value in enumerate(ODD):
        container = tmp_path / f"{number}.n5"
        node(container, **{**ARRAY, **dict.fromkeys(lists, value)})
        node(container, "", **dict.fromkeys(lists, value))
        for key in lists:
            node(container, key, **{**ARRAY, key: value})
        repr(xr.open_datatree(container, engine="n5", attribute_order=order))


@pytest.mark.filterwarnings("ignore")
def test_odd_settings_of_a_fusion_never_stop_opening(tmp_path: Path) -> None:
    keys = ("Boundingbox_min", "PreserveAnisotropy", "AnisotropyFactor", "MultiResolutionInfos")
    three = {**ARRAY, "dimensions": [4, 4, 4], "blockSize": [2, 2, 2]}
    good = {"Boundingbox_min": [1, 2, 3], "PreserveAnisotropy": True, "AnisotropyFactor": 2}
    container = tmp_path / "a.n5"
    for level, name in ((0, "ch0tp0"), (0, "ch1tp0"), (1, "ch0tp0"), (1, "ch1tp0")):
        node(container, f"{name}/s{level}", **three)
    for key, value in product(keys, ODD):
        node(container, "", **{"Bigstitcher-Spark": {**good, key: value}})
        image = xr.open_dataset(container, engine="n5", level=1)
        assert list(image.sizes.values()) == [1, 2, 4, 4, 4]


@pytest.mark.parametrize(
    "note",
    [
        5,
        {"attributes": 5},
        {"axes": 5, "own": 5},
        {"axes": [["x"]], "own": [{}]},
        {"dtype": "S1"},
        {"text": 5, "dtypes": {"title": "O"}},
        {"text": {"b": "["}},
        {"text": {"b": "[" * 500 + "]" * 500}},
        {"dtypes": {"b": "<f4"}},
    ],
)
def test_an_odd_note_is_ignored_with_a_warning(tmp_path: Path, note: Any) -> None:
    good = {"title": "kept", "_ARRAY_DIMENSIONS": ["y"]}
    container = node(tmp_path / "c.n5", **{**ARRAY, **good, "dataType": "uint16"}, _XARRAY=note)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        opened = xr.open_dataset(container, engine="n5", group="a")
    assert opened["a"].dims == ("y",)
    assert opened["a"].attrs == {"title": "kept"}
    assert bool(given) == (note != {"dtype": "S1"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert xr.open_datatree(container, engine="n5")["a"].shape == (4,)


def test_a_name_with_a_slash_is_kept_by_a_dataset_and_changed_in_a_tree(tmp_path: Path) -> None:
    container = node(tmp_path / "c.n5", **CUBE, axes=["a/b", "a_b", "z"], resolution=[1, 2, 3])
    assert xr.open_dataset(container, engine="n5", group="a")["a"].dims == ("z", "a_b", "a/b")
    with pytest.warns(UserWarning, match="not valid names in a tree"):
        tree = xr.open_datatree(container, engine="n5")
    assert tree["a"].dataset["a"].dims == ("z", "a_b", "a_b_")


# Documents

DEEP = {
    "attributes.json": lambda inner: json.dumps(ARRAY)[:-1] + f', "x": {inner}}}',
    ".zattrs": lambda inner: f'{{"x": {inner}}}',
    ".zarray": lambda inner: inner,
}


@pytest.mark.parametrize("depth", [200, 900, 100_000])
@pytest.mark.parametrize("name", DEEP)
def test_json_that_is_nested_too_deep_is_refused_naming_the_file(
    tmp_path: Path, name: str, depth: int
) -> None:
    xarray_n5.create_array(
        tmp_path, "a", shape=(4,), dtype="u1", format="n5" if name[0] == "a" else "zarr2"
    )
    (tmp_path / "a" / name).write_text(DEEP[name](nested(depth)))
    with pytest.raises(xarray_n5.MetadataError, match=f"{name}: .*deep"):
        xarray_n5.open_array(tmp_path, "a")


def test_json_that_is_too_deep_for_readers_is_not_written(tmp_path: Path) -> None:
    value: list[Any] = []
    for _ in range(2000):
        value = [value]
    array = xarray_n5.create_array(tmp_path, "a", shape=(4,), dtype="u1")
    for depth in (500, 2000):
        inner = value
        for _ in range(2000 - depth):
            inner = inner[0]
        with pytest.raises(xarray_n5.MetadataError):
            array.attrs["deep"] = inner
    assert dict(xarray_n5.open_array(tmp_path, "a").attrs) == {}


def test_a_huge_document_is_refused_naming_the_file(tmp_path: Path) -> None:
    document = json.dumps({**ARRAY, "x": "A" * (64 << 20)})
    container = text_node(tmp_path / "c.n5", document)
    with pytest.raises(xarray_n5.MetadataError, match=r"attributes\.json: .*bytes of JSON"):
        xarray_n5.open_array(container, "a")


def test_a_deep_summary_of_zarr_is_ignored_with_a_warning(tmp_path: Path) -> None:
    xarray_n5.create_array(tmp_path, "a", shape=(4,), dtype="u1", format="zarr2")
    (tmp_path / ".zmetadata").write_text(nested(100_000))
    with pytest.warns(UserWarning, match="corrupt"):
        xarray_n5.create_array(tmp_path, "b", shape=(4,), dtype="u1", format="zarr2")


PROLOGUES = [
    *("<!---->", "<??>", "<?x?>\n", "<!-- - -- -> -->", "<!----><??> ", " ", "<!--", "<?", "<?x>"),
    "<!-->",
]


@pytest.mark.parametrize("end", ["x", "<SpimDat", "<!-- <SpimData> "])
def test_what_is_no_project_is_known_in_linear_time(tmp_path: Path, end: str) -> None:
    folder = Path(node(tmp_path / "c.n5", **CUBE))
    for number, part in enumerate(PROLOGUES):
        (tmp_path / f"{number}.xml").write_text((part * 4000)[: 4090 - len(end)] + end)
        began = time.process_time()
        assert not BdvBackendEntrypoint().guess_can_open(tmp_path / f"{number}.xml")
        assert not looks_like_project((part * 100_000 + end).encode())
        assert time.process_time() - began < 2
    assert xr.open_datatree(folder, engine="n5")["a"].dims


def test_a_deep_document_does_not_stop_other_engines(tmp_path: Path) -> None:
    (tmp_path / "attributes.json").write_text(nested(100_000))
    with pytest.raises(ValueError, match=r"did not find a match|specify an engine"):
        xr.open_dataset(tmp_path)


def test_transforms_are_read_as_deep_as_documents_go(tmp_path: Path) -> None:
    inner: dict[str, Any] = {"type": "scale", "scale": [2.0]}
    for _ in range(60):
        inner = {"type": "sequence", "transformations": [inner]}
    container = node(tmp_path / "c.n5", **ARRAY, spatialTransform={"transform": inner})

    def opened(frames: int) -> xr.Dataset:
        if frames:
            return opened(frames - 1)
        return xr.open_dataset(container, engine="n5", group="a")

    assert opened(200)["x"].to_numpy().tolist() == [0, 2, 4, 6]


# Memory and time


@pytest.mark.filterwarnings("ignore:.*too many for coordinates")
@pytest.mark.parametrize("open_all", [xr.open_dataset, xr.open_datatree])
def test_coordinates_are_limited_in_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_all: Callable[..., Any]
) -> None:
    for limit in ("xarray_n5.arrays.coordinates.MOST", "xarray_n5.datasets.engine._MOST"):
        monkeypatch.setattr(limit, 30)
    for number in range(3):
        axes = [f"{axis}{number}" for axis in "xyz"]
        long = {**CUBE, "dimensions": [12, 12, 12], "axes": axes}
        node(tmp_path / "c.n5", f"a{number}", **long, resolution=[1, 1, 1])
    opened = open_all(tmp_path / "c.n5", engine="n5")
    groups = opened.subtree if isinstance(opened, xr.DataTree) else [opened]
    assert sum(each.size for group in groups for each in group.coords.values()) == 24


@pytest.mark.filterwarnings("error")
def test_arrays_that_share_an_axis_need_room_for_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.coordinates.MOST", 20)
    for name in "abcd":
        node(tmp_path / "c.n5", name, **ARRAY, resolution=[1])
    opened = xr.open_dataset(tmp_path / "c.n5", engine="n5")
    assert [each.dims for each in opened.values()] == [("x",)] * 4
    assert opened["x"].to_numpy().tolist() == [0, 1, 2, 3]


@linux
def test_opening_takes_memory_and_time_in_proportion_to_metadata(tmp_path: Path) -> None:
    """Too many chunks for one graph are larger blocks of Dask; what asks for more is refused."""
    long = {"dimensions": [1 << 40] * 6, "blockSize": [64] * 6, "resolution": [1] * 6}
    labels = ["a"] * 3 + ["b" * 20_000_000] + ["a"] * 96
    levels = {"axes": [{"name": "x"}], "datasets": [{"path": "s0"}] * 100_000}
    nodes: dict[str, dict[str, Any]] = {
        "long": long,
        "labels": {"dimensions": [100], "axes": ["x"], "coordinateArrays": {"x": labels}},
        "levels": {"multiscales": [levels]},
        # A second or two; when it grew with the square, it was an hour.
        "many": {f"k{number}": number for number in range(100_000)},
    }
    shapes = {"row": [10**9], "wide": [2**62, 3], "cube": [20_000] * 3}
    nodes |= {n: {"dimensions": s, "blockSize": [1] * len(s)} for n, s in shapes.items()}
    for name, members in nodes.items():
        node(tmp_path / f"{name}.n5", **{**ARRAY, **members})
    code = """
        from xarray_n5.napari.layers import as_dask
        opened = {}
        for name in ("long", "labels", "levels", "many"):
            opened[name] = xr.open_dataset(f"{sys.argv[1]}/{name}.n5", engine="n5", group="a")
        assert not opened["long"].coords
        assert len(opened["many"]["a"].attrs) == 100_000
        xarray_n5.open_array(f"{sys.argv[1]}/many.n5", "a")._repr_html_()
        for name in ("row", "wide", "cube"):
            url = f"{sys.argv[1]}/{name}.n5"
            tree = xr.open_datatree(url, engine="n5", chunks={})
            lazy = xr.open_dataset(url, engine="n5", group="a", chunks={})["a"]
            shown = as_dask(xr.open_dataset(url, engine="n5", group="a")["a"], {})
            assert lazy.data.npartitions <= 1 << 24 >= tree["a"]["a"].data.npartitions
            assert not shown[(slice(2),) * shown.ndim].compute().any()
            try: xarray_n5.from_n5(url, "a")
            except ValueError as error: print(error)
    """
    lines = within(code, tmp_path, megabytes=3000).splitlines()
    assert sum("too many for one graph; choose larger chunks" in line for line in lines) == 2


@pytest.mark.parametrize("text", ["1" + " " * 100_000 + "a\nb", " " * 100_000, "1" * 100_000])
def test_units_are_parsed_in_linear_time(text: str) -> None:
    assert split_unit(text) == (1.0, text)


# Digests


def digests(**columns: Any) -> bytes:
    file = io.BytesIO()
    usual = {"xxh3": np.ones(2, "u8"), "shape": [16]}
    given: Any = {key: np.asarray(value) for key, value in (usual | columns).items()}
    np.savez(file, **given)
    return file.getvalue()


def claimed(count: int, *, stored: int, method: int = zipfile.ZIP_STORED) -> bytes:
    """Digests whose shape claims `count` numbers, of which `stored` are there."""
    file, head = io.BytesIO(), io.BytesIO()
    facts = {"descr": "<i8", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(head, facts)
    with zipfile.ZipFile(file, "w", method) as whole:
        whole.writestr("shape.npy", head.getvalue() + bytes(8 * stored))
    return file.getvalue()


class Loaded:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


DIGESTS: dict[str, Callable[[], bytes]] = {
    "no zip": lambda: b"PK\3\4 no zip",
    "strings": lambda: digests(xxh3=["a", "b"]),
    "too many": lambda: digests(xxh3=np.ones(3, "u8")),
    "too few": lambda: claimed(1, stored=0),
    "a claim": lambda: claimed(1 << 40, stored=0),
    "a bomb": lambda: claimed(1, stored=1 << 22, method=zipfile.ZIP_DEFLATED),
}


@pytest.mark.parametrize("kind", DIGESTS)
def test_odd_digests_are_ignored_with_a_warning(tmp_path: Path, kind: str) -> None:
    with xarray_n5.set_options(checksums=True):
        xarray_n5.to_n5(da.arange(16, chunks=8), tmp_path, "a")
    (tmp_path / "a/.xn5/digests.npz").write_bytes(DIGESTS[kind]())
    with pytest.warns(UserWarning, match=r"digests\.npz: not digests of this array"):
        found = xarray_n5.verify(tmp_path, "a")
    assert found.state.values.tolist() == ["ok", "ok"]
    assert not found.attrs["digests"]


def test_digests_are_never_unpickled(tmp_path: Path) -> None:
    with xarray_n5.set_options(checksums=True):
        xarray_n5.to_n5(da.arange(16, chunks=8), tmp_path, "a")
    evil = np.array([Loaded(tmp_path / "run")], object)
    (tmp_path / "a/.xn5/digests.npz").write_bytes(digests(xxh3=evil))
    with pytest.warns(UserWarning, match="not digests"):
        xarray_n5.verify(tmp_path, "a").load()
    assert not (tmp_path / "run").exists()


# XML

GOOD = "<voxelSize><unit>um</unit><size>1 2 3</size></voxelSize>"

XML = {
    "entity": ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>', GOOD.replace("um", "&x;")),
    "laughs": ('<!DOCTYPE a [<!ENTITY x "lol"><!ENTITY y "&x;&x;">]>', GOOD.replace("1", "&y;")),
    "elsewhere": ('<!DOCTYPE a SYSTEM "http://127.0.0.1:9/x.dtd">', GOOD),
    "deep": ("", GOOD + "<a>" * 10 + "<b>" * 10),
    "digits": ("", GOOD.replace("</voxelSize>", "</voxelSize><id>" + "9" * 5000 + "</id>")),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("kind", XML)
def test_xml_with_a_document_type_is_ignored(tmp_path: Path, kind: str, encoding: str) -> None:
    head, setup = XML[kind]
    setups = f"<ViewSetups><ViewSetup>{setup}</ViewSetup></ViewSetups>"
    text = f"{head}<SpimData><SequenceDescription>{setups}</SequenceDescription></SpimData>"
    view = {**ARRAY, "dimensions": [4, 4, 4], "blockSize": [4, 4, 4]}
    node(tmp_path / "c.n5", "setup0/timepoint0/s0", **view)
    (tmp_path / "c.xml").write_bytes(text.encode(encoding))
    array = xarray_n5.open_array(tmp_path / "c.n5", "setup0/timepoint0/s0")
    with pytest.warns(UserWarning, match="XML next to the container is ignored"):
        assert all(axis.unit is None for axis in array.geometry().axes)


# Terminals and pages


def test_messages_are_short_whatever_a_file_holds(tmp_path: Path) -> None:
    container = node(tmp_path / "c.n5", **{**ARRAY, "dimensions": ["4"] * 100_000})
    with pytest.raises(xarray_n5.MetadataError, match="dimensions") as caught:
        xarray_n5.open_array(container, "a")
    assert len(str(caught.value)) <= 4000
    node(tmp_path / "c.n5", **ARRAY, axes=["x"] * 100_000, resolution=[1])
    with pytest.warns(UserWarning, match="ignored") as given:
        xarray_n5.open_array(container, "a").geometry()
    assert all(len(str(each.message)) <= 4000 for each in given)


def test_letters_of_all_languages_are_printed_as_they_are(tmp_path: Path) -> None:
    node(tmp_path / "c.n5", **ARRAY, axes=["größe"], units=["µm"], resolution=[2])
    result = CliRunner().invoke(main, ["tree", str(tmp_path / "c.n5")])
    assert "größe: start 0, step 2 µm" in result.output


@pytest.mark.filterwarnings("ignore")
def test_pages_show_no_markup_of_files(tmp_path: Path) -> None:
    axes = {"axes": [MARKUP, f"y{MARKUP}", "z"], "units": [MARKUP, MARKUP, "um"]}
    node(tmp_path, "a", **CUBE, **axes, resolution=[1, 2, 3], **{MARKUP: MARKUP})
    node(tmp_path, "l", **CUBE, coordinateArrays={"x": [MARKUP] * 4})
    node(tmp_path, "t", **CUBE, transform={"axes": [MARKUP], "units": [MARKUP]})
    pages = []
    for name in ("a", "l", "t"):
        pages.append(xarray_n5.open_array(tmp_path, name)._repr_html_())
        opened = xr.open_dataset(tmp_path, engine="n5", group=name)
        pages += [opened.n5._repr_html_(), opened._repr_html_()]
    assert not any("<script" in page or "<img" in page for page in pages)
