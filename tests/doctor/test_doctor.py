"""What other programs make of containers, as `doctor` says, and as these programs themselves do."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner, Result

import xarray_n5
from tests.conftest import CORPUS, NO_CORPUS
from tests.dialects.test_other_projects import NEUROGLANCER, SOURCES, snapshot
from tests.support import other_readers as others
from tests.support.containers import contents, write_document
from tests.support.exhaustive import EXHAUSTIVE
from tests.support.geometries import CALIBRATED, project
from tests.whole.test_interop import python_with_zarr2
from xarray_n5 import create_array, create_group, pyramid
from xarray_n5.cli import main
from xarray_n5.doctor import examine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.other_readers import Axes

DATA = xarray_n5.tutorial.path("cells").parent

# Containers


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The attributes of a pyramid's group and of its levels."""

    levels: list[dict[str, Any]]
    group: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    """Members of the levels' documents, None for those that are removed."""
    form: Any = "n5"


def cosem(*levels: tuple[list[float], list[float]], **members: Any) -> list[dict[str, Any]]:
    """COSEM's attributes of levels, by their scales and offsets."""
    common = {"axes": ["z", "y", "x"], "units": ["nm"] * 3}
    return [
        {"transform": {**common, "scale": scale, "translate": offset, **members}}
        for scale, offset in levels
    ]


def ngff(unit: str = "nanometer", **members: Any) -> dict[str, Any]:
    """OME-NGFF's attributes of a group with two levels."""
    datasets = [
        {
            "path": f"s{n}",
            "coordinateTransformations": [
                {"type": "scale", "scale": [40 * 2**n, 4 * 2**n, 4 * 2**n]},
                {"type": "translation", "translation": [20 * n, 2 * n, 2 * n]},
            ],
        }
        for n in range(2)
    ]
    axes = [{"name": name, "type": "space", "unit": unit} for name in "zyx"]
    return {"multiscales": [{"version": "0.4", "axes": axes, "datasets": datasets} | members]}


NAMES: dict[str, Any] = {"axes": ["x", "y", "z"]}
NM: dict[str, Any] = {"units": ["nm"] * 3}
SIZE: dict[str, Any] = {"resolution": [4, 4, 40]}
PIXELS: dict[str, Any] = {"pixelResolution": {"dimensions": [4, 4, 40], "unit": "nm"}}
FACTORS: dict[str, Any] = {"downsamplingFactors": [[1, 1, 1], [2, 2, 2]]}
SCALES: dict[str, Any] = {"scales": [[1, 1, 1], [2, 2, 2]]}
MOVED = cosem(([40, 4, 4], [0, 0, 0]), ([80, 8, 8], [20, 2, 2]))
GROUP = NAMES | NM | SIZE
COARSE: dict[str, Any] = {"pixelResolution": {"dimensions": [8, 8, 80], "unit": "nm"}}

ODD = {
    "tensorstore": Sample(levels=[NAMES | NM | SIZE]),
    "labels only": Sample(levels=[NAMES]),
    "no labels": Sample(levels=[{"axes": ["", "", ""]}]),
    "units only": Sample(levels=[NM]),
    "size only": Sample(levels=[SIZE]),
    "number in a unit": Sample(levels=[{"units": ["4 nm", "nm", ""]} | SIZE]),
    "negative": Sample(levels=[NM | {"resolution": [0, -1, 4]}]),
    "short size": Sample(levels=[NM | {"resolution": [4]}]),
    "text as size": Sample(levels=[NM | {"resolution": ["4", "4", "40"]}]),
    "null size": Sample(levels=[NM | {"resolution": None}]),
    "units as text": Sample(levels=[{"units": "nm"}]),
    "null units": Sample(levels=[{"units": [None] * 3}]),
    "name twice": Sample(levels=[{"axes": ["x", "x", "z"]}]),
    "axes as text": Sample(levels=[{"axes": "xyz"}]),
    "cosem": Sample(levels=MOVED),
    "cosem, short": Sample(levels=cosem(([40, 4], [0, 0]))),
    "cosem, text": Sample(levels=[{"transform": "40,4,4"}]),
    "cosem, x first": Sample(
        levels=cosem(([4, 4, 40], [0, 0, 0]), axes=["x", "y", "z"], order="F")
    ),
    "cosem, odd order": Sample(levels=cosem(([4, 4, 40], [0, 0, 0]), order="Z")),
    "cosem, no units": Sample(levels=cosem(([40, 4, 4], [0, 0, 0]), units=None)),
    "cosem, null units": Sample(levels=cosem(([40, 4, 4], [0, 0, 0]), units=[None] * 3)),
    "neuroglancer": Sample(group=NAMES | NM | PIXELS | SCALES, levels=[PIXELS, COARSE]),
    "neuroglancer, a level without": Sample(
        group=NAMES | NM | PIXELS | SCALES, levels=[PIXELS, {}]
    ),
    "neuroglancer, a unit that is a number": Sample(
        group=NAMES | NM | PIXELS | SCALES,
        levels=[PIXELS, {"pixelResolution": {"dimensions": [8, 8, 80], "unit": 0}}],
    ),
    "neuroglancer, few levels": Sample(
        group=NAMES | NM | PIXELS | {"scales": [[1, 1, 1]]}, levels=[PIXELS, COARSE]
    ),
    "neuroglancer, many levels": Sample(
        group=NAMES | NM | PIXELS | {"scales": [[1, 1, 1], [2, 2, 2], [4, 4, 4]]},
        levels=[PIXELS, COARSE],
    ),
    "neuroglancer, two units": Sample(
        group=NAMES | {"units": ["nm", "nm", "um"]} | PIXELS | SCALES, levels=[PIXELS, COARSE]
    ),
    "neuroglancer, factors": Sample(group=NAMES | NM | PIXELS | FACTORS, levels=[PIXELS, COARSE]),
    "zlib": Sample(levels=[NAMES], document={"compression": {"type": "gzip", "useZlib": True}}),
    "a member more": Sample(levels=[NAMES], document={"compression": {"type": "raw", "level": 1}}),
    "lz4": Sample(levels=[NAMES], document={"compression": {"type": "lz4", "blockSize": 65536}}),
    "zstd of Java": Sample(
        levels=[NAMES], document={"compression": {"type": "zstd", "level": 3, "nbWorkers": 0}}
    ),
    "blosc": Sample(
        levels=[NAMES],
        document={"compression": {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}},
    ),
    "xz": Sample(levels=[NAMES], document={"compression": {"type": "xz"}}),
    "older": Sample(levels=[NAMES], document={"compression": None, "compressionType": "gzip"}),
    "in zarr": Sample(group=ngff(), levels=[{}, {}], form="zarr2"),
    "in zarr, moved": Sample(
        group=ngff(
            coordinateTransformations=[
                {"type": "scale", "scale": [2, 2, 2]},
                {"type": "translation", "translation": [100, 10, 1]},
            ]
        ),
        levels=[{}, {}],
        form="zarr2",
    ),
    "in zarr, version": Sample(group=ngff(version="0.3"), levels=[{}, {}], form="zarr2"),
    "in zarr, no axes": Sample(group=ngff(axes=None), levels=[{}, {}], form="zarr2"),
    "in zarr, one of space": Sample(
        group=ngff(axes=[{"name": name} for name in "zyx"]), levels=[{}, {}], form="zarr2"
    ),
    "in zarr, no transforms": Sample(
        group=ngff(datasets=[{"path": "s0"}, {"path": "s1"}]), levels=[{}, {}], form="zarr2"
    ),
    "in zarr, null fill": Sample(
        group=ngff(), levels=[{}, {}], form="zarr2", document={"fill_value": None}
    ),
    "in zarr, filters": Sample(
        levels=[{}], form="zarr2", document={"filters": [{"id": "delta", "dtype": "|u1"}]}
    ),
    "in zarr, dimensions": Sample(levels=[{"_ARRAY_DIMENSIONS": ["z", "y", "x"]}], form="zarr2"),
    "in zarr 3": Sample(levels=[{}], form="zarr3", document={"dimension_names": ["z", "y", "x"]}),
    "in zarr 3, units": Sample(
        levels=[{"dimension_units": ["4 nm", "um", None]}],
        form="zarr3",
        document={"dimension_names": ["z", None, "x"]},
    ),
    "in zarr 3, few units": Sample(levels=[{"dimension_units": ["nm"]}], form="zarr3"),
    "in zarr 3, name twice": Sample(
        levels=[{}], form="zarr3", document={"dimension_names": ["x", "y", "x"]}
    ),
}
"""Attributes that programs read, or refuse, each in its own way."""


