"""Write the axes of an array as attributes that all readers interpret alike at its location."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.arrays.context import load_context
from xarray_n5.dialects import diff, resolve_geometry, write_geometry
from xarray_n5.dialects.cosem import Cosem
from xarray_n5.dialects.ngff import is_of_variable
from xarray_n5.dialects.ngff_attributes import images_of, with_images
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import as_geometry
from xarray_n5.model.units import meant_unit, same_unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.formats.protocol import Container
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.metadata import ArrayMetadata, Attributes


def describe(
    container: Container,
    path: str,
    metadata: ArrayMetadata,
    axes: Iterable[Axis | str | None] | Geometry | None,
    dialect: str | Iterable[str] | None,
    there: ArrayMetadata | None,
) -> tuple[ArrayMetadata, set[str]]:
    """Return an array's metadata with attributes for its axes, and attributes to remove.

    If the existing array describes the same axes, nothing changes; attributes that contradict the
    new axes are removed. Attributes of the groups around may take precedence over the default
    ones; then COSEM's ``transform`` is written, too, which takes precedence over all others.

    Parameters
    ----------
    container, path, metadata
        The array as it is to be written, with the user's attributes.
    axes, dialect
        As in :func:`create_array`.
    there
        The existing array that is kept, if any.

    Raises
    ------
    MetadataError
        If no dialect can describe the axes, or other attributes still contradict them.
    """
    if axes is None:
        return metadata, set()
    where, given = container.where(path), metadata.attributes
    before = dict(there.attributes) if there else {}
    node = load_context(container, path, replace(metadata, attributes={**before, **given}))
    try:
        geometry = as_geometry(axes, len(metadata.shape))
        warn_misspelt_units(where, [geometry])
        said = write_geometry(
            geometry, metadata.shape, dialect, lists_x_first=container.lists_x_first
        )
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    stays = _quietly(node)
    if there is not None and dialect is None:
        if _untold(geometry) and stays[0].placed:
            # Names alone do not move or reverse existing axes.
            _check(where, geometry, stays[0])
            return metadata, set()
        if not diff(geometry, stays[0]) and not stays[1]:
            return metadata, set()
    clash = [key for key in said if key in given and not _same(key, given[key], said[key])]
    own = set(stays[0].keys) - ({"units"} if units_of_values(before) else set())
    clash += [key for key in said if key in before and key not in own and before[key] != said[key]]
    if clash:
        raise MetadataError(f"{where}: axes and attributes both set {clash}; pass one of them")
    found, odd = _quietly(replace(node, attributes={**before, **given, **said}))
    stale = (
        own & before.keys() - said.keys() - given.keys() if diff(geometry, found) or odd else set()
    )
    kept = {key: value for key, value in before.items() if key not in stale}
    found, _ = _quietly(replace(node, attributes={**kept, **given, **said}))
    if dialect is None and "transform" not in {*given, *kept} and diff(geometry, found):
        said |= {"transform": Cosem().write(geometry, node)["transform"]}
        found, _ = _quietly(replace(node, attributes={**kept, **given, **said}))
    _check(where, geometry, found)
    return replace(metadata, attributes={**given, **said}), stale


def warn_misspelt_units(where: str, geometries: Iterable[Geometry]) -> None:
    """Warn about units that no program knows and that are similar to known ones."""
    for unit in dict.fromkeys(axis.unit for each in geometries for axis in each.axes):
        if (meant := meant_unit(unit)) is not None:
            warn(f"{where}: unknown unit {unit!r}; did you mean {meant!r}?")


def without_image(attributes: Attributes, path: str) -> Attributes:
    """Return a group's attributes without the image of an array that is removed."""
    name, images = path.rpartition("/")[2], images_of(attributes)
    kept = [
        image
        for image in images
        if not (is_of_variable(image) and image["datasets"][0]["path"] == name)
    ]
    if len(kept) == len(images):
        return attributes
    changed = {**attributes, **with_images(attributes, kept, "0.4")}
    return {key: value for key, value in changed.items() if value is not None}


def _untold(geometry: Geometry) -> bool:
    """Return whether a geometry only has names."""
    return not geometry.placed and all(axis.unit is None for axis in geometry.axes)


def _same(key: str, one: object, other: object) -> bool:
    """Return whether attributes are equal; lists of units are compared by meaning."""
    if key != "units" or not (isinstance(one, list) and isinstance(other, list)):
        return one == other
    texts = all(isinstance(each, str) for each in (*one, *other))
    return texts and len(one) == len(other) and all(map(same_unit, one, other))


def _check(where: str, geometry: Geometry, found: Geometry) -> None:
    if gone := diff(geometry, found):
        raise MetadataError(
            f"{where}: other attributes of the node or of its groups contradict {gone}; omit "
            "axes, or write to another path"
        )


def _quietly(node: ArrayContext) -> tuple[Geometry, list[str]]:
    """Return the geometry of a node and its warnings, without issuing them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return resolve_geometry(node)
