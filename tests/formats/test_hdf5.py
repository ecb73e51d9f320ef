"""HDF5 files of others: read exactly, without HDF5's lock where that can be."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import subprocess
import sys
import threading
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.support.processes import Python
from xarray_n5 import (
    ChunkError,
    MetadataError,
    NodeNotFoundError,
    chunk_map,
    from_n5,
    open_array,
    open_group,
    to_n5,
    verify,
)
from xarray_n5.cli import main
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.errors import OneWriterError
from xarray_n5.formats.containers import open_hdf5

if TYPE_CHECKING:
    from pathlib import Path


pytest.importorskip("hdf5plugin")

X = np.arange(5 * 7 * 9, dtype="<u2").reshape(5, 7, 9) * 3

GZIP = {"compression": "gzip"}

FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip"},
    "gzip and shuffle": {"compression": "gzip", "shuffle": True},
    "checksums": {"fletcher32": True},
    "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf", "shuffle": True},
    "scale and offset": {"scaleoffset": 0},
    "blosc": {"compression": 32001, "compression_opts": (0, 0, 0, 0, 5, 1, 1)},
    "blosc by bit": {"compression": 32001, "compression_opts": (0, 0, 0, 0, 9, 2, 5)},
    "zstd": {"compression": 32015, "compression_opts": (3,)},
    "bitshuffle": {"compression": 32008, "compression_opts": (0, 2)},
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a file can be."""
    return str(tmp_path / "a.h5")


# What others wrote


@pytest.mark.parametrize("version", ["1.4.2", "2.2.1"])
def test_attributes_that_java_wrote_are_its_own(corpus: Path, version: str) -> None:
    group = open_group(corpus / f"java/n5-hdf5-{version}.h5")
    assert "n5" not in group.attrs
    assert "__DATA_TYPES__" not in list(group)
    found = dict(open_group(corpus / f"java/n5-hdf5-{version}.h5", "attrs/group").attrs)
    assert found == {
        "bool": True,
        "double": 0.1,
        "doubles": [4.0, 4.0, 40.0],
        "int": 42,
        "ints2d": [[1, 1, 1], [2, 2, 1]],
        "long": 9007199254740993,
        "pixelResolution": {"unit": "nm", "dimensions": [4.0, 4.0, 40.0]},
        "string": found["string"],
        "strings": ["x", "y", "z"],
    }


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ({"compression": "lzf", "shuffle": True}, "shuffle+lzf"),
        ({"compression": "gzip", "fletcher32": True}, "gzip"),
    ],
)
def test_filters_that_are_no_compression_of_ours_are_shown(
    path: str, how: dict[str, Any], name: str
) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=X, **how)
    assert dict(open_array(path, "v").info.rows)["compression"].partition(" ")[0] == name
    assert f", {name}\n" in CliRunner().invoke(main, ["tree", path]).output
    as_json = CliRunner().invoke(main, ["info", "--json", path, "v"]).output
    assert json.loads(as_json)["compression"]["type"] == name


def test_dimension_scales_name_axes_and_lists_stand_in_numpys_order(corpus: Path) -> None:
    place = corpus / "peers/hdf5/h5py-3.16.0.h5"
    with pytest.warns(UserWarning, match="disagree with attributes of other arrays") as given:
        both = xr.open_dataset(place, engine="n5", group="dims")
    with both as found:
        assert found["vol"].dims == ("z", "y", "x")
        assert found["z"].to_numpy().tolist() == [0, 40, 80, 120, 160]
        assert found["x"].to_numpy()[:2].tolist() == [0, 4]
    assert [str(each.message).partition(":")[0] for each in given] == ["dims/y", "dims/x"]
    with xr.open_dataset(place, engine="n5", group="dims", drop_variables=["x", "y", "z"]) as found:
        assert found["x"].to_numpy()[:2].tolist() == [200, 204]
    with xr.open_dataset(place, engine="n5", group="dims/vol") as found:
        # z comes first in lists that no n5-hdf5 wrote.
        assert found["z"].to_numpy().tolist() == [0, 40, 80, 120, 160]
        assert found["x"].to_numpy()[:2].tolist() == [200, 204]


