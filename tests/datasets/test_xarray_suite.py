"""xarray's own tests of backends, over ``engine="n5"``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from xarray.tests.conftest import time_unit, use_dask
from xarray.tests.test_backends import MASK_AND_SCALE_DATA, CFEncodedBase

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
        """Store a dataset, as N5 where xarray calls the place `*.nc`."""
        kwargs.pop("unlimited_dims", None)
        kwargs.setdefault("format", "n5")
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


@pytest.mark.exhaustive  # as are the classes below, which inherit it
class TestZarr(TestN5):
    """The same for Datasets that are stored as Zarr v2."""

    form = "zarr2"

    def save(self, dataset: xr.Dataset, path: str, **kwargs: Any) -> Any:
        """Store a dataset."""
        return super().save(dataset, path, format=self.form, **kwargs)

    def test_encoding_kwarg_fixed_width_string(self) -> None:
        """Not ours."""
        pytest.skip("bytes have their own length in Zarr: there are no arrays of characters")

    test_roundtrip_string_encoded_characters = test_encoding_kwarg_fixed_width_string
    test_roundtrip_string_with_fill_value_nchar = test_encoding_kwarg_fixed_width_string


class TestZarrByXarray(TestZarr):
    """The same for Datasets that xarray's own engine opens."""

    @contextlib.contextmanager
    def open(self, path: str, **kwargs: Any) -> Iterator[xr.Dataset]:
        """Open it again, by zarr-python."""
        pytest.importorskip("zarr")
        with xr.open_dataset(path, engine="zarr", consolidated=False, **kwargs) as dataset:
            yield dataset

    @pytest.mark.parametrize(("decoded_fn", "encoded_fn"), MASK_AND_SCALE_DATA)
    @pytest.mark.parametrize("dtype", [np.dtype("float64")])
    def test_roundtrip_mask_and_scale(
        self, decoded_fn: Any, encoded_fn: Any, dtype: np.dtype[Any]
    ) -> None:
        """JSON, as xarray reads it, has no scales of float32; xarray's own tests know that, too."""
        super().test_roundtrip_mask_and_scale(decoded_fn, encoded_fn, dtype)


class TestZarr3(TestZarr):
    """The same for Datasets that are stored as Zarr v3."""

    form = "zarr3"


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*Zarr V3 specification")
class TestZarr3ByXarray(TestZarrByXarray):
    """The same for Datasets in Zarr v3 that xarray's own engine opens."""

    form = "zarr3"

    def test_roundtrip_bytes_with_fill_value(self) -> None:
        """Not ours."""
        pytest.skip("xarray cannot decode a fill value of bytes in Zarr v3")
