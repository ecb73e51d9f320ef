"""Damaged and hostile HDF5 files: right data or an error of the package, in bounded memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zlib
from collections import Counter
from contextlib import suppress
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import dask.array as da
import h5py
import numpy as np
import pytest
import xarray as xr

from tests.support.exhaustive import cases
from tests.support.memory import OWN_PEAK
from tests.support.processes import Python
from xarray_n5 import ChunkError, MetadataError, N5Error, open_array, to_n5
from xarray_n5.errors import PathError
from xarray_n5.hangar import from_hangar, to_hangar

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("hdf5plugin")
pytest.importorskip("resource")

SEEDS = cases(6, 100)

_MEMORY = 4 << 30
"""Bytes of address space of a process that reads damaged files."""

_SECONDS = 40
"""How long one file may take; the process is ended then, wherever it is."""

READ = """
import os, random, signal, sys, warnings
import xarray_n5
warnings.simplefilter("ignore")
good, folder = open(sys.argv[1], "rb").read(), sys.argv[2]

def mutated(seed):
    dice, data = random.Random(seed), bytearray(good)
    if dice.random() < 0.1:
        data = data[: dice.randrange(len(data))]
    for _ in range(dice.randrange(1, 20) if data else 0):
        place = dice.randrange(len(data) if dice.random() < 0.5 else min(len(data), 6000))
        data[place] = dice.choice([0, 255, 1, 0x7F, 0x80, dice.randrange(256)])
    path = f"{folder}/{seed}.h5"
    with open(path, "wb") as file:
        file.write(data)
    return path

def attempt(ask):
    try:
        ask()
    except xarray_n5.N5Error:
        return "refused"
    except Exception as error:
        print("odd", seed, type(error).__name__, str(error)[:100], flush=True)
        return "odd"
    return "read"

def read(path, name):
    node = xarray_n5.open_group(path)[name]
    if isinstance(node, xarray_n5.Array):
        if node.size < 1 << 20:
            assert node[...].shape == node.shape
            xarray_n5.verify(path, name).compute()
    else:
        list(node)
    dict(node.attrs)

for seed in range(int(sys.argv[3]), int(sys.argv[4])):
    print("seed", seed, flush=True)
    path = mutated(seed)
    signal.alarm(SECONDS)
    names = []
    found = [attempt(lambda: names.extend(xarray_n5.open_group(path)))]
    found += [attempt(lambda: read(path, name)) for name in names]
    found.append(attempt(lambda: repr(xarray_n5.open_group(path))))
    signal.alarm(0)
    print("found", *found, flush=True)
    os.unlink(path)
"""

LIMITED = f"""
import os, resource
os.nice(10)
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY}, {_MEMORY}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""


def _run(code: str, *arguments: object) -> tuple[int, list[str]]:
    """Return the exit code, and the lines that were printed."""
    limited = LIMITED + code.replace("SECONDS", str(_SECONDS))
    done = Python("-c", limited, *arguments, stdout=PIPE, stderr=PIPE)
    printed, problems = done.communicate()
    return done.wait(), [*printed.splitlines(), *problems.splitlines()[-2:]]


def _good(path: Path) -> None:
    """Make a file with one dataset of each kind."""
    x = np.arange(4096, dtype="u2")
    with h5py.File(path, "w") as file:
        cube = x.reshape(16, 16, 16)
        gzip = {"compression": "gzip", "shuffle": True}
        file.create_dataset("a", data=cube, chunks=(8, 8, 8), **gzip)
        file["a"].attrs["units"] = "um"
        file["a"].attrs["list"] = [1, 2, 3]
        file["b"] = np.arange(512, dtype="u1")
        file.create_dataset("c", data=x.reshape(64, 64), chunks=(16, 16), fletcher32=True)
        file["t"] = ["x", "yy", "zzz"]
        file["g/h"] = np.ones(3)
        file.attrs["N5_JSON_ROOT"] = '{"x":[1]}'
        file.create_dataset("lz", data=x, chunks=(512,), compression="lzf")
        file.create_dataset("grows", data=x, chunks=(512,), maxshape=(None,), **gzip)
        file["comp"] = np.zeros(4, [("x", "i4"), ("y", "S3")])
        file["a"].dims[0].attach_scale(file["b"])
        file["soft"] = h5py.SoftLink("/g/h")


