"""Plan the storage of a pyramid's levels: as arrays of one group, which describes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.context import load_context
from xarray_n5.arrays.labels import with_source
from xarray_n5.codecs import resolve
from xarray_n5.datasets.encode import GroupPlan, plan_group
from xarray_n5.datasets.encoded import convention_of
from xarray_n5.dialects import group_keys
from xarray_n5.dialects.lists import FACTOR_LISTS
from xarray_n5.dialects.ngff_attributes import (
    KEYS,
    channel_labels,
    has_labels_only,
    images_of,
    named_images,
    omero_of,
    without_images,
)
from xarray_n5.dialects.write import check_pyramid
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import note_of, user_attributes

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from xarray_n5.datasets.encode import VariablePlan
    from xarray_n5.datasets.encoded import Convention
    from xarray_n5.dialects import ArrayContext
    from xarray_n5.images.levels import Levels
    from xarray_n5.model.image import Image
    from xarray_n5.writing.options import WriteOptions

_BESIDE_SCALES = frozenset({"axes", "units", "ordering", "translate"})
"""Attributes of COSEM's and render's groups that become coordinates, besides ``scales``."""


def stale_keys(
    existing: Mapping[str, Any], written: Mapping[str, Any], how: WriteOptions
) -> set[str]:
    """Return the attributes of a group that a new pyramid in it makes wrong.

    Attributes that N5 readers interpret may be a user's own in other formats.
    """
    described = group_keys() if how.container.lists_x_first else group_keys() & {*KEYS, *written}
    return set(described & existing.keys())


def plan_levels(levels: Levels, path: str, how: WriteOptions) -> GroupPlan:
    """Return the plan of the group of a pyramid.

    Raises
    ------
    MetadataError
        If the format cannot store a level.
    """
    convention = convention_of(how.format)
    nested = how.format.nested_layout or {} if images_of(levels.around) else {}
    variables = {}
    for number, (level, dataset) in enumerate(levels.datasets.items()):
        chosen = levels.encodings.get(level) or {}
        above, _, name = level.rpartition("/")
        encoding: dict[Hashable, Any] = {name: chosen[levels.name]} if chosen else {}
        alone = xr.Dataset({name: dataset[levels.name].variable})
        planned = plan_group(alone, join(path, above), how.format, encoding).variables[name]
        layout = {**nested, **(planned.spec.layout or {})}
        described = _array_attributes(planned, levels, number, convention)
        if "fill_value" not in layout:
            described |= how.format.level_attributes
        spec = replace(planned.spec, layout=layout or None, attributes=described)
        variables[level] = replace(planned, geometry=levels.geometries[number], spec=spec)
    key = convention.roundtrip_key
    attributes = convention.group_attributes(
        levels.attributes, f"group {path or '/'!r}", empty=False
    )
    note = {k: v for k, v in note_of(attributes).items() if k != "dataset"}
    described = _beside(attributes, _named(levels), note, key)
    dtype = next(iter(variables.values())).encoded.data.dtype
    return GroupPlan(
        path=path,
        variables=variables,
        attributes=with_source(described, path, dtype, how.container),
        is_pyramid=True,
    )


def check_levels(plan: GroupPlan, before: Mapping[str, Any], how: WriteOptions) -> None:
    """Raise MetadataError if attributes that remain in a group make readers misread levels.

    The groups above are read in one batch.
    """
    stale = stale_keys(before, plan.attributes, how)
    kept = {key: value for key, value in before.items() if key not in stale}
    contexts: list[ArrayContext] = []
    above: Sequence[Mapping[str, Any]] = ()
    geometries = []
    for name, variable in plan.variables.items():
        data = variable.encoded.data
        metadata = ArrayMetadata(
            shape=data.shape, chunks=(1,) * data.ndim, dtype=data.dtype, compression=resolve(None)
        )
        if not contexts:
            first = load_context(how.container, join(plan.path, name), metadata)
            above = first.parents[1 + name.count("/") :]
        parents = (*({},) * name.count("/"), {**kept, **plan.attributes}, *above)
        context = first.other(join(plan.path, name), variable.spec.attributes or {}, data.shape)
        contexts.append(replace(context, parents=parents, base=None))
        geometries.append(variable.geometry)
    check_pyramid(contexts, geometries, where=join(how.container.url, plan.path))


def _array_attributes(
    planned: VariablePlan, levels: Levels, number: int, convention: Convention
) -> dict[str, Any]:
    """Return all attributes of a level; its note restores the variable."""
    own, encoded = levels.own[number], planned.encoded
    attributes = convention.array_attributes(encoded, levels.coords, placed=bool(own))
    note = {**note_of(attributes), "name": levels.name, "axes": list(levels.coords)}
    if types := levels.types[number]:
        note["types"] = dict(types)
    return _beside(attributes, own, note, convention.roundtrip_key)


def _beside(
    attributes: Mapping[str, Any], described: Mapping[str, Any], note: dict[str, Any], key: str
) -> dict[str, Any]:
    """Merge attributes with those that describe axes; the user's own go to a note."""
    others = {"_ARRAY_DIMENSIONS", key}
    clash = {
        k: attributes[k]
        for k in described.keys() & attributes.keys() - others
        if attributes[k] != described[k]
    }
    own = [name for name in note.pop("own", ()) if name not in described]
    if clash:
        note = {**note, "attributes": {**note.get("attributes", {}), **clash}}
    note |= {"own": own} if own else {}
    rest = {k: v for k, v in attributes.items() if k != key}
    return {**rest, **described, **({key: note} if note else {})}


def _named(levels: Levels) -> dict[str, Any]:
    """Return the attributes that describe the levels on the group, with the image's name."""
    around = named_images(levels.around, levels.name)
    theirs = omero_of(levels.attributes)
    holder = around.get("ome", around)
    if "omero" in holder and channel_labels(holder["omero"]) == channel_labels(theirs):
        holder["omero"] = theirs  # which has its own colours
    return around


def tree_attributes(
    attributes: Mapping[str, Any], images: Mapping[str, Image[Any]], listed: Sequence[str]
) -> dict[str, Any]:
    """Return the attributes of a group in a tree; those of levels, but for a list, are left out.

    Parameters
    ----------
    attributes, images
        The attributes of the group, and the images in it, by name.
    listed
        The levels, if their names do not show that they are.
    """
    levels = {name: image for name, image in images.items() if image.name}
    kept = without_levels(attributes, levels) if levels else dict(attributes)
    if not listed:
        return kept
    listing = {"datasets": [{"path": level} for level in listed]}
    return {**without_images(kept), "multiscales": [listing]}


def without_levels(
    attributes: Mapping[str, Any], images: Mapping[str, Image[Any]]
) -> dict[str, Any]:
    """Return a pyramid's attributes without those of its levels, and those now in coordinates."""
    geometries = [image.base.geometry for image in images.values()]
    used = frozenset(FACTOR_LISTS).union(*(each.keys for each in geometries if each.affine is None))
    used |= _BESIDE_SCALES if "scales" in attributes else frozenset()
    labelled = any(axis.labels for each in geometries for axis in each.axes)
    own = {*user_attributes(attributes)}
    if not own & KEYS:
        plain = labelled and has_labels_only(omero_of(attributes))
        attributes = without_images(attributes, omero=plain)
    return {key: value for key, value in attributes.items() if key not in used - own}
