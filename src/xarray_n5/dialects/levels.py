"""Find the pyramid that an array is a level of, from the metadata of its groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.dialects.ngff import is_of_variable
from xarray_n5.dialects.pyramids import images_in, level_paths
from xarray_n5.model.level_names import is_level, view_in

if TYPE_CHECKING:
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
    if (view := view_in(node.path)) is not None:
        return f"setup{view[0]}"
    node = node.without_users_own()
    parts = node.path.split("/")
    for depth, group in enumerate(node.parents[: len(parts)], start=1):
        if _lists(group, "/".join(parts[-depth:])):
            return "/".join(parts[:-depth])
    around = node.parents[0] if node.parents else {}
    described = _has_factors(around) or "downsamplingFactors" in node.attributes
    described = described or any("Bigstitcher-Spark" in group for group in node.parents[1:])
    return "/".join(parts[:-1]) if described and is_level(node.path) else None


def _lists(group: Attributes, path: str) -> bool:
    """Return whether the images of a group list an array, by its path in the group."""
    images = [image for image in images_in(group) if not is_of_variable(image)]
    listed = (each for image in images for each in level_paths(image))
    return any(each.removeprefix("./").strip("/") == path for each in listed)


def _has_factors(group: Attributes) -> bool:
    """Return whether a group describes a pyramid, as in n5-viewer and Neuroglancer."""
    lists = (group.get(key) for key in ("downsamplingFactors", "scales"))
    return group.get("multiScale") is True or any(
        isinstance(each, list) and each and all(isinstance(item, list) for item in each)
        for each in lists
    )
