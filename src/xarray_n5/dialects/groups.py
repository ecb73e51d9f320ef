"""What groups say about images: their levels, the image of an array, channels, and labels.

The attributes of OME-NGFF are at the top level up to version 0.4, in ``ome`` since 0.5.
Transformations of a scene, since version 0.6, lead from image to image. They are not applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.dialects.lists import FACTOR_LISTS
from xarray_n5.dialects.ngff_systems import (
    SCENE,
    VERSION,
    has_systems,
)
from xarray_n5.model.alerts import warn
from xarray_n5.model.system_graph import ImageSystems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.metadata import Attributes


_IMAGES, _OME, _OMERO, _LABEL = "multiscales", "ome", "omero", "image-label"

_DYES = {
    "0000FF": ("dapi", "hoechst", "bfp", "405"),
    "00FF00": ("gfp", "fitc", "488"),
    "FF0000": ("mcherry", "rfp", "tdtomato", "tritc", "texas red", "561", "568", "594"),
    "FF00FF": ("cy5", "far red", "far-red", "633", "640", "647"),
}
"""The colours of channels whose names contain a dye, or the wavelength of its laser in nm."""

_CYCLES = {1: ("FFFFFF",), 2: ("FF00FF", "00FF00")}
_CYCLE = ("00FFFF", "FFFF00", "FF00FF", "FF0000", "00FF00", "0000FF")
"""The colours of other channels by their number, as in napari."""

KEYS = frozenset({_IMAGES, _OME})
"""Attributes that may contain images."""


_AXES = frozenset({"version", "axes", "coordinateSystems", "coordinateTransformations", "datasets"})
"""The members of an image that describe its axes and levels."""


_SHOWN = 3
"""The number of systems that a warning names."""


def images_of(attributes: Attributes) -> list[Any]:
    """Return the images that attributes describe; none if they are not a list."""
    images = _holder(attributes).get(_IMAGES)
    return images if isinstance(images, list) else []


def have_systems(attributes: Attributes) -> bool:
    """Return whether images have coordinate systems, as since version 0.6."""
    return any(isinstance(image, dict) and has_systems(image) for image in images_of(attributes))


def are_described(attributes: Attributes) -> bool:
    """Return whether images have axes as in OME-NGFF; those of COSEM's dialect have not."""
    listed = [image for image in images_of(attributes) if isinstance(image, dict)]
    return any({"axes", "coordinateSystems"} & image.keys() for image in listed)


def omero_of(attributes: Attributes) -> Any:
    """Return the channels that attributes describe, if any."""
    return _holder(attributes, _OMERO).get(_OMERO)


def colors_of(labels: Sequence[object]) -> list[str]:
    """Return the colours of channels: those of their dyes, or those of napari.

    >>> colors_of(["DAPI", "EGFP-tubulin", "other"])
    ['0000FF', '00FF00', 'FF00FF']
    """
    cycle = _CYCLES.get(len(labels), _CYCLE)
    names = [str(label).lower() for label in labels]
    dyes = [[c for c, dyes in _DYES.items() if any(dye in name for dye in dyes)] for name in names]
    return [(*known, cycle[at % len(cycle)])[0] for at, known in enumerate(dyes)]


def omero_for(labels: Sequence[str]) -> dict[str, Any]:
    """Return ``omero`` with labelled channels; empty without labels.

    Version 0.4 requires a colour and a window for each. Windows are unknown until the data are
    stored: see :func:`xarray_n5.images.channels.with_windows`.
    """
    channels = [
        {"label": label, "color": color, "window": None, "active": True}
        for label, color in zip(labels, colors_of(labels), strict=True)
    ]
    return {"channels": channels} if channels else {}


def has_labels_only(omero: object) -> bool:
    """Return whether ``omero`` has only labels, the colours for them, and windows."""
    labels = [*map(str, channel_labels(omero))]
    match omero:
        case {"channels": [*channels]} if len(channels) == len(labels) > 0:
            without = [{**channel, "window": None} for channel in channels]
            return bool(without == omero_for(labels)["channels"])
    return False


