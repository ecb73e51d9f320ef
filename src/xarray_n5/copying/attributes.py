"""Attributes that go with their node into another format, and back as they were.

They stay as they are but for lists that stand the other way round there. What the format's own
readers look for is added, and what is needed for all axes to be read as they were. A note says
what has been added and turned.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects import DIALECTS, diff, resolve_geometry, write_geometry
from xarray_n5.dialects.array_dimensions import ArrayDimensions
from xarray_n5.dialects.axis_order import keys_to_reverse, reverse_lists
from xarray_n5.dialects.canonical import Canonical
from xarray_n5.dialects.cosem import Cosem
from xarray_n5.dialects.dimension_labels import DimensionLabels
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.dialects.tensorstore import TensorStore
from xarray_n5.formats import N5, Zarr2
from xarray_n5.model.roundtrip_attrs import COPIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.formats.protocol import Container
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes


NAMES = "_ARRAY_DIMENSIONS"
"""The attribute that makes an array of Zarr's a variable to xarray."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """Attributes as they were before they were ever copied into another format."""

    attributes: Attributes
    lists: str
    """As in which format lists of axes stand."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """What the copy had more."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """How Zarr stored the elements; nothing where it did not."""
    named: bool = True
    """Whether Zarr is to name the axes: where it does, xarray takes its fill value for a mask."""


def lists_of(container: Container) -> str:
    """Return the format whose order lists of axes have in a container."""
    return "n5" if container.lists_x_first else container.format.name


def original(attributes: Attributes, lists: str) -> Original:
    """Return what a node's attributes were, from its own note.

    Parameters
    ----------
    attributes
        The node's attributes.
    lists
        As in which format lists of axes stand in its container.
    """
    note = attributes.get(COPIED)
    if not isinstance(note, dict):
        return Original(attributes=dict(attributes), lists=lists)
    added, turned = note.get("added", {}), note.get("turned", [])
    layout = note.get("layout")
    # What was changed since is its user's.
    kept = {
        key: value
        for key, value in attributes.items()
        if key != COPIED and not (key in added and added[key] == value)
    }
    return Original(
        attributes=reverse_lists(kept, turned),
        lists=note.get("lists", lists),
        added=added,
        layout=layout if isinstance(layout, dict) else {},
        named=not layout or NAMES in kept,
    )


def for_group(attributes: Attributes, path: str, lists: str, to: str) -> dict[str, Any]:
    """Return a group's attributes for a container with other lists."""
    found = original(attributes, lists)
    keys = (
        keys_to_reverse(found.attributes, path, from_n5=found.lists == N5.name)
        if _crosses(found.lists, to_x_first=to == N5.name)
        else []
    )
    return _noted(reverse_lists(found.attributes, keys), {}, keys, found.lists)


def for_array(
    found: Original, geometry: Geometry, node: ArrayContext, own: str, told: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an array's attributes for another container, by which its axes read the same.

    Parameters
    ----------
    found
        The array's attributes as they were before they were ever copied.
    geometry
        Its axes.
    node
        The array as it will be, without attributes, with the groups that will be around it.
    own
        The name of the new container's format.
    told
        What of Zarr's own document stands among the attributes elsewhere.
    """
    keys = (
        keys_to_reverse(
            found.attributes,
            node.path,
            from_n5=found.lists == N5.name,
            paintera="paintera" in geometry.dialects,
        )
        if _crosses(found.lists, to_x_first=node.lists_x_first)
        else []
    )
    items = {**reverse_lists(found.attributes, keys), **told}
    said = _usual(geometry, node, own, foreign=found.lists != N5.name, named=found.named)
    if said.keys() & items.keys():
        said = {}
    if _misread(geometry, replace(node, attributes={**items, **said})):
        fine = not _misread(geometry, replace(node, attributes=items))
        said = {} if fine else {**said, **_loud(geometry, node, items)}
    crossed = _crosses(found.lists, to_x_first=node.lists_x_first)
    layout = {} if own == Zarr2.name else found.layout
    return _noted(
        {**items, **said}, {**told, **said}, keys, found.lists, crossed=crossed, layout=layout
    )


def for_part(
    attributes: Attributes, geometry: Geometry, node: ArrayContext, own: str, *, named: bool
) -> dict[str, Any]:
    """Return the attributes of a part of an array: all but those of its axes, and these anew."""
    known = {key for name in geometry.dialects for key in DIALECTS[name].keys} | {COPIED}
    known -= {"units"} if units_of_values(attributes) else set()
    items = {key: value for key, value in attributes.items() if key not in known}
    said = write_geometry(geometry, node.shape, lists_x_first=node.lists_x_first)
    said |= _usual(geometry, node, own, foreign=False, named=named)
    unwanted = items.keys() | (set() if named or own != Zarr2.name else {NAMES})
    said = {key: value for key, value in said.items() if key not in unwanted}
    if _misread(geometry, replace(node, attributes={**items, **said})):
        said |= _loud(geometry, node, items)
    return {**items, **said}


def _crosses(lists: str, *, to_x_first: bool) -> bool:
    """Return whether lists of axes are in the reverse order in another container."""
    return (lists == N5.name) != to_x_first


def _usual(
    geometry: Geometry, node: ArrayContext, own: str, *, foreign: bool, named: bool
) -> dict[str, Any]:
    """Return what a format's own readers look for: names in Zarr, TensorStore's lists in N5."""
    if own == Zarr2.name:
        return ArrayDimensions().write(geometry, node) if named else {}
    if foreign and node.lists_x_first and (geometry.named or geometry.placed):
        return TensorStore().write(geometry, node)
    return {}


def _loud(geometry: Geometry, node: ArrayContext, items: Attributes) -> dict[str, Any]:
    """Return what is heard before all that the groups around may say."""
    if not geometry.placed:
        said = DimensionLabels().write(geometry, node) if geometry.named else {}
    elif geometry.affine is not None:
        said = Canonical().write(geometry, node)
    else:
        said = {"transform": Cosem().write(geometry, node)["transform"]}
    return {} if said.keys() & items.keys() else said


def _misread(geometry: Geometry, node: ArrayContext) -> str | None:
    """Return what would be read otherwise than it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again, _ = resolve_geometry(node)
        return diff(geometry, again)


def _noted(
    items: dict[str, Any],
    added: Mapping[str, Any],
    turned: list[str],
    lists: str,
    *,
    crossed: bool = False,
    layout: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    if not added and not turned and not crossed and not layout:
        return items
    note: dict[str, Any] = {"lists": lists}
    note |= {"added": dict(added)} if added else {}
    note |= {"turned": turned} if turned else {}
    note |= {"layout": dict(layout)} if layout else {}
    return {**items, COPIED: note}
