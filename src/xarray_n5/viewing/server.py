"""Serve layers as Zarr to Neuroglancer, from the server of the viewer itself."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from typing import TYPE_CHECKING, Any

import tornado.routing
import tornado.web

from xarray_n5.errors import MissingPackageError
from xarray_n5.model.paths import number_in
from xarray_n5.viewing.state import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.viewing.served import Layer

_CHUNK = re.compile(r"\d{1,15}(?:\.\d{1,15})*")
"""The name of a chunk in a level."""

_ALL = ("0.0.0.0", "::")  # noqa: S104
"""The addresses at which a server listens on all network interfaces."""

_LOCALHOST = re.compile(r"//(?:localhost|ip6-localhost)(?:\.[\w.]*)?:")


_IDLE = 60.0
"""The seconds after which a connection without a request is closed."""


class _Entrance(tornado.routing.Router):
    """The router of a server: requests without the token have no body."""

    def __init__(self, server: Any) -> None:
        self.server = server

    def find_handler(self, request: Any, **kwargs: Any) -> Any:
        """Return the handler of a request, before its body is read."""
        tokens = {part.partition(".")[0] for part in request.path.split("/")}
        if not tokens.intersection([self.server.token, *self.server.viewers]):
            request.connection.set_max_body_size(0)
        return self.server.app.find_handler(request, **kwargs)


class _Files(tornado.web.RequestHandler):
    """Documents and chunks of layers, which are created on request."""

    def initialize(self, layers: Sequence[Layer], server: Any, viewer: Any) -> None:
        """Keep the served layers; the viewer exists as long as the server."""
        self.layers, self.server, self.viewer = layers, server, viewer

    async def get(self, number: str, path: str) -> None:
        """Answer a request."""
        data = None
        if int(number) < len(self.layers):
            work = self.server.executor.submit(_file, self.layers[int(number)], path)
            data = await asyncio.wrap_future(work)
        if data is None:
            self.send_error(404)
            return
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Cache-Control", "no-store")
        self.finish(data)

    head = get


def _file(layer: Layer, path: str) -> bytes | None:
    """Return a file of a layer, or None if there is none."""
    if path == ".zgroup":
        return b'{"zarr_format": 2}'
    if path == ".zattrs":
        return json.dumps(layer.attributes()).encode()
    level, _, name = path.partition("/")
    number = number_in(level)
    if number is None or number >= len(layer.levels):
        return None
    if name == ".zarray":
        return json.dumps(layer.document(number)).encode()
    index = [int(each) for each in name.split(".")] if _CHUNK.fullmatch(name) else []
    return layer.chunk(number, index) if len(index) == len(layer.dims) else None


def _viewer_on(server: Any) -> Any:
    """Return a new viewer with its own server, instead of the one that all other viewers share."""
    from neuroglancer.viewer_base import ViewerBase

    class Viewer(ViewerBase):  # type: ignore[misc]
        def defer_callback(self, callback: Any, *args: Any, **kwargs: Any) -> None:
            server.loop.call_soon_threadsafe(lambda: callback(*args, **kwargs))

        def get_viewer_url(self) -> str:
            return f"{server.server_url}/v/{self.token}/"

    # Pages must not receive the user's credentials for other services.
    viewer = Viewer(allow_credentials=False)
    server.viewers[viewer.token] = viewer
    return viewer


def serve(layers: Sequence[Layer], address: str, port: int) -> tuple[Any, Any]:
    """Return a server that runs in its own threads, and the viewer of the layers.

    Raises
    ------
    MissingPackageError
        If Neuroglancer is not installed.
    OSError
        If the address or the port cannot be used.
    """
    try:
        from neuroglancer.server import Server
    except ImportError as error:
        raise MissingPackageError("views in Neuroglancer", "view", error) from error
    server = Server(bind_address=address, bind_port=port)
    server.server_url = _reachable(server.server_url, address)
    try:
        viewer = _viewer_on(server)
        root = f"/images/{viewer.token}"
        how = {"layers": layers, "server": server, "viewer": viewer}
        rule = (rf"{root}/(\d{{1,4}})/(.*)", _Files, how)
        server.app.add_handlers(r".*", [rule])
        server.http_server.request_callback = _Entrance(server)
        server.http_server.conn_params.header_timeout = _IDLE
        urls = [f"{server.server_url}{root}/{n}/|zarr2:" for n in range(len(layers))]
        viewer.set_state(state_of(layers, urls))
    except BaseException:
        stop(server)
        raise
    return server, viewer


def _reachable(url: str, address: str) -> str:
    """Return a server's URL with the name of this machine if it listens at all addresses.

    >>> _reachable("http://127.0.0.1:80", "127.0.0.1")
    'http://127.0.0.1:80'
    """
    return _LOCALHOST.sub(f"//{socket.gethostname()}:", url) if address in _ALL else url


def stop(server: Any) -> None:
    """Stop a server and its threads."""
    server.stop()
    server.executor.shutdown(cancel_futures=True)