def write(folder: Path, name: str, sample: Sample) -> Path:
    """Write a container with the pyramid "raw"."""
    url = folder / f"{name}.{'n5' if sample.form == 'n5' else 'zarr'}"
    kept = {"mine": {"kept": [1, "a", None]}}
    create_group(url, "raw", format=sample.form, attributes=kept)
    for level, attributes in enumerate(sample.levels):
        shape = tuple(side >> level for side in (8, 16, 24))
        path = f"raw/s{level}"
        create_array(url, path, shape=shape, dtype="u1", chunks=8, format=sample.form)[...] = 1
        _write_attributes(url / path, sample, attributes | kept, sample.document)
    _write_attributes(url / "raw", sample, sample.group, {})
    return url


def _write_attributes(
    node: Path, sample: Sample, attributes: Mapping[str, Any], document: Mapping[str, Any]
) -> None:
    names = {"n5": "attributes.json", "zarr2": ".zattrs", "zarr3": "zarr.json"}
    place = node / names[sample.form]
    stored = json.loads(place.read_text()) if place.exists() else {}
    inner = stored.setdefault("attributes", {}) if sample.form == "zarr3" else stored
    inner.update(attributes)
    place.write_text(json.dumps(stored))
    if document:
        place = node / ".zarray" if sample.form == "zarr2" else place
        changed = json.loads(place.read_text()) | document
        removed = {"compression", "compressionType"} if sample.form == "n5" else set()
        gone = {key for key in removed if changed.get(key, 0) is None}
        place.write_text(json.dumps({k: v for k, v in changed.items() if k not in gone}))


def write_all(folder: Path) -> dict[str, Path]:
    """Write the samples above, and those below as they are repaired, by name."""
    urls = {name: write(folder, name, sample) for name, sample in ODD.items()}
    for name, broken in BROKEN.items():
        urls[f"repaired: {name}"] = url = write(folder, f"b {name}", broken.sample)
        examine(url, dialect=broken.dialect, fix=True)
    return urls


def corpus_containers(*, whole: bool) -> dict[str, Path]:
    """The containers of the corpus by their paths in it: small ones others published, or all."""
    if CORPUS is None:
        return {}
    folders = [CORPUS] if whole else [CORPUS / "fetched", CORPUS / "vectors"]
    found = (url for folder in folders for url in _containers(folder))
    return {str(url.relative_to(CORPUS)): url for url in found}


_DOCUMENTS = ("attributes.json", ".zarray", ".zgroup", "zarr.json")
_EMPTY = ("urlAttributes.n5", "ngff.n5", "pyn5.n5")
"""Containers of the corpus that have no array."""


