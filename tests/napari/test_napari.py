"""napari shows containers and projects as they are opened here; napari itself is not needed."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import tomllib
import warnings
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pint
import pytest
import xarray as xr

import xarray_n5
from tests.formats.test_label_multisets import WINNERS
from tests.formats.test_label_multisets import labels as write_paintera
from tests.support.containers import write_document
from tests.support.exhaustive import EXHAUSTIVE
from tests.support.projects import Setup, diagonal, level_shape, project_xml, values, write_project
from tests.support.scenes import image_attributes, system, write_image, write_scene
from xarray_n5 import (
    Axis,
    ChunkError,
    Geometry,
    NodeNotFoundError,
    create_array,
    pyramid,
)
from xarray_n5.napari import get_reader
from xarray_n5.napari.layers import read_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Layers = list[tuple[Any, dict[str, Any], str]]
    Read = Callable[[Path], Layers]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pydantic's, of npe2's own classes
    npe2: Any = pytest.importorskip("npe2")

ROOT = Path(__file__).parents[2]

MANIFEST = ROOT / "src/xarray_n5/napari.yaml"

FACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

UNITS: Any = pint.UnitRegistry()

COMMON = {
    *("affine", "axis_labels", "blending", "metadata", "multiscale", "name", "opacity", "scale"),
    *("translate", "units", "visible"),
}

ARGUMENTS = {"image": COMMON | {"colormap", "contrast_limits", "rgb"}, "labels": COMMON}
"""Arguments of napari's layers that a reader may give."""


@pytest.fixture
def open_layers(monkeypatch: pytest.MonkeyPatch) -> Read:
    """What napari does with a path: it looks for a reader, and calls it."""
    manager = npe2.PluginManager()
    manager.register(npe2.PluginManifest.from_file(MANIFEST))
    # Otherwise plugins are those that happen to be installed.
    monkeypatch.setattr(npe2.PluginManager, "instance", lambda: manager)

    def opened(path: Path) -> Layers:
        found: Layers = npe2.read([str(path)], stack=False)
        for layer in found:
            check_layer(*layer)
        return found

    return opened


def check_layer(data: Any, facts: dict[str, Any], kind: str) -> None:
    """Check a layer by napari's contract."""
    assert facts.keys() <= ARGUMENTS[kind]
    assert facts["multiscale"] is isinstance(data, list)
    levels = data if isinstance(data, list) else [data]
    assert all(isinstance(level, da.Array) for level in levels)
    shapes = [level.shape for level in levels]
    assert all(
        all(a >= b for a, b in zip(one, other, strict=True)) and one != other
        for one, other in itertools.pairwise(shapes)
    )
    ndim = levels[0].ndim
    assert ndim >= 2
    assert len(facts["axis_labels"]) == len(set(facts["axis_labels"])) == ndim
    if "affine" in facts:
        assert not {"scale", "translate"} & facts.keys()
        assert facts["affine"].shape == (ndim + 1, ndim + 1)
        assert np.linalg.matrix_rank(facts["affine"]) == ndim + 1
    else:
        assert len(facts["scale"]) == len(facts["translate"]) == ndim
        assert all(step > 0 for step in facts["scale"])
    assert len(facts.get("units", (None,) * ndim)) == ndim
    assert all(UNITS.parse_expression(unit).units for unit in facts.get("units", ()))
    if kind == "labels":
        assert levels[0].dtype.kind in "biu"
    low, high = facts.get("contrast_limits", (0, 1))
    assert low < high


def world(facts: Mapping[str, Any], points: np.ndarray) -> np.ndarray:
    """Where napari shows samples: their coordinates after scale and translate, or affine."""
    if "affine" in facts:
        matrix = facts["affine"]
        return np.asarray(points @ matrix[:-1, :-1].T + matrix[:-1, -1])
    return np.asarray(points * np.array(facts["scale"]) + np.array(facts["translate"]))


# The manifest


def test_the_manifest_is_valid_and_names_the_reader() -> None:
    manifest = npe2.PluginManifest.from_file(MANIFEST)
    manifest.validate_imports()
    assert manifest.name == "xarray-n5"
    (reader,) = manifest.contributions.readers or []
    assert reader.accepts_directories
    assert {"*.n5", "*.xml", "*.zarr", "*.h5", "*.ims", "*.ozx"} <= set(reader.filename_patterns)


def manifest_entry() -> EntryPoint:
    """The entry point by which napari finds the manifest."""
    ((name, value),) = FACTS["project"]["entry-points"]["napari.manifest"].items()
    return EntryPoint(name, value, "napari.manifest")


