"""Reverse lists of axes between N5 and other formats, for OME-NGFF and Paintera.

The lists of all other dialects have the same order in every format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.model.level_names import view_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PLACES = ("resolution", "offset", "downsamplingFactors")
"""Paintera's lists."""

_OTHERS = frozenset(
    {"axes", "units", "pixelResolution", "saved_completely", "voxel_size", "axis_names"}
)
"""Attributes that make such lists another dialect's."""

_LISTS = ("scale", "translation")


def keys_to_reverse(
    attributes: Mapping[str, Any], path: str, *, from_n5: bool, paintera: bool = False
) -> list[str]:
    """Return the keys of a node's attributes whose lists are reversed in another format.

    Parameters
    ----------
    attributes
        The attributes of an array or a group.
    path
        The node's path in the container.
    from_n5
        Whether they are copied from N5 to another format, or the reverse.
    paintera
        Whether the node is an array with Paintera's attributes.
    """
    keys = ["multiscales"] if _are_images(attributes.get("multiscales"), from_n5=from_n5) else []
    described = {"resolution", "offset"} & attributes.keys() and not _OTHERS & attributes.keys()
    if paintera or (described and view_in(f"{path}/s0") is None):
        keys += [key for key in _PLACES if isinstance(attributes.get(key), list)]
    return keys


def reverse_lists(attributes: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return attributes with the lists of some keys reversed; its own inverse.

    >>> reverse_lists({"resolution": [4, 4, 40], "title": "em"}, ["resolution"])
    {'resolution': [40, 4, 4], 'title': 'em'}
    """
    found = dict(attributes)
    for key in set(keys) & found.keys():
        if key == "multiscales":
            found[key] = [_reversed_image(image) for image in found[key]]
        else:
            found[key] = _reversed(found[key])
    return found


def _are_images(images: Any, *, from_n5: bool) -> bool:
    """Return whether images of OME-NGFF must be reversed to be read the same."""
    if not isinstance(images, list) or not images:
        return False
    for image in images:
        axes = image.get("axes") if isinstance(image, dict) else None
        if not isinstance(axes, list) or not isinstance(image.get("datasets"), list):
            return False
        names = [each.get("name") if isinstance(each, dict) else None for each in axes]
        # Older writers list axes in C order in N5: the position of x shows it.
        if from_n5 and ("x" not in names or names.index("x") > len(names) // 2):
            return False
    return True


def _reversed_image(image: dict[str, Any]) -> dict[str, Any]:
    datasets = [
        _with_transforms(entry) if isinstance(entry, dict) else entry for entry in image["datasets"]
    ]
    return _with_transforms({**image, "axes": image["axes"][::-1], "datasets": datasets})


def _with_transforms(entry: dict[str, Any]) -> dict[str, Any]:
    transforms = entry.get("coordinateTransformations")
    if not isinstance(transforms, list):
        return entry
    reversed_ = [
        {k: _reversed(v) if k in _LISTS else v for k, v in each.items()}
        if isinstance(each, dict)
        else each
        for each in transforms
    ]
    return {**entry, "coordinateTransformations": reversed_}


def _reversed(value: Any) -> Any:
    """Return a list reversed; of a list of lists, each of them."""
    if not isinstance(value, list):
        return value
    if value and all(isinstance(each, list) for each in value):
        return [each[::-1] for each in value]
    return value[::-1]