@pytest.mark.more
@pytest.mark.timeout(0 if SEEDS > 100 else 300)
def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    good = tmp_path / "good.h5"
    _good(good)
    counts: Counter[str] = Counter()
    odd: list[str] = []
    ended: list[int] = []
    seed = 0
    while seed < SEEDS:
        code, lines = _run(READ, good, tmp_path, seed, min(seed + 250, SEEDS))
        for line in lines:
            kind, *rest = line.split(" ", 1)
            counts.update(rest[0].split() if kind == "found" and rest else [])
            odd += [line] if kind == "odd" else []
        last = max([int(line[5:]) for line in lines if line.startswith("seed ")], default=seed)
        if code:
            ended.append(last)
            assert code in {-14, -11, -6, -7}, lines[-2:]  # a time limit, or a signal in HDF5
        seed = last + 1
    print(dict(counts), "ended:", ended)  # noqa: T201 - the numbers of the exhaustive run
    assert not odd, odd[:5]
    assert counts["refused"]
    assert counts["read"]
    # What ends, or stops, the process is HDF5.
    assert len(ended) <= SEEDS // 500


# Filters, which get the bytes of damaged chunks

FILTERED = """
import random, signal, sys, warnings
import h5py, hdf5plugin, numpy as np, xarray_n5
warnings.simplefilter("ignore")
path, count = sys.argv[1], int(sys.argv[2])
with h5py.File(path) as file:
    chunks = {name: file[name].id.get_chunk_info(0) for name in sys.argv[3:]}
good = open(path, "rb").read()
for name, chunk in chunks.items():
    for seed in range(count):
        print("try", name, seed, flush=True)
        dice, data = random.Random(f"{name} {seed}"), bytearray(good)
        room = min(chunk.size, 24) if dice.random() < 0.4 else chunk.size
        for _ in range(dice.choice([1, 2, 3, 8, 30])):
            value = dice.choice([0, 1, 127, 128, 255, dice.randrange(256)])
            data[chunk.byte_offset + dice.randrange(room)] = value
        with open(f"{path}.damaged", "wb") as file:
            file.write(data)
        signal.alarm(SECONDS)
        try:
            assert xarray_n5.open_array(f"{path}.damaged", name)[...].shape == (64, 64)
        except xarray_n5.ChunkError as error:
            print("refused", name)
        signal.alarm(0)
"""


def test_a_damaged_chunk_of_any_filter_is_read_or_a_chunk_error(tmp_path: Path) -> None:
    """The filters that are undone here; the others are as safe as hdf5plugin's."""
    import hdf5plugin

    url = tmp_path / "a.h5"
    values = (np.add.outer(np.arange(64), np.arange(64) ** 1.5) % 1000).astype("u2")
    filters: dict[str, Any] = {
        "gzip": {"compression": "gzip", "shuffle": True},
        "bzip2": hdf5plugin.BZip2(),
        "blosc": hdf5plugin.Blosc(),
        "zstd": hdf5plugin.Zstd(),
    }
    of_plugins: dict[str, Any] = {
        "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
        "bitshuffle-lz4": hdf5plugin.Bitshuffle(),
        "bitshuffle-zstd": hdf5plugin.Bitshuffle(cname="zstd", nelems=64),
        "lz4": hdf5plugin.LZ4(nbytes=1000),
        "blosc2": hdf5plugin.Blosc2(),
    }
    with h5py.File(url, "w") as file:
        for name, options in {**filters, **of_plugins}.items():
            file.create_dataset(name, data=values, chunks=(64, 64), **options)
    for name in (*filters, *of_plugins):
        np.testing.assert_array_equal(open_array(url, name)[...], values, name)
    code, lines = _run(FILTERED, url, cases(4, 40), *filters)
    assert code == 0, lines[-3:]
    refused = {line.removeprefix("refused ") for line in lines if line.startswith("refused ")}
    assert refused >= set(filters)


def test_a_filter_that_hangar_does_not_use_is_refused(tmp_path: Path) -> None:
    import hdf5plugin

    to_hangar(np.ones((3, 4), "u1"), tmp_path)
    (path,) = tmp_path.glob("*.hdf5")
    with h5py.File(path, "r+") as file:
        before = file["0"]
        shape, chunks, dtype = before.shape, before.chunks, before.dtype
        del file["0"]
        file.create_dataset("0", shape, dtype, chunks=chunks, **hdf5plugin.Bitshuffle())
    with pytest.raises(MetadataError, match=r"has filters \[32008\], unlike Hangar's"):
        from_hangar(path)


