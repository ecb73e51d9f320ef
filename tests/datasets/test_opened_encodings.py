"""Encodings of opened variables give way to new values; those of the call are obeyed or refused."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from xarray_n5 import MetadataError, create_array, from_n5, open_array, to_n5

if TYPE_CHECKING:
    from pathlib import Path

zarr = pytest.importorskip("zarr")
h5py = pytest.importorskip("h5py")

ENDINGS = {"n5": "n5", "zarr2": "zarr", "zarr3": "zarr", "hdf5": "h5"}
FORMATS = pytest.mark.parametrize("form", ENDINGS)
CHUNKED = pytest.mark.parametrize("chunked", [False, True])

pytestmark = [
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
    pytest.mark.filterwarnings("ignore:Times can't be serialized faithfully"),
    pytest.mark.filterwarnings("ignore:Timedeltas can't be serialized faithfully"),
    pytest.mark.filterwarnings("ignore:Variable .* has datetime type and a bounds variable"),
    pytest.mark.filterwarnings("ignore:variable .* has data in the form of a dask array"),
    pytest.mark.filterwarnings("ignore:saving variable v with floating point data"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast"),
    pytest.mark.filterwarnings("ignore:overflow encountered in cast"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
    pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning"),
]


def stored(dataset: xr.Dataset, place: Path, form: Any, name: str = "a", **options: Any) -> Path:
    """Store a dataset in a format, and return its location."""
    path = place / f"{name}-{form}.{ENDINGS[form]}"
    dataset.n5.to_n5(path, format=form, **options)
    return path


def read(path: Path) -> xr.Dataset:
    return xr.open_dataset(path, engine="n5", decode_timedelta=True).load()


def times(*values: str) -> np.ndarray:
    return np.array(values, "M8[ns]")


def spans(*seconds: int) -> np.ndarray:
    return np.array(seconds, "m8[s]")


def since(start: str, dtype: str, **more: Any) -> dict[str, Any]:
    """Return an encoding as days since a start."""
    return {"dtype": dtype, "units": f"days since {start}", **more}


STRINGS: dict[str, tuple[Any, Any]] = {
    "unicode": (["z", "yy"], ["a protein", "µ-opioid"]),
    "bytes": (np.array([b"z", b"yy"]), np.array([b"a protein", b"opioid"])),
    "objects": (np.array(["z", "yy"], object), np.array(["a protein", "µ-opioid"], object)),
    "none": (["", ""], ["", ""]),
    "wider type": (["z", "yy"], np.array(["a protein", "µ-opioid"], object)),
}


@pytest.mark.parametrize("source", ENDINGS)
@FORMATS
@CHUNKED
def test_strings_that_outgrow_the_opened_file_are_stored_whole(
    tmp_path: Path, source: str, form: str, chunked: bool
) -> None:
    for name, (first, second) in STRINGS.items():
        encoding = read(stored(xr.Dataset({"v": ("x", first)}), tmp_path, source, name)).v.encoding
        longer = xr.Dataset({"v": ("x", second)})
        longer = longer.chunk(x=1) if chunked else longer
        longer.v.encoding = dict(encoding)
        again = read(stored(longer, tmp_path, form, f"longer {name}"))
        assert again.v.values.tolist() == list(second), name


@FORMATS
def test_strings_that_xarray_opened_are_stored_whole(tmp_path: Path, form: str) -> None:
    values = {"s": np.array(["b", "a\0b"], object), "u": ["ab", "c"]}
    xr.Dataset({key: ("x", strings) for key, strings in values.items()}).to_zarr(
        tmp_path / "x.zarr"
    )
    opened = xr.open_zarr(tmp_path / "x.zarr").load()
    added = opened.assign(s=("x", ["much longer", "é"]), u=("x", ["longer, too", ""]))
    for name in values:
        added[name].encoding = opened[name].encoding
    both = xr.concat([opened, added], "x", data_vars="all")
    again = read(stored(both, tmp_path, form))
    assert again.u.values.tolist() == ["ab", "c", "longer, too", ""]
    assert again.s.values.tolist() == ["b", "a\0b", "much longer", "é"]


WISHES: dict[str, tuple[Any, dict[str, Any]]] = {
    "out of int8": (times("2031-05-01", "2031-09-09"), since("2031-05-01", "i1")),
    "before the start": (times("1969-12-31", "2001-01-01"), since("1970-01-01", "u2")),
    "finer than the unit": (times("2001-01-01T00:07", "2001-01-01"), since("2000-01-01", "i4")),
    "NaT in int16": (times("NaT", "2001-01-02"), since("2000-01-01", "i2")),
    "equal to the fill": (
        times("2000-01-08", "2000-01-01"),
        since("2000-01-01", "i8", _FillValue=7),
    ),
    "scale": (times("2000-01-02", "2000-01-04"), since("2000-01-01", "i2", scale_factor=2.0)),
    "times in float32": (times("2019-03-03T03:03:03", "2019-01-01"), since("1850-01-01", "f4")),
    "span out of int8": (spans(200, 1), {"dtype": "i1", "units": "seconds"}),
    "span finer than the unit": (spans(90_061, 1), {"dtype": "i2", "units": "days"}),
    "span with a scale": (spans(33, 1), {"dtype": "i2", "units": "seconds", "scale_factor": 4.0}),
    "integers": (np.array([70_000, -5]), {"dtype": "u2"}),
    "integers as strings": (np.array([700, 5]), {"dtype": "U1"}),
    "integers as bools": (np.array([3, 0]), {"dtype": "bool"}),
    "fractions in integers": (np.array([0.25, 7.0]), {"dtype": "u1"}),
    "NaN in integers": (np.array([np.nan, 7.0]), {"dtype": "i4"}),
    "integers in float32": (np.array([2**25 + 1, 7]), {"dtype": "f4"}),
}
"""Values, and an encoding of other ones that cannot represent them."""

OF_VALUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "packed": (
        np.array([4e5, 2.0, np.nan]),
        {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -9},
    ),
    "packed with a mask": (np.array([-9.0, 2.0]), {"dtype": "i2", "_FillValue": -9}),
    "float32": (np.array([-1e200, 2.0]), {"dtype": "f4"}),
    "contradictory masks": (np.array([1.0, np.nan]), {"_FillValue": 3.0, "missing_value": 4.0}),
}
"""The same where only values tell, which are not known before Dask's blocks are computed."""


