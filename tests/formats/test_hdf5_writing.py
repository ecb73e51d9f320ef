"""HDF5 files that are written here: as h5py reads them, by one writer, whole between two writes."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import warnings
from itertools import product
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import compressions
from tests.support.exhaustive import EXHAUSTIVE, cases, some
from tests.support.processes import Python
from xarray_n5 import (
    Axis,
    MetadataError,
    NodeExistsError,
    NodeNotFoundError,
    UnfinishedWriteWarning,
    create_array,
    create_group,
    open_array,
    open_group,
    repair,
    set_options,
    to_n5,
    verify,
)
from xarray_n5.errors import MissingPackageError, OneWriterError, UnsafePathError
from xarray_n5.formats.hdf5 import opening

if TYPE_CHECKING:
    from distributed import Client

pytest.importorskip("hdf5plugin")

TYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "f2", "?", "c8", "c16", "S3"]

COMPRESSIONS: list[Any] = [
    *compressions.FILTERS,
    {"type": "gzip", "level": 9},
    {"type": "blosc", "cname": "zstd", "shuffle": 2},
    {"type": "blosc", "cname": "blosclz", "shuffle": 0},
    {"type": "blosc", "shuffle": -1},
]

X = np.arange(5 * 7 * 9, dtype="<u2").reshape(5, 7, 9) * 3


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a file can be."""
    return str(tmp_path / "a.h5")


@pytest.mark.parametrize(("dtype", "compression"), some(product(TYPES, COMPRESSIONS), 4), ids=str)
def test_h5py_reads_what_is_written(path: str, dtype: str, compression: Any) -> None:
    for shape, chunks in (((5, 7, 9), (2, 3, 4)), ((6,), (3,)), ((1, 1), (5, 5)), ((0, 3), (1, 3))):
        x = (np.arange(math.prod(shape)).reshape(shape) % 251).astype(dtype)
        to_n5(da.from_array(x, chunks=chunks), path, "v", compression=compression, mode="w")
        with h5py.File(path) as file:
            assert file["v"].dtype == x.dtype
            assert (file["v"][...] == x).all()
        again = open_array(path, "v")
        assert (again.dtype, again.shape) == (x.dtype, x.shape)
        assert (again[...] == x).all()


def test_files_are_as_n5_hdf5_has_them(path: str) -> None:
    to_n5(X, path, "em/s0", chunks=(3, 4, 5), attributes={"a": {"b": [1, None]}, "n": [1, 2]})
    with h5py.File(path) as file:
        assert file.attrs["n5"] == "1.0.0"
        v = file["em/s0"]
        assert (v.chunks, v.compression, v.shuffle) == ((3, 4, 5), "gzip", True)
        assert v.maxshape == (None, None, None)
        assert v.attrs["n"].tolist() == [1, 2]
        assert v.attrs["N5_JSON_ROOT"] == '{"a": {"b": [1, null]}}'
    assert dict(open_array(path, "em/s0").attrs) == {"a": {"b": [1, None]}, "n": [1, 2]}


def test_axes_are_told_as_in_n5_but_others_files_keep_their_order(path: str) -> None:
    axes = [Axis(name=n, unit="nm", scale=s) for n, s in zip("zyx", (40.0, 4.0, 4.0), strict=True)]
    to_n5(X, path, "v", axes=axes)
    with h5py.File(path, "a") as file:
        assert file["v"].attrs["resolution"].tolist() == [4, 4, 40]
        del file.attrs["n5"]  # as if another program had made it
        file["foreign"] = X
        file["foreign"].attrs["resolution"] = [40.0, 4.0, 4.0]
    to_n5(X, path, "w", axes=axes)
    for name in ("w", "foreign"):
        assert [axis.scale for axis in open_array(path, name).axes] == [40, 4, 4]


def test_without_h5py_nothing_is_begun(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingPackageError, match=r"pip install .*xarray-n5\[hdf5\]"):
        to_n5(X, path, "v")
    assert not os.listdir(os.path.dirname(path))  # noqa: PTH120, PTH208