def test_lists_of_n5_hdf5_stand_in_n5s_order(path: str) -> None:
    for stamped, where in ((True, [0, 40]), (False, [0, 4])):
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=X).attrs["resolution"] = [4.0, 4.0, 40.0]
            file["v"].attrs["offset"] = [0.0, 0.0, 0.0]
            if stamped:
                file.attrs["n5"] = "2.2.1"
        with xr.open_dataset(path, engine="n5", group="v") as found:
            assert found["z"].to_numpy()[:2].tolist() == where


# BigDataViewer


def test_views_of_bigdataviewer_are_one_image(corpus: Path) -> None:
    place = corpus / "peers/hdf5/npy2bdv-1.1.0.h5"
    for level in (0, 1):
        with (
            xr.open_dataset(place, engine="n5", level=level) as found,
            h5py.File(place) as file,
        ):
            image = found["npy2bdv-1.1.0"]
            assert image.dims == ("t", "setup", "z", "y", "x")
            assert image.dtype == np.dtype("u2")
            for t in (0, 1):
                for setup in (0, 1):
                    cells = file[f"t0000{t}/s0{setup}/{level}/cells"][...]
                    assert (image.sel(t=t, setup=setup).to_numpy() == cells.view("u2")).all()
            samples = [0, 1] if level == 0 else [0.5, 2.5]  # of 0.2 um, by the XML file
            np.testing.assert_allclose(found["x"].to_numpy()[:2], np.multiply(0.2, samples))
    with xr.open_dataset(f"{place}/t00001/s01/1/cells", engine="n5") as one:
        assert one["setup1"].dims == ("z", "y", "x")
        np.testing.assert_allclose(one["y"].to_numpy()[:2], [0.1, 0.5])


def test_bigdataviewer_in_hdf5_and_in_n5_lie_at_the_same_places(corpus: Path) -> None:
    folder = corpus / "peers/hdf5"
    for level in (0, 1, 2):
        with (
            xr.open_dataset(folder / "pybdv-0.6.0-h5.h5", engine="n5", level=level) as one,
            xr.open_dataset(folder / "pybdv-0.6.0-n5.n5", engine="n5", level=level) as other,
        ):
            assert (list(one), list(other)) == (["pybdv-0.6.0-h5"], ["pybdv-0.6.0-n5"])
            renamed = other.rename({"pybdv-0.6.0-n5": "pybdv-0.6.0-h5"})
            xr.testing.assert_identical(one, renamed.sel(setup=[0]))


def test_numbers_beyond_those_with_a_sign_are_read(path: str) -> None:
    with h5py.File(path, "w") as file:
        file["s00/resolutions"] = [[1.0, 1, 1]]
        file["t00000/s00/0/cells"] = np.array([[[40_000]]], "u2").view("i2")
        file["other/cells"] = np.array([[[-1]]], "i2")
    assert open_array(path, "t00000/s00/0/cells")[...].tolist() == [[[40_000]]]
    assert open_array(path, "other/cells")[...].tolist() == [[[-1]]]


# Layouts


@pytest.mark.matrix(6)
@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("dtype", ["<u2", ">i4", "<f8", "|u1"])
def test_every_filter_is_undone(path: str, filters: dict[str, Any], dtype: str) -> None:
    values = X.astype(dtype)
    if "scaleoffset" in filters and values.dtype.kind == "f":
        filters = {"scaleoffset": 3}
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=values, chunks=(3, 4, 5), **filters)
        expected = file["v"][...]
    assert (from_n5(path, "v").compute() == expected).all()
    assert open_array(path, "v").dtype == values.dtype.newbyteorder("=")
    assert set(verify(path, "v")["state"].to_numpy().flat) == {"ok"}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("userblock", [0, 1024])
def test_files_of_any_version_are_read(path: str, libver: str, userblock: int) -> None:
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        options: dict[str, Any] = {"chunks": (3, 4, 5), "compression": "gzip"}
        file.create_dataset("fixed", data=X, **options)
        file.create_dataset("one", data=X, maxshape=(None, 7, 9), **options)
        file.create_dataset("several", data=X, maxshape=(None, None, 9), **options)
        file.create_dataset("single", data=X, chunks=X.shape)
        file.create_dataset("run", data=X)
        file.create_dataset("never", (4,), "i4")
    assert open_array(path, "never")[...].tolist() == [0, 0, 0, 0]
    for name in ("fixed", "one", "several", "single", "run"):
        assert (open_array(path, name)[...] == X).all()
        assert (from_n5(path, name).compute() == X).all()