def of(values: Any, *, chunked: bool) -> xr.Dataset:
    dataset = xr.Dataset({"v": ("x", values)})
    return dataset.chunk(x=1) if chunked else dataset


@FORMATS
@CHUNKED
@pytest.mark.parametrize("case", [*WISHES, *OF_VALUES])
def test_encodings_of_opened_variables_give_way(
    tmp_path: Path, form: str, case: str, chunked: bool
) -> None:
    if chunked and case in OF_VALUES:
        pytest.skip("refused when it is computed")
    values, encoding = {**WISHES, **OF_VALUES}[case]
    dataset = of(values, chunked=chunked)
    dataset.v.encoding = dict(encoding)
    again = read(stored(dataset, tmp_path, form)).v.values
    assert again.dtype.kind == values.dtype.kind
    np.testing.assert_array_equal(again, values)


DEMANDS = {
    **{name: WISHES[name] for name in WISHES if "fractions" not in name and "finer" not in name},
    "packed": OF_VALUES["packed"],
    "float32 overflow": OF_VALUES["float32"],
    "NaN with a scale": (np.array([1.0, np.nan]), {"dtype": "i2", "scale_factor": 0.5}),
    "infinite": (np.array([np.inf, 1.0]), {"dtype": "i4", "_FillValue": -1}),
    "short unicode": (np.array(["abc", "d"]), {"dtype": "U2"}),
    "short bytes": (np.array([b"abc", b"d"]), {"dtype": "S2"}),
    "short objects": (np.array(["abc", "d"], object), {"dtype": "U2"}),
    "fractions as bools": (np.array([0.5, 1.0]), {"dtype": "bool"}),
    "complex as real": (np.array([1 + 1j, 2]), {"dtype": "f8"}),
}


