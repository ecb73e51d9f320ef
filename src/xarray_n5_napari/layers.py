"""Read a container or a project as napari layers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.datasets.build import DatasetOptions
from xarray_n5.datasets.engine import open_groups
from xarray_n5.dialects.labels import is_labels
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.model.alerts import warn
from xarray_n5_napari.channels import channel_facts
from xarray_n5_napari.lazy import as_dask
from xarray_n5_napari.places import is_moved, place_of
from xarray_n5_napari.pyramids import pyramids_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import xarray as xr

    from xarray_n5_napari.pyramids import Pyramid

LayerData: TypeAlias = tuple[Any, dict[str, Any], Literal["image", "labels"]]
"""The data of a layer, its arguments and its type."""

MOST_LAYERS = 32
"""The maximum number of layers of one container."""

_MOST_CHANNELS = 16
"""The maximum number of channels with separate layers; more are a dimension with a slider."""

_SHOWN = 16
"""The maximum number of omitted layers that a warning names."""

_VIEWS = frozenset({"setup", "channel", "tile", "angle", "illumination"})
"""Dimensions of projects along which the positions of views differ."""

_LEAST = 2
"""The minimum number of axes of a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """A part of a pyramid that becomes a layer, before it is built."""

    pyramid: Pyramid
    selection: Mapping[str, int | slice]
    channel: tuple[int, int] | None = None
    """The index of the channel, and the number of channels."""


def read_layers(url: object) -> list[LayerData]:
    """Return the images of a container or a project as layers; no chunk is read.

    A pyramid is one layer, a channel and a view of a project one each. Label multisets are read
    as their most frequent labels.

    Parameters
    ----------
    url
        A container, a node in one, or the XML of a project.

    Returns
    -------
    list of tuple
        Data, arguments and "image" or "labels"; the data of a pyramid are a list of Dask arrays,
        the finest level first.

    Raises
    ------
    NodeNotFoundError
        If there is nothing, or no array of numbers with two axes or more.

    Warns
    -----
    UserWarning
        If there are more than 32 layers; the others are left out.
    """
    options = DatasetOptions(label_multisets="argmax")
    groups = open_groups(
        url, "", storage_options=None, form=None, drop=(), decoders={}, options=options
    )
    layers = [layer for pyramid in pyramids_in(groups) for layer in _layers(pyramid)]
    if not layers:
        hint = "napari shows arrays of numbers with at least two axes"
        raise NodeNotFoundError(str(url), "", "image", hint)
    if left := layers[MOST_LAYERS:]:
        named = ", ".join(_name(each, {}) for each in left[:_SHOWN])
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        warn(f"{url}: only {MOST_LAYERS} of {len(layers)} layers are shown, not {named}{more}")
    return [_built(each) for each in layers[:MOST_LAYERS]]


def _layers(pyramid: Pyramid) -> Iterator[_Layer]:
    """Iterate over the layers of a pyramid: one for each channel, and for each view."""
    base = pyramid.base
    kinds = {axis.name: axis.kind for axis in geometry_from(base).axes}
    channels = [d for d in base.dims if kinds[str(d)] == "channel" and _are_few(base.sizes[d])]
    split = [dim for dim in base.dims if dim in channels or dim in _VIEWS]
    split = split[: max(0, base.ndim - _LEAST)]
    for at in itertools.product(*(range(base.sizes[dim]) for dim in split)):
        selection: dict[str, int | slice] = {str(dim): i for dim, i in zip(split, at, strict=True)}
        channel = next(
            ((i, base.sizes[d]) for d, i in zip(split, at, strict=True) if d in channels), None
        )
        times = [slice(None)]
        if "t" in base.dims and is_moved(pyramid, selection):
            times = [slice(t, t + 1) for t in range(base.sizes["t"])]
        for time in times:
            moved = {"t": time} if len(times) > 1 else {}
            yield _Layer(pyramid=pyramid, selection={**selection, **moved}, channel=channel)


def _are_few(channels: int) -> bool:
    return channels <= _MOST_CHANNELS


def _built(layer: _Layer) -> LayerData:
    pyramid, selection = layer.pyramid, layer.selection
    data = [as_dask(level, selection) for level in pyramid.levels]
    labels = is_labels(pyramid.base.dtype, pyramid.group)
    facts: dict[str, Any] = {}
    if layer.channel is not None:
        facts = channel_facts(pyramid.group, *layer.channel, pyramid.base.dtype)
    name = _name(layer, facts)
    if labels:
        facts = {key: facts[key] for key in facts.keys() & {"visible"}}
    else:
        facts["rgb"] = False
    facts |= place_of(pyramid, selection)
    facts |= {"name": name, "multiscale": len(data) > 1}
    return data if len(data) > 1 else data[0], facts, "labels" if labels else "image"


def _name(layer: _Layer, facts: Mapping[str, Any]) -> str:
    """Return a layer's name: the image's, and those of its channel, view and time point."""
    part = layer.pyramid.base.isel(dict(layer.selection))
    own = [f"t {part['t'].item()}"] if isinstance(layer.selection.get("t"), slice) else []
    indices = {dim: at for dim, at in layer.selection.items() if isinstance(at, int)}
    if label := _coordinate(part, "setup_name"):
        return ": ".join([layer.pyramid.name, " ".join([label, *own])])
    parts = [_label(part, dim, at, len(indices), facts) for dim, at in indices.items()]
    return ": ".join(filter(None, [layer.pyramid.name, " ".join([*parts, *own])]))


def _label(part: xr.DataArray, dim: str, index: int, count: int, facts: Mapping[str, Any]) -> str:
    label = _coordinate(part, f"{dim}_name") or _coordinate(part, dim)
    if "name" in facts and count == 1 and (not label or label.isdigit()):
        return str(facts["name"])
    if not label or label.isdigit():
        return f"{dim} {label or index}"
    return label


def _coordinate(part: xr.DataArray, name: str) -> str:
    """Return a scalar coordinate as a string; empty if there is none."""
    if name not in part.coords or part.coords[name].ndim:
        return ""
    return str(part.coords[name].item())
