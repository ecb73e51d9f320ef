"""Servers for tests: object stores and a web server on this machine, on ports that are free.

Each starts once in each process of tests that asks for it; what cannot start is skipped.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from fsspec.core import url_to_fs

from xarray_n5.formats.containers import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from fsspec import AbstractFileSystem

    from xarray_n5.stores.base import Store

ROOT = Path(__file__).parents[2]

KEY, SECRET = "tests-access-key-1", "tests-secret-key-of-no-worth"

os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
"""Read when gcsfs is imported, in workers too: an emulator has no answer to what it would ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A place that a server keeps, and how to come to it."""

    url: str
    """The bucket's URL, without a slash at its end."""
    options: dict[str, Any]
    """What its filesystem takes: users call it ``storage_options``."""
    endpoint: str
    """Where the server listens."""
    requests: Callable[[], str] | None = None
    """What the server has logged, a line for each request."""
    keeps_folders: bool = False
    """Whether a folder is there for a while after its last object was removed."""
    client: Callable[[str], AbstractFileSystem] | None = None
    """Makes a bucket's filesystem where URLs lead to another client."""

    @property
    def name(self) -> str:
        """The bucket's name."""
        return self.url.rpartition("/")[2]

    def fs(self) -> AbstractFileSystem:
        """Return another client's filesystem: it shares no cache with what is tested."""
        return url_to_fs(self.url, skip_instance_cache=True, **self.options)[0]

    def place(self, folder: str = "") -> tuple[Any, dict[str, Any]]:
        """Return a folder of the bucket as users name it, and its storage options."""
        if self.client is not None:
            return (self.client(self.name), f"{self.name}/{folder}".rstrip("/")), {}
        return f"{self.url}/{folder}".rstrip("/"), self.options

    def store(self, folder: str) -> Store:
        """Return the store of a folder in the bucket."""
        return open_store(*self.place(folder))

    def keys(self, folder: str = "") -> dict[str, int]:
        """Return the sizes of all objects under a folder, as another client sees them."""
        root = f"{self.name}/{folder}".rstrip("/")
        found = self.fs().find(root, detail=True)
        return {key[len(root) + 1 :]: facts["size"] for key, facts in found.items()}

    def puts(self, folder: str) -> Counter[str] | None:
        """Return how often each key under a folder was put, where the server tells."""
        if self.requests is None:
            return None
        lines = re.findall(rf"PUT /(?:tests/)?{self.name}/([^\s?]+)", self.requests())
        keys = [unquote(line).partition(f"{folder}/") for line in lines]
        return Counter(key for before, folder, key in keys if folder and not before)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(command: list[str], port: int, log: Path, **environ: str) -> Iterator[None]:
    """Run a program until it listens; end it, and all that it started, at last."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **environ},
            cwd=log.parent,
        )
    try:
        deadline = time.monotonic() + 120
        while not listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"{command[0]} did not start: {log.read_text()[-500:]}")
        yield
    finally:
        end(process)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    time.sleep(0.05)
    return False


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program politely, or else at once."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            return


def program(name: str) -> str:
    """Return the path of a program that a Python package brought, or another one."""
    here = Path(sysconfig.get_path("scripts")) / name
    found = str(here) if here.exists() else shutil.which(name)
    return found or pytest.skip(f"no {name} here: bash ci/servers installs it")


def s3_options(endpoint: str) -> dict[str, Any]:
    return {"key": KEY, "secret": SECRET, "endpoint_url": endpoint}


@contextmanager
def seaweedfs(folder: Path) -> Iterator[Bucket]:
    """S3 by SeaweedFS, whose processes many clients ask at the same time."""
    command = program("weed")
    pytest.importorskip("s3fs")
    who = {"credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [{"name": "tests", **who}]}))
    parts = ("master", "volume", "filer", "s3")
    ports = {f"{part}.port{kind}": free_port() for part in parts for kind in ("", ".grpc")}
    words = [
        *("server", "-filer", "-s3", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", "-s3.config=s3.json"),
        *("-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=99"),
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    port = ports["s3.port"]
    endpoint = f"http://127.0.0.1:{port}"
    with running([command, *words], port, folder / "log"):
        bucket = Bucket(
            url="s3://bucket", options=s3_options(endpoint), endpoint=endpoint, keeps_folders=True
        )
        deadline = time.monotonic() + 120
        while not _stores(bucket):
            assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield bucket


def _stores(bucket: Bucket) -> bool:
    """Return whether a server stores something: its parts start one after another."""
    with contextlib.suppress(OSError):
        bucket.fs().mkdir("bucket")
    with contextlib.suppress(OSError):
        bucket.fs().pipe_file("bucket/started", bytes(1 << 12))
        return True
    return False


def by_obstore(bucket: Bucket) -> Bucket:
    """Return another bucket of a server behind obstore, another client than s3fs."""
    fsspec = pytest.importorskip("obstore.fsspec")
    bucket.fs().mkdir("other")

    def client(_: str) -> AbstractFileSystem:
        return fsspec.FsspecStore(
            "s3",
            access_key_id=KEY,
            secret_access_key=SECRET,
            endpoint=bucket.endpoint,
            region="us-east-1",
            client_options={"allow_http": True},
        )

    return replace(bucket, url="s3://other", client=client)


@contextmanager
def moto(folder: Path) -> Iterator[Bucket]:
    """S3 by moto, in this process: its answers are the most like those of S3."""
    del folder
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    lines: list[str] = []
    log, handler = logging.getLogger("werkzeug"), logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        bucket = Bucket(
            url="s3://bucket",
            options=s3_options(endpoint),
            endpoint=endpoint,
            requests=lambda: "\n".join(lines),
        )
        bucket.fs().mkdir("bucket")
        yield bucket
    finally:
        server.stop()
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def azurite(folder: Path) -> Iterator[Bucket]:
    """Azure's blobs by Azurite."""
    pytest.importorskip("adlfs")
    logging.getLogger("azure").setLevel(logging.WARNING)  # it tells each header of each request
    script = ROOT / ".servers" / "node_modules" / ".bin" / "azurite-blob"
    command = str(script) if script.exists() else program("azurite-blob")
    port, key = free_port(), base64.b64encode(SECRET.encode()).decode()
    words = f"--blobHost 127.0.0.1 --blobPort {port} --skipApiVersionCheck --disableTelemetry"
    log, account = folder / "log", "tests"
    endpoint = f"http://127.0.0.1:{port}/{account}"
    connection = (
        f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};"
        f"BlobEndpoint={endpoint};"
    )
    with running([command, *words.split()], port, log, AZURITE_ACCOUNTS=f"{account}:{key}"):
        bucket = Bucket(
            url="az://bucket",
            options={"connection_string": connection},
            endpoint=endpoint,
            requests=log.read_text,
        )
        bucket.fs().mkdir("bucket")
        yield bucket