def _containers(folder: Path) -> Iterator[Path]:
    if folder.suffix in {".n5", ".zarr"} or any((folder / name).exists() for name in _DOCUMENTS):
        if folder.name not in _EMPTY or (folder / "raw").exists():
            yield folder
        return
    for inner in sorted(each for each in folder.iterdir() if each.is_dir()):
        yield from _containers(inner)


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> others.Containers:
    """All containers that programs read: our data, the samples, those of the corpus."""
    bundled = {url.name: url for url in DATA.glob("*.n5")}
    samples = write_all(tmp_path_factory.mktemp("samples"))
    return others.Containers.at(bundled | samples | corpus_containers(whole=EXHAUSTIVE))


# What the programs themselves read


def unlike(verdicts: Mapping[tuple[str, str], Axes], real: list[Axes]) -> list[object]:
    """The verdicts that are not what a program reads."""
    pairs = zip(verdicts.items(), real, strict=True)
    return [(name, mine, axes) for (name, mine), axes in pairs if not others.close(mine, axes)]


def test_tensorstore_reads_what_doctor_says(containers: others.Containers) -> None:
    found = containers.verdicts("tensorstore", "n5", "zarr2", "zarr3")
    assert len(found) > 50
    real = [others.read_with_tensorstore(*each) for each in containers.arrays(found)]
    assert unlike(found, real) == []


def test_zarr_python_2_opens_what_doctor_says(containers: others.Containers) -> None:
    found = containers.verdicts("zarr_python_2", "n5", "zarr2")
    real = others.run(python_with_zarr2(), others.ZARR2, containers.arrays(found))
    assert unlike(found, real) == []


def test_fibsem_tools_reads_what_doctor_says(containers: others.Containers) -> None:
    """By what was recorded, or by a Python with fibsem-tools that N5_FIBSEM_PYTHON names."""
    found = containers.verdicts("fibsem_tools", "n5", "zarr2")
    real: list[Axes]
    if python := os.environ.get("N5_FIBSEM_PYTHON"):
        real = others.run(python, others.FIBSEM, containers.arrays(found))
    else:
        recorded = json.loads(others.RECORD.read_text())["opens"]
        real = [recorded.get(name, {}).get(path) for name, path in found]
    assert unlike(found, real) == []
    assert sum(axes is not None for axes in real) > 20


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_xarrays_engine_reads_the_names_that_doctor_says(containers: others.Containers) -> None:
    found = containers.verdicts("xarray_zarr", "zarr2", "zarr3")
    real = [_dimensions(url, path) for _, url, path in containers.arrays(found)]
    assert unlike(found, real) == []


def _dimensions(url: Path, path: str) -> Axes:
    group, _, variable = path.rpartition("/")
    try:
        with xr.open_dataset(
            url, engine="zarr", group=group or None, consolidated=False, decode_cf=False
        ) as dataset:
            return [[name, None, None, None] for name in dataset[variable].dims]
    except (KeyError, OSError, TypeError, ValueError):
        return None


@pytest.mark.skipif(CORPUS is None, reason=NO_CORPUS)
@pytest.mark.parametrize("name", SOURCES)
def test_neuroglancer_shows_levels_where_doctor_says(corpus: Path, name: str) -> None:
    """Its snapshots have matrices from voxels' corners to places, in voxels of the base level."""
    shown = snapshot(corpus, name)
    space = shown["modelTransform"]["inputSpace"]
    (found,) = others.examined(corpus / NEUROGLANCER / "testdata/datasource" / SOURCES[name])
    seen = found.sel(reader="neuroglancer")
    half = 0.5 if space["bounds"]["voxelCenterAtIntegerCoordinates"][0] else 0.0
    sources = shown["subsources"][0]["subsource"]["volume"]["sources"][0]
    assert seen.sizes["level"] == len(sources)
    for number, source in enumerate(sources):
        level = seen.isel(level=number)
        assert set(level.name.values.tolist()) == set(space["names"])
        matrix = np.array(source.get("chunkToMultiscaleTransform", np.eye(3)))
        for row, (axis, size) in enumerate(zip(space["names"], space["scales"], strict=True)):
            own = level.isel(axis=level.name.values.tolist().index(axis))
            unit = {"nm": 1e-9, "nanometer": 1e-9, "s": 1.0}[str(own.unit.values)]
            factor = matrix[row, :-1].max()
            # The centre of the level's voxel 0, from the centre of the base level's.
            centre = factor / 2 + matrix[row, -1] + half - 0.5
            assert float(own.scale) * unit == pytest.approx(factor * size)
            assert float(own.offset) * unit == pytest.approx(centre * size)


# What is read by sources alone


def readings(url: Path, reader: str, path: str = "raw") -> list[Axes]:
    """What `doctor` says that a program reads of each level of an image."""
    (found,) = others.examined(url, path)
    return [others.axes_of(found, reader, level) for level in range(found.sizes["level"])]


def at(*axes: tuple[Any, ...]) -> list[list[Any]]:
    return [list(axis) for axis in axes]


BASE, LEVEL = (
    at(
        *(
            (name, scale * f, scale * (f - 1) / 2, "nm")
            for name, scale in (("z", 40), ("y", 4), ("x", 4))
        )
    )
    for f in (1, 2)
)
"""Both levels of most of the samples."""


def without(axes: list[list[Any]], *columns: int) -> list[list[Any]]:
    """Axes without their names (0), scales, offsets or units."""
    return [[None if n in columns else each for n, each in enumerate(axis)] for axis in axes]


def ones(*axes: str | None, unit: str | None = None) -> list[list[Any]]:
    return [[name, 1.0, 0.0, unit] for name in axes]


N5_VIEWER = [{**PIXELS, "downsamplingFactors": [f] * 3} for f in (1, 2)]

OFFSET = at((None, 40, 9, None), (None, 4, 8, None), (None, 4, 7, None))
CLOSED: list[Axes] = [None, None]
FULL = GROUP | FACTORS
IN_ZARR = Sample(group=ngff("nm"), levels=[{}, {}], form="zarr2")
SIZED = [each | SIZE for each in MOVED]
GUESSED = Sample(levels=[PIXELS, PIXELS])