def test_a_dataset_without_chunks_is_read_in_runs_of_bytes(path: str) -> None:
    x = np.arange(3 * 1100 * 1000, dtype="i4").reshape(3, 1100, 1000)
    with h5py.File(path, "w") as file:
        file["v"] = x
    array = open_array(path, "v")
    assert array.chunks == (1, 1048, 1000)
    assert (from_n5(path, "v").compute() == x).all()
    assert (array[1:, 1040:1060, ::7] == x[1:, 1040:1060, ::7]).all()


def test_what_was_never_stored_is_the_fill_value(path: str) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (5, 7), "f4", chunks=(2, 3), fillvalue=2.5, compression="gzip")
        file.create_dataset("run", (5, 7), "i2", fillvalue=-3)
        file.create_dataset("lzf", (5, 7), "i2", fillvalue=-3, chunks=(2, 3), compression="lzf")
        file["v"][0, 0] = 1
    expected = np.full((5, 7), 2.5, "f4")
    expected[0, 0] = 1
    assert (open_array(path, "v")[...] == expected).all()
    assert (open_array(path, "run")[...] == -3).all()
    assert (open_array(path, "lzf")[...] == -3).all()
    assert chunk_map(path, "v").sum() == 1
    with pytest.raises(ChunkError, match="not stored"):
        open_array(path, "v", missing="error")[-1, -1]


def test_filters_that_a_chunk_passed_over_are_not_undone(path: str) -> None:
    with h5py.File(path, "w") as file:
        v = file.create_dataset("v", (4, 4), "<u2", chunks=(2, 4), compression="gzip", shuffle=True)
        v[...] = np.arange(16).reshape(4, 4)
        v.id.write_direct_chunk((2, 0), np.full((2, 4), 9, "<u2").tobytes(), 0b11)
    found = open_array(path, "v")[...]
    assert found.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [9] * 4, [9] * 4]


def test_types_of_all_kinds_are_read(path: str) -> None:
    record = np.array([(1, 2.5, (3, 4))], [("a", "<i2"), ("b", ">f8"), ("c", "<u1", (2,))])
    inner = np.array([((1, 2.0), b"d")], [("a", [("b", "i1"), ("c", ">f4")]), ("d", "S3")])
    kept = {
        "bool": np.array([True, False]),
        "half": np.array([1.5, -2], "f2"),
        "complex": np.array([1 + 2j, 3], "c8"),
        "bytes": np.array([b"ab", b"c"]),
        "record": record,
        "inner": inner,
        "number": np.array(7.5),
        "none": np.zeros((0, 3), "i4"),
    }
    with h5py.File(path, "w") as file:
        for name, values in kept.items():
            file[name] = values
        file["texts"] = ["a", "bcé", ""]
        file["enum"] = np.array([1, 0], h5py.enum_dtype({"a": 0, "b": 1}, "i2"))
        file.create_dataset("spaces", data=np.array([b"ab", b"c"]), dtype=_padded(2))
        file["nothing"] = h5py.Empty("f4")
        file.create_dataset("references", (1,), h5py.ref_dtype)
        file.create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        space, kind = h5py.h5s.create_simple((5,)), h5py.h5t.array_create(h5py.h5t.STD_I32LE, (3,))
        h5py.h5d.create(file.id, b"arrays", kind, space)
        file["type"] = np.dtype("i4")
    for name, values in kept.items():
        found = open_array(path, name)
        assert (found.dtype, found.shape) == (values.dtype.newbyteorder("="), values.shape)
        np.testing.assert_array_equal(found[...], values)
    assert open_array(path, "texts")[...].tolist() == ["a", "bcé", ""]
    assert from_n5(path, "texts").compute().tolist() == ["a", "bcé", ""]
    assert open_array(path, "enum")[...].tolist() == [1, 0]
    assert open_array(path, "spaces")[...].tolist() == [b"ab", b"c"]
    for name in ("nothing", "references", "lists", "arrays"):
        with pytest.raises(MetadataError, match="read it with h5py"):
            open_array(path, name)
    with pytest.warns(UserWarning, match="left out"):
        assert open_group(path).arrays().keys() >= kept.keys()
    with pytest.raises(NodeNotFoundError):
        open_array(path, "type")
    assert "type" not in list(open_group(path))


