"""Write the axes of an array as attributes that all readers interpret alike at its location."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.arrays.context import load_context
from xarray_n5.dialects.ngff import is_of_variable
from xarray_n5.dialects.ngff_attributes import images_of, with_images
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.dialects.write import (
    diff,
    misread,
    override,
    read_back,
    warn_misspelt_units,
    write_geometry,
)
from xarray_n5.errors import MetadataError
from xarray_n5.model.axes import as_geometry
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

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
) -> tuple[ArrayMetadata, AbstractSet[str]]:
    """Return an array's metadata with attributes for its axes, and attributes to remove.

    If the existing array describes the same axes, nothing changes; attributes that contradict the
    new axes are removed. Attributes of the groups around may take precedence over the default
    ones; then others are written, too, that take precedence over all.

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
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    warn_misspelt_units(where, [geometry])
    written = write_geometry(
        geometry, node.shape, dialect, lists_x_first=node.lists_x_first, where=where
    )
    clash = [k for k in written if k in given and not _same(k, given[k], written[k])]
    stale: frozenset[str] = frozenset()
    if there is not None:
        stored, invalid = read_back(node)
        if dialect is None and _has_only_names(geometry) and stored.placed:
            # Names alone do not move or reverse existing axes.
            _refuse(where, diff(geometry, stored))
            return metadata, set()
        if dialect is None and not diff(geometry, stored) and not invalid:
            return metadata, set()
        known = stored.keys - ({"units"} if units_of_values(before) else set())
        clash += [k for k in written if before.get(k, written[k]) != written[k] and k not in known]
        found, invalid = read_back(replace(node, attributes={**node.attributes, **written}))
        if diff(geometry, found) or invalid:
            stale = known & before.keys() - written.keys() - given.keys()
    if clash:
        raise MetadataError(f"{where}: axes and attributes both set {clash}; pass one of them")
    kept = {k: v for k, v in node.attributes.items() if k not in stale}
    node = replace(node, attributes=kept)
    if dialect is None and "transform" not in kept:
        written, wrong = override(geometry, node, written)
    else:
        wrong = misread(geometry, replace(node, attributes={**kept, **written}))
    _refuse(where, wrong)
    return replace(metadata, attributes={**given, **written}), stale


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


def _has_only_names(geometry: Geometry) -> bool:
    return not geometry.placed and all(axis.unit is None for axis in geometry.axes)


def _same(key: str, one: object, other: object) -> bool:
    """Return whether attributes are equal; lists of units are compared by meaning."""
    if key != "units" or not (isinstance(one, list) and isinstance(other, list)):
        return one == other
    texts = all(isinstance(unit, str) for unit in (*one, *other))
    return texts and len(one) == len(other) and all(map(same_unit, one, other))


def _refuse(where: str, wrong: str | None) -> None:
    if wrong:
        raise MetadataError(
            f"{where}: other attributes of the node or of its groups contradict {wrong}; omit "
            "axes, or write to another path"
        )
