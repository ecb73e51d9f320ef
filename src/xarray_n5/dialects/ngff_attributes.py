"""The attributes of OME-NGFF on a group: top-level up to 0.4, in ``ome`` since 0.5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.model.metadata import Attributes

_IMAGES, _OME, _OMERO, _LABEL = "multiscales", "ome", "omero", "image-label"

KEYS = frozenset({_IMAGES, _OME})
"""Attributes that may contain images."""


def images_of(attributes: Attributes) -> list[Any]:
    """Return the images that attributes describe; none if they are not a list."""
    found = _holder(attributes).get(_IMAGES)
    return found if isinstance(found, list) else []


def omero_of(attributes: Attributes) -> Any:
    """Return the channels that attributes describe, if any."""
    return _holder(attributes, _OMERO).get(_OMERO)


def is_label_image(attributes: Attributes) -> bool:
    """Return whether attributes describe an image of labels."""
    return isinstance(_holder(attributes, _LABEL).get(_LABEL), dict)


def described(images: Sequence[Any], omero: Attributes, version: str) -> dict[str, Any]:
    """Return new attributes with images and, if there are any, channels."""
    if version == "0.4":
        return {_IMAGES: list(images), **({_OMERO: omero} if omero else {})}
    return {
        _OME: {"version": version, _IMAGES: _bare(images), **({_OMERO: omero} if omero else {})}
    }


def with_images(attributes: Attributes, images: Sequence[Any], version: str) -> dict[str, Any]:
    """Return the attribute that changes with other images: its value, or None to remove it.

    Images are kept where they are; new ones are where `version` has them.
    """
    ome = attributes.get(_OME)
    known = ome if isinstance(ome, dict) else {}
    if _IMAGES in attributes or (version == "0.4" and _IMAGES not in known):
        return {_IMAGES: list(images) or None}
    if images:
        return {_OME: {"version": version, **known, _IMAGES: _bare(images)}}
    others = {key: value for key, value in known.items() if key != _IMAGES}
    return {_OME: others if others.keys() - {"version"} else None}


def without_images(attributes: Attributes, *, omero: bool = False) -> dict[str, Any]:
    """Return attributes without images and, with `omero`, without channels."""
    gone = {_IMAGES, *([_OMERO] if omero else [])}
    found = {key: value for key, value in attributes.items() if key not in gone}
    ome = found.get(_OME)
    if isinstance(ome, dict):
        found[_OME] = {key: value for key, value in ome.items() if key not in gone}
        if not found[_OME].keys() - {"version"}:
            del found[_OME]
    return found


def _holder(attributes: Attributes, wanted: str = _IMAGES) -> Attributes:
    """Return the object with images or a `wanted` member, which is beside the images."""
    ome = attributes.get(_OME)
    return ome if isinstance(ome, dict) and {_IMAGES, wanted} & ome.keys() else attributes


def _bare(images: Sequence[Any]) -> list[Any]:
    """Return images without versions, since ``ome`` has one for all."""
    return [{key: each for key, each in image.items() if key != "version"} for image in images]