def _padded(size: int) -> h5py.Datatype:
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(size)
    kind.set_strpad(h5py.h5t.STR_SPACEPAD)
    return h5py.Datatype(kind)


def test_other_files_are_read_where_the_user_allows_it(tmp_path: Path) -> None:
    path, other = str(tmp_path / "a.h5"), str(tmp_path / "b.h5")
    with h5py.File(other, "w") as file:
        file.create_dataset("x/v", data=X, chunks=(3, 4, 5), compression="gzip")
    with h5py.File(path, "w") as file:
        file["outside"] = h5py.ExternalLink("b.h5", "/x")
        file["nowhere"] = h5py.ExternalLink("c.h5", "/x")
        file["soft"] = h5py.SoftLink("/outside/v")
        file["group/self"] = h5py.SoftLink("/group")
        layout = h5py.VirtualLayout((2, *X.shape), "<u2")
        layout[0] = h5py.VirtualSource(other, "x/v", X.shape)
        file.create_virtual_dataset("virtual", layout, fillvalue=5)
    follow: dict[str, Any] = {"storage_options": {"follow_external": True}}
    assert (open_array(path, "outside/v", **follow)[...] == X).all()
    assert (from_n5(path, "soft", **follow).compute() == X).all()
    assert (open_array(path, "virtual", **follow)[0] == X).all()
    assert (open_array(path, "virtual", **follow)[1] == 5).all()
    assert sorted(open_group(path, **follow)) == ["group", "outside", "soft", "virtual"]
    assert xr.open_datatree(path, engine="n5", **follow)["outside/v"]["v"].shape == X.shape


# What cannot be read


def test_damaged_chunks_are_named(path: str) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=X, chunks=(3, 4, 5), fletcher32=True)
        file.create_dataset("w", data=X, chunks=(3, 4, 5), compression="gzip")
        places = [file[name].id.get_chunk_info_by_coord((3, 0, 5)) for name in "vw"]
    with open(path, "r+b") as raw:  # noqa: PTH123
        for place in places:
            raw.seek(place.byte_offset + place.size // 2)
            raw.write(b"\xff\xfe\xfd")
    for name in "vw":
        with pytest.raises(ChunkError, match=f"cannot decode chunk '{name}/1.0.1'") as raised:
            open_array(path, name)[...]
        h5py.File(path, "a").close()  # nothing holds the file, while the error is known
        assert raised.value.key == f"{name}/1.0.1"
        found = verify(path, name).compute()
        assert found["state"].to_numpy()[1, 0, 1] == "undecodable"
        assert (found["state"] == "ok").sum() == found["state"].size - 1


def test_a_filter_that_is_not_there_is_said_to_be(path: str) -> None:
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4,))
        plist.set_filter(444, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((4,))
        made = h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, space, plist)
        made.write_direct_chunk((0,), bytes(16), 0)
    with pytest.raises(ChunkError, match=r"444|filter"):
        open_array(path, "v")[...]


def test_what_is_no_hdf5_is_said_to_be(path: str, tmp_path: Path) -> None:
    with pytest.raises(NodeNotFoundError):
        open_array(path, "v")
    assert not list(tmp_path.iterdir())
    with h5py.File(path, "w") as file:
        file["v"] = X
    with pytest.raises(MetadataError, match="supports hdf5, not n5"):
        open_array(path, "v", format="n5")
    with pytest.raises(MetadataError, match="not hdf5"):
        open_array(tmp_path, "v", format="hdf5")
    (tmp_path / "b.h5").write_bytes(b"no HDF5 at all")
    with pytest.raises(NodeNotFoundError, match="a file, but not an HDF5"):
        open_array(tmp_path / "b.h5", "v")
    with pytest.raises((MetadataError, OSError)):
        to_n5(X, tmp_path / "b.h5", "v")
    assert (tmp_path / "b.h5").read_bytes() == b"no HDF5 at all"


# Handles, locks, processes


