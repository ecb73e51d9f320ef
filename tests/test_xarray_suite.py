"""xarray's own tests of backends, over ``engine="n5"``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import xarray as xr
from xarray.tests.conftest import time_unit, use_dask
from xarray.tests.test_backends import CFEncodedBase

import xarray_n5  # noqa: F401 - its accessor writes

__all__ = ["time_unit", "use_dask"]

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestN5(CFEncodedBase):
    """Every test that xarray has for stores that encode by CF."""

    @contextlib.contextmanager
    def create_store(self) -> Iterator[Any]:
        """Not ours."""
        yield pytest.skip("xarray's engines only read: writing is an accessor's")

    def save(self, dataset: xr.Dataset, path: str, **kwargs: Any) -> Any:
        """Store a dataset."""
        kwargs.pop("unlimited_dims", None)
        mode = kwargs.pop("mode", "w")
        return dataset.n5.to_n5(path, mode=mode, **kwargs)

    @contextlib.contextmanager
    def open(self, path: str, **kwargs: Any) -> Iterator[xr.Dataset]:
        """Open it again."""
        with xr.open_dataset(path, engine="n5", **kwargs) as dataset:
            yield dataset

    def test_encoding_unlimited_dims(self) -> None:
        """Not ours."""
        pytest.skip("N5 has no unlimited dimensions: every array can be resized")