def channel_labels(omero: object) -> list[Any]:
    """Return the labels of channels."""
    channels = omero.get("channels") if isinstance(omero, dict) else None
    listed = channels if isinstance(channels, list) else []
    return [channel.get("label") for channel in listed if isinstance(channel, dict)]


def relabelled(omero: object, labels: Sequence[str]) -> dict[str, Any]:
    """Return ``omero`` for other labels; channels keep their colours and windows.

    Channels are found by their labels, or by position if there are equally many.
    """
    new = omero_for(labels)
    if not new or not isinstance(omero, dict) or not channel_labels(omero):
        return new
    before = [channel for channel in omero["channels"] if isinstance(channel, dict)]
    known = {str(channel.get("label")): channel for channel in before}
    if len(before) == len(labels):
        known |= {
            label: {**channel, "label": label}
            for label, channel in zip(labels, before, strict=True)
            if label not in known
        }
    return {
        **omero,
        "channels": [known.get(channel["label"], channel) for channel in new["channels"]],
    }


def is_label_image(attributes: Attributes) -> bool:
    """Return whether attributes describe an image of labels."""
    return isinstance(_holder(attributes, _LABEL).get(_LABEL), dict)


def described(images: Sequence[Any], omero: Attributes, version: str) -> dict[str, Any]:
    """Return new attributes with images and, if there are any, channels."""
    members = {_IMAGES: list(images)} | ({_OMERO: omero} if omero else {})
    if version == "0.4":
        return members
    # In ``ome``, all images have one version.
    bare = [{key: value for key, value in image.items() if key != "version"} for image in images]
    return {_OME: {"version": version, **members, _IMAGES: bare}}


def warn_lost(
    where: str, systems: ImageSystems | Iterable[str] | None, attributes: Attributes | None = None
) -> None:
    """Warn about an image's other systems if the new attributes of its group have none."""
    names = systems.others if isinstance(systems, ImageSystems) else list(systems or ())
    if names and not have_systems(attributes or {}):
        more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        warn(
            f"{where}: the coordinate systems {', '.join([*map(repr, names[:_SHOWN]), *more])} of "
            f"the image are not stored, as only OME-Zarr {VERSION} has them; copy the image with "
            f"dialect={SCENE!r} and format='zarr3' to keep them"
        )


def with_others(attributes: Attributes, before: Attributes) -> dict[str, Any]:
    """Return a group's new attributes with what its images had before besides axes.

    These are channels, labels and all other members of ``ome``, which are at the top level up to
    version 0.4, and those of its image. Channels have the new labels and, where others described
    them, their own colours.
    """
    new, old = attributes.get(_OME, attributes), before.get(_OME)
    if not are_described(attributes):
        return dict(attributes)
    if not isinstance(old, dict):
        old = {key: before[key] for key in (_OMERO, _LABEL) if key in before}
    members = {key: value for key, value in old.items() if key not in {"version", _IMAGES}} | new
    if _OMERO in new:
        members[_OMERO] = relabelled(old.get(_OMERO), channel_labels(new[_OMERO]))
    images = images_of(before)
    if len(images) == len(new[_IMAGES]) == 1 and isinstance(images[0], dict):
        kept = {key: value for key, value in images[0].items() if key not in _AXES}
        members[_IMAGES] = [{**kept, **image} for image in new[_IMAGES]]
    return {**attributes, _OME: members} if _OME in attributes else members


def with_omero(attributes: Attributes, omero: Attributes) -> dict[str, Any]:
    """Return attributes with other channels, where they have some."""
    return _with(attributes, _OMERO, dict(omero))


def named_images(attributes: Attributes, name: str) -> dict[str, Any]:
    """Return a group's new attributes with a name for each image that may have one."""
    images = [
        {**image, "name": name} if "name" in image else image for image in images_of(attributes)
    ]
    return _with(attributes, _IMAGES, images) if images else dict(attributes)


