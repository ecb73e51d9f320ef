"""Reverse lists of axes: as the user states their order, and from one format to another.

Files do not show the order of most lists: z5py, for example, stores lists as scripts pass them, in
N5 order as well as in C order. The lists of OME-NGFF and Paintera depend on the format.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.dialects.values import in_c_order
from xarray_n5.model.level_names import view_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.dialects.protocol import ArrayContext, Dialect
    from xarray_n5.model.metadata import Attributes

_LISTS = frozenset(
    {
        *("axes", "units", "resolution", "offset", "pixelResolution", "downsamplingFactors"),
        *("scales", "translate", "axis_names", "types", "voxel_size"),
        *("_ARRAY_DIMENSIONS", "DIMENSION_LABELS"),
    }
)
"""Attributes that are lists of axes, or lists of such lists."""

_MATRIX = "affineTransform"
"""n5-viewer's matrix, row by row."""


def context_for(dialect: Dialect, node: ArrayContext) -> ArrayContext:
    """Return an array's context with its lists in the order in which a dialect reads them.

    They are reversed if the user states another order. Dialects without ``list_order`` get them
    unchanged.
    """
    expected = getattr(dialect, "list_order", None)
    if node.attribute_order == "auto" or expected is None:
        return node
    if expected == "format":
        expected = "N5" if node.lists_x_first else "C"
    return node if expected == node.attribute_order else _reversed_context(node)


def _reversed_context(node: ArrayContext) -> ArrayContext:
    return replace(
        node,
        attributes=_reversed_attributes(node.attributes),
        parents=tuple(map(_reversed_attributes, node.parents)),
        base=None if node.base is None else _reversed_context(node.base),
    )


def _reversed_attributes(attributes: Attributes) -> dict[str, Any]:
    found = {key: _reversed(v) if key in _LISTS else v for key, v in attributes.items()}
    if _MATRIX in found:
        found[_MATRIX] = _reversed_matrix(found[_MATRIX])
    return found


def _reversed(value: Any) -> Any:
    """Return a list of axes reversed, each of a list of lists, or the one in a resolution."""
    match value:
        case {"dimensions": list(steps)}:
            return {**value, "dimensions": steps[::-1]}
        case [list(), *_] if all(isinstance(each, list) for each in value):
            return [each[::-1] for each in value]
        case list():
            return value[::-1]
    return value


def _reversed_matrix(value: Any) -> Any:
    """Return the numbers of a matrix for the reverse order of axes; invalid ones unchanged."""
    try:
        numbers = np.array(value, dtype=np.float64)
        ndim = round(((1 + 4 * numbers.size) ** 0.5 - 1) / 2)
        return [number for row in in_c_order(numbers.reshape(ndim, ndim + 1)) for number in row]
    except (TypeError, ValueError, OverflowError):
        return value


_PLACES = ("resolution", "offset", "downsamplingFactors")
"""Paintera's lists."""

_OTHERS = frozenset(
    {"axes", "units", "pixelResolution", "saved_completely", "voxel_size", "axis_names"}
)
"""Attributes that make such lists another dialect's."""

_STEPS = ("scale", "translation")


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
        {k: _reversed(v) if k in _STEPS else v for k, v in each.items()}
        if isinstance(each, dict)
        else each
        for each in transforms
    ]
    return {**entry, "coordinateTransformations": reversed_}
