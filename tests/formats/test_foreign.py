"""Everything of the corpus in HDF5 and Zarr v2, read as other programs read it."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import xarray as xr

from tests.conftest import CORPUS, NO_CORPUS
from tests.support.containers import digest
from xarray_n5 import from_n5, open_array
from xarray_n5.errors import UnknownCompressionError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(CORPUS is None, reason=NO_CORPUS),
    pytest.mark.filterwarnings("ignore"),
]


class Row(NamedTuple):
    """An array that another program wrote."""

    place: str
    path: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    digest: str | None
    """None where nobody agrees on the values."""

    @property
    def container(self) -> str:
        """What is tested together."""
        return self.place if self.path else str(PurePosixPath(self.place).parent)


def rows() -> list[Row]:
    if CORPUS is None:
        return []
    read = {name: json.loads((CORPUS / name).read_text("utf-8")) for name in MANIFESTS}
    hdf5, zarr = read["MANIFEST-hdf5.json"], read["MANIFEST.json"]["datasets"]
    return [
        *(Row(r["file"], r["dataset"], *facts(r)) for r in hdf5),
        *(Row(r["path"], "", *facts(r)) for r in zarr if r["format"] == "zarr2"),
    ]


def facts(row: dict[str, Any]) -> tuple[Any, ...]:
    chunks = row["chunks"] and tuple(row["chunks"])
    return tuple(row["shape"]), chunks, row.get("sha256_zyx")


MANIFESTS = ("MANIFEST-hdf5.json", "MANIFEST.json")

ROWS = rows()


@pytest.mark.matrix(6)
@pytest.mark.parametrize("container", sorted({row.container for row in ROWS}))
def test_everything_that_others_wrote_is_read_exactly(corpus: Path, container: str) -> None:
    for row in (row for row in ROWS if row.container == container):
        place = corpus / row.place
        if place.is_dir() and "json2" in (place / ".zarray").read_text("utf-8"):
            with pytest.raises(UnknownCompressionError, match="json2"):
                open_array(place)
            continue
        array = open_array(place, row.path)
        assert (array.shape, row.chunks or array.chunks) == (row.shape, array.chunks)
        strings = place.is_dir() and array.dtype.kind == "O"
        if row.digest is None or strings or array.size * array.dtype.itemsize > 1 << 28:
            continue
        assert digest(array[...]) == row.digest, row
        lazy = from_n5(place, row.path, chunks="auto" if place.is_dir() else None)
        assert digest(lazy.compute(scheduler="threads")) == row.digest, row
        with xr.open_dataset(place, engine="n5", group=row.path, decode_cf=False) as dataset:
            (variable,) = (v for v in dataset.variables.values() if "n5_compression" in v.encoding)
            assert digest(variable.to_numpy()) == row.digest, row


def test_every_array_is_tried() -> None:
    assert len(ROWS) == 134 + 381
    assert sum(row.digest is not None for row in ROWS) > 134 + 340