def _with(attributes: Attributes, key: str, value: Any) -> dict[str, Any]:
    """Return attributes with another value of a member of OME-NGFF, where they have it."""
    ome = attributes.get(_OME)
    if isinstance(ome, dict) and key in ome:
        return {**attributes, _OME: {**ome, key: value}}
    return {**attributes, key: value}


def without_images(attributes: Attributes, *, omero: bool = False) -> dict[str, Any]:
    """Return attributes without images and, with `omero`, without channels."""
    gone = {_IMAGES, *([_OMERO] if omero else [])}
    kept = {key: value for key, value in attributes.items() if key not in gone}
    if isinstance(ome := kept.get(_OME), dict):
        kept[_OME] = {key: value for key, value in ome.items() if key not in gone}
        if not kept[_OME].keys() - {"version"}:
            del kept[_OME]
    return kept


def _holder(attributes: Attributes, wanted: str = _IMAGES) -> Attributes:
    """Return the object with images or a `wanted` member, which is next to the images."""
    ome = attributes.get(_OME)
    return ome if isinstance(ome, dict) and {_IMAGES, wanted} & ome.keys() else attributes


def warn_unapplied(node: ArrayContext) -> None:
    """Warn about transformations of an image's scene, which are not applied."""
    for path, shown in _scenes_around(node):
        warn(
            f"{path or '/'}: transformations of its scene are not applied: {shown}; open the scene "
            "to place its images"
        )


def warn_uncopied(nodes: Iterable[tuple[ArrayContext, int]]) -> None:
    """Warn about transformations of scenes around copied images, which the copies do not have.

    Parameters
    ----------
    nodes
        Arrays, and for each the number of names in the path of the node that is copied.
    """
    scenes = (scene for node, depth in nodes for scene in _scenes_around(node, depth))
    for path, shown in dict.fromkeys(scenes):
        warn(
            f"{path or '/'}: transformations of its scene are not copied: {shown}; the copy has "
            "the coordinates of the image alone. To keep positions, copy the whole scene"
        )


def _scenes_around(node: ArrayContext, below: int | None = None) -> Iterator[tuple[str, str]]:
    """Iterate over the paths of scenes that move the image of an array, and what moves it.

    With `below`, only over those whose paths have fewer names.
    """
    parts = node.path.split("/")
    for depth, group in enumerate(node.parents[: len(parts)], start=1):
        match group.get(_OME):
            case {"scene": {"coordinateTransformations": [*edges]}}:
                pass
            case _:
                continue
        around = {"/".join(parts[-depth:stop]) for stop in range(1 - depth, 0)}
        ends_of = [
            (str(edge.get("type")), {_path(edge.get(side)) for side in ("input", "output")})
            for edge in edges
            if isinstance(edge, dict)
        ]
        image = around & set().union(*(ends for _, ends in ends_of))
        moves = {kind for kind, ends in ends_of if ends <= {*around, None}} - {"identity"}
        inside = below is None or len(parts) - depth < below
        if image and moves and inside:
            yield "/".join(parts[:-depth]), f"{', '.join(sorted(moves))} of {min(image)!r}"


def _path(reference: object) -> str | None:
    """Return the path of the image in a reference to a system."""
    match reference:
        case {"path": str(path)}:
            return path.removeprefix("./").strip("/")
    return None


def image_of(node: ArrayContext) -> str | None:
    """Return the path of the image that an array is a level of, or None.

    The image is the group whose ``multiscales`` list the array, or the group around ``s0``, ``s1``,
    ... if it, or the array, has ``downsamplingFactors``, ``scales`` or ``multiScale``, or if it is
    in a fusion of BigStitcher-Spark. The image of a view of BigDataViewer is its setup.

    >>> from xarray_n5.dialects.protocol import ArrayContext
    >>> image_of(ArrayContext(shape=(8,), path="em/raw/s1", parents=({"multiScale": True},)))
    'em/raw'
    >>> image_of(ArrayContext(shape=(8,), path="setup2/timepoint0/s1"))
    'setup2'
    """
    if node.view is not None:
        return f"setup{node.view[0]}"
    node = node.without_users_own()
    for _, entry, _ in listings(node):
        return path_of_image(entry, node)
    around = node.parents[0] if node.parents else {}
    described = _has_factors(around) or "downsamplingFactors" in node.attributes
    described = described or any("Bigstitcher-Spark" in group for group in node.parents[1:])
    return node.path.rpartition("/")[0] if described and node.level is not None else None


