"""What other programs really read: TensorStore here, others in a Python of their own.

``python -m tests.support.other_readers PYTHON`` records in ``tests/data/fibsem-tools.json`` what
fibsem-tools reads of the corpus, and of the containers of ``doctor/test_doctor.py``; `PYTHON` has
it.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import tensorstore as ts
import xarray as xr

from xarray_n5.doctor import examine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RECORD = Path(__file__).parents[1] / "data" / "fibsem-tools.json"
"""What fibsem-tools reads of each array that it opens; the tests do not depend on it."""

Axes: TypeAlias = "list[list[Any]] | None"
"""Name, scale, offset and unit of each axis, None for what is not read; None if not opened."""

Arrays: TypeAlias = "list[tuple[str, Path, str]]"
"""The format, the container and the path of arrays."""

ZARR2 = """
import json, sys, warnings
warnings.simplefilter("ignore")
import zarr

def axes(form, url, path):
    try:
        store = zarr.N5FSStore(url) if form == "n5" else url
        array = zarr.open_array(store, mode="r", path=path or None)
    except Exception:
        return None
    return [[None, None, None, None]] * array.ndim

print(json.dumps([axes(*each) for each in json.load(sys.stdin)]))
"""

FIBSEM = """
import json, os, sys, tempfile, warnings
warnings.simplefilter("ignore")
from fibsem_tools import read_xarray

def axis(array, dim):
    if dim not in array.coords:
        return [dim, None, None, None]
    values, attrs = array.coords[dim].values, array.coords[dim].attrs
    step = float(values[1] - values[0]) if values.size > 1 else None
    return [dim, step, float(values[0]), attrs.get("units", attrs.get("unit"))]

def axes(number, form, url, path):
    link = os.path.join(folder, f"{number}.{'n5' if form == 'n5' else 'zarr'}")
    os.symlink(url, link)  # the name must end like that
    try:
        array = read_xarray(os.path.join(link, path) if path else link)
        return [axis(array, dim) for dim in array.dims]
    except BaseException:
        return None

with tempfile.TemporaryDirectory() as folder:
    print(json.dumps([axes(n, *each) for n, each in enumerate(json.load(sys.stdin))]))
"""


def run(python: str, script: str, arrays: Arrays) -> list[Axes]:
    """Run a script for all arrays."""
    data = json.dumps([(form, str(url), path) for form, url, path in arrays])
    done = subprocess.run(  # noqa: S603 - the scripts are those above
        [python, "-c", script], input=data, capture_output=True, text=True, check=True
    )
    return cast("list[Axes]", json.loads(done.stdout))


def read_with_tensorstore(form: str, url: Path, path: str) -> Axes:
    """The labels and units of an array in C order."""
    driver = {"n5": "n5", "zarr2": "zarr", "zarr3": "zarr3"}[form]
    place = {"driver": "file", "path": f"{url / path}/"}
    try:
        array = ts.open({"driver": driver, "kvstore": place}).result()
    except ValueError:
        return None
    found = [
        [name or None, *((unit.multiplier, None, unit.base_unit or None) if unit else (None,) * 3)]
        for name, unit in zip(array.domain.labels, array.dimension_units, strict=True)
    ]
    return found[::-1] if form == "n5" else found


def examined(url: Path, path: str = "", **options: Any) -> Iterator[xr.Dataset]:
    """Iterate over the Datasets of `doctor`, one for each image."""
    found = examine(url, path, **options)
    if isinstance(found, xr.Dataset):
        yield found
        return
    yield from (node.to_dataset() for node in found.subtree if node.has_data)


def axes_of(dataset: xr.Dataset, reader: str, level: int) -> Axes:
    """What `doctor` says that a program reads of a level."""
    seen = dataset.sel(reader=reader).isel(level=level)
    if not seen.opens:
        return None
    columns = (seen[key].values.tolist() for key in ("name", "scale", "offset", "unit"))
    return [[_given(each) for each in row] for row in zip(*columns, strict=True)]


def _given(value: Any) -> Any:
    return None if value == "" or (isinstance(value, float) and math.isnan(value)) else value


@dataclass(frozen=True)
class Containers:
    """Containers by name, and what `doctor` says about their images."""

    urls: Mapping[str, Path]
    images: Mapping[str, Sequence[xr.Dataset]]

    @classmethod
    def at(cls, urls: Mapping[str, Path]) -> Containers:
        """Examine containers."""
        return cls(urls, {name: list(examined(url)) for name, url in urls.items()})

    def verdicts(self, reader: str, *forms: str) -> dict[tuple[str, str], Axes]:
        """What a program is said to read of all arrays in some formats, by name and path."""
        return {
            (name, str(path)): axes_of(dataset, reader, level)
            for name, datasets in self.images.items()
            for dataset in datasets
            for level, path in enumerate(dataset.array.values)
            if form_of(self.urls[name], str(path)) in forms
        }

    def arrays(self, found: Mapping[tuple[str, str], Axes]) -> Arrays:
        """The arrays of verdicts, with their formats."""
        urls = self.urls
        return [(form_of(urls[name], path), urls[name], path) for name, path in found]


def form_of(url: Path, path: str) -> str:
    """The format of an array."""
    documents = {"attributes.json": "n5", ".zarray": "zarr2", "zarr.json": "zarr3"}
    return next((form for name, form in documents.items() if (url / path / name).exists()), "hdf5")


def close(axes: Axes, real: Axes) -> bool:
    """Whether axes are the same; of a single sample, a program has no scale."""
    if axes is None or real is None or len(axes) != len(real):
        return axes is real
    return all(_alike(*pair) for pair in zip(axes, real, strict=True))


def _alike(axis: Sequence[Any], real: Sequence[Any]) -> bool:
    pairs = zip(axis[1:3], real[1:3], strict=True)
    numbers = all(a is None or b is None or math.isclose(a, b, abs_tol=1e-9) for a, b in pairs)
    return axis[0] == real[0] and axis[3] == real[3] and numbers


def record(python: str) -> None:
    """Write what fibsem-tools reads."""
    from tests.doctor import test_doctor

    shown: dict[str, dict[str, Axes]] = {}
    with tempfile.TemporaryDirectory() as folder:
        urls = test_doctor.corpus_containers(whole=True) | test_doctor.write_all(Path(folder))
        containers = Containers.at(urls)
        found = containers.verdicts("fibsem_tools", "n5", "zarr2")
        real = run(python, FIBSEM, containers.arrays(found))
    for (name, path), axes in zip(found, real, strict=True):
        if axes is not None:
            shown.setdefault(name, {})[path] = axes
    version = "import importlib.metadata as m; print(m.version('fibsem-tools'))"
    done = subprocess.run([python, "-c", version], capture_output=True, text=True, check=True)  # noqa: S603
    facts = {"fibsem-tools": done.stdout.strip(), "opens": shown}
    RECORD.write_text(re.sub(r"\s*\n\s{4,}|\n {3}(?=\])", "", json.dumps(facts, indent=1)) + "\n")


if __name__ == "__main__":
    record(sys.argv[1])
