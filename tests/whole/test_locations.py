"""Where strings in files may lead: the table in SECURITY.md, by recording what fsspec is asked."""

from __future__ import annotations

import functools
import re
import sys
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import h5py
import pytest
import xarray as xr
from fsspec.config import conf
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import known_implementations, register_implementation, registry

from tests.stores.test_web import SECRETS, Handler
from tests.stores.test_web import serving as answering
from tests.support.exhaustive import spread
from tests.support.projects import Setup, project_xml, write_n5
from xarray_n5 import (
    MetadataError,
    N5Error,
    NodeNotFoundError,
    create_array,
    open_array,
    open_group,
)
from xarray_n5.bdv.loaders import parse_location
from xarray_n5.formats.containers import find_scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETUPS = [Setup(id=0)]

PROTOCOLS = sorted({*known_implementations, *registry})
"""All protocols that fsspec knows."""

WHERE = ("a local XML", "an XML on a server", "attributes, NGFF, HDF5 links")

Asked = list[tuple[str, dict[str, Any]]]


def forms(protocol: str) -> dict[str, str]:
    """The ways to write a location of a protocol, by the rows of the table."""
    plain = f"{protocol}://h-1/x.n5"
    return {
        plain: f"`{protocol}`",
        plain.replace(protocol, protocol.upper()): f"`{protocol}`",
        f"{protocol}::http://h-1/x.n5": "chained",
        f"{protocol}://a::http://h-1/x.zip": "chained",
        f"simplecache::{plain}": "chained",
        f"{plain}::file:///etc": "chained",
    }