def path_of_image(entry: Mapping[str, Any], node: ArrayContext) -> str:
    """Return the path of the group whose images list an array."""
    return node.path.removesuffix(_path_in(entry)).strip("/")


def _path_in(entry: Mapping[str, Any]) -> str:
    """Return the path of a level in its group, as ``multiscales`` list it."""
    return str(entry.get("path", "")).removeprefix("./").strip("/")


def _has_factors(group: Attributes) -> bool:
    """Return whether a group describes a pyramid, as in n5-viewer and Neuroglancer."""
    return group.get("multiScale") is True or any(
        isinstance(factors, list) and factors and all(isinstance(item, list) for item in factors)
        for factors in map(group.get, FACTOR_LISTS)
    )


def is_labels(dtype: np.dtype[Any], group: Mapping[str, Any]) -> bool:
    """Return whether values are labels, by their type or the attributes of their dataset.

    Parameters
    ----------
    dtype
        The type of the values; uint64 is assumed to be labels.
    group
        The attributes of the group that describes the array or the pyramid, such as a dataset of
        Paintera or a label image of OME-NGFF.
    """
    described = type_in_paintera(group) == "label" or is_label_image(group)
    return dtype == np.uint64 or (described and dtype.kind in "biu")


def type_in_paintera(group: Mapping[str, Any]) -> str | None:
    """Return the type of a dataset of Paintera, whose array or pyramid is called "data"."""
    match group.get("painteraData"):
        case {"type": kind}:
            return str(kind)
    return None


def images_in(group: Attributes) -> Iterator[dict[str, Any]]:
    """Iterate over the images in a group's ``multiscales`` that have ``datasets``.

    Those in ``ome`` come first: they replace older ones that a conversion left next to it.
    """
    ome = group.get("ome")
    for holder in (ome if isinstance(ome, dict) else {}, group):
        images = holder.get("multiscales")
        for image in images if isinstance(images, list) else [images]:
            if isinstance(image, dict) and isinstance(image.get("datasets"), list):
                yield image


def level_paths(image: Mapping[str, Any]) -> list[str]:
    """Return the paths of the levels that an image of ``multiscales`` lists, in its group."""
    entries = (e.get("path") if isinstance(e, dict) else e for e in image["datasets"])
    return [path.removeprefix("./").strip("/") for path in entries if isinstance(path, str)]


def stated(node: ArrayContext, key: str) -> tuple[Any, str, Any]:
    """Return a value of an array, or of its entry in a group's ``multiscales``.

    Returns
    -------
    tuple
        The value, or None; where it is, for messages; and that of the base level.
    """
    entries = ((entry, first) for _, entry, first in listings(node) if key in {*entry, *first})
    entry, first = next(entries, ({}, {}))
    value, where, base = node.attributes.get(key), key, first.get(key)
    if value is None:
        value, where = entry.get(key), "multiscales of the group"
    if base is None and node.base is not None:
        base = node.base.attributes.get(key)
    return value, where, base


def listings(node: ArrayContext) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Iterate over the entries of groups' ``multiscales`` for an array.

    Yields
    ------
    tuple
        The image, its entry for the array, and its entry for the base level.
    """
    parts = node.path.split("/")
    for depth, group in enumerate(node.parents, start=1):
        path = "/".join(parts[-depth:])
        for image in images_in(group):
            entries = [
                entry if isinstance(entry, dict) else {"path": entry} for entry in image["datasets"]
            ]
            for entry in entries:
                if _path_in(entry) == path:
                    yield image, entry, entries[0]
