"""What is written as Zarr v2, in every layout, others read: each as far as it can."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import xarray_n5
from tests.support import compressions
from tests.support.exhaustive import EXHAUSTIVE, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

zarr = pytest.importorskip("zarr")

NUMBERS = ("|u1", "<u2", ">u4", "<u8", "|i1", ">i2", "<i4", "<i8", "<f4", ">f8")
OTHERS = ("|b1", "<f2", "<c8", "|S3", "<U3", "<M8[s]", "<m8[ms]", "|V4", "struct", "nested", "|O")

COMPRESSIONS: Mapping[str, Any] = {
    **{name: name for name in compressions.NAMES},
    "zlib": compressions.ZLIB,
}

FILTERS: Mapping[str, Any] = {
    "none": None,
    "delta": [{"id": "delta", "dtype": "<i4"}],
    "shuffle": [{"id": "shuffle", "elementsize": 4}],
    "crc32": [{"id": "crc32"}],
    "delta-zlib": [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}],
}

SHAPES = {"exact": (6, 4), "edges": (5, 7), "none": (0, 3), "one": ()}


class Case(NamedTuple):
    """One array of the matrix."""

    dtype: str = "<i4"
    compression: str = "gzip"
    filters: str = "none"
    order: str = "C"
    separator: str = "."
    shape: str = "edges"

    @property
    def name(self) -> str:
        """What the array is called."""
        return "_".join(self).translate(str.maketrans("<>|[]./", "lbn--ds"))


def cases() -> Iterator[Case]:
    """All types in all layouts; compressions and filters of some."""
    for dtype in (*NUMBERS, *OTHERS):
        for order in "CF":
            for separator in "./":
                for shape in SHAPES:
                    yield Case(dtype, order=order, separator=separator, shape=shape)
    for dtype in ("<i4", ">f8", "<U3", "|O"):
        for compression in COMPRESSIONS:
            yield Case(dtype, compression)
    for filters in FILTERS:
        for order in "CF":
            yield Case(filters=filters, order=order)


EVERY_CASE = [*cases()]

CASES = {
    case.name: case
    for case in (EVERY_CASE if EXHAUSTIVE else spread(EVERY_CASE, len(EVERY_CASE) // 3))
}

STRUCTURES = {
    "struct": [("a", "<i4"), ("b", "|S2"), ("c", "<f8")],
    "nested": [("a", "<i4", (2,)), ("b", [("c", ">f8")])],
}


def values(case: Case) -> np.ndarray:
    """Any bits that numbers can have; texts, times and structures of them."""
    shape = SHAPES[case.shape]
    numbers = np.arange(1, 1 + int(np.prod(shape)), dtype="<i8").reshape(shape)
    if case.dtype == "|O":
        texts = np.empty(shape, object)
        for place in np.ndindex(shape):
            texts[place] = "é" * (int(numbers[place]) % 4)
        return texts
    kind: Any = STRUCTURES.get(case.dtype, case.dtype)
    dtype: np.dtype[Any] = np.dtype(kind)
    if dtype.kind == "V":
        rows = np.random.default_rng(0).integers(0, 99, (*shape, dtype.itemsize), "u1")
        found: np.ndarray = np.ascontiguousarray(rows).view(dtype)[..., 0]
        return found
    return np.asarray(numbers % 100).astype(dtype)


SCRIPT = """
import hashlib, json, sys
import numpy as np

def digest(found):
    found = np.asarray(found)
    if found.dtype.kind in "OTUS":
        plain = [each.decode() if isinstance(each, bytes) else each for each in found.flat]
        return f"{found.shape} " + hashlib.sha256(json.dumps(plain).encode()).hexdigest()
    little = np.ascontiguousarray(found).astype(found.dtype.newbyteorder("<"))
    return f"{found.shape} {little.dtype.str} {hashlib.sha256(little.tobytes()).hexdigest()}"

def tried(read, container, names):
    found = {}
    for name in names:
        try:
            found[name] = digest(read(container + "/" + name))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"[:300]
    return found
