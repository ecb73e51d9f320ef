"""The state of a viewer, and links to Neuroglancer's public page, which reads stored data."""

from __future__ import annotations

import ipaddress
import json
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import numpy as np

from xarray_n5.arrays.open import open_node
from xarray_n5.dialects.groups import images_of
from xarray_n5.viewing.layers import images_to_show, is_labels, layer_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import xarray as xr

    from xarray_n5.images.tree import Variable
    from xarray_n5.model.image import Image
    from xarray_n5.viewing.served import Layer

_PIXELS = 300
"""The size of the longest side of the data on the screen, in pixels."""

_IMAGE = """#uicontrol invlerp normalized
void main() { emitGrayscale(normalized()); }
"""

_CHANNEL = """#uicontrol invlerp normalized
#uicontrol vec3 color color(default="{color}")
void main() {{ emitRGB(color * normalized()); }}
"""


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
    space: _Space = {}
    for at, dim in enumerate(layer.dims):
        step = base.scale[at]
        middle = base.shape[at] // 2 if at >= outer else 0
        space[dim.name] = (
            dim.size * step,
            dim.unit,
            base.offset[at] / step + middle,
            base.shape[at],
        )
    if layer.matrix is not None:
        samples = np.array([[*each, 1] for each in product(*((0, n) for n in base.shape[outer:]))])
        corners = samples @ layer.matrix.T
        centre = layer.matrix @ [*(size // 2 for size in base.shape[outer:]), 1]
        for at, dim in enumerate(layer.world):
            space[dim.name] = (dim.size, dim.unit, float(centre[at]), float(np.ptp(corners[:, at])))
    ordered = [*layer.dims[outer:][::-1], *layer.dims[:outer]]
    return {dim.name: space[dim.name] for dim in ordered}


def _extent(spaces: Sequence[_Space], name: str) -> tuple[float, str, float, float]:
    """Return a dimension of the first layer with the middle and the extent of all layers."""
    size, unit, middle, extent = spaces[0][name]
    found = [each[name] for each in spaces if name in each and each[name][1] == unit]
    low = min((at - length / 2) * step for step, _, at, length in found) / size
    high = max((at + length / 2) * step for step, _, at, length in found) / size
    if high - low <= extent:
        return size, unit, middle, extent
    return size, unit, (low + high) / 2, high - low


def _zoom(space: _Space, shown: Sequence[str]) -> dict[str, float]:
    """Return scales that show the whole extent."""
    units = {space[name][1] for name in shown}
    sizes = [space[name][0] if len(units) == 1 else 1.0 for name in shown]
    extents = [space[name][3] * size for name, size in zip(shown, sizes, strict=True)]
    longest = max(extents) / min(sizes)
    return {"crossSectionScale": longest / _PIXELS, "projectionScale": longest * 2}


def plain_layer(layer: Layer, source: Any, *, is_first: bool) -> dict[str, Any]:
    """Return a layer that shows an image, or a segmentation."""
    shown = {"name": layer.name, "source": source}
    if layer.labels:
        return {**shown, "type": "segmentation"}
    low, high = layer.contrast()
    return {
        **shown,
        "type": "image",
        "shader": _CHANNEL.format(color=layer.color) if layer.color else _IMAGE,
        "shaderControls": {"normalized": {"range": [low, high]}},
        "opacity": 1.0 if is_first or layer.color else 0.5,
        **({"blend": "additive"} if layer.color else {}),
    }


def _layers(layers: Sequence[Layer], urls: Sequence[str]) -> list[dict[str, Any]]:
    shown_layers: list[dict[str, Any]] = []
    for layer, url in zip(layers, urls, strict=True):
        is_first = all(other["type"] != "image" for other in shown_layers)
        source: Any = url if layer.matrix is None else _transformed(layer, url)
        shown = plain_layer(layer, source, is_first=is_first)
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
    base = layer.levels[0]
    output = {
        dim.name: [dim.size * abs(step), dim.unit]
        for dim, step in zip(layer.dims[:outer], base.scale, strict=False)
    }
    output |= {dim.name: [dim.size, dim.unit] for dim in layer.world}
    return {"url": url, "transform": {"matrix": rows.tolist(), "outputDimensions": output}}


PAGE = "https://neuroglancer-demo.appspot.com/"
"""Neuroglancer's public page."""

_SCHEMES = frozenset({"http", "https", "s3", "gs"})

_FORMATS = frozenset({"n5", "zarr2", "zarr3"})
"""The formats that Neuroglancer supports, under the same names."""


def is_public(url: str, options: Mapping[str, Any] | None) -> bool:
    """Return whether a URL is probably public.

    >>> is_public("https://example.org/a.n5", None), is_public("http://10.0.0.1/a.n5", None)
    (True, False)
    """
    parts = urlsplit(url)
    if not _can_be_linked(url) or set(options or {}) - {"anon"}:
        return False
    if parts.scheme in {"s3", "gs"}:
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_global
    except ValueError:
        host = parts.hostname or ""
        return "." in host and not host.endswith((".local", ".localhost", ".internal"))


def _can_be_linked(url: str) -> bool:
    """Return whether a URL can be part of a link: no project, credentials, queries or chains."""
    parts = urlsplit(url)
    is_plain = parts.username is None and not parts.query and "::" not in url
    is_plain = is_plain and not parts.path.lower().endswith(".xml")
    return is_plain and parts.scheme in _SCHEMES and bool(parts.netloc)


def link_of(
    tree: xr.DataTree,
    url: str,
    group: str,
    labels: bool | Collection[str] | None,
    options: Mapping[str, Any] | None,
) -> str | None:
    """Return a link that shows all images of a tree, or None if Neuroglancer cannot read one."""
    if not _can_be_linked(url):
        return None
    container = open_node(url, group, storage_options=options).container
    form = container.format.name
    if form not in _FORMATS:
        return None
    layers: list[dict[str, Any]] = []
    for image in images_to_show(tree):
        place = _location(image, form)
        if place is None or not place.startswith(url.rstrip("/")):
            return None
        layer = layer_of(image, {}, is_labels=is_labels(image, labels))
        layers.append(plain_layer(layer, f"{place}/|{form}:", is_first=not layers))
    return f"{PAGE}#!{quote(json.dumps({'layers': layers}, separators=(',', ':')), safe='')}"


def _location(image: Image[Variable], form: str) -> str | None:
    """Return the location of an image for Neuroglancer: an array or the group of a pyramid."""
    place = image.base.first.array.encoding.get("source")
    if not isinstance(place, str):
        return None
    above = place.rstrip("/").rpartition("/")[0]
    described = form != "n5" and len(images_of(image.base.attributes)) == 1
    return above if len(image.levels) > 1 or described else place.rstrip("/")