@FORMATS
@CHUNKED
@pytest.mark.parametrize("case", DEMANDS)
def test_encodings_of_the_call_are_refused_if_values_do_not_fit(
    tmp_path: Path, form: str, case: str, chunked: bool
) -> None:
    values, encoding = DEMANDS[case]
    dataset = of(values, chunked=chunked)
    with pytest.raises((ValueError, TypeError)):
        stored(dataset, tmp_path, form, encoding={"v": encoding})
    assert chunked or not [*tmp_path.iterdir()]


OBEYED: list[tuple[Any, dict[str, Any]]] = [
    (np.array([0.1, 3e38, np.inf]), {"dtype": "f4"}),
    (np.array([0.26, np.nan]), {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}),
    (np.array([5, 200]), {"dtype": "u1", "_FillValue": 200}),
    (np.array([1.4, -999.0]), {"dtype": "i2", "_FillValue": -999}),
    (np.array([0.0, 255.0]), {"dtype": "u1"}),
    (np.array([True, False]), {"dtype": "i1"}),
    (times("2000-01-01T12", "1999-01-01"), since("1900-01-01", "f8")),
    (times("2000-01-05", "2000-01-01"), since("2000-01-01", "u1")),
    (np.array(["1500-01-01", "8000-01-01"], "M8[s]"), since("1500-01-01", "i4")),
    (spans(240, 0), {"dtype": "u1", "units": "minutes"}),
    (np.array([b"abc", b""]), {"dtype": "S9"}),
]


@FORMATS
@CHUNKED
@pytest.mark.parametrize("number", range(len(OBEYED)))
def test_encodings_of_the_call_are_obeyed(
    tmp_path: Path, form: str, number: int, chunked: bool
) -> None:
    values, encoding = OBEYED[number]
    place = stored(of(values, chunked=chunked), tmp_path, form, encoding={"v": encoding})
    array = open_array(place, "v")
    if values.dtype.kind == "S" and form in {"n5", "hdf5"}:
        assert array.shape == (2, 9)
    else:
        assert array.dtype == np.dtype(encoding["dtype"])


@FORMATS
def test_wide_strings_are_stored_as_wide_as_the_call_says(tmp_path: Path, form: str) -> None:
    if form in {"n5", "hdf5"}:
        pytest.skip("characters have their own width")
    place = stored(
        of(np.array(["ab"]), chunked=False), tmp_path, form, encoding={"v": {"dtype": "U7"}}
    )
    assert open_array(place, "v").dtype == np.dtype("U7")


@FORMATS
@CHUNKED
def test_encodings_that_fit_are_kept(tmp_path: Path, form: str, chunked: bool) -> None:
    dataset = xr.Dataset(
        {
            "packed": ("x", [0.5, np.nan]),
            "mask": ("x", [3.0, np.nan]),
            "time": ("x", times("2000-01-01T06", "2001-01-01")),
            "span": ("x", spans(7200, 0)),
        }
    )
    encoding: dict[str, Any] = {
        "packed": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -7},
        "mask": {"dtype": "u1", "_FillValue": 255},
        "time": {"dtype": "i4", "units": "hours since 1999-01-01"},
        "span": {"dtype": "i2", "units": "hours"},
    }
    first = stored(dataset, tmp_path, form, encoding=encoding)
    opened = xr.open_dataset(
        first, engine="n5", decode_timedelta=True, chunks={} if chunked else None
    )
    second = read(stored(opened, tmp_path, form, "b"))
    xr.testing.assert_equal(second, dataset)
    for name, wanted in encoding.items():
        for key, value in wanted.items():
            assert second[name].encoding[key] == value, (name, key)


RETYPED: dict[str, tuple[np.ndarray, dict[str, Any], str]] = {
    "labels of an image": (np.arange(6, dtype="u1"), {}, "u8"),
    "floats of integers": (np.arange(6, dtype="i2"), {}, "f8"),
    "wider floats": (np.arange(6, dtype="f4"), {"_FillValue": np.nan}, "f8"),
    "bools of integers": (np.arange(6, dtype="u1"), {}, "bool"),
    "wider floats of packed ones": (
        np.arange(6, dtype="f4"),
        {"dtype": "i2", "scale_factor": np.float32(0.5), "_FillValue": -1},
        "f8",
    ),
    "integers of masked ones": (np.arange(6.0), {"dtype": "i4", "_FillValue": -1}, "i4"),
}