"""
"""What reads arrays here, and in another Python: digests, or why there are none."""

ZARR2 = """
import warnings
import zarr
warnings.simplefilter("ignore")
names = json.load(sys.stdin)
read = lambda path: zarr.open_array(path, mode="r")[...]
print(json.dumps(tried(read, sys.argv[1], names)))
"""

_HERE: dict[str, Any] = {}
exec(SCRIPT, _HERE)  # noqa: S102 - the text above

TIMES = ("<M8[s]", "<m8[ms]")

Refusal = tuple[str, "Callable[[Case], bool]"]

REFUSALS: Mapping[str, tuple[Refusal, ...]] = {
    "xarray_n5": (),
    "zarr 3": (("no arrays in fields", lambda case: case.dtype == "nested"),),
    "zarr 2": (),
    "tensorstore": (
        (
            "no texts, times, structures or objects",
            lambda case: case.dtype in {*TIMES, "<U3", "|O", "struct", "nested"},
        ),
        ("bytes have an axis more", lambda case: case.dtype in {"|S3", "|V4"}),
        ("no filters", lambda case: case.filters != "none"),
        ("neither lzma nor lz4", lambda case: case.compression in {"xz", "lz4"}),
    ),
    "z5py": (
        ("numbers alone", lambda case: case.dtype not in NUMBERS),
        ("no big-endian ones", lambda case: ">" in case.dtype),
        ("no lzma, and an lz4 of its own", lambda case: case.compression in {"xz", "lz4"}),
        ("no order F", lambda case: case.order == "F"),
        ("no filters", lambda case: case.filters != "none"),
        ("at least one axis", lambda case: case.shape == "one"),
    ),
}
"""What readers do not take of Zarr v2, and which arrays that are."""


def read_with_zarr2(container: Path) -> dict[str, str]:
    made = Path(__file__).parents[2] / ".venv-zarr2/bin/python"
    python = os.environ.get("N5_ZARR2_PYTHON") or (str(made) if made.exists() else None)
    if python is None:
        pytest.skip("no zarr-python 2: run ci/zarr2, or set N5_ZARR2_PYTHON to a Python with it")
    done = subprocess.run(  # noqa: S603 - the script is the one above
        [python, "-c", SCRIPT + ZARR2, str(container)],
        input=json.dumps(list(CASES)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def read_here(read: Callable[[str], Any], container: Path) -> dict[str, str]:
    found: dict[str, str] = _HERE["tried"](read, str(container), list(CASES))
    return found


def _tensorstore(path: str) -> Any:
    tensorstore = pytest.importorskip("tensorstore")
    place = {"driver": "file", "path": path}
    return tensorstore.open({"driver": "zarr", "kvstore": place}).result().read().result()


def _z5py(path: str) -> Any:
    z5py = pytest.importorskip("z5py")
    folder, _, name = path.rpartition("/")
    return z5py.File(folder, mode="r", use_zarr_format=True)[name][...]


READERS: Mapping[str, Callable[[Path], dict[str, str]]] = {
    "xarray_n5": lambda place: read_here(lambda path: xarray_n5.open_array(path)[...], place),
    "zarr 3": lambda place: read_here(
        lambda path: zarr.open_array(path, mode="r", zarr_format=2)[...], place
    ),
    "zarr 2": read_with_zarr2,
    "tensorstore": lambda place: read_here(_tensorstore, place),
    "z5py": lambda place: read_here(_z5py, place),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A container with all arrays, and their digests."""
    container = tmp_path_factory.mktemp("matrix")
    digests = {}
    for name, case in CASES.items():
        data = values(case)
        layout = {
            "order": case.order,
            "dimension_separator": case.separator,
            "filters": FILTERS[case.filters],
        }
        if case.dtype not in STRUCTURES:
            layout["dtype"] = case.dtype
        xarray_n5.to_n5(
            data, container, name, format="zarr2", layout=layout,
            chunks=tuple(min(3, max(1, size)) for size in data.shape),
            compression=COMPRESSIONS[case.compression],
        )  # fmt: skip
        digests[name] = _HERE["digest"](data)
    return container, digests


@pytest.mark.more
@pytest.mark.parametrize(
    "reader",
    [
        name if name != "zarr 2" else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in READERS
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_all_that_a_reader_knows_it_reads_exactly(
    reader: str, written: tuple[Path, dict[str, str]]
) -> None:
    container, expected = written
    found = READERS[reader](container)
    for name, case in CASES.items():
        why = [reason for reason, refuses in REFUSALS[reader] if refuses(case)]
        if why:
            assert found[name] != expected[name], (name, why)
        else:
            assert found[name] == expected[name], (name, found[name])