@contextmanager
def gcs(folder: Path) -> Iterator[Bucket]:
    """Google's object store by an emulator."""
    pytest.importorskip("gcsfs")
    port = free_port()
    program("gcp-storage-emulator")
    # It answers one request after another: let all others wait, instead of turning them away.
    script = (
        "from http.server import HTTPServer; HTTPServer.request_queue_size = 1024\n"
        "from gcp_storage_emulator.__main__ import main; main()"
    )
    command = [sys.executable, "-c", script, "start", "--in-memory", "--default-bucket=bucket"]
    command += ["--host=127.0.0.1", f"--port={port}"]
    endpoint = f"http://127.0.0.1:{port}"
    with running(command, port, folder / "log"):
        options = {"endpoint_url": endpoint, "token": "anon", "project": "tests"}
        yield Bucket(url="gs://bucket", options=options, endpoint=endpoint)


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Bucket]]] = {
    "seaweedfs": seaweedfs,
    "moto": moto,
    "azurite": azurite,
    "gcs": gcs,
}
"""Object stores, each with a client."""

CLIENTS = {"obstore": by_obstore}
"""Other clients: the name of a server may end with a hyphen and one of these."""

SERVED = [
    pytest.param(name, marks=pytest.mark.exhaustive) for name in (*SERVERS, "seaweedfs-obstore")
]
"""Their names, as parameters of a test: ``ci/servers`` sets them up."""


class WebServer(ThreadingHTTPServer):
    """Lets many connections wait: of more than five, others would try again after seconds."""

    request_queue_size = 1024


@dataclass(kw_only=True)
class Ranges:
    """A web server that sends parts of files, which a test may replace meanwhile."""

    files: dict[str, bytes] = field(default_factory=dict)
    """The files, by path."""
    folder: Path | None = None
    """The folder that they are in, instead."""
    headers: Callable[[bytes], dict[str, str]] = lambda _: {}
    """Returns what the server sends with any part of a file, such as an ETag."""
    knows_ranges: bool = True
    """Whether it sends parts, or else whole files."""
    before: Callable[[], None] = lambda: None
    """Called before each answer."""
    url: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)
    """The method or range and the path of each request."""
    sent: int = 0
    """The number of bytes of all bodies."""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a GET."""
        path = unquote(handler.path.partition("?")[0]).lstrip("/")
        wanted = handler.headers.get("Range")
        self.seen.append((wanted or "GET", path))
        self.before()
        data = self.files.get(path)
        if self.folder is not None and (file := self.folder / path).is_file():
            data = file.read_bytes()
        if data is None:
            handler.send_error(404)
            return
        status, part, headers = 200, data, self.headers(data)
        if wanted is not None and self.knows_ranges:
            first, last = wanted.removeprefix("bytes=").split("-")
            start = int(first) if first else -int(last)
            stop = int(last) + 1 if first and last else None
            start, stop, _ = slice(start, stop).indices(len(data))
            part = data[start:stop]
            status, bounds = (206, f"{start}-{stop - 1}") if part else (416, "*")
            headers = {**headers, "Content-Range": f"bytes {bounds}/{len(data)}"}
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(part))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(part)
            self.sent += len(part)


@contextmanager
def serving_ranges(**options: Any) -> Iterator[Ranges]:
    """Serve files by ranges, to pages from elsewhere too, as object stores do; list none."""
    served = Ranges(**options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.answer(self)

        def do_HEAD(self) -> None:
            if served.folder is not None:
                served.answer(self)
                return
            served.seen.append(("HEAD", self.path.lstrip("/")))
            self.send_error(405)

        def do_OPTIONS(self) -> None:
            self.send_response(204)
            self.end_headers()

        def end_headers(self) -> None:
            for name in ("Origin", "Headers", "Methods"):
                self.send_header(f"Access-Control-Allow-{name}", "*")
            self.send_header("Access-Control-Expose-Headers", "Content-Range")
            super().end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    with WebServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        served.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the files of a folder."""
    with serving_ranges(folder=folder) as served:
        yield served.url
