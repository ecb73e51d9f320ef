"""Where the container of a project is: every loader, every kind of place, and how many requests."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pytest
import xarray as xr
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.projects import (
    FACTORS,
    Setup,
    diagonal,
    project_xml,
    values,
    write_n5,
    write_project,
)
from tests.support.remote import Far
from tests.support.servers import serving
from xarray_n5 import MetadataError, NodeNotFoundError, create_array, create_group, open_array
from xarray_n5.errors import N5Error, PathError
from xarray_n5.stores import FsspecStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.support.servers import Bucket

SETUPS = [Setup(id=0), Setup(id=1)]


def with_loader(loader: str, **more: Any) -> str:
    return project_xml(SETUPS, loader=loader, **more)


def check(url: Any, **options: Any) -> None:
    """Check that a project of two setups opens with its data."""
    ds = xr.open_dataset(url, engine="n5", level=0, **options)
    (image,) = ds.data_vars.values()
    assert image.sizes["setup"] == 2
    for t, setup in np.ndindex(2, 2):
        np.testing.assert_array_equal(image[t, setup], values((t, setup), 0, (6, 12, 16)))


# pybdv, a second implementation


@pytest.fixture(params=["n5", "h5"])
def by_pybdv(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Two channels, two time points, two levels, written by pybdv."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pybdv = pytest.importorskip("pybdv")
        for setup, time in np.ndindex(2, 2):
            affine = [0.5, 0.01, 0.0, 3.0, 0.0, 0.4, 0.1, 5.0 + setup, 0.0, 0.0, 2.0, 7.0 + time]
            pybdv.make_bdv(
                values((time, setup), 0, (6, 12, 16), "i2"),
                str(tmp_path / f"a.{request.param}"),
                downscale_factors=[[1, 2, 2]],
                downscale_mode="mean",
                resolution=[2.0, 0.4, 0.5],
                unit="micrometer",
                setup_id=setup,
                timepoint=time,
                attributes={"channel": {"id": setup}},
                affine=affine if setup else None,
            )
    return tmp_path / "a.xml"


def test_projects_of_pybdv_are_read_as_pybdv_reads_them(by_pybdv: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pybdv import metadata
        from pybdv.util import get_key, open_file
    tree: Any = xr.open_datatree(by_pybdv, engine="n5")
    (path,) = (p for p in by_pybdv.parent.iterdir() if p.suffix in {".n5", ".h5"})
    for level in (0, 1):
        ds = tree[f"s{level}"].to_dataset()
        assert ds["a"].dims == ("t", "channel", "z", "y", "x")
        for t, setup in np.ndindex(2, 2):
            with open_file(str(path), "r") as file:
                key = get_key(path.suffix == ".h5", timepoint=t, setup_id=setup, scale=level)
                expected = np.asarray(file[key][:]).view(ds["a"].dtype)
            np.testing.assert_array_equal(ds["a"].isel(t=t, channel=setup), expected)
    ds = tree["s0"].to_dataset()
    for t, setup in np.ndindex(2, 2):
        (affine,) = metadata.get_affine(str(by_pybdv), setup, t).values()
        rows = np.reshape(affine, (3, 4))
        expected = np.concatenate([rows[::-1, -2::-1], rows[::-1, -1:]], axis=1)
        np.testing.assert_array_equal(ds.registration.isel(t=t, channel=setup), expected)
        # Its registrations lead to physical places.
        np.testing.assert_array_equal(ds.affine.isel(t=t, channel=setup), expected)
    found = [float(ds[axis][1] - ds[axis][0]) for axis in "zyx"]
    np.testing.assert_allclose(found, metadata.get_resolution(str(by_pybdv), 0))
    assert ds.x.attrs["units"] == metadata.get_unit(str(by_pybdv), 0)


# OME-Zarr


def write_image(
    where: Any, path: str, shape: Sequence[int], start: int = 1, form: Any = "zarr2"
) -> np.ndarray:
    """Write an OME-Zarr image with two levels, of up to five axes."""
    names = ("t", "c", "z", "y", "x")[-len(shape) :]
    kinds = {"t": "time", "c": "channel"}
    scales = [(*(1.0,) * (len(shape) - 3), 2.0, 0.5 * f, 0.5 * f) for f in (1, 2)]
    levels = [
        {"path": str(i), "coordinateTransformations": [{"type": "scale", "scale": list(scale)}]}
        for i, scale in enumerate(scales)
    ]
    axes = [{"name": name, "type": kinds.get(name, "space")} for name in names]
    described: dict[str, Any] = {"multiscales": [{"axes": axes, "datasets": levels}]}
    if form == "zarr3":
        described = {"ome": {"version": "0.5", **described}}
    create_group(where, path, format=form, attributes=described, mode="a")
    data = (np.arange(np.prod(shape)).reshape(shape) % 5003 + start).astype("u2")
    for level, each in enumerate((data, data[..., ::2, ::2])):
        made = create_array(
            where,
            f"{path}/{level}".lstrip("/"),
            shape=each.shape,
            dtype="u2",
            chunks=(*(1,) * (each.ndim - 3), 4, 6, 8),
            format=form,
            layout={"dimension_separator": "/"} if form == "zarr2" else None,
        )
        made[...] = each
    return data


def zarr_loader(entries: str, version: str, name: str = "bdv.multimg.zarr") -> str:
    place = '<zarr type="relative">x.ome.zarr</zarr>'
    shown = f' version="{version}"' if version else ""
    return f'<ImageLoader format="{name}"{shown}>{place}<zgroups>{entries}</zgroups></ImageLoader>'


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_views_are_slices_of_images_with_five_axes(tmp_path: Path, form: str) -> None:
    data = write_image(tmp_path / "x.ome.zarr", "one.zarr", (2, 3, 6, 12, 16), form=form)
    setups = [Setup(id=i, attributes={"channel": i}) for i in range(3)]
    entries = "".join(
        f'<zgroup setup="{c}" tp="{t}" path="one.zarr" indicies="{c} {t}" />'
        for t in range(2)
        for c in range(3)
    )
    path = tmp_path / "a.xml"
    path.write_text(project_xml(setups, loader=zarr_loader(entries, "3.0")), "utf-8")
    tree: Any = xr.open_datatree(path, engine="n5")
    assert list(tree.groups) == ["/", "/s0", "/s1"]
    image = tree["s0"]["a"]
    assert image.dims == ("t", "channel", "z", "y", "x")
    np.testing.assert_array_equal(image, data)
    np.testing.assert_array_equal(image[:, 1:, 2, ::3, -4:], data[:, 1:, 2, ::3, -4:])
    np.testing.assert_array_equal(tree["s1"]["a"], data[..., ::2, ::2])
    assert float(tree["s1"].x[0]) == 0.25
    one = xr.open_dataset(path, engine="bdv", level=1, setup=2, timepoint=1, chunks={})
    np.testing.assert_array_equal(one["a"], data[1, 2, :, ::2, ::2])
    assert one["a"].encoding["preferred_chunks"] == {"z": 4, "y": 6, "x": 8}
    one = xr.open_dataset(path, engine="bdv", level=0, setup=2, timepoint=1)
    np.testing.assert_array_equal(one["a"], data[1, 2])


@pytest.mark.parametrize("indices", ["{c}", "[{c}]", "{c} 0", "[{c}, 0]"])
def test_channels_are_slices_of_images_with_four_axes(tmp_path: Path, indices: str) -> None:
    data = write_image(tmp_path / "x.ome.zarr", "one.zarr", (3, 6, 12, 16))
    setups = [Setup(id=i, attributes={"channel": i}) for i in range(3)]
    entries = "".join(
        f'<zgroup setup="{c}" tp="0" path="one.zarr" indicies="{indices.format(c=c)}" />'
        for c in range(3)
    )
    times = '<Timepoints type="pattern"><integerpattern>0</integerpattern></Timepoints>'
    path = tmp_path / "a.xml"
    text = project_xml(setups, loader=zarr_loader(entries, "3.0"), timepoints=times)
    path.write_text(text, "utf-8")
    np.testing.assert_array_equal(xr.open_dataset(path, engine="n5", level=0)["a"][0], data)


@pytest.mark.parametrize(
    ("version", "entry"),
    [
        ("1.0", '<zgroup setup="{s}" timepoint="{t}"><path>s{s}-t{t}.zarr</path></zgroup>'),
        ("", '<zgroup setup="{s}" tp="{t}" path="s{s}-t{t}.zarr" />'),
        ("3.0", '<zgroup setup="{s}" tp="{t}" path="s{s}-t{t}.zarr" indicies="[]" />'),
        ("3.0", '<zgroup setup="{s}" tp="{t}" path="/s{s}-t{t}.zarr/" indicies="0 0" />'),
    ],
)
@pytest.mark.parametrize("shape", [(6, 12, 16), (1, 1, 6, 12, 16)])
def test_views_are_images_of_their_own(
    tmp_path: Path, version: str, entry: str, shape: tuple[int, ...]
) -> None:
    views = list(np.ndindex(2, 2))
    where = tmp_path / "x.ome.zarr"
    data = {
        (t, s): write_image(where, f"s{s}-t{t}.zarr", shape, 1 + 9 * s + 100 * t) for t, s in views
    }
    entries = "".join(entry.format(t=t, s=s) for t, s in views)
    path = tmp_path / "a.xml"
    path.write_text(with_loader(zarr_loader(entries, version)), "utf-8")
    image = xr.open_dataset(path, engine="n5", level=0)["a"]
    for view, each in data.items():
        np.testing.assert_array_equal(image.sel(t=view[0], setup=view[1]), each.reshape(6, 12, 16))


@pytest.mark.parametrize("tag", ["ome.zarr", "zarr"])
@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_mobie_names_the_element_of_the_path_like_the_format(
    tmp_path: Path, tag: str, form: str
) -> None:
    data = write_image(tmp_path / "x y.ome.zarr", "", (2, 2, 6, 12, 16), form=form)
    place = f'<{tag} type="relative">x y.ome.zarr</{tag}>'
    loader = f'<ImageLoader format="bdv.ome.zarr" version="0.2">{place}</ImageLoader>'
    path = tmp_path / "a.xml"
    path.write_text(with_loader(loader), "utf-8")
    np.testing.assert_array_equal(xr.open_dataset(path, engine="n5", level=0)["a"], data)


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_the_version_of_zarr_is_found_if_the_first_views_are_missing(
    tmp_path: Path, form: str
) -> None:
    where = tmp_path / "x.ome.zarr"
    data = write_image(where, "s1-t1.zarr", (1, 1, 6, 12, 16), form=form)
    for document in where.glob("*"):
        if document.is_file():
            document.unlink()  # a root without documents
    entry = '<zgroup setup="{s}" tp="{t}" path="s{s}-t{t}.zarr" indicies="0 0" />'
    entries = "".join(entry.format(t=t, s=s) for t, s in np.ndindex(2, 2))
    path = tmp_path / "a.xml"
    path.write_text(with_loader(zarr_loader(entries, "3.0")), "utf-8")
    with pytest.warns(UserWarning, match="3 of 4 views are not stored"):
        image = xr.open_dataset(path, engine="n5", level=0)["a"]
    np.testing.assert_array_equal(image.sel(t=1, setup=1), data[0, 0])


def test_no_path_leads_out_of_the_container(tmp_path: Path) -> None:
    write_image(tmp_path / "secret.zarr", "one", (6, 12, 16))
    write_image(tmp_path / "x.ome.zarr", "one", (6, 12, 16))
    path = tmp_path / "a.xml"
    for outside in ("../secret.zarr/one", "one/../../secret.zarr/one", "..\\secret.zarr\\one"):
        entry = f'<zgroup setup="0" tp="0" path="{outside}" />'
        path.write_text(with_loader(zarr_loader(entry, "2.0")), "utf-8")
        with pytest.raises(MetadataError, match="leads out of the container"):
            xr.open_dataset(path, engine="n5", level=0)
    listed = tmp_path / "x.ome.zarr" / "one" / ".zattrs"
    listed.write_text(listed.read_text().replace('"0"', '"../../secret.zarr/one/0"'))
    path.write_text(with_loader(zarr_loader(entry.replace(outside, "one"), "2.0")), "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((PathError, NodeNotFoundError)):
            xr.open_dataset(path, engine="n5", level=0)


def test_indices_outside_of_an_image_are_refused(tmp_path: Path) -> None:
    write_image(tmp_path / "x.ome.zarr", "one.zarr", (1, 2, 6, 12, 16))
    for indices in ("2 0", "0 1", "0 0 1", "-1 0"):
        entry = f'<zgroup setup="0" tp="0" path="one.zarr" indicies="{indices}" />'
        path = tmp_path / "a.xml"
        path.write_text(with_loader(zarr_loader(entry, "3.0")), "utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(MetadataError, match=r"indicies|indices"):
                xr.open_dataset(path, engine="n5", level=0)


# Places


def n5_loader(target: str, kind: str, version: str = "1.0") -> str:
    typed = f' type="{kind}"' if kind else ""
    return (
        f'<ImageLoader format="bdv.n5" version="{version}"><n5{typed}>{target}</n5></ImageLoader>'
    )


def test_the_container_may_be_anywhere_on_the_disk(tmp_path: Path) -> None:
    inner = tmp_path / "in ner"
    inner.mkdir()
    write_n5(inner / "x y.n5", SETUPS)
    folder = tmp_path / "projects"
    folder.mkdir()
    for target, kind, version, base in (
        (f"{inner}/x y.n5", "absolute", "1.0", "."),
        (f"file://{inner}/x y.n5".replace(" ", "%20"), "", "1.1", "."),
        (f"file:{inner}/x y.n5", "", "1.1", "."),
        ("../in ner/x y.n5", "relative", "1.0", "."),
        ("..\\in ner\\x y.n5", "relative", "1.0", "."),
        ("../in%20ner/x%20y.n5", "relative", "1.1", "."),
        ("x y.n5", "relative", "1.0", "../in ner"),
    ):
        text = with_loader(
            n5_loader(target, kind, version), base=f'<BasePath type="relative">{base}</BasePath>'
        )
        (folder / "a.xml").write_text(text, "utf-8")
        check(folder / "a.xml")
        check(str(folder / "a.xml"))
        check(f"file://{folder}/a.xml")


RELATIVE = {
    "bdv.n5 1.0": n5_loader("a%20b", "relative"),
    "bdv.n5 1.1": n5_loader("a%20b", "relative", "1.1"),
    "bdv.hdf5": '<ImageLoader format="bdv.hdf5"><hdf5 type="relative">a%20b</hdf5></ImageLoader>',
    "bdv.multimg.zarr": '<ImageLoader format="bdv.multimg.zarr" version="3.0">'
    '<zarr type="relative">a%20b</zarr></ImageLoader>',
    "bdv.ome.zarr": '<ImageLoader format="bdv.ome.zarr" version="0.2">'
    '<zarr type="relative">a%20b</zarr></ImageLoader>',
}
"""Loaders of the container "a%20b", or, where it is read as a URI, "a b"."""

SMALL = Setup(id=0, shape=(2, 2, 2))


def write_container(path: Path, kind: str, number: int) -> None:
    """Write a container of one view, whose least value is a number."""
    data = np.arange(number, number + 8, dtype="u2").reshape(2, 2, 2)
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["t00000/s00/0/cells"] = data
            file["s00/resolutions"] = np.ones((1, 3))
            file["s00/subdivisions"] = np.ones((1, 3), int)
    elif kind == "n5":
        write_n5(path, [SMALL], (0,), factors=FACTORS[:1])
        open_array(path, "setup0/timepoint0/s0", mode="r+")[...] = data
    else:
        write_image(path, "", (2, 2, 2), number)


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("listed", ["a b", "a%20b", "both"])
def test_percent_encoded_paths_are_read_as_their_writers_meant_them(
    tmp_path: Path, name: str, listed: str
) -> None:
    kind = name.partition(" ")[0].rpartition(".")[2]
    both = ("a b", "a%20b")
    for number, each in enumerate(both):
        if listed in {each, "both"}:
            write_container(tmp_path / each, kind, 7 + number)
    one = '<Timepoints type="range"><first>0</first><last>0</last></Timepoints>'
    text = project_xml([SMALL], loader=RELATIVE[name], timepoints=one)
    (tmp_path / "p.xml").write_text(text, "utf-8")
    meant = "a b" if name in {"bdv.n5 1.1", "bdv.multimg.zarr"} else "a%20b"
    if listed not in {meant, "both"}:
        with pytest.raises((N5Error, OSError)):
            xr.open_dataset(tmp_path / "p.xml", engine="n5", level=0)
        return
    expected = 7 + both.index(meant)
    found = xr.open_dataset(tmp_path / "p.xml", engine="n5", level=0)
    assert int(found["p"].min()) == expected
    if kind == "n5":  # which the XML describes, but no other one
        for number, each in enumerate(both):
            if (tmp_path / each).exists():
                s0 = xr.open_dataset(tmp_path / each, engine="n5", group="setup0/timepoint0/s0")
                assert ("units" in s0.x.attrs) == (7 + number == expected)


def test_base_paths_are_percent_encoded(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    write_n5(folder / "x y.n5", SETUPS)
    write_n5(tmp_path / "50%20%" / "x.n5", SETUPS)
    for base, kind, target in (
        ("a%20b/", "relative", "x%20y.n5"),
        ("a b", "relative", "x y.n5"),
        (tmp_path.as_uri() + "/a%20b/", "absolute", "x%20y.n5"),
        (f"{tmp_path}/a b", "absolute", "x%20y.n5"),
        (f"{tmp_path}/50%20%", "absolute", "x.n5"),
        (".", "relative", "50%2520%25/x.n5"),
    ):
        text = with_loader(
            n5_loader(target, "relative", "1.1"), base=f'<BasePath type="{kind}">{base}</BasePath>'
        )
        (tmp_path / "a.xml").write_text(text, "utf-8")
        check(tmp_path / "a.xml")


@pytest.mark.parametrize(
    "path",
    [
        "..%2f..%2f..%2f..{tmp}/x.n5",
        "%2e%2e/%2E%2E/../..{tmp}/x.n5",
        "%2F..%2F..%2F..{tmp}/x.n5",
        "..%5c..%5c..%5c{tmp}%5cx.n5",
        "file%3A{tmp}/x.n5",
        "file%3A%2F%2F{tmp}/x.n5",
        "a%3A%3Afile%3A//{tmp}/x.n5",
        "%00{tmp}/x.n5",
        "%ff/../x.n5",
    ],
)
def test_no_encoded_path_leads_from_a_server_to_local_files(tmp_path: Path, path: str) -> None:
    write_n5(tmp_path / "x.n5", SETUPS)
    for target in (path, path.replace("/", "%2F")):
        found = target.format(tmp=tmp_path)
        for text, kind in (
            (found, "relative"),
            (f"memory://{found}", ""),
            (f"memory://closed/{found}", ""),
        ):
            for version in ("1.0", "1.1"):
                xml = with_loader(n5_loader(text, kind, version))
                MemoryFileSystem().pipe_file("/closed/b.xml", xml.encode())
                with pytest.raises((MetadataError, NodeNotFoundError, PathError)):
                    xr.open_dataset("memory://closed/b.xml", engine="n5", level=0)


@pytest.fixture
def memory(tmp_path: Path) -> str:
    """A project in fsspec's memory."""
    write_project(tmp_path, SETUPS, project_xml(SETUPS))
    MemoryFileSystem().put(str(tmp_path), "/projects/one", recursive=True)
    return "memory://projects/one"