READ: list[tuple[str, str, Sample, list[Axes]]] = [
    ("neuroglancer", "its group", Sample(group=FULL, levels=[{}, {}]), [BASE, LEVEL]),
    (
        "neuroglancer",
        "pixelResolution",
        Sample(group=NAMES | PIXELS | SCALES, levels=[{}, {}]),
        [BASE, LEVEL],
    ),
    (
        "neuroglancer",
        "factors of levels",
        Sample(group=NAMES | PIXELS, levels=N5_VIEWER),
        [BASE, LEVEL],
    ),
    ("neuroglancer", "a group without any", Sample(levels=[{}]), [None]),
    (
        "neuroglancer",
        "a group with no more than names",
        Sample(group=NAMES, levels=[{}]),
        [ones("z", "y", "x", unit="nm")],
    ),
    (
        "neuroglancer",
        "a list of no levels",
        Sample(group={"scales": [1, 1, 1]}, levels=[{}]),
        [None],
    ),
    ("neuroglancer", "no factors", Sample(levels=MOVED), CLOSED),
    (
        "neuroglancer",
        "few factors",
        Sample(group={"scales": [[1, 1, 1]]}, levels=[{}, {}]),
        [ones("z", "y", "x", unit="nm"), None],
    ),
    (
        "neuroglancer",
        "a unit that is not SI",
        Sample(group={"units": ["micron"] * 3} | FACTORS, levels=[{}, {}]),
        CLOSED,
    ),
    (
        "neuroglancer",
        "OME-Zarr",
        Sample(group=ngff(), levels=[{}, {}], form="zarr2"),
        [[[*axis[:3], "nanometer"] for axis in level] for level in (BASE, LEVEL)],
    ),
    ("neuroglancer", "abbreviated units", IN_ZARR, CLOSED),
    ("n5_viewer", "its own", Sample(levels=N5_VIEWER), [without(BASE, 0), without(LEVEL, 0)]),
    ("n5_viewer", "guessed factors", GUESSED, [without(BASE, 0), without(LEVEL, 0)]),
    ("n5_viewer", "cosem before resolution", Sample(levels=SIZED), [BASE, LEVEL]),
    (
        "n5_viewer",
        "nothing of Neuroglancer's group",
        Sample(group=FULL, levels=[{}, {}]),
        [ones(None, None, None)] * 2,
    ),
    ("n5_viewer", "resolution", Sample(levels=[SIZE | {"offset": [7, 8, 9]}]), [OFFSET]),
    ("paintera", "its own", Sample(levels=[SIZE | {"offset": [7, 8, 9]}]), [OFFSET]),
    ("paintera", "cosem", Sample(levels=MOVED), [without(BASE, 3), without(LEVEL, 3)]),
    ("ome_ngff", "as specified", IN_ZARR, [BASE, LEVEL]),
    ("ome_ngff", "N5", Sample(group=ngff("nm"), levels=[{}, {}]), CLOSED),
    ("napari_ome_zarr", "no offsets", IN_ZARR, [BASE, without(LEVEL, 1, 2, 3)]),
    ("bigdataviewer", "no project", Sample(levels=MOVED), CLOSED),
]
"""What programs make of attributes, by the sources that their readers name."""


@pytest.mark.matrix(4)
@pytest.mark.parametrize(
    ("reader", "sample", "axes"),
    [(reader, sample, axes) for reader, _, sample, axes in READ],
    ids=[f"{reader}: {name}" for reader, name, _, _ in READ],
)
def test_a_program_reads(tmp_path: Path, reader: str, sample: Sample, axes: list[Axes]) -> None:
    url = write(tmp_path, "a", sample)
    pairs = zip(readings(url, reader), axes, strict=True)
    assert [mine for mine, expected in pairs if not others.close(mine, expected)] == []


def test_paintera_does_not_shift_the_levels_of_its_groups(tmp_path: Path) -> None:
    create_group(tmp_path / "a.n5", "p/data", attributes=SIZE | {"offset": [7, 8, 9]})
    for level, factor in enumerate((1, 2)):
        attributes = {"downsamplingFactors": [factor] * 3}
        path = f"p/data/s{level}"
        create_array(tmp_path / "a.n5", path, shape=(8, 8, 8), dtype="u8", attributes=attributes)
    (found,) = others.examined(tmp_path / "a.n5", "p/data")
    seen = found.sel(reader="paintera")
    assert seen.scale.values.tolist() == [[40, 4, 4], [80, 8, 8]]
    assert seen.offset.values.tolist() == [[9, 8, 7]] * 2
    assert seen.verdict == "agrees"
    assert "without the shift of (factor - 1) / 2" in str(seen.reason.values)


def test_bigdataviewer_reads_the_project(tmp_path: Path) -> None:
    loader = b'<ImageLoader format="bdv.n5"><n5 type="relative">a.n5</n5></ImageLoader><ViewSetups>'
    document = project({(0, 0): [CALIBRATED]}).replace(b"<ViewSetups>", loader)
    (tmp_path / "a.xml").write_bytes(document)
    create_group(tmp_path / "a.n5", "setup0", attributes=FACTORS)
    for level, factor in enumerate((1, 2)):
        attributes = {"downsamplingFactors": [factor] * 3}
        path = f"setup0/timepoint0/s{level}"
        create_array(tmp_path / "a.n5", path, shape=(8, 8, 8), dtype="u2", attributes=attributes)
    for url in (tmp_path / "a.n5", tmp_path / "a.xml"):
        (found,) = others.examined(url)
        seen, ours = (found.sel(reader=name) for name in ("bigdataviewer", "xarray_n5"))
        assert seen.verdict == "agrees"
        np.testing.assert_array_equal(seen.offset, ours.offset)
        assert seen.offset.values[1].tolist() == (seen.scale.values[0] / 2).tolist()