@FORMATS
@CHUNKED
@pytest.mark.parametrize("case", RETYPED)
def test_values_of_another_type_keep_it(
    tmp_path: Path, form: str, chunked: bool, case: str
) -> None:
    before, encoding, dtype = RETYPED[case]
    source = xr.Dataset({"v": ("x", before, {}, encoding)})
    opened = read(stored(source, tmp_path, form))
    assert opened.v.dtype == before.dtype
    values = before.astype(dtype)
    changed = opened.assign(v=opened.v.copy(data=da.from_array(values) if chunked else values))
    again = read(stored(changed, tmp_path, form, "again"))
    assert again.v.dtype == dtype
    np.testing.assert_array_equal(again.v, values)


@FORMATS
@CHUNKED
def test_bounds_may_be_finer_than_their_times(tmp_path: Path, form: str, chunked: bool) -> None:
    days = times("2011-02-01", "2011-02-02")
    hours = days[:, None] + np.array([-1, 1], "m8[h]")
    dataset = xr.Dataset({"edges": (("t", "edge"), hours)}, {"t": ("t", days, {"bounds": "edges"})})
    dataset.t.encoding = {"dtype": "i2", "units": "days since 2011-01-01"}
    opened = xr.open_dataset(stored(dataset, tmp_path, form), engine="n5", chunks={})
    last = opened.isel(t=slice(1, 2)) if chunked else opened.load()
    again = read(stored(last, tmp_path, form, "b"))
    np.testing.assert_array_equal(again.edges, hours[1:] if chunked else hours)


STEPS: dict[str, Any] = {
    "unchanged": lambda ds: ds,
    "one plane": lambda ds: ds.isel(y=2),
    "a part": lambda ds: ds.isel(x=slice(1, 4)),
    "transposed": lambda ds: ds.transpose("x", "y", "z"),
    "another axis": lambda ds: ds.expand_dims("c", 1),
    "stacked": lambda ds: ds.stack(q=("z", "y")).drop_vars(["q", "z", "y"]),
    "a number": lambda ds: ds.isel(x=0, y=0, z=0),
    "chunks that shards do not hold": lambda ds: with_encoding(ds, chunks=(1, 3, 2)),
    "an empty list": lambda ds: with_encoding(ds, chunks=(), shards=()),
    "compression of HDF5": lambda ds: with_encoding(ds, compression="lzf"),
    "unknown compression": lambda ds: with_encoding(ds, n5_compression={"type": "none such"}),
}


def with_encoding(dataset: xr.Dataset, **changes: Any) -> xr.Dataset:
    dataset["v"].encoding.update(changes)
    return dataset


@FORMATS
@pytest.mark.parametrize("engine", ["n5", "zarr"])
@pytest.mark.parametrize("step", STEPS)
def test_storage_of_the_opened_file_stops_no_write(
    tmp_path: Path, form: str, engine: Any, step: str
) -> None:
    volume = xr.Dataset({"v": (("z", "y", "x"), np.arange(240, dtype="i2").reshape(4, 6, 10))})
    layout = {"chunks": (2, 3, 5), "shards": (4, 3, 10)}
    source = stored(volume, tmp_path, "zarr3", "source", encoding={"v": layout})
    options: dict[str, Any] = {"consolidated": False} if engine == "zarr" else {}
    opened = xr.open_dataset(source, engine=engine, chunks={}, **options)
    changed = STEPS[step](opened)
    place = stored(changed, tmp_path, form)
    np.testing.assert_array_equal(read(place).v, STEPS[step](volume).v)
    if step == "unchanged":
        array = open_array(place, "v")
        assert array.chunks == (2, 3, 5)
        assert array.shards == ((4, 3, 10) if form == "zarr3" else None)