def test_projects_and_containers_may_be_on_servers(memory: str, tmp_path: Path) -> None:
    check(f"{memory}/project.xml")
    check((MemoryFileSystem(), "/projects/one/project.xml"))
    MemoryFileSystem().mv("/projects/one/project.xml", "/projects/one/project.xml~1")
    check(f"{memory}/project.xml~1")  # found by what it says, after nothing else was
    pytest.importorskip("aiohttp")
    path = tmp_path / "elsewhere.xml"
    with serving(tmp_path) as url:
        path.write_text(with_loader(n5_loader(f"{url}/x.n5", "", "1.1")), "utf-8")
        check(path)
        check(f"{url}/elsewhere.xml")


def test_a_project_on_a_server_does_not_lead_to_local_files(memory: str, tmp_path: Path) -> None:
    for target in (f"{tmp_path}/x.n5", f"file://{tmp_path}/x.n5", f"file:{tmp_path}/x.n5"):
        for kind in ("absolute", ""):
            text = with_loader(n5_loader(target, kind))
            MemoryFileSystem().pipe_file("/projects/one/b.xml", text.encode())
            with pytest.raises(MetadataError, match="a path on the machine that wrote it"):
                xr.open_dataset(f"{memory}/b.xml", engine="n5", level=0)
    based = f'<BasePath type="absolute">{tmp_path}</BasePath>'
    text = project_xml(SETUPS, base=based)
    MemoryFileSystem().pipe_file("/projects/one/b.xml", text.encode())
    with pytest.raises(MetadataError, match="a path on the machine that wrote it"):
        xr.open_dataset(f"{memory}/b.xml", engine="n5", level=0)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text(with_loader(n5_loader("/no/such.n5", "absolute")), "utf-8")
    with pytest.raises(NodeNotFoundError, match=r"/no/such\.n5.*does not exist.*a\.xml"):
        xr.open_dataset(path, engine="n5", level=0)


