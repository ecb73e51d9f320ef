"""Find the images in a container: pyramids with their levels, and single arrays."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.context import context_of
from xarray_n5.dialects.levels import image_of
from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage
from xarray_n5.formats.protocol import Node
from xarray_n5.model.level_names import is_level, is_level_table, view_in
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.doctor.survey import Survey
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Attributes, GroupMetadata

_DOCUMENTS = {"n5": "attributes.json", "zarr2": ".zarray", "zarr3": "zarr.json"}
"""The documents that make nodes arrays."""


def stored_images(survey: Survey, xml: bytes | None = None) -> tuple[StoredImage, ...]:
    """Return the images in a container; of a time series, those of the first time point.

    Parameters
    ----------
    survey
        The nodes of the container.
    xml
        The project of BigDataViewer that names the container; by default the one next to it.
    """
    arrays = [each for path, each in survey.arrays.items() if not is_level_table(path)]
    levels = {array.path: level for array, level in _levels(survey.container, arrays)}
    if xml is not None:
        for path, level in levels.items():
            levels[path] = replace(level, context=replace(level.context, xml=xml))
    return tuple(_images(survey.container.format.name, levels))


def _levels(container: Container, arrays: Sequence[Array]) -> Iterator[tuple[Array, StoredArray]]:
    paths = {above for array in arrays for above in _above(array.path)}
    groups = _groups(container, sorted(paths))
    for array in arrays:
        yield (
            array,
            StoredArray(
                context=context_of(array.node),
                document=_document(container, array.path),
                above=tuple(groups.get(each, {}) for each in _above(array.path)),
                root=not array.path,
            ),
        )


def _above(path: str) -> list[str]:
    """Return the paths of the groups above a node, the nearest first.

    >>> _above("em/raw/s0"), _above("")
    (['em/raw', 'em', ''], [])
    """
    parts = path.split("/") if path else []
    return ["/".join(parts[:depth]) for depth in range(len(parts) - 1, -1, -1)]


def _groups(container: Container, paths: Sequence[str]) -> dict[str, Attributes]:
    nodes = container.nodes(paths, verify=False) if paths else []
    pairs = zip(paths, nodes, strict=True)
    return {path: _raw(node.metadata) for path, node in pairs if isinstance(node, Node)}


def _raw(metadata: ArrayMetadata | GroupMetadata) -> Attributes:
    """Return a group's attributes, with the dimensions of one that looks like an array of N5."""
    if isinstance(metadata, ArrayMetadata):
        return {**metadata.attributes, "dimensions": list(metadata.shape[::-1])}
    return metadata.attributes


def _document(container: Container, path: str) -> dict[str, Any]:
    """Return an array's document, which the container has read; empty in HDF5, which has none."""
    name = _DOCUMENTS.get(container.format.name)
    data = None if name is None else container.store.get(join(path, name))
    found = json.loads(data) if data else {}
    return found if isinstance(found, dict) else {}


def _images(form: str, levels: Mapping[str, StoredArray]) -> Iterator[StoredImage]:
    keys = {path: _key(path, level) for path, level in levels.items()}
    coordinates = _coordinates(levels)
    ordered = sorted(levels.keys() - coordinates, key=lambda path: (keys[path], _natural(path)))
    for (key, grouped), paths in groupby(ordered, key=lambda path: keys[path]):
        if _is_later(key, levels):
            continue
        own = [levels[path] for path in paths]
        for ndim in sorted({each.ndim for each in own}):
            alike = tuple(each for each in own if each.ndim == ndim)
            yield StoredImage(
                path=key,
                format=form,
                levels=alike,
                members=_members(alike[0], levels),
                grouped=grouped,
            )


def _key(path: str, level: StoredArray) -> tuple[str, bool]:
    """Return the path of the image that an array belongs to, and whether it is a group."""
    inside, _, name = path.rpartition("/")
    if level.context.view is not None and inside:
        return (inside.rpartition("/")[0] if name == "cells" else inside), True
    image = image_of(level.context)
    if image is not None and path and level.context.path == path:
        return image, True
    if is_level(name) and path:
        return inside, True
    return path, False


def _is_later(path: str, levels: Mapping[str, StoredArray]) -> bool:
    """Return whether an image is a view of a later time point of a setup."""
    view = view_in(next(key for key in levels if key.startswith(path)))
    if view is None or (own := view_in(f"{path}/s0") or view_in(f"{path}/0/cells")) is None:
        return False
    views = [each for key in levels if (each := view_in(key)) is not None and each[0] == own[0]]
    return own[1] > min(time for _, time in views)


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a key that sorts the numbers in paths as numbers."""
    parts = re.split(r"(\d+)", path)
    return [(int(each), "") if each.isdecimal() else (-1, each) for each in parts]


def _coordinates(levels: Mapping[str, StoredArray]) -> set[str]:
    """Return the arrays that hold coordinates or bounds of others, by their names or attributes."""
    found = set()
    for path, level in levels.items():
        names = level.attributes.get("_ARRAY_DIMENSIONS", level.document.get("dimension_names"))
        inside = path.rpartition("/")[0]
        for attributes in (level.attributes, *level.above[:1]):
            named = {join(inside, name) for name in _cited(attributes)}
            found |= named & levels.keys() - {path if attributes is level.attributes else None}
        for name in names if isinstance(names, list) else ():
            sibling = join(inside, str(name))
            if sibling != path and sibling in levels and levels[sibling].ndim == 1:
                found.add(sibling)
    return found if found < levels.keys() else set()


def _cited(attributes: Attributes) -> Iterator[str]:
    """Iterate over the names of other arrays in CF attributes.

    >>> list(_cited({"coordinates": "lon lat", "bounds": "x_bounds", "units": "m"}))
    ['lon', 'lat', 'x_bounds']
    """
    for key in ("coordinates", "bounds", "climatology"):
        if isinstance(value := attributes.get(key), str):
            yield from value.split()


def _members(level: StoredArray, levels: Mapping[str, StoredArray]) -> dict[str, StoredArray]:
    inside = level.context.path.rpartition("/")[0]
    return {
        each.name: each
        for each in levels.values()
        if each.context.path.rpartition("/")[0] == inside
    }
