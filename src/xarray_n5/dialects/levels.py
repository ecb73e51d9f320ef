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
    parts = node.path.split("/")
    for depth, group in enumerate(node.parents[: len(parts)], start=1):
        if _lists(group, "/".join(parts[-depth:])):
            return "/".join(parts[:-depth])
    around = node.parents[0] if node.parents else {}
    described = _has_factors(around) or "downsamplingFactors" in node.attributes
    described = described or any("Bigstitcher-Spark" in group for group in node.parents[1:])
    return "/".join(parts[:-1]) if described and node.level is not None else None


def _lists(group: Attributes, path: str) -> bool:
    """Return whether the images of a group list an array, by its path in the group."""
    listed = (path for image in images_in(group) for path in level_paths(image))
    return path in listed


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
                if str(entry.get("path", "")).removeprefix("./").strip("/") == path:
                    yield image, entry, entries[0]