IN_BUCKET = 'format="bdv.n5.s3"><Key>a</Key><BucketName>bucket</BucketName>'


@pytest.mark.parametrize(
    ("loader", "match"),
    [
        ('format="spimreconstruction.filemap2">', "'spimreconstruction.filemap2'.*resave"),
        ('format="spimreconstruction.stack.loci">', "raw tiles"),
        ('format="split.viewerimgloader">', "'split.viewerimgloader' is not supported"),
        ('format="bdv.n5">', "has no location of the container"),
        (
            'format="bdv.n5.s3"><Key>a</Key><BucketName>a/../b</BucketName>',
            "not the name of a bucket",
        ),
        (
            f"{IN_BUCKET}<ServiceEndpoint>file:///etc</ServiceEndpoint>",
            "not the URL of a server",
        ),
        (
            'format="bdv.hdf5"><hdf5 type="relative">none.txt</hdf5>',
            "not an HDF5 file on a local disk",
        ),
    ],
)
def test_loaders_that_are_not_read_are_refused_by_name(
    tmp_path: Path, loader: str, match: str
) -> None:
    path = tmp_path / "a.xml"
    path.write_text(with_loader(f"<ImageLoader {loader}</ImageLoader>"), "utf-8")
    with pytest.raises(MetadataError, match=match):
        xr.open_datatree(path, engine="n5")
    path.write_text(with_loader(""), "utf-8")
    with pytest.raises(MetadataError, match="no ImageLoader"):
        xr.open_datatree(path, engine="n5")