def test_neuroglancer_takes_a_setup_of_bigstitcher_for_an_array(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "setup0/timepoint0/s0", shape=(8, 8, 8), dtype="u2")
    document = {"dimensions": [8] * 3, "blockSize": [4] * 3, "dataType": "uint16"}
    write_document(tmp_path / "a.n5/setup0", **document, compression={"type": "raw"}, **FACTORS)
    (found,) = others.examined(tmp_path / "a.n5")
    seen = found.sel(reader="neuroglancer")
    assert seen.verdict == "refuses"
    assert "is read as one without chunks" in str(seen.reason.values)


# Verdicts


def test_what_agrees_is_reported() -> None:
    found = examine(DATA / "cells.n5", "raw")
    assert isinstance(found, xr.Dataset)
    assert found.agrees.all()
    assert found.attrs["dialect"] == "tensorstore"
    assert found.attrs["changes"] == {}
    assert found.attrs["findings"] == []
    assert found.axis.values.tolist() == ["z", "y", "x"]
    assert "n5_viewer" in repr(found.reader.values)


def test_images_of_a_container_are_a_tree(tmp_path: Path) -> None:
    pyramid(xr.DataArray(np.ones((8, 8)), dims=("y", "x")), tmp_path / "a.zarr", levels=1)
    create_array(tmp_path / "a.zarr", "labels/cells", shape=(4, 4, 4), dtype="u4")
    found = examine(tmp_path / "a.zarr")
    assert isinstance(found, xr.DataTree)
    assert found["image"].array.values.tolist() == ["s0", "s1"]
    assert found["labels/cells"].array.values.tolist() == ["labels/cells"]
    assert set(found.attrs) == {"container", "findings"}


def test_damage_is_found_beside_what_programs_read(tmp_path: Path) -> None:
    url = write(tmp_path, "a", Sample(levels=MOVED, group=NAMES | NM | SIZE | FACTORS))
    (url / "raw/s1/0/0/0").write_bytes(b"\0\1")
    (image,) = others.examined(url, "raw")
    (finding,) = image.attrs["findings"]
    assert finding["kind"] == "chunk-damaged"
    assert finding["path"] == "raw/s1"
    assert run(url).exit_code == 1


def test_a_container_without_arrays_is_an_error(tmp_path: Path) -> None:
    create_group(tmp_path / "a.n5", "raw")
    with pytest.raises(xarray_n5.NodeNotFoundError, match="no array at '/'"):
        examine(tmp_path / "a.n5")


@pytest.mark.parametrize(
    ("dialect", "message"),
    [("nonsense", "unknown dialect 'nonsense'"), ("paintera", "no image in .* has paintera")],
)
def test_a_dialect_that_describes_nothing_is_an_error(
    tmp_path: Path, dialect: str, message: str
) -> None:
    url = write(tmp_path, "a", Sample(levels=MOVED))
    with pytest.raises(ValueError, match=message):
        examine(url, dialect=dialect)


