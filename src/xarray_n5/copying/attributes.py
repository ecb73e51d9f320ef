"""Translate attributes for another format, and restore them when they are copied back.

Attributes are kept, except for lists of axes in the reverse order. Attributes that readers of the
format expect are added, and those that preserve all axes. A note records the changes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.context import context_of
from xarray_n5.datasets.level_plan import stale_keys
from xarray_n5.dialects import geometry_of
from xarray_n5.dialects.dimension_names import ArrayDimensions
from xarray_n5.dialects.list_order import keys_to_reverse, reverse_lists
from xarray_n5.dialects.neuroglancer import TensorStore
from xarray_n5.dialects.ngff_attributes import warn_lost, warn_uncopied
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.dialects.write import misread, override, read_back, write_geometry
from xarray_n5.formats import FORMATS
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import COPIED, user_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes

NAMES = "_ARRAY_DIMENSIONS"
"""The attribute that makes a Zarr array a variable for xarray."""

_IN_OME = frozenset({"omero", "image-label", "labels"})
"""The members of ``ome`` that OME-NGFF 0.4 has at the top level."""

_NUMBERS = frozenset({"_FillValue", "missing_value", "scale_factor", "add_offset"})
"""The attributes that are numbers by netCDF's conventions."""

_SHOWN = 3
"""The number of names that a warning shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """Attributes as they were before they were first copied to another format."""

    attributes: Attributes
    lists: str
    """The format whose order lists of axes have."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """Attributes that were added to the copy."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """The layout of the elements in Zarr; empty in other formats."""
    named: bool = True
    """Whether Zarr names the dimensions; if so, xarray masks elements with its fill value."""

    @property
    def lists_x_first(self) -> bool:
        """Whether lists of axes are in the reverse of C order."""
        return has_x_first(self.lists)

    def reversed_keys(self, path: str, *, x_first: bool, paintera: bool = False) -> list[str]:
        """Return the attributes whose lists are reversed in a container that is `x_first`."""
        if self.lists_x_first == x_first:
            return []
        return keys_to_reverse(self.attributes, path, from_n5=self.lists_x_first, paintera=paintera)


def lists_of(container: Container) -> str:
    """Return the format whose order lists of axes have in a container."""
    if not container.lists_x_first:
        return container.format.name
    return next(filter(has_x_first, FORMATS))


def has_x_first(lists: str) -> bool:
    """Return whether a format has lists of axes in the reverse of C order, by its name."""
    return bool(getattr(FORMATS.get(lists), "lists_x_first", False))


def original(attributes: Attributes, lists: str) -> Original:
    """Restore a node's original attributes from its note.

    Parameters
    ----------
    attributes
        The node's attributes.
    lists
        The format whose order lists of axes have in its container.
    """
    note = attributes.get(COPIED)
    if not isinstance(note, dict):
        return Original(attributes=dict(attributes), lists=lists)
    added, turned = note.get("added", {}), note.get("turned", [])
    layout = note.get("layout")
    # Changes since then belong to the user.
    kept = {
        key: value
        for key, value in attributes.items()
        if key != COPIED and not (key in added and added[key] == value)
    }
    replaced = note.get("replaced")
    if isinstance(replaced, dict):
        # Attributes that were removed since then are not restored.
        gone = kept.keys() | (added.keys() - attributes.keys())
        kept |= {key: value for key, value in replaced.items() if key not in gone}
    return Original(
        attributes=reverse_lists(kept, turned),
        lists=note.get("lists", lists),
        added=added,
        layout=layout if isinstance(layout, dict) else {},
        named=not layout or NAMES in kept,
    )


def without_nan(attributes: Attributes) -> dict[str, Any]:
    """Return attributes with masks and scales as numbers; netCDF lists each alone.

    NaN, which JSON has not, is left out: it masks only what is NaN.
    """
    found = dict(attributes)
    for key in _NUMBERS & found.keys():
        value = found[key]
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        found[key] = value
        if value != value:  # noqa: PLR0124
            del found[key]
    return found


def of_group(
    attributes: Attributes,
    path: str,
    lists: str,
    *,
    lists_x_first: bool,
    described: Attributes | None = None,
    for_good: bool = False,
) -> dict[str, Any]:
    """Return a group's attributes for a container with another order of lists.

    Parameters
    ----------
    attributes, path, lists
        The group's attributes and its path, and the format whose order lists have there.
    lists_x_first
        Whether lists are in the order of N5 in the copy.
    described
        New attributes that describe the pyramid in the group, and replace others that do.
    for_good
        Whether those are dropped, rather than restored when the copy is copied back.
    """
    found = original(attributes, lists)
    keys = found.reversed_keys(path, x_first=lists_x_first)
    items = reverse_lists(found.attributes, keys)
    own = user_attributes(items)
    added: dict[str, Any] = {}
    stale: set[str] = set()
    if described is not None:
        added = {k: v for k, v in described.items() if k not in own and items.get(k) != v}
        ours = lists_x_first or (for_good and found.lists_x_first)
        stale = stale_keys(items, described, lists_x_first=ours) - described.keys()
        stale |= _IN_OME & described.get("ome", {}).keys()
    replaced = {key: items[key] for key in (stale | added.keys()) & items.keys() - own}
    note = {
        "turned": [key for key in keys if not (for_good and key in replaced)],
        "added": {} if for_good else added,
        "replaced": {} if for_good else replaced,
    }
    rest = {key: value for key, value in items.items() if key not in replaced}
    return _with_note({**rest, **added}, note, found.lists)


def of_array(
    found: Original,
    geometry: Geometry,
    context: ArrayContext,
    form: Format,
    mask: Mapping[str, Any],
    described: Attributes | None = None,
) -> dict[str, Any]:
    """Return an array's attributes for another container, which preserve its axes.

    Parameters
    ----------
    found
        The array's original attributes.
    geometry
        Its axes.
    context
        The new array, without attributes, with the groups that will be around it.
    form
        The new container's format.
    mask
        The fill value, as an attribute, if only Zarr's own document has it.
    described
        New attributes that describe the array as a level of a pyramid.
    """
    keys = found.reversed_keys(
        context.path, x_first=context.lists_x_first, paintera="paintera" in geometry.dialects
    )
    items = {**reverse_lists(found.attributes, keys), **mask}
    foreign = not found.lists_x_first
    added = _expected(geometry, context, form, foreign=foreign, named=found.named)
    if described is not None and context.lists_x_first:
        own = user_attributes(items)
        added = {k: v for k, v in described.items() if k not in own and items.get(k) != v}
    elif added.keys() & items.keys():
        added = {}
    node = replace(context, attributes=items)
    fixed, _ = override(geometry, node, added)
    if fixed != added and misread(geometry, node) is None:
        fixed = {}
    added = fixed
    replaced = {key: items[key] for key in added.keys() & items.keys() - mask.keys()}
    note = {
        "added": {**mask, **added},
        "replaced": replaced,
        "turned": keys,
        "layout": {} if form.native_to_xarray else dict(found.layout),
    }
    crosses = found.lists_x_first != context.lists_x_first
    return _with_note({**items, **added}, note, found.lists, always=crosses)


def of_described(
    found: Original,
    geometry: Geometry,
    context: ArrayContext,
    form: Format,
    described: Attributes,
) -> dict[str, Any]:
    """Return an array's attributes with new ones for its axes, in place of all others for them."""
    known = geometry.keys - {NAMES}
    known -= {"units"} if units_of_values(found.attributes) else set()
    kept = {key: value for key, value in found.attributes.items() if key not in known}
    before = replace(found, attributes=kept)
    keys = before.reversed_keys(context.path, x_first=context.lists_x_first)
    items = reverse_lists(kept, keys)
    added = _expected(geometry, context, form, foreign=False, named=found.named) | dict(described)
    added, _ = override(geometry, replace(context, attributes=items), added)
    layout = {} if form.native_to_xarray else dict(found.layout)
    return _with_note({**items, **added}, {"turned": keys, "layout": layout}, found.lists)