@pytest.mark.exhaustive
def test_projects_of_mobie_are_opened_from_their_bucket(
    tmp_path: Path, served: Callable[[str], Bucket]
) -> None:
    bucket = served("moto")
    write_n5(tmp_path / "x.n5", SETUPS, factors=FACTORS[:1])
    fs = bucket.fs()
    fs.put(str(tmp_path / "x.n5"), f"{bucket.name}/data/x.n5", recursive=True)
    loader = (
        '<ImageLoader format="bdv.n5.s3"><Key>data/x.n5</Key>'
        f"<SigningRegion>us-west-2</SigningRegion><BucketName>{bucket.name}</BucketName>"
        f"<ServiceEndpoint>{bucket.endpoint}</ServiceEndpoint></ImageLoader>"
    )
    path = tmp_path / "mobie.xml"
    path.write_text(with_loader(loader), "utf-8")
    check(path, storage_options=bucket.options)  # the endpoint as well, as only the XML names it
    with pytest.warns(UserWarning, match="asked anonymously"), pytest.raises(PermissionError):
        check(path, storage_options={key: bucket.options[key] for key in ("key", "secret")})
    with pytest.raises(PermissionError):
        check(path)  # nobody's rights, as long as nothing is public
    for key in fs.find(f"{bucket.name}/data"):
        fs.chmod(key, "public-read")
    check(path)


