"""The state of a viewer: layers, dimensions, and the initial position."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    state: dict[str, Any] = {
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
    return state


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
    return {**shown, **_appearance(layer, is_first=is_first)}


def _layers(layers: Sequence[Layer], urls: Sequence[str]) -> list[dict[str, Any]]:
    shown_layers: list[dict[str, Any]] = []
    for layer, url in zip(layers, urls, strict=True):
        is_first = all(other["type"] != "image" for other in shown_layers)
        source: Any = url if layer.matrix is None else _transformed(layer, url)
        shown = plain_layer(layer, source, is_first=is_first)
        same = sum(other.name == layer.name for other in layers[: len(shown_layers)])
        shown_layers.append(shown | {"name": f"{layer.name} ({same + 1})"} if same else shown)
    return shown_layers


def _appearance(layer: Layer, *, is_first: bool) -> dict[str, Any]:
    low, high = layer.contrast()
    more: dict[str, Any] = {"blend": "additive"} if layer.color else {}
    shader = _CHANNEL.format(color=layer.color) if layer.color else _IMAGE
    return {
        "type": "image",
        "shader": shader,
        "shaderControls": {"normalized": {"range": [low, high]}},
        "opacity": 1.0 if is_first or layer.color else 0.5,
        **more,
    }


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