def test_times_of_an_invalid_unit_are_refused(tmp_path: Path) -> None:
    """h5py takes the types of opaque elements from tags; a unit of zero ends the process."""
    url = tmp_path / "a.h5"
    tags = ("<M8[10s]", "<M8[0s]", "<m8[1s/0]", "<i4,<M8[00D]", "(2,)<m8[0ns]")
    kinds: dict[str, Any] = {}
    for number, tag in enumerate(tags):
        kinds[f"plain {number}"] = kind = h5py.h5t.create(h5py.h5t.OPAQUE, 8)
        kind.set_tag(b"NUMPY:" + tag.encode())
        kinds[f"part {number}"] = whole = h5py.h5t.create(h5py.h5t.COMPOUND, 16)
        whole.insert(b"x", 0, kind)
        kinds[f"array {number}"] = h5py.h5t.array_create(kind, (3,))
    with h5py.File(url, "w") as file:
        for name, kind in kinds.items():
            space = h5py.h5s.create_simple((4,))
            h5py.h5d.create(file.id, name.encode(), kind, space)
            h5py.h5a.create(file.id, name.encode(), kind, space)
    code = (
        "print(xarray_n5.open_array(sys.argv[1], 'plain 0')[...].dtype)\n"
        "print(*xarray_n5.open_group(sys.argv[1]).attrs)\n"
        "for name in sys.argv[2:]:\n"
        "    try: xarray_n5.open_array(sys.argv[1], name)[...]\n"
        "    except xarray_n5.MetadataError as error: print(error)"
    )
    bad = [name for name in kinds if not name.endswith("0")]
    status, lines = _run(f"import sys, xarray_n5\n{code}", url, *bad)
    assert status == 0, lines
    assert lines[0] == "datetime64[10s]"
    assert ["has no valid time unit" in line for line in lines[2:]] == [True] * len(bad)


# Sizes that files claim


def _peak(code: str, *arguments: object) -> tuple[int, list[str]]:
    """Return how many bytes a process takes more than importing does, and what it printed.

    What it imports is counted only once it is used, if the process is forked off another one.
    """
    measured = (
        f"import sys, xarray_n5, h5py, numcodecs.blosc\n{OWN_PEAK}\n"
        f"before = own_peak()\n{code}\nprint(own_peak() - before)"
    )
    command = [sys.executable, "-c", LIMITED + measured, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    return int(lines[-1]), lines


def _deflated(size: int) -> bytes:
    stream = zlib.compressobj(9)
    return b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(size >> 20)), stream.flush()])


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
def test_a_chunk_that_inflates_without_end_is_refused(tmp_path: Path) -> None:
    """Strings padded in another way are decoded by HDF5, which has no limit of its own."""
    url, stream = tmp_path / "a.h5", _deflated(1 << 26)[:60000]
    spaces = h5py.h5t.C_S1.copy()
    spaces.set_size(4)
    spaces.set_strpad(h5py.h5t.STR_SPACEPAD)
    types = {"numbers": "u1", "spaces": h5py.Datatype(spaces)}
    with h5py.File(url, "w") as file:
        for name, dtype in types.items():
            data = file.create_dataset(name, (64,), dtype, chunks=(64,), compression="gzip")
            data.id.write_direct_chunk((0,), stream)
    code = (
        "for name in sys.argv[2:]:\n"
        "    try: xarray_n5.open_array(sys.argv[1], name)[...]\n"
        "    except xarray_n5.ChunkError as error: print(error)"
    )
    peak, lines = _peak(code, url, *types)
    assert ["decode chunk" in line for line in lines[:2]] == [True] * 2
    assert peak < 16 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
def test_what_a_file_claims_and_does_not_hold_takes_no_memory(tmp_path: Path) -> None:
    url = tmp_path / "a.h5"
    with h5py.File(url, "w") as file:
        chunks = (1 << 14, 1 << 14)
        file.create_dataset("a", (1 << 31, 1 << 31), "f8", chunks=chunks, fillvalue=1.5)
        file.create_dataset("c", (1 << 31,), "f8")
    code = (
        "a = xarray_n5.open_array(sys.argv[1], 'a'); c = xarray_n5.open_array(sys.argv[1], 'c')\n"
        "assert (a[0, 0], c[5]) == (1.5, 0.0)\n"
        "assert not list(a.node.stored_chunks()) + list(c.node.stored_chunks())\n"
        "xarray_n5.from_n5(sys.argv[1], 'a'), repr(a), repr(c)"
    )
    assert _peak(code, url)[0] < 128 << 20  # a chunk has 2 GiB; imports take some


def test_a_chunk_larger_than_its_elements_is_refused(tmp_path: Path) -> None:
    url = tmp_path / "a.h5"
    with h5py.File(url, "w") as file:
        data = file.create_dataset("a", (64,), "u1", chunks=(8,), compression="gzip")
        for start in range(0, 64, 8):
            data.id.write_direct_chunk((start,), bytes(1 << 20))
    for index in [*range(8), *range(8)]:
        with pytest.raises(ChunkError):
            open_array(url, "a").read_chunk((index,))