@pytest.mark.parametrize(
    "encoding", [{"shards": (4,)}, {"chunks": (3, 3)}, {"chunks": (3,), "shards": (4,)}]
)
def test_storage_that_the_call_asks_for_is_refused(
    tmp_path: Path, encoding: dict[str, Any]
) -> None:
    for form in ENDINGS:
        if encoding == {"shards": (4,)} and form == "zarr3":
            continue
        with pytest.raises(MetadataError):
            stored(of(np.arange(8), chunked=False), tmp_path, form, encoding={"v": encoding})


def test_strings_are_not_cut_by_an_append(tmp_path: Path) -> None:
    for number, more in enumerate((["a longer one"], np.array(["a longer one"], object))):
        for form in ENDINGS:
            place = stored(xr.Dataset({"v": ("x", ["ab"])}), tmp_path, form, str(number))
            try:
                xr.Dataset({"v": ("x", more)}).n5.to_n5(place, append_dim="x")
            except ValueError:
                assert read(place).v.values.tolist() == ["ab"]
            else:
                assert read(place).v.values.tolist() == ["ab", "a longer one"]


# Neighbours

FOREIGN: dict[str, dict[str, Any]] = {
    "mask": {"_FillValue": 2},
    "missing": {"missing_value": 1},
    "scale": {"scale_factor": 0.1, "add_offset": 5},
    "days": {"units": "days since 1990-01-01"},
    "minutes": {"units": "minutes"},
    "signs": {"_Unsigned": "true"},
    "refers": {"coordinates": "mask days"},
}


@FORMATS
def test_an_added_variable_does_not_change_what_its_neighbours_read(
    tmp_path: Path, form: Any
) -> None:
    place = tmp_path / f"a.{ENDINGS[form]}"
    for name, attributes in FOREIGN.items():
        array = create_array(
            place, name, shape=(3,), chunks=2, dtype="i2", format=form, attributes=attributes
        )
        array[:] = [1, 2, -3]
    before = xr.open_dataset(place, engine="n5").load()
    added = xr.Dataset(
        {"v": ("w", [0.5, np.nan]), "when": ("w", times("2000-01-01", "NaT"))},
        {"w": ["a", "b"], "height": ("w", [1.0, 7.5])},
    )
    added.n5.to_n5(
        place, mode="a", encoding={"v": {"dtype": "i2", "_FillValue": 9, "scale_factor": 0.5}}
    )
    after = xr.open_dataset(place, engine="n5").load()
    for name in FOREIGN:
        xr.testing.assert_identical(after[name].variable, before[name].variable)
        assert name not in after.coords
    xr.testing.assert_equal(after.drop_vars(list(FOREIGN)), added)
    decoded = xr.open_dataset(place, engine="n5", mask_and_scale=True).load()
    np.testing.assert_allclose(decoded["scale"], [5.1, 5.2, 4.7])


# Foreign arrays

VALUES = np.arange(20.0).reshape(4, 5) * (np.arange(5) % 2)


class Chunked:
    """An array of a library that has chunks as Dask has them, such as cubed."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.ndim = values.ndim
        self.chunks = tuple((1,) * size for size in values.shape)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError("the array is loaded")

    def __array_function__(self, *_: Any) -> Any:
        return NotImplemented

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return NotImplemented


class Opaque(Chunked):
    """An array that refuses to become one of NumPy, as those of the package sparse do."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(values)
        del self.chunks
        self.data = values[values != 0]

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("use todense()")


def sparse_arrays() -> dict[str, Any]:
    sparse = pytest.importorskip("scipy.sparse")
    return {
        "rows": sparse.csr_array(VALUES),
        "points": sparse.coo_array(VALUES),
        "matrix": sparse.csc_matrix(VALUES),
        "blocks": da.from_array(VALUES, chunks=2).map_blocks(sparse.csr_matrix),
        "opaque": Opaque(VALUES),
        "chunked": Chunked(VALUES),
    }


@pytest.mark.parametrize("kind", ["rows", "points", "matrix", "blocks", "opaque", "chunked"])
def test_arrays_that_numpy_cannot_read_are_refused(tmp_path: Path, kind: str) -> None:
    array = sparse_arrays()[kind]
    with pytest.raises(MetadataError, match="Chunked" if kind == "chunked" else "todense"):
        to_n5(array, tmp_path / "a.n5", "v")
    assert not (tmp_path / "a.n5").exists()
    if kind in {"opaque", "chunked"}:
        with pytest.raises(MetadataError, match="'v'"):
            xr.Dataset({"v": (("y", "x"), array)}).n5.to_n5(tmp_path / "a.n5")
        assert not (tmp_path / "a.n5").exists()