# Repairs


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A pyramid that programs read differently."""

    sample: Sample
    disagree: str
    """The programs that disagree."""
    dialect: str | None = None
    axes: tuple[list[list[Any]], list[list[Any]]] = (BASE, LEVEL)
    """What all of them are to read of both levels."""


def _in(unit: str, taller: float = 1) -> tuple[list[list[Any]], list[list[Any]]]:
    """Both levels in another unit, or with other distances along z."""

    def changed(name: str, scale: float, offset: float, _: object) -> list[Any]:
        times = taller if name == "z" else 1
        return [name, scale * times, offset * times, unit]

    return [changed(*axis) for axis in BASE], [changed(*axis) for axis in LEVEL]


TALL = cosem(([44, 4, 4], [0, 0, 0]), ([88, 8, 8], [22, 2, 2]))
MICRON = {"pixelResolution": {"dimensions": [4, 4, 40], "unit": "micron"}}

BROKEN = {
    "cosem alone": Broken(sample=Sample(levels=MOVED), disagree="neuroglancer"),
    "n5-viewer alone": Broken(sample=Sample(levels=N5_VIEWER), disagree="neuroglancer"),
    "too few factors": Broken(
        sample=Sample(group=GROUP | {"downsamplingFactors": [[1, 1, 1]]}, levels=MOVED),
        disagree="neuroglancer",
    ),
    "a group alone": Broken(
        sample=Sample(group=GROUP | FACTORS, levels=[{}, {}]), disagree="n5_viewer paintera"
    ),
    "a unit by another name": Broken(
        sample=Sample(
            group=NAMES | SIZE | FACTORS | {"units": ["micron"] * 3},
            levels=[{**MICRON, "downsamplingFactors": [f] * 3} for f in (1, 2)],
        ),
        disagree="neuroglancer",
        axes=_in("micron"),
    ),
    "two truths, cosem's": Broken(
        sample=Sample(group=GROUP | FACTORS, levels=TALL),
        disagree="neuroglancer",
        dialect="cosem",
        axes=_in("nm", 1.1),
    ),
    "two truths, neuroglancer's": Broken(
        sample=Sample(group=GROUP | FACTORS, levels=TALL),
        disagree="xarray_n5 n5_viewer paintera fibsem_tools",
        dialect="neuroglancer",
    ),
    "null": Broken(
        sample=Sample(levels=[each | NAMES | {"resolution": None} for each in N5_VIEWER]),
        disagree="neuroglancer tensorstore",
    ),
    "units for one axis": Broken(
        sample=Sample(
            group=PIXELS | FACTORS | NAMES,
            levels=[a | {"units": ["nm"]} for a in MOVED],
        ),
        disagree="tensorstore",
    ),
    "ome-ngff in n5": Broken(
        sample=Sample(group=ngff("nm"), levels=[{}, {}]), disagree="neuroglancer"
    ),
    "abbreviated units in zarr": Broken(
        sample=IN_ZARR, disagree="neuroglancer", axes=_in("nanometer")
    ),
}
"""Containers in which programs disagree, and on what they are to agree."""

ALL = pytest.mark.parametrize("name", BROKEN)


def run(*args: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["doctor", *map(str, args)])


def options(broken: Broken) -> tuple[str, ...]:
    return () if broken.dialect is None else ("--dialect", broken.dialect)


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """A container before and after it was repaired."""

    url: Path
    files: Mapping[str, bytes | str]
    """All files before the repair."""
    first: xr.Dataset
    """What programs read before the repair."""
    last: xr.Dataset


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repaired]:
    """All of the containers above, repaired."""
    found = {}
    for name, broken in BROKEN.items():
        url = write(tmp_path_factory.mktemp("broken"), "a", broken.sample)
        files = contents(url)
        (first,) = others.examined(url, dialect=broken.dialect)
        (last,) = others.examined(url, dialect=broken.dialect, fix=True)
        found[name] = Repaired(url=url, files=files, first=first, last=last)
    return found


@pytest.mark.matrix(3)
@ALL
def test_programs_disagree_before_a_repair(repaired: dict[str, Repaired], name: str) -> None:
    found = repaired[name].first
    assert set(found.reader[~found.agrees].values.tolist()) == set(BROKEN[name].disagree.split())
    assert all(found.reason[~found.agrees].values)


@ALL
def test_all_programs_agree_after_a_repair(repaired: dict[str, Repaired], name: str) -> None:
    found = repaired[name]
    for level, expected in enumerate(BROKEN[name].axes):
        assert others.close(others.axes_of(found.last, "xarray_n5", level), expected)
    assert found.last.agrees.all()
    assert run(found.url).exit_code == 0


@ALL
def test_tensorstore_itself_agrees_after_a_repair(repaired: dict[str, Repaired], name: str) -> None:
    broken = BROKEN[name]
    for level, expected in enumerate(broken.axes):
        url = repaired[name].url
        read = others.read_with_tensorstore(broken.sample.form, url, f"raw/s{level}")
        assert read is not None
        if broken.sample.form == "n5":
            assert {axis[0] for axis in read} in ({"z", "y", "x"}, {None})
            assert [axis[1] for axis in read] == [pytest.approx(axis[1]) for axis in expected]
            units = [axis[3] for axis in read]
            assert units == [axis[3].replace("micron", "um") for axis in expected]


@ALL
def test_a_repair_loses_no_attribute_of_a_user_and_no_chunk(
    repaired: dict[str, Repaired], name: str
) -> None:
    url, before = repaired[name].url, repaired[name].files
    after = contents(url)
    changed = {Path(path).name for path in before if before[path] != after.get(path)}
    assert before.keys() <= after.keys()
    assert changed <= {"attributes.json", ".zattrs"}
    group = xarray_n5.open_group(url, "raw")
    attributes = [group.attrs, *(array.attrs for array in group.arrays().values())]
    for attrs in attributes:
        assert attrs["mine"] == {"kept": [1, "a", None]}


@ALL
def test_a_repair_removes_no_attribute(repaired: dict[str, Repaired], name: str) -> None:
    changes = repaired[name].first.attrs["changes"].values()
    assert [key for each in changes for key, value in each.items() if value is None] == []


@ALL
def test_a_second_repair_changes_nothing(repaired: dict[str, Repaired], name: str) -> None:
    assert repaired[name].last.attrs["changes"]
    before = contents(repaired[name].url)
    (again,) = others.examined(repaired[name].url, fix=True)
    assert again.attrs["changes"] == {}
    assert contents(repaired[name].url) == before


@pytest.mark.matrix(3)
@ALL
def test_a_dry_run_shows_the_changes_and_writes_nothing(tmp_path: Path, name: str) -> None:
    broken = BROKEN[name]
    url = write(tmp_path, "a", broken.sample)
    before = contents(url)
    shown = run(url, *options(broken), "--fix", "--dry-run")
    (found,) = others.examined(url, dialect=broken.dialect, dry_run=True, fix=True)
    assert contents(url) == before
    assert shown.exit_code == 1
    for path, changes in found.attrs["changes"].items():
        assert f"    {path}:\n" in shown.output
        for key, value in changes.items():
            assert f"      + {key}: {json.dumps(value)}\n" in shown.output
    for path, replaced in found.attrs["replaced"].items():
        for key, value in replaced.items():
            assert f"      - {key}: {json.dumps(value)}\n" in shown.output, path
    assert found.attrs["changes"]


def test_the_command_repairs_what_it_showed(tmp_path: Path) -> None:
    url = write(tmp_path, "a", BROKEN["cosem alone"].sample)
    shown = run(url, "--dry-run")
    done = run(url, "--fix")
    assert done.output == shown.output
    assert (shown.exit_code, done.exit_code, run(url).exit_code) == (1, 0, 0)


def test_contradicting_dialects_are_not_repaired_without_a_choice(tmp_path: Path) -> None:
    broken = BROKEN["two truths, cosem's"]
    url = write(tmp_path, "a", broken.sample)
    before = contents(url)
    found = run(url, "--fix")
    assert found.exit_code == 1
    assert "44 nm and 40 nm; state which is right by --dialect cosem" in found.output
    assert contents(url) == before


@pytest.mark.parametrize("form", ["n5", "zarr2"])
def test_a_resolution_without_factors_does_not_contradict_offsets(
    tmp_path: Path, form: Any
) -> None:
    source = xr.DataArray(np.ones((8, 8, 8), "u1"), dims=("z", "y", "x"))
    coords = {dim: (dim, 4.0 * np.arange(8), {"units": "nm"}) for dim in source.dims}
    name = "a.n5" if form == "n5" else "a.zarr"
    image = source.assign_coords(coords)
    pyramid(image, tmp_path / name, "raw", levels=1, dialect="cosem", format=form)
    found = run(tmp_path / name)
    assert (found.exit_code, "contradict" in found.output) == (0, False)


UNREPAIRABLE = {
    "a name twice": (Sample(levels=[PIXELS | {"axes": ["x", "x", "z"]}]), "one name twice"),
    "units of Zarr v3": (
        Sample(levels=[SIZE | NM | {"dimension_units": ["nm"]}], form="zarr3"),
        "no attributes make TensorStore agree",
    ),
}


@pytest.mark.parametrize("name", UNREPAIRABLE)
def test_what_cannot_be_improved_is_not_touched(tmp_path: Path, name: str) -> None:
    sample, message = UNREPAIRABLE[name]
    url = write(tmp_path, "a", sample)
    before = contents(url)
    found = run(url, "--fix")
    assert message in found.output
    assert found.exit_code == 1
    assert contents(url) == before


def test_a_level_alone_is_not_repaired(tmp_path: Path) -> None:
    url = write(tmp_path, "a", Sample(group=GROUP | FACTORS, levels=[{}, {}]))
    before = contents(url)
    found = run(url, "raw/s1", "--fix")
    assert "it is a part of the image 'raw'; examine that to change it" in found.output
    assert contents(url) == before


FORMATS = {"n5": "a.n5", "zarr2": "a.zarr", "zarr3": "b.zarr", "hdf5": "a.h5"}


def image_from(start: float) -> xr.DataArray:
    """A volume whose first sample is at `start` along each axis."""
    dims = ("z", "y", "x")
    places = {name: (name, np.arange(16) * 4.0 + start, {"units": "nm"}) for name in dims}
    return xr.DataArray(np.ones((16, 16, 16), "u1"), places, dims, "raw")


@pytest.mark.parametrize(("form", "name"), FORMATS.items())
def test_a_pyramid_of_ours_agrees_in_every_format(tmp_path: Path, form: Any, name: str) -> None:
    pyramid(image_from(0), tmp_path / name, "raw", levels=2, format=form)
    assert run(tmp_path / name).exit_code == 0, run(tmp_path / name).output


@pytest.mark.parametrize("version", ["0.6", "0.6.dev3", None])
def test_programs_that_read_version_5_do_not_read_version_6(
    tmp_path: Path, version: str | None
) -> None:
    place = tmp_path / "x.zarr"
    pyramid(image_from(8), place, "raw", levels=2, format="zarr3", dialect="ngff-0.6")
    group = xarray_n5.open_group(place, "raw", mode="r+")
    group.attrs["ome"] = {**group.attrs["ome"], "version": version}
    (found,) = others.examined(place, "raw")
    read = {str(name): found.sel(reader=name) for name in found.reader.values}
    agreeing = {name for name, seen in read.items() if seen.verdict == "agrees"}
    assert agreeing == {"xarray_n5", "ome_ngff"}
    assert read["neuroglancer"].verdict == "refuses"
    assert f"not {version!r}" in str(read["neuroglancer"].reason.values)
    assert "OME-NGFF 0.4 and 0.5" in str(read["napari_ome_zarr"].reason.values)
    assert "copy 'raw' with dialect='ngff'" in found.attrs["obstacle"]
    before = contents(place)
    examine(place, fix=True)
    assert contents(place) == before


@pytest.mark.parametrize(("form", "name"), FORMATS.items())
def test_only_napari_loses_the_offset_of_a_pyramid_of_ours(
    tmp_path: Path, form: Any, name: str
) -> None:
    pyramid(image_from(8), tmp_path / name, "raw", levels=2, format=form)
    (found,) = others.examined(tmp_path / name, "raw")
    assert "differs" not in found.verdict
    if form.startswith("zarr"):
        seen = found.sel(reader="napari_ome_zarr")
        assert seen.verdict == "agrees"
        assert seen.offset.values[0].tolist() == [0, 0, 0]
        assert "ignores translations" in str(seen.reason.values)


# The command


def test_the_command_says_that_an_offset_is_ignored(tmp_path: Path) -> None:
    image = image_from(8)
    pyramid(image, tmp_path / "a.n5", "raw", levels=2)
    moved = run(tmp_path / "a.n5")
    note = "    Neuroglancer: agrees, but its N5 has no offsets: the image begins at 0"
    assert note in moved.output.splitlines()
    assert moved.exit_code == 0
    pyramid(image.drop_vars(image.coords), tmp_path / "b.n5", "raw", levels=2)
    assert "agrees, but" not in run(tmp_path / "b.n5").output


def test_the_command_finds_no_damage_in_a_project_of_ours(tmp_path: Path) -> None:
    tiles = image_from(0).expand_dims(channel=2, tile=2)
    tiles.n5.to_bdv(tmp_path / "stack.xml")
    assert "damage" not in run(tmp_path / "stack.xml").output


def test_the_command_prints_a_table(tmp_path: Path) -> None:
    url = write(tmp_path, "a", Sample(group=GROUP | FACTORS, levels=TALL))
    lines = run(url).output.splitlines()
    assert lines[0] == "raw  n5, 8 x 16 x 24, levels s0, s1"
    assert lines[2].split() == [
        *("Neuroglancer", "differs", "z", "40", "nm,", "y", "4", "nm,", "x", "4", "nm"),
        *("(axes,", "units,", "resolution)"),
    ]
    assert any(
        line.startswith(
            "    Neuroglancer: s0: scale of z is 40 nm (from axes, units, resolution), ex"
        )
        for line in lines
    )


def test_the_command_shows_levels_and_all_programs(tmp_path: Path) -> None:
    url = write(tmp_path, "a", Sample(levels=MOVED))
    shown = run(url, "--levels", "--all").output
    assert "s1  z 80 nm from 20, y 8 nm from 2, x 8 nm from 2  (transform)" in shown
    assert "xarray (Zarr): it reads Zarr\n" in shown
    assert "xarray (Zarr)" not in run(url).output


def test_the_command_is_brief_about_arrays_without_axes(tmp_path: Path) -> None:
    shutil.copytree(DATA / "java-2.5.1.n5", tmp_path / "a.n5")
    found = run(tmp_path / "a.n5", "missing2d")
    assert found.output.startswith(
        "missing2d  n5, 23 x 11\n    no attribute describes its axes; xarray_n5.create_array"
    )
    assert found.exit_code == 0


def test_the_command_completes_and_checks_dialects(tmp_path: Path) -> None:
    found = run(tmp_path, "--dialect", "cosmic")
    assert found.exit_code == 2
    assert "unknown dialect 'cosmic'; expected one of" in found.output


def test_coordinates_and_bounds_are_not_images(tmp_path: Path) -> None:
    matrix = (("t", "axis"), np.ones((2, 3)))
    coords = {"affine": matrix, "setup": 4, "x": ("x", [1.0, 2.0], {"bounds": "x_bounds"})}
    bounds = (("x", "side"), np.ones((2, 2)))
    cells = (("t", "x"), np.ones((2, 2)))
    dataset = xr.Dataset({"cells": cells, "x_bounds": bounds}, coords)
    dataset.n5.to_n5(tmp_path / "a.zarr")
    assert list(examine(tmp_path / "a.zarr").children) == ["cells"]
    assert examine(tmp_path / "a.zarr", "affine").sizes["axis"] == 2


def test_bigdataviewers_tables_in_hdf5_are_not_images(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s00/resolutions"], file["s00/subdivisions"] = np.ones((1, 3)), np.full((1, 3), 16)
        file.create_dataset("t00000/s00/0/cells", data=np.zeros((8, 8, 8), "i2"), chunks=(4, 4, 4))
    assert "resolutions" not in run(tmp_path / "a.h5", "--all").output
    assert "t00000/s00" in run(tmp_path / "a.h5", "--all").output


TRANSFORM = {"axes": ["z", "y", "x"], "units": ["nm"] * 3, "scale": [2.0] * 3}
"""COSEM's, which contradicts OME-NGFF's images below."""


def ome_zarr(place: Path, paths: list[list[str]], *, version: str) -> Path:
    """Write images with the given levels, whose arrays have another scale by COSEM's metadata."""
    create_group(place, format="zarr3" if version == "0.5" else "zarr2")
    images = []
    for levels in paths:
        datasets = []
        for n, path in enumerate(levels):
            own = {"translate": [(2**n - 1) / 2] * 3, **TRANSFORM, "scale": [2.0 * 2**n] * 3}
            attributes = {"transform": own}
            create_array(place, path, shape=(16 >> n,) * 3, dtype="u1", attributes=attributes)
            scale = {"type": "scale", "scale": [2.0**n] * 3}
            datasets.append({"path": path, "coordinateTransformations": [scale]})
        axes = [{"name": name, "type": "space", "unit": "nanometer"} for name in "zyx"]
        images.append({"axes": axes, "datasets": datasets, "name": "kept", "type": "mean"})
    omero = {"channels": [{"label": "DAPI", "color": "00FF00"}]}
    found: dict[str, Any] = {"multiscales": images, "omero": omero}
    if version == "0.5":
        found = {"ome": {"version": "0.5", **found}}
    else:
        images[0]["version"] = "0.4"
    xarray_n5.open_group(place, mode="r+").attrs.update(found)
    return place


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_repair_keeps_what_no_dialect_writes(tmp_path: Path, version: str) -> None:
    url = ome_zarr(tmp_path / "a.zarr", [["s0", "s1"]], version=version)
    examine(url, fix=True, dialect="cosem")
    attributes = dict(xarray_n5.open_group(url).attrs)
    attributes = attributes.get("ome", attributes)
    (image,) = attributes["multiscales"]
    assert (image["name"], image["type"]) == ("kept", "mean")
    assert attributes["omero"]["channels"][0]["label"] == "DAPI"
    first = image["datasets"][0]["coordinateTransformations"][0]
    assert first["scale"] == [2.0] * 3