def test_the_distribution_has_the_manifest_and_what_it_names() -> None:
    entry = manifest_entry()
    spec = find_spec(entry.module)
    assert spec is not None
    (folder,) = spec.submodule_search_locations or []
    assert npe2.PluginManifest.from_file(Path(folder) / entry.attr).name == FACTS["project"]["name"]
    wheel = FACTS["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert f"src/{entry.module}" in wheel["only-include"]


def test_napari_finds_the_manifest_without_importing_the_package() -> None:
    code = (
        "import sys\n"
        "from importlib.util import find_spec\n"
        f"(folder,) = find_spec({manifest_entry().module!r}).submodule_search_locations\n"
        "assert not {'xarray_n5', 'dask', 'xarray'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)  # noqa: S603


def test_a_folder_without_documents_is_left_to_others(tmp_path: Path) -> None:
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr/zarr.json").touch()
    assert get_reader(str(tmp_path / "a.zarr"))
    assert get_reader(str(tmp_path)) is None


def test_reading_imports_neither_napari_nor_qt(tmp_path: Path) -> None:
    place = str(a_pyramid(tmp_path))
    code = (
        "import sys, xarray_n5.napari as reader\n"
        f"assert reader.read({place!r})\n"
        "assert not {'napari', 'qtpy', 'npe2'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)  # noqa: S603


# Which paths are read


def test_paths_without_a_sign_of_a_container_are_left_to_others(tmp_path: Path) -> None:
    for name, text in (("a.txt", "n5"), ("a.xml", "<html/>"), ("a.h5", "no"), ("a.n5", "file")):
        (tmp_path / name).write_text(text)
        assert get_reader(str(tmp_path / name)) is None
    (tmp_path / "pictures").mkdir()
    for path in (tmp_path, tmp_path / "pictures", tmp_path / "none.xml", tmp_path / "none.zarr"):
        assert get_reader(str(path)) is None
    assert get_reader("https://example.org/cells.tif") is None
    assert get_reader([]) is None
    assert get_reader([a_pyramid(tmp_path), tmp_path / "a.txt"]) is None


def test_urls_are_accepted_by_their_names_without_a_request() -> None:
    for url in ("https://example.org/a.n5/", "s3://bucket/a.zarr", "https://example.org/a.XML?b=1"):
        assert get_reader(url) is not None


def test_several_paths_are_read_one_after_another(tmp_path: Path) -> None:
    paths = [a_pyramid(tmp_path), a_plain_array(tmp_path)]
    reader = get_reader(paths)
    assert reader is not None
    assert [facts["name"] for _, facts, _ in reader(paths)] == ["cells", "a/b"]


# Images, of which each is opened as a Dataset level by level


def image(shape: tuple[int, ...] = (12, 20, 24), dtype: str = "u2") -> xr.DataArray:
    steps = {"z": 4.0, "y": 0.5, "x": 0.5}
    coords = {
        dim: (dim, 10.0 + np.arange(size) * step, {"units": "nm"})
        for (dim, step), size in zip(steps.items(), shape[-3:], strict=True)
    }
    numbers = da.arange(np.prod(shape), chunks=-1, dtype=dtype).reshape(shape)
    return xr.DataArray(numbers, coords, ("t", "c", "z", "y", "x")[5 - len(shape) :], name="cells")


def a_pyramid(folder: Path) -> Path:
    pyramid(image(), folder / "cells.n5", levels=2, chunks=(4, 8, 8))
    return folder / "cells.n5"


def a_pyramid_in_groups(folder: Path) -> Path:
    pyramid(image(), folder / "cells.n5", "em/raw", levels=1, chunks=(4, 8, 8))
    return folder / "cells.n5/em/raw"


def a_plane(folder: Path) -> Path:
    pyramid(image().isel(z=3, drop=True), folder / "cells.n5", levels=1, chunks=(8, 8))
    return folder / "cells.n5"


def a_series(form: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        source = image((2, 3, 4, 10, 12)).assign_coords(
            c=["DAPI", "GFP", "RFP"], t=("t", [0.0, 2.5], {"units": "s"})
        )
        pyramid(source, folder / "cells.zarr", levels=1, chunks=(1, 1, 4, 8, 8), format=form)
        return folder / "cells.zarr"

    return write


def an_hdf5_file(folder: Path) -> Path:
    pyramid(image(), folder / "cells.h5", levels=1, chunks=(4, 8, 8))
    return folder / "cells.h5"


TURN = np.array([[2.0, 0, 0, 5], [0, 0, 0.5, 1], [0, -0.5, 0, 2]])
"""A rotation of y and x, with a scale and an offset."""

TILES = [Setup(id=n, attributes={"channel": n % 2, "tile": n // 2}) for n in range(4)]


def a_project(
    folder: Path,
    matrix_of: Callable[[int, int], np.ndarray],
    names: Mapping[str, Mapping[int, str]] | None = None,
) -> Path:
    steps = {
        (time, setup.id): [("registered", matrix_of(time, setup.id))]
        for time in (0, 1)
        for setup in TILES
    }
    return write_project(folder, TILES, project_xml(TILES, steps, names=names))


def a_project_in_one_place(folder: Path) -> Path:
    return a_project(folder, lambda _, __: diagonal((2.0, 0.5, 0.5), (8, 6, 4)))


def an_unregistered_container(folder: Path) -> Path:
    return a_project_in_one_place(folder).with_name("x.n5")


PYRAMIDS: dict[str, Callable[[Path], Path]] = {
    "pyramid": a_pyramid,
    "pyramid in groups": a_pyramid_in_groups,
    "plane": a_plane,
    "series in Zarr v2": a_series("zarr2"),
    "series in Zarr v3": a_series("zarr3"),
    "HDF5": an_hdf5_file,
    "project": a_project_in_one_place,
    "container of a project": an_unregistered_container,
}


def check_pyramid(place: Path, layers: Layers) -> None:
    """Check that layers have the data and the places of the Datasets of all levels."""
    count = len(layers[0][0])
    levels = [xr.open_dataset(place, level=level, engine="n5") for level in range(count)]
    (name,) = levels[0].data_vars
    shown = layers[0][1]["axis_labels"]
    split = [dim for dim in levels[0][name].dims if dim not in shown]
    sizes = [range(levels[0].sizes[dim]) for dim in split]
    selections = [dict(zip(split, at, strict=True)) for at in itertools.product(*sizes)]
    for (data, facts, _), selection in zip(layers, selections, strict=True):
        parts = [level[name].isel(selection) for level in levels]
        for found, expected in zip(data, parts, strict=True):
            # Of large levels, some planes.
            planes = slice(None) if EXHAUSTIVE or expected.size < 1 << 23 else slice(-8, None)
            np.testing.assert_array_equal(found[planes].compute(), expected[planes])
        size = max(parts[0].shape)
        diagonal_points = np.repeat(np.arange(size)[:, None], parts[0].ndim, axis=1)
        places = world(facts, diagonal_points)
        for axis, dim in enumerate(parts[0].dims):
            numbers = parts[0].coords.get(dim)
            length = parts[0].sizes[dim]
            lie = np.arange(length) if numbers is None else numbers.to_numpy()
            np.testing.assert_allclose(places[:length, axis], lie, rtol=1e-12, atol=1e-12)


@pytest.mark.matrix(4)
@pytest.mark.parametrize("kind", PYRAMIDS)
def test_a_pyramid_has_the_data_and_the_places_of_its_datasets(
    tmp_path: Path, open_layers: Read, kind: str
) -> None:
    place = PYRAMIDS[kind](tmp_path)
    layers = open_layers(place)
    assert all(facts["multiscale"] for _, facts, _ in layers)
    check_pyramid(place, layers)


OF_CORPUS = (
    "fetched/google+neuroglancer/testdata/datasource/n5/n5_viewer_multiscale_deprecated",
    "fetched/google+neuroglancer/testdata/datasource/n5/n5_viewer_multiscale_modern",
    "fetched/google+neuroglancer/testdata/datasource/zarr/ome_zarr/simple_0.4",
    "fetched/saalfeldlab+n5-universe/src/test/resources/root_dataset.n5",
    "fetched/saalfeldlab+n5-universe/src/test/resources/test.n5/c0",
    "fetched/saalfeldlab+n5-universe/src/test/resources/test.n5/cosem_ms",
    "peers/hdf5/npy2bdv-1.1.0.h5",
    "peers/hdf5/npy2bdv-1.1.0.xml",
    "peers/hdf5/pybdv-0.6.0-h5.h5",
    "peers/hdf5/pybdv-0.6.0-h5.xml",
    "peers/hdf5/pybdv-0.6.0-n5.n5",
    "peers/hdf5/pybdv-0.6.0-n5.n5/setup0",
    "peers/hdf5/pybdv-0.6.0-n5.n5/setup0/timepoint0",
    "peers/hdf5/pybdv-0.6.0-n5.n5/setup1",
    "peers/hdf5/pybdv-0.6.0-n5.n5/setup1/timepoint0",
    "peers/hdf5/pybdv-0.6.0-n5.xml",
)
"""All pyramids of the corpus, and the projects that they are in."""


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", OF_CORPUS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pyramids_that_others_wrote_lie_where_they_are_opened(
    corpus: Path, open_layers: Read, name: str
) -> None:
    layers = open_layers(corpus / name)
    assert all(facts["multiscale"] for _, facts, _ in layers)
    check_pyramid(corpus / name, layers)


# Lazy data


def spoil(folder: Path, *, but: Iterable[str] = ()) -> None:
    """Make all chunks of N5 unreadable but some."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name.isdigit() and str(path.relative_to(folder)) not in but:
            path.write_bytes(b"!")


def test_opening_reads_no_chunk(tmp_path: Path, open_layers: Read) -> None:
    place = a_project(tmp_path, lambda _, setup: TURN + setup)
    spoil(tmp_path)
    layers = open_layers(place)
    for data, _, _ in layers:
        with pytest.raises(ChunkError):
            data[0].compute()


def test_a_block_reads_one_stored_chunk(tmp_path: Path, open_layers: Read) -> None:
    place = a_pyramid(tmp_path)
    spoil(place, but=["s0/2/1/0"])  # x, y, z
    ((data, _, _),) = open_layers(place)
    assert (
        data[0].chunks == xarray_n5.from_n5(place, "s0").chunks == ((4,) * 3, (8, 8, 4), (8,) * 3)
    )
    np.testing.assert_array_equal(data[0].blocks[0, 1, 2], image()[:4, 8:16, 16:])
    with pytest.raises(ChunkError):
        data[0].blocks[0, 0, 0].compute()


def test_channels_of_one_chunk_are_blocks_of_one_channel(tmp_path: Path, open_layers: Read) -> None:
    source = image((1, 3, 4, 10, 12))[0].drop_vars("t", errors="ignore")
    pyramid(source, tmp_path / "a.n5", levels=1, chunks=(3, 4, 8, 8))
    layers = open_layers(tmp_path / "a.n5")
    assert [data[0].chunksize for data, _, _ in layers] == [(4, 8, 8)] * 3
    np.testing.assert_array_equal(layers[2][0][0], source[2])


def test_many_small_chunks_are_read_together(tmp_path: Path, open_layers: Read) -> None:
    create_array(tmp_path / "a.n5", "a", shape=(64, 512, 512), dtype="u1", chunks=(8, 8, 8))
    ((data, _, _),) = open_layers(tmp_path / "a.n5")
    assert data.npartitions <= 10
    assert all(side % 8 == 0 for side in data.chunksize)


def test_very_many_chunks_cost_nothing(tmp_path: Path, open_layers: Read) -> None:
    shape = (1 << 16, 1 << 16, 1 << 16)
    create_array(tmp_path / "a.n5", "a", shape=shape, dtype="u1", chunks=(128, 128, 128))
    ((data, _, _),) = open_layers(tmp_path / "a.n5")
    assert data.npartitions == 512**3
    assert not data[40_000, 128:256, 128:256].compute().any()


# Arrays and groups of them


def a_plain_array(folder: Path) -> Path:
    array = create_array(folder / "plain.n5", "a/b", shape=(5, 6, 3), dtype="u1", chunks=(2, 3, 3))
    array[...] = 7
    return folder / "plain.n5"


def test_an_array_without_coordinates_is_a_plain_layer(tmp_path: Path, open_layers: Read) -> None:
    ((data, facts, kind),) = open_layers(a_plain_array(tmp_path))
    assert (data.compute() == 7).all()
    assert kind == "image"
    assert facts == {
        "name": "a/b",
        "multiscale": False,
        "rgb": False,  # three samples along x are no colours
        "scale": (1.0, 1.0, 1.0),
        "translate": (0.0, 0.0, 0.0),
        "axis_labels": ("z", "y", "x"),
    }


def test_several_images_are_a_layer_each(tmp_path: Path, open_layers: Read) -> None:
    place = a_pyramid(tmp_path).rename(tmp_path / "both.n5")
    shutil.move(place, tmp_path / "inner")
    shutil.copytree(tmp_path / "inner", place / "one")
    shutil.copytree(tmp_path / "inner", place / "more/two")
    create_array(place, "times", shape=(10,), dtype="f8", chunks=5)
    create_array(place, "none", shape=(0, 5), dtype="u1", chunks=5)
    found = [(facts["name"], len(data)) for data, facts, _ in open_layers(place)]
    assert sorted(found) == [("more/two", 3), ("one", 3)]


def test_variables_of_a_dataset_are_layers(tmp_path: Path, open_layers: Read) -> None:
    image()[0].to_dataset().assign(other=image()[1] * 2).n5.to_n5(tmp_path / "a.n5", "run")
    found = {facts["name"]: data for data, facts, _ in open_layers(tmp_path / "a.n5")}
    assert list(found) == ["run/cells", "run/other"]
    np.testing.assert_array_equal(found["run/other"], image()[1] * 2)


def test_of_very_many_images_the_first_are_shown(tmp_path: Path, open_layers: Read) -> None:
    create_array(tmp_path / "a.n5", "a00", shape=(2, 2), dtype="u1", chunks=2)
    for number in range(1, 35):
        shutil.copytree(tmp_path / "a.n5/a00", tmp_path / f"a.n5/a{number:02}")
    with pytest.warns(UserWarning, match="32 of 35 layers are shown, not a32, a33, a34"):
        assert len(open_layers(tmp_path / "a.n5")) == 32


def test_a_container_without_images_is_an_error_that_says_so(
    tmp_path: Path, open_layers: Read
) -> None:
    create_array(tmp_path / "a.n5", "a", shape=(9,), dtype="u1", chunks=3)
    with pytest.raises(NodeNotFoundError, match=r"no image at '/' in .*at least two axes"):
        open_layers(tmp_path / "a.n5")


def test_coordinates_that_fall_lie_where_they_are(tmp_path: Path, open_layers: Read) -> None:
    falling = image()[0].isel(y=slice(None, None, -1))
    falling.to_dataset().n5.to_n5(tmp_path / "a.n5")
    ((_, facts, _),) = open_layers(tmp_path / "a.n5")
    places = world(facts, np.array([[0, 0], [19, 23]]))
    np.testing.assert_allclose(places, [[19.5, 10], [10, 21.5]])


def test_an_affine_of_the_metadata_places_the_layer(tmp_path: Path, open_layers: Read) -> None:
    axes = [Axis(name=name, unit="nm") for name in "zyx"]
    matrix = ((3.0, 0.0, 0.0, 5.0), (0.0, 2.0, 0.5, 4.0), (0.0, 0.0, 1.0, 3.0))
    create_array(
        tmp_path / "a.n5",
        "a",
        shape=(4, 5, 6),
        dtype="u1",
        chunks=4,
        axes=Geometry(tuple(axes), affine=matrix),
        dialect="canonical",
    )
    opened = xr.open_dataset(tmp_path / "a.n5", group="a", engine="n5")["a"]
    ((_, layer, _),) = open_layers(tmp_path / "a.n5")
    np.testing.assert_array_equal(layer["affine"], [*matrix, (0, 0, 0, 1)])
    assert layer["units"] == ("nanometer",) * 3
    points = np.array([[0, 0, 0], [1, 2, 3]])
    np.testing.assert_allclose(world(layer, points), opened.n5.to_world(points))


# Channels


def test_channels_are_layers_with_names_and_colours(tmp_path: Path, open_layers: Read) -> None:
    layers = open_layers(a_series("zarr2")(tmp_path))
    shown = [(facts["name"], facts["colormap"], facts["blending"]) for _, facts, _ in layers]
    assert shown == [
        ("cells DAPI", "#0000ff", "additive"),
        ("cells GFP", "#00ff00", "additive"),
        ("cells RFP", "#ff0000", "additive"),
    ]
    facts = layers[0][1]
    assert facts["axis_labels"] == ("t", "z", "y", "x")
    assert facts["units"] == ("second", "nanometer", "nanometer", "nanometer")
    assert facts["scale"] == (2.5, 4.0, 0.5, 0.5)
    assert facts["translate"] == (0.0, 10.0, 10.0, 10.0)


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_omero_says_how_channels_are_shown(tmp_path: Path, open_layers: Read, form: str) -> None:
    place = a_series(form)(tmp_path)
    document = place / (".zattrs" if form == "zarr2" else "zarr.json")
    stored = json.loads(document.read_text())
    inner = stored if form == "zarr2" else stored["attributes"]["ome"]
    inner["omero"] = {
        "channels": [
            {"label": "DNA", "color": "0000FF", "window": {"start": 10, "end": 300}},
            {"label": "actin", "color": "nonsense", "window": {"start": 5, "end": 5}},
            {"color": "ff8000", "active": False, "window": {"start": 0, "end": 65535}},
        ]
    }
    document.write_text(json.dumps(stored))
    layers = open_layers(place)
    names = ["name", "colormap", "contrast_limits", "visible"]
    assert [[facts.get(key) for key in names] for _, facts, _ in layers] == [
        ["cells DNA", "#0000ff", (10.0, 300.0), None],
        ["cells actin", "#ffff00", None, None],
        ["cells c 2", "#ff8000", None, False],
    ]


def test_very_many_channels_stay_a_dimension(tmp_path: Path, open_layers: Read) -> None:
    axes = ["c", "y", "x"]
    create_array(tmp_path / "a.n5", "a", shape=(64, 5, 6), dtype="f4", chunks=8, axes=axes)
    ((data, facts, _),) = open_layers(tmp_path / "a.n5")
    assert data.shape == (64, 5, 6)
    assert facts["axis_labels"] == ("c", "y", "x")


# Labels


def test_uint64_is_shown_as_labels(tmp_path: Path, open_layers: Read) -> None:
    pyramid(image(dtype="u8"), tmp_path / "a.n5", levels=1, method="mode", chunks=8)
    ((data, facts, kind),) = open_layers(tmp_path / "a.n5")
    assert kind == "labels"
    assert data[0].dtype == "u8"
    assert facts["scale"] == (4.0, 0.5, 0.5)


def test_label_images_of_ome_ngff_are_labels(tmp_path: Path, open_layers: Read) -> None:
    forms: dict[Any, str] = {"zarr2": ".zattrs", "zarr3": "zarr.json"}
    for form, name in forms.items():
        place = tmp_path / f"{form}.zarr"
        pyramid(image(), place, "labels/nuclei", levels=1, chunks=8, format=form)
        document = place / "labels/nuclei" / name
        stored = json.loads(document.read_text())
        inner = stored if form == "zarr2" else stored["attributes"]["ome"]
        inner["image-label"] = {"source": {"image": "../../"}}
        document.write_text(json.dumps(stored))
        ((_, facts, kind),) = open_layers(place)
        assert (facts["name"], kind) == ("labels/nuclei", "labels")


def test_labels_are_on_top_of_the_images(tmp_path: Path, open_layers: Read) -> None:
    place = tmp_path / "a.n5"
    pyramid(image(dtype="u8"), place, "nuclei", levels=1, chunks=8)
    pyramid(image(), place, "raw", levels=1, chunks=8)
    layers = open_layers(place)
    assert [(facts["name"], kind) for _, facts, kind in layers] == [
        ("raw", "image"),
        ("nuclei", "labels"),
    ]


def test_labels_of_paintera_are_labels_without_the_tables_beside_them(
    tmp_path: Path, open_layers: Read
) -> None:
    place = write_paintera(tmp_path / "a.n5/volumes/labels")
    create_array(tmp_path / "a.n5", "volumes/labels/unique-labels/s0", shape=(2, 2), dtype="u8")
    create_array(tmp_path / "a.n5", "volumes/raw", shape=(4, 4, 4), dtype="u1", chunks=4)
    (raw, labels) = sorted(open_layers(tmp_path / "a.n5"), key=lambda each: each[2])
    data, facts, kind = labels
    assert (raw[1]["name"], raw[2], kind) == ("volumes/raw", "image", "labels")
    np.testing.assert_array_equal(data[1], WINNERS)
    assert facts["translate"] == (400.0, 0.0, 0.0)
    ((inner, _, _),) = open_layers(place)
    assert inner[0].shape == data[0].shape


def test_numbers_of_paintera_are_shown_as_their_dataset_says(
    tmp_path: Path, open_layers: Read
) -> None:
    for kind, expected in (("label", "labels"), ("raw", "image")):
        create_array(tmp_path / "a.n5", "a/data/s0", shape=(4, 4), dtype="i4", chunks=4, mode="a")
        write_document(tmp_path / "a.n5/a", painteraData={"type": kind})
        ((_, _, found),) = open_layers(tmp_path / "a.n5")
        assert found == expected


# Projects


def test_views_are_layers_with_their_affine_matrices(tmp_path: Path, open_layers: Read) -> None:
    place = a_project(tmp_path, lambda _, setup: TURN + 3.0 * setup * np.eye(3, 4, 3))
    layers = open_layers(place)
    dataset = xr.open_dataset(place, engine="n5", level=0)
    names = [facts["name"] for _, facts, _ in layers]
    assert names == [f"project channel {c} tile {t}" for c in (0, 1) for t in (0, 1)]
    assert [facts["colormap"] for _, facts, _ in layers] == ["#ff00ff"] * 2 + ["#00ff00"] * 2
    points = np.array([[0, 0, 0], [1, 2, 3], [5, 11, 15]])
    for (data, facts, _), number in zip(layers, (0, 2, 1, 3), strict=True):
        assert facts["axis_labels"] == ("t", "z", "y", "x")
        assert facts["units"] == ("pixel", "micrometer", "micrometer", "micrometer")
        at: dict[Any, int] = {"channel": number % 2, "tile": number // 2}
        for time in (0, 1):
            places = world(facts, np.insert(points, 0, time, axis=1))
            expected = dataset.sel({"t": time, **at}).n5.to_world(points)
            np.testing.assert_allclose(places[:, 1:], expected, rtol=1e-12)
            assert (places[:, 0] == time).all()
            for level, factors in enumerate(((1, 1, 1), (1, 2, 2), (2, 4, 4))):
                shape = level_shape((6, 12, 16), factors)
                view = values((time, number), level, shape)
                np.testing.assert_array_equal(data[level][time], view)


def test_views_that_are_moved_alone_have_a_scale_and_an_offset(
    tmp_path: Path, open_layers: Read
) -> None:
    places = {n: diagonal((2.0, 0.5, 0.5), (0, 6.0 * n, 1)) for n in range(4)}
    names = {"channel": {0: "green", 1: "red"}}
    layers = open_layers(a_project(tmp_path, lambda _, setup: places[setup], names))
    for (_, facts, _), number in zip(layers, (0, 2, 1, 3), strict=True):
        assert facts["scale"] == (1.0, 2.0, 0.5, 0.5)
        np.testing.assert_allclose(facts["translate"], (0, 0, 6 * number, 1))


def test_views_that_move_in_time_are_layers_of_their_own(tmp_path: Path, open_layers: Read) -> None:
    place = a_project(tmp_path, lambda time, setup: TURN + (time + 3.0 * setup) * np.eye(3, 4, 3))
    layers = open_layers(place)
    dataset = xr.open_dataset(place, engine="n5", level=0)
    assert len(layers) == 8
    assert [facts["name"] for _, facts, _ in layers[::4]] == [
        "project t 0 channel 0 tile 0",
        "project t 1 channel 0 tile 0",
    ]
    for time, (data, facts, _) in enumerate(layers[::4]):
        assert data[0].shape == (1, 6, 12, 16)
        (position,) = world(facts, np.array([[0, 1, 2, 3]]))
        assert position[0] == time
        expected = dataset.isel(channel=0, tile=0).sel(t=time).n5.to_world([[1, 2, 3]])
        np.testing.assert_allclose(position[1:], expected[0])
    np.testing.assert_array_equal(layers[4][0][0][0], values((1, 0), 0, (6, 12, 16)))


@pytest.mark.parametrize("matrix", [TURN, diagonal((2.0, 0.5, 0.5), (0, 6.0, 1))])
@pytest.mark.parametrize("cropped", [False, True])
def test_stored_datasets_of_views_lie_where_the_views_are(
    tmp_path: Path, open_layers: Read, matrix: np.ndarray, cropped: bool
) -> None:
    place = a_project(tmp_path, lambda _, setup: matrix + 3.0 * setup * np.eye(3, 4, 3))
    whole = xr.open_dataset(place, engine="n5", level=0)
    if cropped:
        whole = whole.isel(z=slice(1, 4), y=slice(2, None, 2), x=slice(5, 9))
        whole.n5.to_n5(tmp_path / "part.n5")
    else:
        whole.n5.to_n5(tmp_path / "part.n5")
    layers = open_layers(tmp_path / "part.n5")
    assert len(layers) == 4
    points = np.array([[0, 0, 0, 0], [0, 1, 2, 3]])
    for (_, facts, _), number in zip(layers, (0, 2, 1, 3), strict=True):
        view = whole.isel(t=0, channel=number % 2, tile=number // 2)
        expected = view.n5.to_world(points[:, 1:])
        np.testing.assert_allclose(world(facts, points)[:, 1:], expected, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (2, 3)])
def test_matrices_of_others_place_nothing(
    tmp_path: Path, open_layers: Read, shape: tuple[int, int]
) -> None:
    own = {"x": ("x", 0.5 * np.arange(8), {"units": "um"})}
    image = xr.Dataset({"a": (("z", "y", "x"), np.ones((4, 8, 8), "u2"))}, own)
    image = image.assign_coords(affine=(("axis", "column"), np.eye(*shape)))
    image.n5.to_n5(tmp_path / "a.n5")
    (_, facts, _), *_ = open_layers(tmp_path / "a.n5")
    assert facts["scale"] == (1.0, 1.0, 0.5)


@pytest.mark.parametrize("dim", ["x", "y", "z"])
def test_stored_sections_of_turned_views_have_a_matrix_that_is_one(
    tmp_path: Path, open_layers: Read, dim: str
) -> None:
    place = a_project(tmp_path, lambda _, setup: TURN + 3.0 * setup * np.eye(3, 4, 3))
    whole = xr.open_dataset(place, engine="n5", level=0)
    whole.isel({dim: 2}).n5.to_n5(tmp_path / "part.n5")
    for _, facts, _ in open_layers(tmp_path / "part.n5"):
        matrix = facts.get("affine", np.eye(4))
        assert np.linalg.matrix_rank(matrix) == len(matrix)
        assert "affine" in facts or "scale" in facts


# Scenes and images of OME-Zarr 0.6


TURNED = [[1, 0, 0, 10], [0, 0.6, -0.8, 20], [0, 0.8, 0.6, 30]]
FLAT = [[0, -1, 3], [1, 0, 4]]
LIFTED = [[0.5, 0, 9], [0, -1, 3], [1, 0, 4]]
MOVED = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 2], [0, 0, 0, 1, 3]]


@pytest.mark.matrix(6)
@pytest.mark.parametrize("unit", ["nanometer", None])
@pytest.mark.parametrize("differ", [0, 1])
@pytest.mark.parametrize(
    ("axes", "target", "rows"),
    [
        ("zyx", "zyx", TURNED),
        ("yx", "yx", FLAT),
        ("yx", "zyx", LIFTED),
        ("tzyx", "tzyx", MOVED),
    ],
    ids=["turned", "flat", "lifted", "moved"],
)
def test_images_of_a_scene_are_layers_at_their_positions(
    tmp_path: Path, axes: str, target: str, rows: list[list[float]], differ: int, unit: str | None
) -> None:
    place = tmp_path / "s.zarr"
    ends = [{"input": {"path": p, "name": "physical"}, "output": {"name": "world"}} for p in "ab"]
    named = zip(target, rows, strict=True)
    shift = [[*row[:-1], row[-1] + (axis != "t")] for axis, row in named]
    edges = [
        {"type": "affine", "affine": each} | end
        for each, end in zip((rows, shift), ends, strict=True)
    ]
    write_scene(place, edges, [system("world", target, unit)])
    scale, offset = [1.0, 2.0, 3.0, 0.5][-len(axes) :], [0.0, 5.0, 6.0, 7.0][-len(axes) :]
    for n, path in enumerate("ab"):
        shape = [2, 4, 6, 8 + n * differ][-len(axes) :]
        write_image(place, path, shape, image_attributes(axes, scale, offset, levels=2))
    layers = read_layers(place)
    assert len(layers) == 2
    for (data, facts, _), matrix in zip(layers, (rows, shift), strict=True):
        assert len(data) == 2
        shown = "".join(facts["axis_labels"])
        assert (shown, data[0].ndim) == (target, len(target))
        units = [unit if axis in "zyx" and unit else "pixel" for axis in shown]
        assert facts.get("units", ("pixel",) * len(shown)) == tuple(units)
        points = np.eye(len(axes) + 1, len(axes))
        inner = points * scale + offset
        expected = inner @ np.array(matrix)[:, :-1].T + np.array(matrix)[:, -1]
        lifted = np.insert(points, 0, 0, axis=1) if len(target) > len(axes) else points
        np.testing.assert_allclose(world(facts, lifted), expected, rtol=0, atol=1e-12)


def test_an_image_with_other_systems_is_at_its_intrinsic_coordinates(tmp_path: Path) -> None:
    edge: dict[str, Any] = {"type": "translation", "translation": [9, 9, 9]}
    edge |= {"input": {"name": "physical"}, "output": {"name": "stage"}}
    attributes = image_attributes(
        "zyx", (2, 3, 0.5), (5, 6, 7), systems=[system("stage", "zyx")], edges=[edge]
    )
    write_image(tmp_path / "x.zarr", "em", (4, 6, 8), attributes)
    ((_, facts, _),) = read_layers(tmp_path / "x.zarr")
    assert (facts["scale"], facts["translate"]) == ((2, 3, 0.5), (5, 6, 7))
