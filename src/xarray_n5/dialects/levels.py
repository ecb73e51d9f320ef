"""What groups say about images: their levels, the image of an array, and whether it has labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.dialects.lists import FACTOR_LISTS
from xarray_n5.dialects.ngff_attributes import is_label_image

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.metadata import Attributes


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