@pytest.mark.parametrize(
    "paths", [[["s0", "s1"], ["lab0", "lab1"]], [["scale0/image", "scale1/image"]]]
)
def test_images_that_share_attributes_are_not_repaired(
    tmp_path: Path, paths: list[list[str]]
) -> None:
    url = ome_zarr(tmp_path / "a.zarr", paths, version="0.4")
    before = contents(url)
    examine(url, fix=True, dialect="cosem")
    assert contents(url) == before


def test_an_invalid_resolution_is_reported(tmp_path: Path) -> None:
    url = write(tmp_path, "a", Sample(group=GROUP | FACTORS, levels=[{}, {}]))
    odd = {"pixelResolution": {"dimensions": ["a", 4, 4], "unit": "nm"}}
    xarray_n5.open_array(url, "raw/s0", mode="r+").attrs.update(odd)
    assert not isinstance(run(url).exception, ValueError | TypeError)


def test_voxels_of_one_by_default_are_no_agreement(tmp_path: Path) -> None:
    tiles = xr.DataArray(np.ones((2, 4, 5, 6), "u2"), dims=("tile", "z", "y", "x"), name="a")
    tiles.assign_coords(x=("x", 0.4 * np.arange(6), {"units": "um"})).n5.to_n5(tmp_path / "a.zarr")
    found = examine(tmp_path / "a.zarr", "a")
    verdicts = {
        str(name): str(found.verdict.sel(reader=name).item()) for name in found.reader.values
    }
    assert {verdicts[name] for name in ("n5_viewer", "paintera")} == {"silent"}
    assert verdicts["xarray_zarr"] == "agrees"