@pytest.mark.parametrize("width", [1 << 31, 129, 65])
def test_a_damaged_width_of_elements_takes_no_time(tmp_path: Path, width: int) -> None:
    """The width by which bytes were shuffled is a number in the file."""
    url = tmp_path / "a.h5"
    with h5py.File(url, "w") as file:
        file.create_dataset("a", data=np.arange(64, dtype="u2"), chunks=(64,), shuffle=True)
    name, usual = b"shuffle\0", (2).to_bytes(4, "little")
    data = url.read_bytes()
    assert name + usual in data
    url.write_bytes(data.replace(name + usual, name + width.to_bytes(4, "little")))
    began = time.process_time()
    with suppress(N5Error):
        assert open_array(url, "a")[...].shape == (64,)
    assert time.process_time() - began < 5


@pytest.mark.more
@pytest.mark.parametrize("damage", ["truncated", "zeros"])
def test_damaged_files_of_hangar_are_refused(tmp_path: Path, damage: str) -> None:
    records = to_hangar(np.arange(60, dtype="u1").reshape(20, 3), tmp_path)
    (file,) = tmp_path.glob("*.hdf5")
    whole = file.read_bytes()
    for place in range(48, len(whole), len(whole) // cases(3, 12)):
        tail = b"" if damage == "truncated" else bytes(64) + whole[place + 64 :]
        file.write_bytes(whole[:place] + tail)
        for chosen in (records, None):
            try:
                found: Any = from_hangar(tmp_path, chosen).compute()
            except N5Error:
                continue
            assert chosen is None or (found == np.arange(60).reshape(20, 3)).all()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_a_pipe_that_is_called_like_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.h5")
    os.mkfifo(tmp_path / "b.hdf5")
    with pytest.raises((N5Error, OSError)):
        open_array(f"{tmp_path}/a.h5/v")
    with pytest.raises(N5Error, match="expected a regular file"):
        from_hangar(tmp_path / "b.hdf5")


def test_samples_behind_links_out_of_a_folder_are_refused(tmp_path: Path) -> None:
    """Hangar links within its repository; nothing leads out of it."""
    data, store = tmp_path / "repo/.hangar/data/00", tmp_path / "repo/.hangar/store_data/00"
    data.parent.mkdir(parents=True)
    store.mkdir(parents=True)
    to_hangar(np.ones((3, 4), "u1"), tmp_path / "home")
    (outer,) = (tmp_path / "home").glob("*.hdf5")
    (tmp_path / "home").rename(tmp_path / "elsewhere")
    data.mkdir()
    (data / outer.name).symlink_to(tmp_path / "elsewhere" / outer.name)
    for place in (tmp_path / "repo", data):
        with pytest.raises(PathError, match="a symbolic link"):
            from_hangar(place)
    assert from_hangar(data / outer.name).compute().all()  # named by the user
    (data / outer.name).unlink()
    (tmp_path / "elsewhere" / outer.name).rename(data / outer.name)
    (store / outer.name).symlink_to(data / outer.name)
    assert from_hangar(store).compute().all()


def test_errors_of_hangar_show_no_secrets(tmp_path: Path) -> None:
    url = "https://me:hush-hush@host/data?token=hush-hush"
    for ask in (lambda: from_hangar(url), lambda: to_hangar(np.ones((1, 2), "u1"), url)):
        with pytest.raises(PathError, match="local") as caught:
            ask()
        assert "hush" not in str(caught.value) + repr(caught.value.__dict__)
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("h5dump") is None, reason="h5dump, of HDF5's tools, not installed")
def test_h5dump_reads_what_is_written(tmp_path: Path) -> None:
    """Debian's is of HDF5 1.10, whose files others read."""
    url = tmp_path / "a.h5"
    xr.Dataset({"t": (("y", "x"), np.ones((4, 6)))}, {"x": np.arange(6)}).n5.to_n5(url)
    to_n5(da.arange(100, chunks=10), url, "g/a", compression="gzip")
    array = open_array(url, "g/a", mode="r+")
    array.resize((130,))
    array.attrs.update({"list": [1.5, 2.5], "text": "\u00e4", "object": {"a": [1]}})
    array.delete_chunk((0,))
    to_hangar(np.ones((3, 4), "u1"), tmp_path / "hangar")
    for file in (url, *(tmp_path / "hangar").glob("*.hdf5")):
        subprocess.run(["h5dump", "-H", str(file)], check=True, capture_output=True)  # noqa: S603,S607
    command = ["h5dump", "-d", "/g/a", str(url)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    assert " 99, 0, 0" in printed.stdout
