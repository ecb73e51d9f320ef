"""The state of a viewer, and the server of it that serves layers as Zarr."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import tornado.routing
import tornado.web

from xarray_n5.errors import MissingPackageError
from xarray_n5.model.paths import number_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.viewing.served import Layer

_PIXELS = 300
"""The size of the longest side of the data on the screen, in pixels."""


def state_of(layers: Sequence[Layer], urls: Sequence[str]) -> dict[str, Any]:
    """Return the state that shows layers.

    Parameters
    ----------
    layers
        The layers; all of them are in view.
    urls
        The URLs of their sources.
    """
    spaces = [_space(layer) for layer in layers]
    dims: dict[str, tuple[float, str]] = {}
    for space in spaces:
        for name, (size, unit, _, _) in space.items():
            dims.setdefault(name, (size, unit))
    shown = list(spaces[0])[: layers[0].spatial]
    whole = {**spaces[0], **{name: _extent(spaces, name) for name in shown}}
    return {
        "dimensions": {name: list(one) for name, one in dims.items()},
        "displayDimensions": shown,
        "position": [
            next(one[name][2] for one in (whole, *spaces) if name in one) for name in dims
        ],
        **_zoom(whole, shown),
        "layers": _layers(layers, urls),
        "layout": "4panel" if len(shown) > 2 else "xy",  # noqa: PLR2004
        "selectedLayer": {"visible": False},
    }


_Space = dict[str, tuple[float, str, float, float]]
"""For each dimension: the size of its unit, the unit, and in it the middle and the extent."""


def _space(layer: Layer) -> _Space:
    """Return the dimensions of a layer: those of space, x first, then all others."""
    base, outer = layer.levels[0], len(layer.dims) - layer.spatial
    shape = base.data.shape
    space: _Space = {}
    for at, dim in enumerate(layer.dims):
        step = base.scale[at]
        middle = shape[at] // 2 if at >= outer else 0
        place = middle + base.offset[at] / step
        space[dim.name] = dim.size * step, dim.unit, place, shape[at]
    if layer.matrix is not None:
        samples = np.array([[*at, 1] for at in product(*((0, size) for size in shape[outer:]))])
        corners = samples @ layer.matrix.T
        centre = layer.matrix @ [*(size // 2 for size in shape[outer:]), 1]
        for at, dim in enumerate(layer.dims[outer:]):
            space[dim.name] = (dim.size, dim.unit, float(centre[at]), float(np.ptp(corners[:, at])))
    ordered = [*layer.dims[outer:][::-1], *layer.dims[:outer]]
    return {dim.name: space[dim.name] for dim in ordered}


def _extent(spaces: Sequence[_Space], name: str) -> tuple[float, str, float, float]:
    """Return a dimension of the first layer with the middle and the extent of all layers."""
    size, unit, _, _ = spaces[0][name]
    alike = [space[name] for space in spaces if name in space and space[name][1] == unit]
    low = min((middle - extent / 2) * step for step, _, middle, extent in alike) / size
    high = max((middle + extent / 2) * step for step, _, middle, extent in alike) / size
    return size, unit, (low + high) / 2, high - low


def _zoom(space: _Space, shown: Sequence[str]) -> dict[str, float]:
    """Return scales that show the whole extent."""
    units = {space[name][1] for name in shown}
    sizes = [space[name][0] if len(units) == 1 else 1.0 for name in shown]
    extents = [space[name][3] * size for name, size in zip(shown, sizes, strict=True)]
    longest = max(extents) / min(sizes)
    return {"crossSectionScale": longest / _PIXELS, "projectionScale": longest * 2}


def _layers(layers: Sequence[Layer], urls: Sequence[str]) -> list[dict[str, Any]]:
    shown_layers: list[dict[str, Any]] = []
    for layer, url in zip(layers, urls, strict=True):
        is_first = all(other["type"] != "image" for other in shown_layers)
        source: Any = url if layer.matrix is None else _transformed(layer, url)
        shown = layer.shown(source, is_first=is_first)
        same = sum(other.name == layer.name for other in layers[: len(shown_layers)])
        shown_layers.append(shown | {"name": f"{layer.name} ({same + 1})"} if same else shown)
    return shown_layers


def _transformed(layer: Layer, url: str) -> dict[str, Any]:
    """Return a source whose samples are transformed to the positions of a registration."""
    matrix = np.asarray(layer.matrix, np.float64)
    if not np.isfinite(matrix).all():
        raise ValueError(
            f"the affine matrix of {layer.name!r} has numbers that are not finite; drop the "
            "coordinate 'affine' to show it without"
        )
    outer = len(layer.dims) - layer.spatial
    rows = np.zeros((len(layer.dims), len(layer.dims) + 1))
    rows[:outer, :outer] = np.eye(outer)
    rows[outer:, outer:] = matrix
    steps = [*map(abs, layer.levels[0].scale[:outer]), *[1.0] * layer.spatial]
    sizes = zip(layer.dims, steps, strict=True)
    output = {dim.name: [dim.size * step, dim.unit] for dim, step in sizes}
    return {"url": url, "transform": {"matrix": rows.tolist(), "outputDimensions": output}}


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
    index = [int(number) for number in name.split(".")] if _CHUNK.fullmatch(name) else []
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
