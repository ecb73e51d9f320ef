"""Find the images in a container: pyramids with their levels, and single arrays."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.context import context_of
from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage
from xarray_n5.formats.protocol import Node
from xarray_n5.images.find import named_levels
from xarray_n5.model.level_names import is_level_table, view_in
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.doctor.survey import Survey
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Attributes

_DOCUMENTS = {"n5": "attributes.json", "zarr2": ".zarray", "zarr3": "zarr.json"}
"""The documents that make nodes arrays."""


def stored_images(survey: Survey, xml: bytes | None = None) -> list[StoredImage]:
    """Return the images in a container; of a time series, those of the first time point.

    Parameters
    ----------
    survey
        The nodes of the container.
    xml
        The project of BigDataViewer that names the container; by default the one next to it.
    """
    arrays = _stored_arrays(survey, xml)
    single = {path: arrays[path] for path in arrays.keys() - _coordinates(arrays)}
    form = survey.container.format.name
    images = []
    groups, names = _groups_around(single)
    for group in sorted(groups):
        if levels := _levels_in(group, groups[group], names[group], single):
            images.append(StoredImage(path=group, format=form, levels=levels, grouped=True))
            for level in levels:
                del single[level.context.path]
    for path, array in single.items():
        images.append(StoredImage(path=path, format=form, levels=(array,)))
    first = _first_times(arrays)
    images = [image for image in images if not _is_later(image.levels[0], first)]
    return sorted(images, key=lambda image: image.path)


def _stored_arrays(survey: Survey, xml: bytes | None) -> dict[str, StoredArray]:
    container = survey.container
    paths = [path for path in survey.arrays if not is_level_table(path)]
    groups = _attributes(container, sorted({above for path in paths for above in _above(path)}))
    arrays = {}
    for path in paths:
        context = context_of(survey.arrays[path].node)
        arrays[path] = StoredArray(
            context=context if xml is None else replace(context, xml=xml),
            document=_document(container, path),
            above=tuple(groups.get(above, {}) for above in _above(path)),
        )
    return arrays


def _above(path: str) -> list[str]:
    """Return the paths of the groups above a node, the nearest first.

    >>> _above("em/raw/s0"), _above("")
    (['em/raw', 'em', ''], [])
    """
    parts = path.split("/") if path else []
    return ["/".join(parts[:depth]) for depth in range(len(parts) - 1, -1, -1)]


def _attributes(container: Container, paths: Sequence[str]) -> dict[str, Attributes]:
    """Return the attributes of groups, with the dimensions of those that look like arrays."""
    attributes: dict[str, Attributes] = {}
    nodes = container.nodes(paths, verify=False) if paths else []
    for path, node in zip(paths, nodes, strict=True):
        if isinstance(node, Node):
            metadata = node.metadata
            attributes[path] = metadata.attributes
            if isinstance(metadata, ArrayMetadata):
                attributes[path] = {**metadata.attributes, "dimensions": list(metadata.shape[::-1])}
    return attributes


def _document(container: Container, path: str) -> dict[str, Any]:
    """Return an array's document, which the container has read; empty in HDF5, which has none."""
    name = _DOCUMENTS.get(container.format.name)
    data = None if name is None else container.store.get(join(path, name))
    document = json.loads(data) if data else {}
    return document if isinstance(document, dict) else {}


def _groups_around(
    arrays: Mapping[str, StoredArray],
) -> tuple[dict[str, Attributes], dict[str, list[str]]]:
    """Return the attributes of all groups around arrays, and the names of the nodes in each."""
    groups: dict[str, Attributes] = {}
    names: dict[str, list[str]] = {}
    for path, array in arrays.items():
        child = path
        for group, attributes in zip(_above(path), array.above, strict=True):
            groups[group] = attributes
            names.setdefault(group, []).append(child.rpartition("/")[2])
            child = group
    return groups, names


def _levels_in(
    group: str, attributes: Attributes, names: list[str], arrays: Mapping[str, StoredArray]
) -> tuple[StoredArray, ...]:
    """Return the levels of the pyramid in a group, as far as they have as many axes as the first.

    Levels of views in HDF5 are groups with an array ``cells``.
    """

    def find(paths: Sequence[str]) -> dict[str, StoredArray]:
        inner = {path: join(group, path) for path in paths}
        levels = {path: arrays[at] for path, at in inner.items() if at in arrays}
        if levels:
            return levels
        cells = {path: f"{at}/cells" for path, at in inner.items()}
        return {path: arrays[at] for path, at in cells.items() if at in arrays and view_in(at)}

    levels = list(named_levels(attributes, names, find).values())
    return tuple(level for level in levels if level.ndim == levels[0].ndim)


def _first_times(arrays: Mapping[str, StoredArray]) -> dict[int, int]:
    """Return the first time point of each setup of BigDataViewer."""
    views = sorted(view for path in arrays if (view := view_in(path)) is not None)
    return dict(reversed(views))


def _is_later(array: StoredArray, first: Mapping[int, int]) -> bool:
    view = array.context.view
    return view is not None and view[1] > first[view[0]]


def _coordinates(arrays: Mapping[str, StoredArray]) -> set[str]:
    """Return the arrays that hold coordinates or bounds of others, by their names or attributes."""
    coordinates = set()
    for path, array in arrays.items():
        names = array.attributes.get("_ARRAY_DIMENSIONS", array.document.get("dimension_names"))
        inside = path.rpartition("/")[0]
        cited = {join(inside, name) for name in _cited(array.attributes)} - {path}
        for attributes in array.above[:1]:
            cited |= {join(inside, name) for name in _cited(attributes)}
        coordinates |= cited & arrays.keys()
        for name in names if isinstance(names, list) else ():
            sibling = join(inside, str(name))
            if sibling != path and sibling in arrays and arrays[sibling].ndim == 1:
                coordinates.add(sibling)
    return coordinates if coordinates < arrays.keys() else set()


def _cited(attributes: Attributes) -> Iterator[str]:
    """Iterate over the names of other arrays in CF attributes.

    >>> list(_cited({"coordinates": "lon lat", "bounds": "x_bounds", "units": "m"}))
    ['lon', 'lat', 'x_bounds']
    """
    for key in ("coordinates", "bounds", "climatology"):
        if isinstance(value := attributes.get(key), str):
            yield from value.split()