@functools.cache
def table() -> dict[str, dict[str, str]]:
    """The table in SECURITY.md: the rows that hold a protocol, and the cells below each place."""
    text = (Path(__file__).parents[2] / "SECURITY.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert tuple(header[1:]) == WHERE
    found: dict[str, dict[str, str]] = {}
    for first, *cells in rows:
        for name in re.findall(r"`[a-z0-9]+`|chained|any other", first):
            assert name not in found
            found[name] = dict(zip(WHERE, cells, strict=True))
    return found


@functools.cache
def may_be_asked(row: str, where: str) -> bool:
    """Whether a row of the table lets a location reach fsspec."""
    rows = table()
    cell = rows.get(row, rows["any other"])[where]
    assert cell.startswith(("opened", "refused", "a name"))
    return cell.startswith("opened") and row != "`file`"  # a file needs no fsspec


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What fsspec is asked for: URLs with options, and classes and instances of filesystems."""
    found: Asked = []

    def record(url: Any, *_: Any, **options: Any) -> Any:
        found.append((str(url), options))
        raise ConnectionError("recorded")

    names = ("url_to_fs", "open", "open_files", "filesystem", "get_filesystem_class")
    for module in ("fsspec", "fsspec.core", "fsspec.registry"):
        for name in names:
            if hasattr(sys.modules[module], name):
                monkeypatch.setattr(sys.modules[module], name, record)
    return found


def loaders(target: str) -> Iterator[str]:
    """Projects whose containers are at an absolute location."""
    for form, tag in (("bdv.n5", "n5"), ("bdv.n5.cloud", "n5"), ("bdv.multimg.zarr", "zarr")):
        for kind in (' type="absolute"', ""):
            yield xml(f'<ImageLoader format="{form}"><{tag}{kind}>{target}</{tag}></ImageLoader>')
    yield based(target, "")


def xml(loader: str, **more: Any) -> str:
    return project_xml(SETUPS, loader=loader, **more)


def n5(target: str, kind: str = "absolute") -> str:
    return xml(f'<ImageLoader format="bdv.n5"><n5 type="{kind}">{target}</n5></ImageLoader>')


def based(base: str, path: str) -> str:
    loader = f'<ImageLoader format="bdv.n5"><n5 type="relative">{path or "."}</n5></ImageLoader>'
    return xml(loader, base=f'<BasePath type="absolute">{base}</BasePath>')


Place = tuple[str, Any]
"""A column of the table, and the project's XML there: a function that writes it."""


def on_disk(folder: Path) -> Callable[[str], Any]:
    def write(text: str) -> Any:
        (folder / "a.xml").write_text(text, "utf-8")
        return folder / "a.xml"

    return write


def on_server(text: str) -> Any:
    MemoryFileSystem().pipe_file("/locations/a.xml", text.encode())
    return MemoryFileSystem(), "/locations/a.xml"


@pytest.fixture(params=WHERE[:2])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return request.param, on_disk(tmp_path) if request.param == WHERE[0] else on_server


def look(url: Any, **options: Any) -> Exception | None:
    """Look for a project's container; return the error."""
    file = find_scene(url)
    assert file is not None
    try:
        file.container(options)
    except Exception as error:  # noqa: BLE001 - whatever is raised
        return error
    return None


def test_fsspec_is_asked_for_the_locations_of_the_table_and_no_others(
    place: Place, asked: Asked
) -> None:
    where, write = place
    for protocol in PROTOCOLS:
        for number, (target, row) in enumerate(forms(protocol).items()):
            expected = target.replace(protocol.upper(), protocol)
            every = list(loaders(target))
            for text in every[number : number + 1] if number else every:
                asked.clear()
                error = look(write(text))
                if may_be_asked(row, where):
                    assert [url.removesuffix("/.") for url, _ in asked] == [expected]
                else:
                    assert asked == [], target
                    assert isinstance(error, MetadataError), target
                    assert str(error).count("the project's container") == 1


def test_relative_paths_keys_and_hdf5_never_become_urls(place: Place, asked: Asked) -> None:
    _, write = place
    named = "<BucketName>bucket</BucketName>"
    for protocol in PROTOCOLS:
        for target in list(forms(protocol))[::2]:
            look(write(n5(f"../locations/{target}", "relative")))
            for tags in (f'<hdf5 type="absolute">{target}</hdf5>', f"{named}<Key>{target}</Key>"):
                loader = f'<ImageLoader format="bdv.hdf5">{tags}</ImageLoader>'
                assert isinstance(look(write(xml(loader))), MetadataError)
            assert asked == []
            loader = f'<ImageLoader format="bdv.n5.s3">{named}<Key>{target}</Key></ImageLoader>'
            look(write(xml(loader)))
            expected = [] if "::" in target else [f"s3://bucket/{target}"]
            assert [url for url, _ in asked] == expected
            asked.clear()


@pytest.mark.more
def test_paths_in_attributes_and_links_never_become_urls(tmp_path: Path, asked: Asked) -> None:
    assert not any(cells[WHERE[2]].startswith("opened") for cells in table().values())
    targets = spread([target for protocol in PROTOCOLS for target in forms(protocol)], 40)
    create_array(tmp_path / "x.n5", "a/s0", shape=(4, 4), dtype="u1")
    create_array(tmp_path / "x.zarr", "a/s0", shape=(4, 4), dtype="u1", format="zarr2")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for number, target in enumerate(targets):
            file[f"soft{number}"] = h5py.SoftLink(target)
            file[f"external{number}"] = h5py.ExternalLink(target, "a")
    for name in ("x.n5", "x.zarr"):
        group: Any = open_group(tmp_path / name, "a", mode="r+")
        for target in targets:
            axes = [{"name": axis, "type": "space"} for axis in "yx"]
            scale = [{"type": "scale", "scale": [1, 1]}]
            level = {"path": target, "coordinateTransformations": scale}
            image = {"version": "0.4", "axes": axes, "datasets": [level], "path": target}
            described = {"multiscales": [image], "labels": [target], "painteraData": target}
            group.attrs.update(described)
            with warnings.catch_warnings(), suppress(N5Error, ValueError):
                warnings.simplefilter("ignore")
                xr.open_datatree(tmp_path / name, engine="n5", group="a")
    file = open_group(tmp_path / "x.h5")
    for number in range(len(targets)):
        for kind in ("soft", "external"):
            with pytest.raises(N5Error):
                open_array(tmp_path / "x.h5", f"{kind}{number}")
    assert asked == []


# Spellings


HIDDEN = [
    "/etc/x.n5",
    "FILE:///etc/x.n5",
    "File:/etc/x.n5",
    "file:etc/x.n5",
    "file:x.n5",
    "file:///%65tc/x.n5",
    "file://localhost/etc/x.n5",
    "file://LOCALHOST/etc",
    "local:///etc/x.n5",
    "LOCAL:/etc/x.n5",
    "asynclocal:///etc/x.n5",
    "simplecache::/etc/x.n5",
    "filecache::file:///etc/x.n5",
    "dir::file:///etc/x.n5",
    "reference::file:///etc/x.json",
    "memory://projects::file:///etc",
    "http://h-1/x.n5::file:///etc",
    "file%3A///etc/x.n5",
    "%2Fetc/x.n5",
    "C:\\etc\\x.n5",
    "\\\\h-1\\share\\x.n5",
    "//h-1/share/x.n5",
    "~/x.n5",
    "x.n5",
]


def test_an_xml_on_a_server_leads_to_no_file_of_this_machine_by_any_spelling(
    asked: Asked,
) -> None:
    for target in HIDDEN:
        for text in (*loaders(target), based(f" {target}/ ", "x.n5")):
            assert isinstance(look(on_server(text)), MetadataError), target
    assert asked == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/a b%20.n5", "/data/a b%20.n5"),
        ("file:///data/a%20b%23.n5", "/data/a b#.n5"),
        ("FiLe:/data/x.n5", "/data/x.n5"),
        ("file://localhost/data/x.n5", "/data/x.n5"),
        ("D:\\data\\x.n5", "D:/data/x.n5"),
        ("/data/a::b.n5", "/data/a::b.n5"),
        ("x.n5", "x.n5"),
    ],
)
def test_paths_and_files_are_local(text: str, path: str) -> None:
    assert parse_location(text) == path