def test_what_hdf5_cannot_hold_is_refused_before_anything_is_written(path: str) -> None:
    for dtype, why in (("O", "object"), ("<U3", "bytes of a fixed length"), ("M8[s]", "convert")):
        with pytest.raises(MetadataError, match=why):
            create_array(path, "v", shape=(3,), dtype=dtype)
    with pytest.raises(MetadataError, match="no filter for 'xz'"):
        create_array(path, "v", shape=(3,), dtype="i4", compression="xz")
    with pytest.raises(MetadataError, match="HDF5 stores at most"):
        create_array(path, "v", shape=(3,), dtype="i4", attributes={"a": {"b": "x" * 70_000}})
    with pytest.raises(MetadataError, match="choose smaller chunks"):
        create_array(path, "v", shape=(1 << 20, 1 << 12), dtype="f8", chunks=(1 << 20, 1 << 12))
    assert not os.path.exists(path)  # noqa: PTH110


# Attributes

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
RESERVED = ("CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_L", "_N", "_nc")
"""How names of attributes begin that HDF5 or netCDF may reserve."""

NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
).filter(lambda name: not name.startswith(RESERVED))


@pytest.mark.more
@settings(max_examples=cases(50, 200), deadline=None)
@given(st.dictionaries(NAMES, JSON, max_size=4), st.dictionaries(NAMES, JSON, max_size=2))
def test_attributes_are_the_very_same_again(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, Any], more: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("a") / "a.h5"
    create_array(path, "v", shape=(3,), dtype="i4", attributes=first)
    assert _typed(dict(open_array(path, "v").attrs)) == _typed(first)
    array = open_array(path, "v", mode="r+")
    array.attrs.update(more)
    assert _typed(dict(open_array(path, "v").attrs)) == _typed({**first, **more})
    array.attrs.clear()
    with h5py.File(path) as file:
        assert not list(file["v"].attrs)


