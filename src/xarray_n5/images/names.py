"""The name of an image, which is that of the variable at each level of its pyramid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.arrays.access import container_of
from xarray_n5.dialects.levels import image_of
from xarray_n5.formats import FORMATS
from xarray_n5.model.paths import stem_of
from xarray_n5.model.roundtrip_attrs import coords_from_axes, note_of

if TYPE_CHECKING:
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.formats.protocol import Container


def image_name(array: Array, context: ArrayContext) -> str | None:
    """Return the name of the image that an array is a level of, or None.

    It is the name with which a Dataset was stored, or else that of the image's group. A variable of
    a stored Dataset is not a level, whatever its name.
    """
    attributes = context.attributes
    if name := note_of(attributes).get("name"):
        return str(name)
    path = None if coords_from_axes(attributes) is not None else image_of(context)
    return None if path is None else name_at(path, container_of(array))


def name_of_group(group: Group) -> str:
    """Return the name of the image in a group: the group's, or that of a container's root."""
    return name_at(group.path, container_of(group))


def name_at(path: str, container: Container) -> str:
    """Return the name of the image at a group's path."""
    suffixes = [suffix for form in FORMATS.values() for suffix in form.suffixes]
    return path.rpartition("/")[2] or stem_of(container.name, suffixes)