def test_no_file_is_kept_open(path: str) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=X, chunks=(3, 4, 5), compression="lzf")
    lazy = xr.open_dataset(path, engine="n5", group="v")
    assert (from_n5(path, "v").compute() == X).all()
    code = "import h5py, sys\nwith h5py.File(sys.argv[1], 'a') as f: f['v'][0, 0, 0] = 77"
    subprocess.run([sys.executable, "-c", code, path], check=True)  # noqa: S603
    with h5py.File(path, "a") as file:
        file["v"][0, 0, 1] = 78
    assert lazy["v"][0, 0, :2].to_numpy().tolist() == [77, 78]


def test_another_programs_write_is_respected(path: str) -> None:
    code = (
        "import h5py, sys\nf = h5py.File(sys.argv[1], 'a')\nf.require_dataset('v', (4,), 'i4')\n"
        "print('open', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(OneWriterError, match="another program is writing it"):
            open_array(path, "v")
        writer.communicate(b"")
    assert open_array(path, "v").shape == (4,)


def test_a_writer_that_lets_others_read_is_read(path: str) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        v = file.create_dataset("v", (3, 4), "i4", maxshape=(None, 4), chunks=(1, 4))
        file.swmr_mode = True
        v[...] = 1
        v.flush()
        code = "import sys, xarray_n5\nprint(xarray_n5.open_array(sys.argv[1], 'v')[...].sum())"
        found, _ = Python("-c", code, path, stdout=PIPE).communicate()
        assert found.strip() == "12"


def test_decompression_holds_no_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=X, chunks=(3, 4, 5), compression="gzip")
    array = open_array(path, "v")
    inside, go = threading.Event(), threading.Event()
    plain = Gzip.decode

    def slow(self: Gzip, data: Any, size: int) -> Any:
        if threading.current_thread().name == "slow":
            inside.set()
            assert go.wait(120)
        return plain(self, data, size)

    monkeypatch.setattr(Gzip, "decode", slow)
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append(array[...]), name="slow")
    thread.start()
    assert inside.wait(120)
    assert (array[...] == X).all()  # while the other decompresses
    go.set()
    thread.join()
    assert (found[0] == X).all()


def test_chunks_are_read_from_the_file_itself(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=np.arange(4000), chunks=(10,), compression="gzip")
    opened: list[str] = []
    real = h5py.File

    def counted(at: str, *args: Any, **options: Any) -> Any:
        opened.append(at)
        return real(at, *args, **options)

    monkeypatch.setattr(h5py, "File", counted)
    array = open_array(path, "v")
    assert (array[...] == np.arange(4000)).all()
    assert len(opened) < 20  # of 400 chunks: a few to learn where they lie, none for the others


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_handles_pickle_and_forks_have_their_own(path: str) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=X, chunks=(3, 4, 5), compression="lzf")
    array = open_array(path, "v")
    data = pickle.dumps(array)
    assert len(data) < 2000
    assert (pickle.loads(data)[...] == X).all()  # noqa: S301
    if "fork" in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context("fork").Pool(2) as pool:
            for found in pool.map(_read, [array] * 4):
                assert (found == X).all()


def _read(array: Any) -> np.ndarray:
    return np.asarray(array[...])


def test_stores_are_told_by_their_files(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "no suffix", "w") as file:
        file["em/v"] = X
    assert (open_array(tmp_path / "no suffix", "em/v")[...] == X).all()
    (tmp_path / "folder.h5").mkdir()
    assert open_hdf5(tmp_path / "folder.h5", {}) is None
    assert open_hdf5(f"file://{tmp_path}/new.hdf5", {}) is not None
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["em/v"] = X
    assert (open_array(tmp_path / "b.h5" / "em", "v")[...] == X).all()


def test_filters_of_netcdf4_are_not_taken_for_h5pys(path: str) -> None:
    pytest.importorskip("netCDF4")
    code = (
        "import netCDF4, numpy, sys, xarray_n5\nx = numpy.arange(1000)\n"
        "xarray_n5.to_n5(x, sys.argv[1], 'v', compression='blosc')\n"
        "import h5py\nassert (h5py.File(sys.argv[1])['v'][...] == x).all()"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)  # noqa: S603


# What reviews found