# Requests


def far_project(count: int, text: str) -> tuple[Far, Any]:
    """A project of many views on an object store that is late."""
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    for level, shape in enumerate([(2, 4, 4), (2, 2, 2), (1, 1, 1)]):
        create_array(store, f"setup0/timepoint0/s{level}", shape=shape, dtype="u1")
    setup = b'{"downsamplingFactors": [[1, 1, 1], [2, 2, 1], [4, 4, 2]], "dataType": "uint8"}'
    documents = {key: data for key, data in fs.objects.items() if "/setup0/timepoint0/s" in key}
    for number in range(count):
        fs.objects[f"b/x.n5/setup{number}/attributes.json"] = setup
        for key, data in documents.items():
            fs.objects[key.replace("setup0", f"setup{number}")] = data
    fs.objects["b/dataset.xml"] = text.encode()
    fs.invalidate_cache()
    fs.be_far()
    return fs, (fs, "b/dataset.xml")


def test_four_hundred_views_take_few_rounds_of_requests() -> None:
    setups = [Setup(id=i, attributes={"tile": i % 20, "channel": i // 20}) for i in range(400)]
    steps = {(0, i): [("calibration", diagonal((4, 1, 1)))] for i in range(400)}
    times = '<Timepoints type="range"><first>0</first><last>0</last></Timepoints>'
    fs, place = far_project(400, project_xml(setups, steps, timepoints=times))
    tree: Any = xr.open_datatree(place, engine="n5")
    assert tree["s2"]["dataset"].shape == (1, 20, 20, 1, 1, 1)
    assert fs.rounds <= 40  # 3, unless the machine is so busy that answers overtake requests
    for options in ({"level": 0}, {"level": 2}, {"level": -1}, {"level": {"x": 1.0}}):
        fs.invalidate_cache()
        fs.reset()
        one = xr.open_dataset(place, engine="bdv", setup=7, timepoint=0, **options)
        assert one["dataset"].ndim == 3
        assert fs.rounds <= 4, options
        assert sum(fs.counts.values()) <= 16, options
    assert len(FACTORS) == 3


def test_a_project_on_a_web_server_needs_no_listings(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    write_project(tmp_path, SETUPS, project_xml(SETUPS))
    with serving(tmp_path) as url:
        check(f"{url}/project.xml")
        tree: Any = xr.open_datatree(f"{url}/project.xml", engine="n5")
        assert list(tree.groups) == ["/", "/s0", "/s1", "/s2"]
        with pytest.raises(NodeNotFoundError):
            xr.open_dataset(f"{url}/none.xml", engine="n5")


@pytest.mark.parametrize("name", ["a b#1?.n5", "100%ü;.n5"])
def test_containers_of_any_name_on_a_web_server_are_found(tmp_path: Path, name: str) -> None:
    pytest.importorskip("aiohttp")
    write_n5(tmp_path / name, SETUPS)
    for number, (target, version) in enumerate(((name, "1.0"), (quote(name), "1.1"))):
        text = with_loader(n5_loader(target, "relative", version))
        (tmp_path / f"{number}.xml").write_text(text, "utf-8")
    with serving(tmp_path) as url:
        check(f"{url}/0.xml")
        check(f"{url}/1.xml")


def test_four_hundred_images_of_zarr_take_few_rounds_of_requests() -> None:
    fs = Far()
    write_image(FsspecStore(fs, "b/x.ome.zarr"), "v0", (1, 1, 4, 8, 8))
    documents = {key: data for key, data in fs.objects.items() if "/v0/" in key}
    setups = [Setup(id=i, attributes={"tile": i}) for i in range(400)]
    for number in range(400):
        for key, data in documents.items():
            fs.objects[key.replace("/v0/", f"/v{number}/")] = data
    entries = "".join(
        f'<zgroup setup="{i}" tp="0" path="v{i}" indicies="0 0" />' for i in range(400)
    )
    times = '<Timepoints type="range"><first>0</first><last>0</last></Timepoints>'
    text = project_xml(setups, loader=zarr_loader(entries, "3.0"), timepoints=times)
    fs.objects["b/dataset.xml"] = text.encode()
    fs.be_far()
    tree: Any = xr.open_datatree((fs, "b/dataset.xml"), engine="n5")  # type: ignore[arg-type]
    assert tree["s1"]["dataset"].sizes["tile"] == 400
    assert fs.rounds <= 40  # 4, as above
    place: Any = (fs, "b/dataset.xml")
    for level in (0, 1, -1):
        fs.invalidate_cache()
        fs.reset()
        xr.open_dataset(place, engine="bdv", setup=7, timepoint=0, level=level)
        assert fs.rounds <= 4, level


@pytest.mark.parametrize("name", ["pybdv-0.6.0-h5", "pybdv-0.6.0-n5", "npy2bdv-1.1.0"])
def test_projects_that_others_wrote_open(corpus: Path, name: str) -> None:
    path = corpus / "peers" / "hdf5" / f"{name}.xml"
    ds = xr.open_dataset(path, engine="n5", level=1)
    image = ds[name]
    assert image.dims[-3:] == ("z", "y", "x")
    assert image.any()
    assert np.isfinite(ds.affine).all()
    assert ds.x.attrs["units"] in {"um", "micrometer"}
    inner = xr.open_dataset(path, engine="n5", level=0)
    assert inner[name].shape[-3:] == (7, 13, 20)
