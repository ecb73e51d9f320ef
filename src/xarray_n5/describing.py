"""Attributes by which the axes of an array that is to be written read right where it stands."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.axes import as_geometry
from xarray_n5.dialects import DIALECTS, geometry_of, lost, write_geometry
from xarray_n5.dialects.cosem import Cosem
from xarray_n5.errors import MetadataError
from xarray_n5.nodes import where as _where
from xarray_n5.surroundings import look_around

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.axes import Axis, Geometry
    from xarray_n5.dialects import Node
    from xarray_n5.formats import Format
    from xarray_n5.metadata import ArrayMetadata
    from xarray_n5.storage import Store


def describe(
    store: Store,
    path: str,
    form: Format,
    metadata: ArrayMetadata,
    axes: Iterable[Axis | str | None] | Geometry | None,
    dialect: str | Iterable[str] | None,
    there: ArrayMetadata | None,
) -> tuple[ArrayMetadata, set[str]]:
    """Return an array's metadata with attributes for its axes, and attributes that are to go.

    What the array that is there says of other places goes. What the groups around say may speak
    louder than the default attributes; then COSEM's ``transform`` is written, too, which is
    heard before all others.

    Parameters
    ----------
    store, path, form, metadata
        The array as it is to be written, with the user's attributes.
    axes, dialect
        As in :func:`create_array`.
    there
        The array that stays, if there is one already.

    Raises
    ------
    MetadataError
        If the axes cannot be told, or other attributes contradict them all the same.
    """
    if axes is None:
        return metadata, set()
    where, given = _where(store, path, form), metadata.attributes
    try:
        geometry = as_geometry(axes, len(metadata.shape))
        said = write_geometry(geometry, metadata.shape, dialect)
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    clash = [key for key in said if key in given and given[key] != said[key]]
    if clash:
        raise MetadataError(f"{where}: axes and attributes both set {clash}; give one of them")
    before = there.attributes if there else {}
    placed = geometry.affine is not None or any(axis.scale or axis.offset for axis in geometry.axes)
    known = {key for each in DIALECTS.values() for key in each.keys}
    stale = known & before.keys() - said.keys() - given.keys() if placed else set()
    kept = {key: value for key, value in before.items() if key not in stale}
    node = look_around(store, path, form, replace(metadata, attributes={**kept, **given, **said}))
    found = _quietly(node)
    if dialect is None and "transform" not in given and lost(geometry, found):
        said |= {"transform": Cosem().write(geometry, node)["transform"]}
        found = _quietly(replace(node, attributes={**kept, **given, **said}))
    if gone := lost(geometry, found):
        raise MetadataError(
            f"{where}: other attributes there or on the groups around contradict {gone}; leave "
            "the axes out, or write to another path"
        )
    return replace(metadata, attributes={**given, **said}), stale


def _quietly(node: Node) -> Geometry:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return geometry_of(node)
