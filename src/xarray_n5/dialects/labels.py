"""Decide whether values are labels of objects or intensities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.dialects.ngff_attributes import is_label_image

if TYPE_CHECKING:
    from collections.abc import Mapping


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