def of_part(
    attributes: Attributes,
    geometry: Geometry,
    context: ArrayContext,
    form: Format,
    *,
    named: bool,
) -> dict[str, Any]:
    """Return the attributes of a part of an array, with new ones for its axes."""
    known = geometry.keys - {NAMES} | {COPIED}
    known -= {"units"} if units_of_values(attributes) else set()
    items = {key: value for key, value in attributes.items() if key not in known}
    added = write_geometry(geometry, context.shape, lists_x_first=context.lists_x_first)
    added |= _expected(geometry, context, form, foreign=False, named=named)
    unwanted = items.keys() | (set() if named or not form.native_to_xarray else {NAMES})
    added = {key: value for key, value in added.items() if key not in unwanted}
    added, _ = override(geometry, replace(context, attributes=items), added)
    return {**items, **added}


def _expected(
    geometry: Geometry, context: ArrayContext, form: Format, *, foreign: bool, named: bool
) -> dict[str, Any]:
    """Return attributes that readers of a format expect: names in Zarr, TensorStore's in N5."""
    if form.native_to_xarray:
        return ArrayDimensions().write(geometry, context) if named else {}
    if foreign and context.lists_x_first and (geometry.named or geometry.placed):
        return TensorStore().write(geometry, context)
    return {}


def _with_note(
    items: dict[str, Any], note: Mapping[str, Any], lists: str, *, always: bool = False
) -> dict[str, Any]:
    """Add the note that restores attributes, if there is anything to restore."""
    members = {key: value for key, value in note.items() if value}
    if not members and not always:
        return items
    return {**items, COPIED: {"lists": lists, **members}}