def test_arrays_of_other_libraries_are_stored(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    of_zarr = zarr.create_array(tmp_path / "z.zarr", shape=(4, 5), chunks=(2, 2), dtype="f8")
    of_zarr[...] = VALUES
    ours = create_array(tmp_path / "o.n5", "v", shape=(4, 5), dtype="f8", chunks=2)
    ours[...] = VALUES
    with h5py.File(tmp_path / "h.h5", "w") as file:
        file["v"] = VALUES
        sources = (of_zarr, file["v"], ours, VALUES.tolist(), pandas.DataFrame(VALUES))
        wrapped = (xr.Variable(("y", "x"), VALUES), xr.DataArray(VALUES), np.ma.array(VALUES))
        for number, source in enumerate((*sources, *wrapped)):
            to_n5(source, tmp_path / "a.n5", str(number))
            np.testing.assert_array_equal(open_array(tmp_path / "a.n5", str(number))[...], VALUES)


@FORMATS
@CHUNKED
def test_units_of_quantities_are_kept(tmp_path: Path, form: str, chunked: bool) -> None:
    pint = pytest.importorskip("pint")
    values = da.from_array(VALUES, chunks=2) if chunked else VALUES
    dataset = xr.Dataset(
        {"v": (("y", "x"), pint.Quantity(values, "volt"), {"long_name": "potential"})},
        {"depth": ("x", pint.Quantity(np.arange(5.0), "mm")), "x": np.arange(5) * 0.5},
    )
    place = stored(dataset, tmp_path, form, encoding={"v": {"dtype": "i4", "scale_factor": 0.5}})
    again = read(place)
    assert again.v.attrs == {"long_name": "potential", "units": "volt"}
    assert again.depth.attrs["units"] == "millimeter"
    np.testing.assert_array_equal(again.v, VALUES)
    dataset = dataset.drop_vars("depth")
    dataset.n5.to_n5(place, append_dim="y")
    assert read(place).sizes["y"] == 8
    other = dataset.assign(v=(("y", "x"), pint.Quantity(VALUES, "millivolt")))
    with pytest.raises(ValueError, match="millivolt"):
        other.n5.to_n5(place, append_dim="y")


def test_units_of_single_quantities_are_kept(tmp_path: Path) -> None:
    pint = pytest.importorskip("pint")
    quantity = pint.Quantity(VALUES, "volt")
    to_n5(quantity, tmp_path / "a.n5", "v")
    assert open_array(tmp_path / "a.n5", "v").attrs["units"] == "volt"
    with pytest.raises(ValueError, match="volt"):
        to_n5(quantity, tmp_path / "a.n5", "v", region=(slice(0, 4), slice(0, 5)))


EXPRESSIONS = """
import sys
if sys.argv[2] == "dask_array":
    import dask_array as da
else:
    import dask
    dask.config.set({"array.query-planning": True})
    import dask.array as da
import numpy as np
import xarray as xr
import xarray_n5
lazy = da.from_array(np.arange(48.0).reshape(6, 8), chunks=(3, 4)) - 1
image = xr.DataArray(lazy, dims=("y", "x"), name="v")
for number, boundary in enumerate((None, "reflect", 7)):
    result = image.n5.map_overlap(np.negative, depth=1, boundary=boundary)
    xarray_n5.to_n5(result.data, sys.argv[1], str(number))
"""


@pytest.mark.parametrize("library", ["dask", "dask_array"])
def test_map_overlap_accepts_expressions(tmp_path: Path, library: str) -> None:
    pytest.importorskip(library)
    place = str(tmp_path / "a.n5")
    subprocess.run([sys.executable, "-c", EXPRESSIONS, place, library], check=True)  # noqa: S603
    for number in range(3):
        expected = 1 - np.arange(48.0).reshape(6, 8)
        np.testing.assert_array_equal(from_n5(place, str(number)), expected)