def test_chunks_are_found_whichever_axis_is_unlimited(path: str) -> None:
    x = np.arange(96).reshape(8, 12)
    with h5py.File(path, "w", libver="latest") as file:
        for name, most in {"a": (8, None), "b": (None, 12), "c": (None, None), "d": None}.items():
            file.create_dataset(name, data=x, chunks=(2, 3), maxshape=most)
            file.create_dataset(f"{name}z", (9, 12), "i4", chunks=(2, 3), maxshape=most and (9, 12))
    for name in "abcd":
        assert (open_array(path, name)[...] == x).all()
        array = open_array(path, name, mode="r+")
        array[:3] = array[:3]
        array[1::2] = array[1::2]
        assert chunk_map(path, name).sum() == 16
        assert set(verify(path, name)["state"].to_numpy().flat) == {"ok"}
        with h5py.File(path) as file:
            assert (file[name][...] == x).all()


def test_changes_behind_links_are_seen(tmp_path: Path) -> None:
    def write(value: int) -> None:
        with h5py.File(tmp_path / "e.h5", "w") as file:
            file["pad"] = np.zeros(1000 * value)
            file.create_dataset("d", data=np.full(4000, value, "i4"), chunks=(1000,))

    write(1)
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["x"] = h5py.ExternalLink("e.h5", "d")
    follow: dict[str, Any] = {"storage_options": {"follow_external": True}}
    array = open_array(tmp_path / "m.h5", "x", **follow)
    assert all(array[index * 300] == 1 for index in range(12))
    write(2)
    assert (open_array(tmp_path / "m.h5", "x", **follow)[...] == 2).all()


def test_dimensions_of_netcdf_without_coordinates_have_none(tmp_path: Path) -> None:
    plain = xr.Dataset({"t": (("y", "x"), np.ones((2, 3)))}, {"x": [1.0, 2, 4]})
    for engine in ("h5netcdf", "netcdf4"):
        plain.to_netcdf(tmp_path / f"{engine}.h5", engine=engine)
        with xr.open_dataset(tmp_path / f"{engine}.h5", engine="n5") as found:
            xr.testing.assert_equal(found, plain)
            assert not {key for key in found.attrs if key.startswith("_N")}
            found.load().to_netcdf(tmp_path / f"{engine} again.h5", engine=engine)


def test_netcdf_opens_as_in_its_own_engine(path: str) -> None:
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    values = ("x", [1.0, np.nan, 2.5], {"one": np.array([7]), "two": np.array([7, 8])}, packed)
    times = np.array(["2001-01-01", "2002-05-03", "2003-01-01"], "M8[ns]")
    xr.Dataset({"a": values, "t": ("x", times)}).to_netcdf(path, engine="h5netcdf")
    with xr.open_dataset(path, engine="h5netcdf") as theirs:
        xr.testing.assert_identical(xr.open_dataset(path, engine="n5").load(), theirs.load())
    with h5py.File(path, "r+") as file:
        file["a"].attrs["row"] = [[1, 2]]
    attributes = open_array(path, "a").attrs
    assert (attributes["one"], attributes["row"]) == (7, [[1, 2]])