@pytest.mark.parametrize(
    "text",
    [
        "file:x.n5",
        "file://h-1/share/x.n5",
        "file:////h-1/share/x.n5",
        "file:///%2Fh-1/share/x.n5",
        "file:///%5Ch-1/x.n5",
        "file:///data/%00x.n5",
        "//h-1/share/x.n5",
        "\\\\h-1\\share\\x.n5",
        "/\\h-1/x.n5",
        "ht\ntp://h-1/x.n5",
        "http://h-1/x\r\n.n5",
        "http:h-1/x.n5",
        "http:/h-1/x.n5",
        "http:///x.n5",
        "http:\\\\h-1\\x.n5",
        "http://h-1\\@h-2/x.n5",
        "http://me@h-1/x.n5",
        "http://me:word@h-1/x.n5",
        "http://%68-1/x.n5",
        "http://h-1:99999/x.n5",
        "http://h-1:/x.n5",
        "http://h-1 /x.n5",
        "http://[::1]/x.n5",
        "https://h-1/x.n5::http://h-2",
        "s3://bucket:80/x.n5",
        "s3://arn:aws:s3:::b/x.n5",
        "s3:///x.n5",
        "az://account.blob.core.windows.net/x.n5",
        "abfss://c@account.dfs.core.windows.net/x.n5",
        "memory://x.n5",
        "data:,x",
    ],
)
def test_other_locations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"scheme|network|control|NUL|server or bucket|absolute"):
        parse_location(text)


def served(text: str) -> Callable[[Handler], None]:
    """Answer with a project's XML, and with nothing else."""

    def answer(handler: Handler) -> None:
        is_xml = handler.path.partition("?")[0].endswith("p.xml")
        handler.reply(200, text.encode()) if is_xml else handler.reply(404)

    return answer


def open_project(url: Any, **options: Any) -> None:
    """Open a project without data."""
    with pytest.raises(NodeNotFoundError):
        xr.open_dataset(url, engine="n5", storage_options=options)


@pytest.mark.parametrize("up", ["../../{}", "%2e%2e/%2e%2e/{}", "..\\..\\{}", "..%2F..%2F{}"])
def test_parents_end_at_the_server_of_the_xml(up: str) -> None:
    with answering(served("")) as other:
        text = n5(f"{up.format(other.url.partition('://')[2])}/x.n5", "relative")
        with answering(served(text)) as own:
            with pytest.raises((MetadataError, NodeNotFoundError)):
                xr.open_dataset(f"{own.url}/p.xml", engine="n5")
            assert own.seen
        assert not other.seen


# Credentials


def test_credentials_go_to_no_web_server_that_only_the_xml_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(conf, "http", {"headers": {"X-Everywhere": "hush"}})
    with answering(served("")) as other:
        text = n5(f"{other.url}/x.n5")
        local = on_disk(tmp_path)(text)
        with answering(served(text)) as own:
            open_project(f"{own.url}/p.xml", **SECRETS)
            open_project(f"{own.url.replace('//', '//me:hush@')}/p.xml?hush=1")
            assert "hush" in str(own.seen)
        with pytest.warns(UserWarning, match=f"asked anonymously.*endpoint_url='{other.url}'"):
            open_project(local, **SECRETS)
        open_project(local)
        with pytest.warns(UserWarning, match="asked anonymously"):
            open_project(local, endpoint_url="https://127.0.0.1", **SECRETS)
        assert other.seen
        assert "hush" not in str(other.seen)
        open_project(local, endpoint_url=other.url.upper(), **SECRETS)
        assert "hush" in str(other.seen)