def geometries_of(arrays: Mapping[str, Array]) -> dict[str, Geometry]:
    """Return the axes of arrays by their paths; invalid attributes are copied as they are.

    Warn about positions of images in scenes around what is copied.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        contexts = {inner: context_of(each.node) for inner, each in arrays.items()}
        found = {inner: geometry_of(contexts[inner]) for inner in arrays}
    names = {inner: inner.count("/") + 1 if inner else 0 for inner in arrays}
    warn_uncopied((node, node.path.count("/") + 1 - names[at]) for at, node in contexts.items())
    return found


def warn_lost_names(geometry: Geometry, array: ArrayContext, where: str) -> None:
    """Warn about names of samples, such as channels, that are next to an array, not in its copy."""
    after, _ = read_back(array)
    for axis, new in zip(geometry.with_names().axes, after.axes, strict=True):
        if axis.labels and not new.labels:
            more = [f"and {len(axis.labels) - _SHOWN} more"] if axis.labels[_SHOWN:] else []
            shown = ", ".join([*map(repr, axis.labels[:_SHOWN]), *more])
            warn(
                f"{where}: the names along {axis.name!r} are not copied: {shown}; to keep them, "
                "copy the whole image"
            )


def warn_lost_systems(
    geometries: Mapping[str, Geometry], path: str, groups: Mapping[str, Attributes], lists: str
) -> None:
    """Warn about coordinate systems of images whose groups, in a copy, do not have them.

    Parameters
    ----------
    geometries
        The axes of the arrays that are copied.
    path
        The path of the copied node in its container.
    groups
        The attributes of the groups in the copy, by their paths in it.
    lists
        The format whose order lists of axes have there.
    """
    found = {each.systems.path: each.systems for each in geometries.values() if each.systems}
    after = {join(path, inner): attributes for inner, attributes in groups.items()}
    for at, systems in found.items():
        warn_lost(at or "/", systems, original(after.get(at, {}), lists).attributes)


def parents_of(path: str, groups: Mapping[str, Attributes]) -> tuple[Attributes, ...]:
    """Return the attributes of the groups around a path, the nearest first."""
    parts = path.split("/")[:-1]
    around = ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)] if path else []
    return tuple(groups.get(each, {}) for each in around[:3])