def test_files_that_are_damaged_or_left_open_say_so(tmp_path: Path) -> None:
    place = tmp_path / "a.h5"
    with h5py.File(place, "w") as file:
        file["v"] = np.arange(1000)
    data = place.read_bytes()
    place.write_bytes(data[: len(data) // 2])
    with pytest.raises(MetadataError, match=r"a\.h5: HDF5 cannot open it"):
        open_array(place, "v")
    place.write_bytes(b"")
    with pytest.raises(NodeNotFoundError, match="the container is empty"):
        open_array(place, "v")
    code = (
        "import h5py, os, sys\nf = h5py.File(sys.argv[1], 'w', libver='latest')\n"
        "f['v'] = [1, 2]\nf.flush()\nos._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(place)], check=False)  # noqa: S603
    with pytest.raises(OneWriterError, match="h5clear"):
        open_array(place, "v")


def test_hdf5_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="HDF5 is written on local disks"):
        to_n5(np.ones(3), "memory://elsewhere.h5", "v")
    (tmp_path / "note.txt").write_text("no container")
    with pytest.raises(NotADirectoryError, match="its parent is a file"):
        to_n5(np.ones(3), tmp_path / "note.txt", "v")
    assert (tmp_path / "note.txt").read_text() == "no container"


@pytest.mark.parametrize("container", ["a.h5", "a.zarr"])
def test_single_strings_are_read_and_verified(tmp_path: Path, container: str) -> None:
    url = tmp_path / container
    xr.Dataset({"s": "one text"}).n5.to_n5(url) if container == "a.zarr" else None
    if container == "a.h5":
        with h5py.File(url, "w") as file:
            file["s"] = "one text"
    array = open_array(url, "s")
    assert array[()] == "one text"
    chunk = array.read_chunk(())
    assert chunk.shape == ()
    assert chunk.item() == "one text"
    assert verify(url, "s").compute().state.item() == "ok"
    assert CliRunner().invoke(main, ["verify", str(url)]).exit_code == 0


def test_what_h5py_has_flushed_in_this_process_is_read(path: str) -> None:
    with h5py.File(path, "w") as file:
        data = file.create_dataset("a", (100, 100), "i4", chunks=(10, 10), **GZIP)
        for value in (1, 2):
            data[...] = value
            file.flush()
            assert (open_array(path, "a")[...] == value).all()
        data.attrs["units"] = "nm"  # and h5py can still write
        assert open_array(path, "a").attrs["units"] == "nm"


def test_what_is_written_here_is_seen_by_h5py_in_this_process(path: str) -> None:
    with h5py.File(path, "w") as file:
        file["mine"] = np.arange(4)
        to_n5(np.ones((4, 4)), path, "ours", chunks=(2, 2))
        assert (file["ours"][...] == 1).all()
        file["mine"][...] = 5
    assert (open_array(path, "mine")[...] == 5).all()
    assert (open_array(path, "ours")[...] == 1).all()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("CLASS", [1, 2]),
        ("CLASS", 5),
        ("CLASS", "DIMENSION_SCALE"),
        ("NAME", [[1.5]]),
        ("DIMENSION_LIST", [1, 2]),
        ("DIMENSION_LIST", "text"),
        ("REFERENCE_LIST", 1),
        ("DIMENSION_LABELS", 5),
        ("DIMENSION_LABELS", ["one"]),
        ("DIMENSION_LABELS", ["one", "two", "three", "four"]),
        ("_Netcdf4Dimid", "text"),
        ("_Netcdf4Coordinates", [1.5, 2.5]),
        ("N5_JSON_ROOT", 5),
        ("N5_JSON_ROOT", "[1"),
    ],
)
def test_odd_values_of_reserved_attributes_do_not_keep_arrays_from_being_opened(
    path: str, key: str, value: Any
) -> None:
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(4).reshape(2, 2)
        file["a"].attrs[key] = value
        file["a"].attrs["other"] = 1
        file.attrs[key] = value
    array = open_array(path, "a")
    assert array[...].tolist() == [[0, 1], [2, 3]]
    assert array.attrs["other"] == 1
    assert "a" in open_group(path)


@pytest.mark.parametrize("text", ["[" * 950 + "]" * 950, "[" * 30000, '{"a":' * 5000 + "1"])
def test_attributes_nested_too_deeply_are_strings(path: str, text: str) -> None:
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(4)
        file["a"].attrs["deep"] = text
        file.attrs["N5_JSON_ROOT"] = '{"x":' + text + "}"
    assert open_array(path, "a").attrs["deep"] == text
    assert open_array(path, "a")[...].tolist() == [0, 1, 2, 3]
    repr(open_group(path).attrs)
    with xr.open_dataset(path, engine="n5") as found:
        repr(found)


def test_attributes_whose_names_are_not_utf8_are_left_alone(path: str) -> None:
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(4)
        name = b"\xff\xfe"
        space = h5py.h5s.create(h5py.h5s.SCALAR)
        h5py.h5a.create(file["a"].id, name, h5py.h5t.NATIVE_INT32, space)
        file["a"].attrs["units"] = "nm"
    array = open_array(path, "a", mode="r+")
    assert dict(array.attrs) == {"units": "nm"}
    array.attrs["other"] = 1
    with h5py.File(path) as file:
        assert h5py.h5a.exists(file["a"].id, name)