def test_credentials_go_to_the_server_of_the_xml() -> None:
    with answering(served("")) as own:
        own.answer = served(n5(f"{own.url.replace('http', 'HTTP')}/x.n5?version=3"))
        open_project(f"{own.url}/p.xml", **SECRETS)
        asked = [headers for path, headers in own.seen if path.startswith("/x.n5")]
        assert asked
        assert all(headers["X-Api-Key"] == "hush" for headers in asked)
        assert all("p.xml" in path or path.endswith("?version=3") for path, _ in own.seen)


def test_credentials_go_to_no_endpoint_that_only_the_xml_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    keys = {"key": "AKIAHUSH", "secret": "S" * 40, "token": "HUSH"}
    with answering(served("")) as other, answering(served("")) as own:
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            monkeypatch.setenv(name, "/dev/null")
        monkeypatch.setenv("AWS_ENDPOINT_URL", own.url)  # instead of Amazon's
        monkeypatch.setenv("AWS_SESSION_TOKEN", "HUSH")
        text = xml(
            '<ImageLoader format="bdv.n5.s3"><Key>x.n5</Key><SigningRegion>us-1</SigningRegion>'
            f"<ServiceEndpoint>{other.url}</ServiceEndpoint><BucketName>bucket</BucketName>"
            "</ImageLoader>"
        )
        own.answer = served(text)
        local = on_disk(tmp_path)(text)
        open_project("s3://own/p.xml", **keys)
        assert "HUSH" in str(own.seen)
        with pytest.warns(UserWarning, match="asked anonymously.*endpoint_url="):
            open_project(local, **keys)
        open_project(local)
        open_project(local, anon=True)
        assert other.seen
        assert "HUSH" not in str(other.seen)
        open_project(local, endpoint_url=other.url, **keys)
        assert "AKIAHUSH" in str(other.seen)
        before = len(other.seen)
        open_project(local, endpoint_url=own.url, **keys)  # the user's replaces that of the XML
        assert len(other.seen) == before


@pytest.mark.parametrize(
    ("target", "options"),
    [("s3://b/x.n5", {"anon": True}), ("gs://b/x.n5", {"token": "anon"})],
)
def test_object_stores_that_an_xml_on_the_web_names_are_asked_anonymously(
    target: str, options: dict[str, Any], asked: Asked, tmp_path: Path
) -> None:
    look(on_server(n5(target)), key="hush", username="hush")
    assert asked == [(target, options)]
    asked.clear()
    look(on_disk(tmp_path)(n5(target)), key="chosen")  # for the service that the user has
    assert asked == [(target, {"key": "chosen"})]


class Hosts(MemoryFileSystem):  # type: ignore[misc]
    """Files on servers of a protocol of its own, which notes with what it is opened."""

    protocol = "hosts"
    cachable = False
    given: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, **options: Any) -> None:
        Hosts.given.append(options)
        super().__init__()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + re.sub("^hosts://[^/]*", "", path).strip("/")


def test_other_protocols_stay_on_the_server_of_the_xml() -> None:
    register_implementation("hosts", Hosts, clobber=True)
    for target, answer in (
        ("hosts://h-1:7/x.n5", "hosts:///x.n5"),
        ("HOSTS://h-1:7/x.n5", "hosts:///x.n5"),
        ("hosts:///y/x.n5", "hosts:///y/x.n5"),
        ("hosts://h-2:7/x.n5", None),
        ("hosts://h-1/x.n5", None),
        ("hosts://h-1:7@h-2/x.n5", None),
    ):
        MemoryFileSystem().pipe_file("/locations/p.xml", n5(target).encode())
        file = find_scene("hosts://h-1:7/locations/p.xml", {"token": "hush"})
        assert file is not None
        Hosts.given.clear()
        if answer is None:
            with pytest.raises(MetadataError, match="is not opened"):
                file.container({"token": "hush"})
        else:
            assert file.container({"token": "hush"}).url == answer
        assert Hosts.given == []  # the XML's own filesystem


def test_chained_urls_of_the_user_hold_relative_containers(tmp_path: Path) -> None:
    write_n5(tmp_path / "x.n5", SETUPS)
    (tmp_path / "a.xml").write_text(n5("x.n5", "relative"), "utf-8")
    MemoryFileSystem().put(str(tmp_path), "/chained", recursive=True)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for path in tmp_path.rglob("*"):
            if path.suffix != ".zip" and path.is_file():
                archive.write(path, path.relative_to(tmp_path))
    for url in (
        "simplecache::memory://chained/a.xml",
        f"simplecache::file://{tmp_path}/a.xml",
        f"zip://a.xml::file://{tmp_path}/a.zip",
    ):
        ds = xr.open_dataset(url, engine="bdv", level=0, setup=0, timepoint=0)
        assert ds["a"].any()
