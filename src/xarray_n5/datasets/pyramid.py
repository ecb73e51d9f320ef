"""Plan the group of a pyramid: an array for each level, described together as one image."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.context import load_context
from xarray_n5.arrays.group import with_source
from xarray_n5.arrays.records import look
from xarray_n5.codecs import resolve
from xarray_n5.datasets.encode import GroupPlan, plan_variables
from xarray_n5.datasets.encoded import convention_of, stored_attributes
from xarray_n5.dialects.groups import (
    are_described,
    images_in,
    images_of,
    level_paths,
    named_images,
    omero_of,
    with_others,
    without_images,
)
from xarray_n5.dialects.lists import FACTOR_LISTS
from xarray_n5.dialects.write import check_pyramid
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.images.levels import stale_keys
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import ArrayMetadata, note_of
from xarray_n5.model.paths import join, level_name, number_in

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.encode import VariablePlan
    from xarray_n5.datasets.write import ExistingGroup
    from xarray_n5.dialects import ArrayContext
    from xarray_n5.formats.protocol import Format
    from xarray_n5.images.levels import Levels
    from xarray_n5.writing.options import WriteOptions


_BESIDE_IMAGES = frozenset({"ome", "omero", "image-label"})
"""The attributes of a group that belong to its image, besides axes."""


def plan_levels(levels: Levels, path: str, how: WriteOptions) -> GroupPlan:
    """Return the plan of the group of a pyramid.

    Raises
    ------
    MetadataError
        If the format cannot store a level.
    """
    variables = {}
    for number, (level, dataset) in enumerate(levels.datasets.items()):
        chosen = levels.encodings.get(level) or {}
        above, _, name = level.rpartition("/")
        encoding: dict[Hashable, Any] = {name: chosen[levels.name]} if chosen else {}
        alone = xr.Dataset({name: dataset[levels.name].variable})
        group = join(path, above)
        planned = plan_variables(alone, group, how.format, encoding, storage=how.storage)[name]
        planned = replace(planned, geometry=levels.geometries[number])
        types = {"types": dict(levels.types[number])} if levels.types[number] else {}
        note = {"name": levels.name, "axes": list(levels.coords), **types}
        described = levels.described[number]
        variables[level] = plan_level(planned, described, levels.around, how.format, note)
    convention = convention_of(how.format)
    others = {key: value for key, value in levels.attributes.items() if key not in _BESIDE_IMAGES}
    attributes = stored_attributes(convention, others, f"group {path or '/'!r}", {}, of_group=True)
    note = dict(note_of(attributes))
    described = _beside(attributes, _around(levels, path, how), note, convention.roundtrip_key)
    dtype = next(iter(variables.values())).encoded.data.dtype
    return GroupPlan(
        path=path,
        variables=variables,
        attributes=with_source(described, path, dtype, how.container),
        is_pyramid=True,
    )


def plan_level(
    planned: VariablePlan,
    described: Mapping[str, Any],
    around: Mapping[str, Any],
    form: Format,
    note: Mapping[str, Any] | None = None,
) -> VariablePlan:
    """Return the plan of a level with all attributes, in the layout of its image.

    Parameters
    ----------
    planned
        Its elements, storage and axes.
    described, around
        The attributes of the level, and those of the group, that describe its axes.
    form
        The format.
    note
        What restores the variable besides attributes; None to show all coordinates of the axes.
    """
    convention, encoded = convention_of(form), planned.encoded
    nested = form.nested_layout or {} if images_of(around) else {}
    layout = {**nested, **(planned.spec.layout or {})}
    attributes = dict(described)
    if note is not None or encoded.cf_attributes:
        coords = () if note is None else note["axes"]
        decoded = convention.array_attributes(encoded, coords, placed=bool(described))
        kept = {**note_of(decoded), **(note or {})}
        if note is None:
            kept.pop("axes", None)
        attributes = _beside(decoded, described, kept, convention.roundtrip_key)
    if encoded.fill_value is None and layout.get("fill_value", 0) is not None:
        attributes |= form.level_attributes
    spec = replace(planned.spec, layout=layout or None, attributes=attributes)
    return replace(planned, spec=spec)


def plan_pyramid(plan: GroupPlan, existing: ExistingGroup | None, how: WriteOptions) -> GroupPlan:
    """Return a pyramid's arrays; in mode "a" they replace those of an older one in their group.

    Raises
    ------
    MetadataError
        If the group's other attributes would make readers misread the levels.
    NodeExistsError
        If it describes anything but the levels of a pyramid.
    """
    before: Mapping[str, Any] = {}
    older: Sequence[str] = ()
    if existing is not None and how.mode == "a":
        dims = next(iter(plan.variables.values())).encoded.dims
        _check_coordinates(existing.group, dims)
        _check_images(existing.group, plan.variables)
        older = _older_levels(existing, plan.variables)
        before = existing.group.attrs
    _check_levels(plan, before, how)
    return replace(plan, existing=existing, older=older)


def _check_levels(plan: GroupPlan, before: Mapping[str, Any], how: WriteOptions) -> None:
    """Raise MetadataError if attributes that remain in a group make readers misread levels.

    The groups above are read in one batch.
    """
    stale = stale_keys(before, plan.attributes, how)
    kept = {key: value for key, value in before.items() if key not in stale}
    first: ArrayContext | None = None
    contexts = []
    for name, variable in plan.variables.items():
        data, path, depth = variable.encoded.data, join(plan.path, name), name.count("/")
        if first is None:
            chunks, plain = (1,) * data.ndim, resolve(None)
            metadata = ArrayMetadata(
                shape=data.shape, chunks=chunks, dtype=data.dtype, compression=plain
            )
            first = load_context(how.container, path, metadata)
            above = first.parents[1 + depth :]
        context = first.other(path, variable.spec.attributes or {}, data.shape)
        parents = (*({},) * depth, {**kept, **plan.attributes}, *above)
        contexts.append(replace(context, parents=parents, base=None))
    geometries = [variable.geometry for variable in plan.variables.values()]
    check_pyramid(contexts, geometries, where=join(how.container.url, plan.path))


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
    users = [name for name in note.pop("own", ()) if name not in described]
    if clash:
        note = {**note, "attributes": {**note.get("attributes", {}), **clash}}
    note |= {"own": users} if users else {}
    rest = {k: v for k, v in attributes.items() if k != key}
    return {**rest, **described, **({key: note} if note else {})}


def _around(levels: Levels, path: str, how: WriteOptions) -> dict[str, Any]:
    """Return the attributes of an image on its group: of its levels, its channels and its labels.

    What no dialect that is written describes stays, with a warning if readers ignore it.
    """
    around = named_images(levels.around, levels.name)
    beside = {key: value for key, value in levels.attributes.items() if key in _BESIDE_IMAGES}
    if are_described(around):
        return with_others(around, {**beside, **levels.before})
    where = join(how.container.url, path)
    if how.dialect is None and how.format.native_to_xarray and images_of(levels.before):
        warn(
            f"{where}: 'multiscales' has no axes that OME-NGFF {how.format.ngff_version} can "
            "describe; viewers find no image here (the axes that open from the source say why)"
        )
    elif how.dialect is not None and omero_of(levels.before) is not None:
        warn(
            f"{where}: the names and colours of channels in 'omero' are kept as an attribute, but "
            "readers ignore them without an image of OME-NGFF; add the dialect 'ngff' for them"
        )
    return {**without_images(beside), **around}


def _check_coordinates(group: Group, dims: Collection[str | None]) -> None:
    """Raise if arrays are coordinates, which would fit one level only."""
    for name in sorted(set(group) & {dim for dim in dims if dim}):
        hint = "it is a coordinate, and levels differ in size: choose another path for a copy"
        raise NodeExistsError(group.url, name, "an array named like an axis", hint)


def _check_images(group: Group, names: Collection[str] = ()) -> None:
    """Raise if the group describes images other than a pyramid of its levels, or of `names`."""
    for image in images_in(group.attrs):
        paths = level_paths(image)
        foreign = [path for path in paths if path not in names and number_in(path) is None]
        if foreign or len(paths) < len(image["datasets"]):
            hint = "delete the attribute 'multiscales', or choose another path"
            raise NodeExistsError(group.url, "", f"an image of {', '.join(foreign)!r}", hint)


def _older_levels(existing: ExistingGroup, names: Collection[str]) -> list[str]:
    """Return the levels of older pyramids beyond the new ones (`names`), to be removed.

    They are those that the group's attributes list, or whose write is unfinished; other arrays may
    have such names, too.
    """
    group = existing.group
    listed = {path for image in images_in(group.attrs) for path in level_paths(image)}
    counts: list[int] = []
    for key in FACTOR_LISTS:
        factors = group.attrs.get(key)
        if isinstance(factors, list) and all(isinstance(level, list) for level in factors):
            counts.append(len(factors))
    listed |= {level_name(number) for number in range(max(counts, default=0))}
    store = group.container.uncached().store
    beyond = [n for n in existing.arrays if number_in(n) is not None and n not in names]
    unfinished = {name for name in beyond if look(store, join(group.path, name)).opens}
    return sorted({*beyond} & (listed | unfinished))


def check_attributes(kept: Mapping[str, Any], written: Mapping[str, Any], where: str) -> None:
    """Raise if the group has other values of the attributes to write."""
    if clash := [key for key in written if kept.get(key, written[key]) != written[key]]:
        raise MetadataError(
            f"{where}: the group already has other {clash}; use mode='w' to replace them"
        )