def _typed(value: Any) -> Any:
    """Return a value in which 1, 1.0 and True differ, and the order of names does not matter."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return (type(value), value)


# Changes


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "lzf"},
        {"chunks": None},
        {"scaleoffset": 0},
        {"fletcher32": True, "compression": "gzip", "shuffle": True},
        {"compression": 32008, "compression_opts": (0, 2)},
    ],
    ids=str,
)
def test_what_others_made_is_written_into_as_they_made_it(
    path: str, options: dict[str, Any]
) -> None:
    x = X.copy()
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=x, **{"chunks": (3, 4, 5), **options})
    array = open_array(path, "v", mode="r+")
    array[2:4, :, 3] = x[2:4, :, 3] = 99
    array.write_chunk((0,) * 3, np.full(array.chunks, 4, "u2"))
    x[tuple(map(slice, array.chunks))] = 4
    with h5py.File(path) as file:
        assert (file["v"][...] == x).all()
    assert (open_array(path, "v")[...] == x).all()
    if array.chunks == X.shape:
        with pytest.raises(MetadataError, match="copy it to a new array"):
            array.resize((6, 7, 9))


def test_no_node_is_created_inside_an_array(path: str) -> None:
    to_n5(X, path, "a/v")
    with pytest.raises(NodeExistsError):
        to_n5(X, path, "a/v/w")
    to_n5(X[:2], path, "a/v", mode="w", chunks=2)
    assert open_array(path, "a/v").shape == (2, 7, 9)
    del open_group(path, mode="r+")["a"]
    with h5py.File(path) as file:
        assert not list(file)


def with_digests(*args: Any, **options: Any) -> None:
    with set_options(checksums=True):
        to_n5(*args, **options)


@pytest.mark.matrix(6)
@pytest.mark.skipif(sys.platform == "win32", reason="links take a privilege there")
@pytest.mark.parametrize("where", ["away", "beside"])
@pytest.mark.parametrize(
    "write",
    [
        lambda path: to_n5(X, path, "Documents"),
        lambda path: to_n5(X, path, "Documents", mode="w"),
        lambda path: to_n5(X, path, "v", mode="w"),
        lambda path: with_digests(X, path, "v", mode="w"),
        lambda path: to_n5(X, path, "v", region=(slice(0, 5), slice(0, 7), slice(0, 9))),
        lambda path: to_n5(X, path, "v", resume=True),
        lambda path: open_group(path, mode="r+").__delitem__("v"),
        lambda path: repair(path, "v"),
        lambda path: to_n5(X, Path(path).rename(f"{path}.moved").with_suffix(""), "v"),
    ],
    ids=["new", "new w", "w", "checksums", "region", "resume", "delete", "repair", "new file"],
)
def test_a_link_named_like_the_hidden_directory_is_never_followed(
    path: str, tmp_path: Path, where: str, write: Any
) -> None:
    to_n5(X, path, "v", chunks=4)
    home = tmp_path / ("home" if where == "beside" else "away/home")
    record = f"open-{'0' * 16}-01234567@0-1,0-2,0-2.json"
    notes, row = "notes-01234567/0.0.0", f"done/{'0' * 16}@0-1,0-2,0-2"
    own = [f".xn5/{name}" for name in (record, notes, row, "digests.npz")] + ["thesis.odt"]
    for name in [*(f"v/{each}" for each in own), "Documents/thesis.odt", ".a.h5.partial"]:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}")
    (home / "v/empty").mkdir()
    before = sorted(home.rglob("*"))
    shutil.rmtree(tmp_path / ".a.h5.kept")
    (tmp_path / ".a.h5.kept").symlink_to(home)
    with pytest.raises(UnsafePathError, match=r"'\.a\.h5\.kept' .*; remove it"):
        write(path)
    assert sorted(home.rglob("*")) == before


# One writer


def test_a_cluster_must_not_write(path: str, cluster: Client) -> None:
    x = da.from_array(X, chunks=(3, 4, 5))
    with cluster.as_current(), pytest.raises(OneWriterError, match="2 worker processes"):
        to_n5(x, path, "v")
    assert not os.path.exists(path)  # noqa: PTH110
    lazy: Any = to_n5(x, path, "v", compute=False)
    with pytest.raises(OneWriterError, match="cannot write what"):
        cluster.compute(lazy).result()
    lazy.compute(scheduler="threads")
    assert (open_array(path, "v")[...] == X).all()


def test_other_processes_must_not_write(path: str) -> None:
    x = da.from_array(X, chunks=(3, 4, 5))
    with (
        dask.config.set(scheduler="processes"),
        pytest.raises(OneWriterError, match="'processes'"),
    ):
        to_n5(x, path, "v")
    assert not os.path.exists(path)  # noqa: PTH110


def test_a_file_that_is_open_elsewhere_is_left_alone(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_PATIENCE", 0.05)
    to_n5(X, path, "v")
    code = (
        "import h5py, sys\nf = h5py.File(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        with pytest.raises(OneWriterError, match="open"):
            open_array(path, "v", mode="r+")[0] = 1
        reader.communicate(b"")
    with h5py.File(path), pytest.raises(OneWriterError, match="open"):
        open_array(path, "v", mode="r+")[0] = 1
    open_array(path, "v", mode="r+")[0] = 1
    assert (open_array(path, "v")[0] == 1).all()


@pytest.mark.more
def test_a_killed_writer_leaves_whole_chunks(path: str) -> None:
    code = (
        "import sys, time, dask.array as da, xarray_n5\n"
        "def slow(b, block_info=None):\n"
        "    print(block_info[0]['chunk-location'], flush=True)\n    return b + 1\n"
        "x = da.zeros((400, 64, 64), chunks=(4, 64, 64), dtype='i4')\n"
        "x = x.map_blocks(slow, dtype='i4', name='slow')\n"
        "xarray_n5.to_n5(x, sys.argv[1], 'v', resume=True)\n"
    )
    for kill_after in (3, 20, 41) if EXHAUSTIVE else (20,):
        with Python("-c", code, path, stdout=PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(kill_after):
                writer.stdout.readline()
            writer.kill()
        found = verify(path, "v").compute()
        states = set(found["state"].to_numpy().flat)
        assert states <= {"ok", "missing"}, states
    assert Python("-c", code, path, stdout=DEVNULL).wait() == 0
    assert (open_array(path, "v")[...] == 1).all()


def test_others_read_while_threads_write(path: str) -> None:
    x = np.arange(1, 40_001, dtype="u4").reshape(200, 200)
    to_n5(np.zeros_like(x), path, "v", chunks=(10, 10), compression=None)
    code = (
        "import sys, xarray_n5\nseen = set()\n"
        "while True:\n"
        "    found = xarray_n5.open_array(sys.argv[1], 'v')[...]\n"
        "    assert ((found == 0) | (found == 1 + found.size * 0 + EXPECTED)).all()\n"
        "    if found.all():\n        break\n"
    ).replace("EXPECTED", "__import__('numpy').arange(40000).reshape(200, 200)")
    with Python("-c", code, path) as reader:
        array = open_array(path, "v", mode="r+")
        for index in np.ndindex(array.grid.counts):
            array.write_chunk(index, x[tuple(slice(10 * i, 10 * i + 10) for i in index)])
        assert reader.wait(240) == 0


# What reviews found


def test_attributes_of_others_stay_to_the_letter(path: str) -> None:
    kept: dict[str, Any] = {"config": '{"a": 1}', "bools": [True, False], "empty": np.zeros(0)}
    kept |= {"cube": np.zeros((2, 2, 2)), "long": "x" * 80_000, "n5": 5, "small": np.int8(3)}
    with h5py.File(path, "w", libver="latest") as file:
        v = file.create_dataset("v", data=np.arange(10), chunks=(5,))
        v.attrs.update({**kept, "pair": np.array([(1, 2.0)], "i4,f4"), "reference": v.ref})
    array = open_array(path, "v", mode="r+")
    array.attrs["new"] = {"deep": 1}
    array.attrs["newer"] = 2
    del array.attrs["new"]
    with h5py.File(path) as file:
        attributes = file["v"].attrs
        assert set(attributes) == {*kept, "pair", "reference", "newer"}
        assert attributes["small"].dtype == "i1"
        for key, value in kept.items():
            np.testing.assert_array_equal(attributes[key], value)


def test_an_attribute_called_like_the_version_is_its_users(path: str) -> None:
    create_group(path, attributes={"n5": "mine"})
    assert dict(open_group(path).attrs) == {"n5": "mine"}
    with h5py.File(path) as file:
        assert file.attrs["n5"] == "1.0.0"


def test_factors_of_bigdataviewer_do_not_become_attributes(path: str) -> None:
    with h5py.File(path, "w") as file:
        file["s00/resolutions"] = [[1.0, 1, 1]]
        file["t00000/s00/0/cells"] = np.zeros((2, 2, 2), "i2")
    array = open_array(path, "t00000/s00/0/cells", mode="r+")
    assert array.attrs["downsamplingFactors"] == [1, 1, 1]
    array.attrs["new"] = 1
    with h5py.File(path) as file:
        assert set(file["t00000/s00/0/cells"].attrs) == {"new"}


def test_chunks_at_the_ends_without_filters_are_right_for_all(path: str) -> None:
    ctypes = pytest.importorskip("ctypes")
    maps = Path("/proc/self/maps")
    lines = maps.read_text("utf-8").splitlines() if maps.exists() else []
    library = next(
        (line.split()[-1] for line in lines if "h5py" in line and "libhdf5-" in line), ""
    )
    if not library:
        pytest.skip("the HDF5 that h5py uses is not found")
    x = np.arange(100, dtype="i4").reshape(10, 10)
    with h5py.File(path, "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4, 4))
        plist.set_shuffle()
        plist.set_deflate(4)
        set_options = ctypes.CDLL(library).H5Pset_chunk_opts
        set_options.argtypes = [ctypes.c_int64, ctypes.c_uint]
        assert set_options(plist.id, 2) >= 0
        space = h5py.h5s.create_simple(x.shape)
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, space, plist)
        file["v"][...] = x
    assert (open_array(path, "v")[...] == x).all()
    open_array(path, "v", mode="r+")[...] = x + 1
    with h5py.File(path) as file:
        assert (file["v"][...] == x + 1).all()


def _of_equal_sizes(path: str, size: int) -> tuple[Any, np.ndarray]:
    """Return an array of one chunk, and values of it that take as many bytes with gzip."""
    array = create_array(path, "a", shape=(size,), dtype="u1", chunks=size, compression="gzip")
    noise = np.random.default_rng(0).integers(0, 256, size).astype("u1")
    for zeros in range(1, size):
        values = np.where(np.arange(size) < size - zeros, noise, 0).astype("u1")
        array[:] = values
        if h5py.File(path)["a"].id.get_chunk_info(0).size == size:
            return array, values
    raise AssertionError("no values found")


def test_a_deleted_chunk_is_written_again_whatever_bytes_it_takes(path: str) -> None:
    array, values = _of_equal_sizes(path, 256)
    array.delete_chunk((0,))
    with h5py.File(path) as file:
        assert not file["a"][:].any()
    assert not open_array(path, "a")[:].any()
    array[:] = values
    with h5py.File(path) as file:
        assert (file["a"][:] == values).all()
    assert (open_array(path, "a")[:] == values).all()


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\u2028", "ä\u0301/\n"])
def test_names_may_have_any_characters(path: str, name: str) -> None:
    with set_options(checksums=True):
        to_n5(da.arange(4, chunks=2), path, name)
    assert open_array(path, name)[...].tolist() == [0, 1, 2, 3]
    assert verify(path, name).compute().attrs["digests"] is True
    assert create_array(path, name, shape=(1,), dtype="u1", chunks=1, mode="w").shape == (1,)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("CLASS", [1, 2]),
        ("CLASS", "DIMENSION_SCALE"),
        ("NAME", 1),
        ("DIMENSION_LIST", [1, 2]),
        ("REFERENCE_LIST", "text"),
        ("DIMENSION_LABELS", 5),
        ("DIMENSION_LABELS", ["one"]),
        ("DIMENSION_LABELS", ["one", 2]),
        ("_Netcdf4Dimid", 5),
    ],
)
def test_attributes_that_hdf5_keeps_for_itself_are_refused(path: str, key: str, value: Any) -> None:
    array = create_array(path, "a", shape=(2, 2), dtype="u1", chunks=2)
    with pytest.raises(MetadataError, match=f"HDF5 reserves the attribute '{key}'"):
        array.attrs[key] = value
    with pytest.raises(MetadataError, match=f"HDF5 reserves the attribute '{key}'"):
        create_array(path, "b", shape=(2, 2), dtype="u1", chunks=2, attributes={key: value})
    assert sorted(open_group(path)) == ["a"]
    allowed = {"CLASS": "IMAGE", "NAME": "mine", "DIMENSION_LABELS": ["y", ""]}
    array.attrs.update(allowed)
    assert dict(open_array(path, "a").attrs) == allowed
    assert [axis.name for axis in open_array(path, "a").axes] == ["y", None]


@pytest.mark.parametrize("size", [0, 8, 96])
@pytest.mark.parametrize("options", [{"resume": True}, {"mode": "w"}])
def test_a_file_whose_first_writer_was_killed_at_once_is_begun_anew(
    path: str, size: int, options: dict[str, Any]
) -> None:
    with h5py.File(path, "w"):
        pass
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:size])
    with pytest.raises(NodeNotFoundError):
        open_array(path, "a")
    to_n5(np.arange(4), path, "a", **options)
    assert open_array(path, "a")[...].tolist() == [0, 1, 2, 3]
    visible = [each.name for each in Path(path).parent.iterdir() if each.name[0] != "."]
    assert visible == ["a.h5"]


def test_a_file_that_holds_anything_is_never_begun_anew(path: str) -> None:
    with h5py.File(path, "w") as file:
        file["precious"] = np.arange(1000)
    whole = Path(path).read_bytes()
    for size in (97, 800, len(whole) // 2, len(whole) - 1):
        Path(path).write_bytes(whole[:size])
        for mode in ("w-", "w"):
            with pytest.raises(MetadataError, match="HDF5 cannot open it"):
                to_n5(np.arange(4), path, "a", mode=mode)
        assert Path(path).read_bytes() == whole[:size]


def test_a_new_file_is_never_seen_half_made(path: str) -> None:
    """A writer is killed before, or right after, the file gets its name."""
    code = (
        "import os, sys, xarray_n5\n"
        "def link(*args, real=os.link, named=sys.argv[2] == 'named'):\n"
        "    real(*args) if named else None\n"
        "    os._exit(1)\n"
        "os.link = link\n"
        "xarray_n5.create_array(sys.argv[1], 'a', shape=(4,), dtype='u1', chunks=2)\n"
    )
    folder = Path(path).parent
    assert Python("-c", code, path, "no name").wait() == 1
    assert not Path(path).exists()
    create_array(path, "a", shape=(4,), dtype="u1", chunks=2)
    assert [each.name for each in folder.iterdir()] == ["a.h5"]
    Path(path).unlink()
    assert Python("-c", code, path, "named").wait() == 1
    with h5py.File(path) as file:
        assert list(file.attrs) == ["n5"]
    assert create_array(path, "a", shape=(4,), dtype="u1", chunks=2)[...].tolist() == [0] * 4


@pytest.mark.parametrize("there", [False, True], ids=["new", "replaced in place"])
@pytest.mark.parametrize("removed", ["repaired", "deleted"])
def test_chunks_that_are_removed_from_an_unfinished_write_are_written_again(
    path: str, removed: str, *, there: bool
) -> None:
    """HDF5 keeps chunks that are removed, so they look as if they had been written."""
    values = np.arange(1, 401).reshape(20, 20)
    fails, left = True, 12

    def block(part: np.ndarray) -> np.ndarray:
        nonlocal left
        left -= 1
        if fails and left < 0:
            raise RuntimeError("stopped")
        return part

    def write() -> None:
        source = da.from_array(values, chunks=5)
        same = source.map_blocks(block, dtype=source.dtype, name="same", meta=values[:0, :0])
        mode: Any = "r+" if there else "w-"
        with dask.config.set(scheduler="synchronous"):
            to_n5(same, path, "a", mode=mode, resume=True)

    if there:
        to_n5(da.zeros((20, 20), chunks=5, dtype=values.dtype), path, "a")
    with pytest.raises(RuntimeError, match="stopped"):
        write()
    fails = False
    stored = sorted(_unfinished(path).node.stored_chunks())
    if removed == "deleted":
        _unfinished(path, mode="r+").delete_chunk((0, 1))
        _unfinished(path, mode="r+").delete_chunk((3, 3))
    else:
        damaged = {stored[0], stored[-1]}
        _damage(path, damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWriteWarning)
            assert repair(path, "a").attrs["repaired"] == len(damaged)
    write()
    assert (open_array(path, "a")[...] == values).all()
    assert not verify(path, "a").compute().attrs["unfinished"]


def _unfinished(path: str, mode: Any = "r") -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfinishedWriteWarning)
        return open_array(path, "a", mode=mode)


def _damage(path: str, chosen: set[Any]) -> None:
    """Overwrite the first bytes of stored chunks."""
    with h5py.File(path) as file:
        starts = [tuple(5 * place for place in index) for index in chosen]
        chunks = [file["a"].id.get_chunk_info_by_coord(start) for start in starts]
    with Path(path).open("r+b") as raw:
        for chunk in chunks:
            raw.seek(chunk.byte_offset)
            raw.write(b"\xff" * min(20, chunk.size))  # not of the next one
