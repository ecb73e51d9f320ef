"""Find the levels of a pyramid in a tree: the nodes that are stored as one group of arrays.

The levels of a node without variables (see :func:`levels_in_tree`) are stored as a pyramid if each
has one variable, of one name, type and dimensions, with coordinates along its dimensions only,
which are labels or evenly spaced, with larger steps at each level.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.coordinates import coords_of, geometry_from
from xarray_n5.dialects import ArrayContext, group_keys
from xarray_n5.dialects.groups import KEYS, warn_lost, without_images
from xarray_n5.dialects.write import warn_misspelt_units, write_pyramid
from xarray_n5.errors import MetadataError
from xarray_n5.images.find import levels_among, levels_in_tree, listed_levels
from xarray_n5.model.axes import ROUNDING, Geometry, at_levels
from xarray_n5.model.paths import check_name, join
from xarray_n5.model.system_graph import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import xarray as xr

    from xarray_n5.model.system_graph import ImageSystems
    from xarray_n5.writing.options import Encoding, WriteOptions

_NUMBERS = "biufcmM"
"""The kinds of types of levels; strings have their own axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The levels of a pyramid, the finest first."""

    name: str
    """The name of the variable at every level."""
    datasets: Mapping[str, xr.Dataset]
    """The levels by their names."""
    geometries: Sequence[Geometry]
    coords: Sequence[str]
    """The dimensions with a coordinate."""
    types: Sequence[Mapping[str, str]]
    """The types of each level's coordinates that are not float64, or only count samples."""
    around: Mapping[str, Any]
    """The attributes of the group that describe the levels."""
    described: Sequence[Mapping[str, Any]]
    """The attributes of each level that describe its axes."""
    attributes: Mapping[Any, Any]
    """All other attributes of the group."""
    before: Mapping[Any, Any]
    """The attributes of the group with those of its images, such as channels and labels."""
    encodings: Mapping[str, Encoding | None]
    """The encodings that the user chose, by level."""


def levels_in(
    datasets: Mapping[str, xr.Dataset],
    names: Mapping[str, Iterable[str]],
    group: str,
    path: str,
    encodings: Mapping[str, Encoding | None],
    how: WriteOptions,
) -> Levels | None:
    """Return the levels of the pyramid in a group of a tree, or None.

    Groups between them and the group must be empty otherwise.

    Parameters
    ----------
    datasets, names, group
        The Datasets of the tree by their paths in it, their names by the groups around them, and
        the path of the group.
    path
        The path of the group for it.
    encodings
        The encodings that the user chose, by the paths of nodes.
    how
        The container and the options of the tree.

    Raises
    ------
    MetadataError
        If the dialects that the user chose cannot describe it.
    """
    places, direct = levels_in_tree(datasets, names, group), {*names.get(group, ())}
    if places.keys() <= direct and {*levels_among(direct)} - places.keys():
        return None  # one of them has no variables
    inside = {*places.values()}
    if any(len(datasets[at].data_vars) != 1 or at in names for at in inside):
        return None
    between = {join(group, inner) for inner in groups_between(places)} - inside
    around = [datasets[at] for at in between if at in datasets]
    if any(dataset.variables or dataset.attrs for dataset in around):
        return None
    levels = {level: datasets[at] for level, at in places.items()}
    if not levels or (len(levels) == 1 and not _was_array(*levels.items())):
        return None
    before: Mapping[Any, Any] = datasets[group].attrs
    attributes = without_images(before) if listed_levels(before) else before
    chosen = {level: encodings.get(at) for level, at in places.items()}
    return levels_of_datasets(levels, attributes, path, how, before=before, encodings=chosen)


def levels_of_datasets(
    datasets: Mapping[str, xr.Dataset],
    attributes: Mapping[Any, Any],
    path: str,
    how: WriteOptions,
    *,
    before: Mapping[Any, Any],
    encodings: Mapping[str, Encoding | None] | None = None,
    systems: ImageSystems | None = None,
) -> Levels | None:
    """Return Datasets of one variable as the levels of a pyramid, or None if they are not.

    Parameters
    ----------
    datasets, attributes
        The Datasets by the names of levels, the finest first, and the attributes of their group,
        without those of images, which are in `before`.
    path, how, encodings
        As of :func:`levels_in`, the encodings by level.
    before
        The attributes of the group with those of images.
    systems
        The image's other coordinate systems, if they are known better than by the Datasets.
    """
    alike = {_facts(dataset) for dataset in datasets.values()}
    if len(alike) != 1 or None in alike:
        return None
    (name, *_), *_ = (list(dataset.data_vars) for dataset in datasets.values())
    chosen = dict(encodings or {})
    shared = _shared_attributes([attributes, *(level.attrs for level in datasets.values())])
    fits = shared is not None and all(set(level or {}) <= {name} for level in chosen.values())
    geometries = _geometries([level[name] for level in datasets.values()]) if fits else None
    base = datasets[next(iter(datasets))]
    if geometries and systems is not None:
        geometries[0] = replace(geometries[0], systems=systems)
    elif geometries:
        warn_lost(join(how.container.url, path), base[name].encoding.get(SYSTEMS))
    described = geometries and _described(datasets, geometries, path, how)
    if geometries is None or not described:
        return None
    return Levels(
        name=str(name),
        datasets=datasets,
        geometries=geometries,
        coords=[str(dim) for dim in base[name].dims if dim in base.coords],
        types=[
            {str(dim): c.dtype.str for dim, c in level.coords.items() if _is_typed(c)}
            for level in datasets.values()
        ],
        around=described[0],
        described=described[1],
        attributes=shared or {},
        before=before,
        encodings=chosen,
    )


def groups_between(paths: Iterable[str]) -> list[str]:
    """Return the paths of the groups around levels, up to that of the pyramid."""
    parts = [path.split("/") for path in paths]
    return list(dict.fromkeys("/".join(p[:stop]) for p in parts for stop in range(1, len(p))))


def _facts(level: xr.Dataset) -> tuple[Any, ...] | None:
    """Return the properties that all levels of a pyramid share, or None if they are not one."""
    if len(level.data_vars) != 1:
        return None
    ((name, array),) = level.data_vars.items()
    within = all(c.dims == (dim,) and dim in array.dims for dim, c in level.coords.items())
    if not within or not array.ndim or array.dtype.kind not in _NUMBERS:
        return None
    try:
        check_name(str(name), "variable")
    except ValueError:
        return None
    if not isinstance(name, str) or not all(isinstance(dim, str) for dim in array.dims):
        return None
    return name, array.dims, array.dtype, frozenset(level.coords)


def _was_array(item: tuple[str, xr.Dataset]) -> bool:
    """Return whether a single level was opened from an array of its name."""
    name, level = item
    (array,) = level.data_vars.values()
    return str(array.encoding.get("source", "")).endswith(f"/{name}")


def _shared_attributes(several: Sequence[Mapping[Any, Any]]) -> Mapping[Any, Any] | None:
    """Return the attributes of a group and of the levels in it, or None if they contradict."""
    shared: dict[Any, Any] = {}
    for attributes in several:
        for key, value in attributes.items():
            if not _is_same(shared.setdefault(key, value), value):
                return None
    return shared


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype
    return type(one) is type(other) and bool(one == other)


def _is_typed(coordinate: xr.DataArray) -> bool:
    """Return whether numbers are not float64, as those of axes are, or only count samples."""
    if coordinate.dtype.kind not in "iuf":
        return False
    return coordinate.dtype != np.float64 or not geometry_from(coordinate).placed


def _geometries(levels: Sequence[xr.DataArray]) -> list[Geometry] | None:
    """Return the axes of each level with its factors, or None if they are not a pyramid's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # irregular coordinates are detected below
        axes = [geometry_from(level).axes for level in levels]
        if not all(map(_is_regular, levels)):
            return None
    sizes = [level.shape for level in levels]
    if (geometries := at_levels(axes, sizes)) is not None:
        factors = [[axis.factor for axis in geometry.axes] for geometry in geometries]
        return geometries if all(after != before for before, after in pairwise(factors)) else None
    # Attributes have no factors; the sizes show that the levels become coarser.
    plain = not any(axis.placed for along in axes for axis in along)
    smaller = all(is_smaller(after, before) for before, after in pairwise(sizes))
    return list(map(Geometry, axes)) if plain and smaller else None


def is_smaller(after: Sequence[int], before: Sequence[int]) -> bool:
    """Return whether a shape is smaller along some axes, and larger along none."""
    return after != before and all(a <= b for a, b in zip(after, before, strict=True))


def _is_regular(level: xr.DataArray) -> bool:
    """Return whether the axes of a level describe its coordinates, up to rounding."""
    for dim, coordinate in level.coords.items():
        (axis,), values = geometry_from(coordinate).axes, coordinate.to_numpy()
        if not values.size or axis.step < 0:
            return False
        expected = coords_of(Geometry((axis,)), values.shape).get(str(dim))
        if expected is None:  # numbers that count samples
            same = values.dtype.kind in "iuf" and not coordinate.attrs
        elif expected.dtype.kind == "f":
            near = ROUNDING * max(abs(axis.step), float(np.abs(values).max()))
            same = np.allclose(expected, values, rtol=0, atol=near)
        else:
            same = np.array_equal(expected, values)
        if not same or (expected is not None and expected.attrs != coordinate.attrs):
            return False
    return True


def _described(
    levels: Mapping[str, xr.Dataset], geometries: Sequence[Geometry], path: str, how: WriteOptions
) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """Return the attributes of the group and of the levels that describe them, if any can."""
    if not any(axis.placed for geometry in geometries for axis in geometry.axes):
        return {}, [{} for _ in levels]
    arrays = {name: next(iter(level.data_vars.values())) for name, level in levels.items()}
    try:
        return describe_levels(
            {name: (array.shape, array.dtype) for name, array in arrays.items()},
            geometries,
            path,
            how,
        )
    except MetadataError:
        if how.dialect is not None:
            raise
        return None


def describe_levels(
    levels: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    geometries: Sequence[Geometry],
    path: str,
    how: WriteOptions,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the attributes of a group and of its levels that describe their axes.

    Parameters
    ----------
    levels, geometries
        The shapes and types of the levels by their names, the finest first, and their axes.
    path, how
        The path of the group, and the container and options of the write.

    Raises
    ------
    MetadataError
        If no dialect, or none that the user chose, can describe them.
    """
    warn_misspelt_units(how.container.where(path), geometries)
    contexts = [
        ArrayContext(
            path=join(path, name),
            depth=name.count("/"),
            shape=shape,
            dtype=dtype,
            lists_x_first=how.container.lists_x_first,
            ngff=how.format.ngff_version,
        )
        for name, (shape, dtype) in levels.items()
    ]
    where = join(how.container.url, path)
    attributes = write_pyramid(
        list(zip(contexts, geometries, strict=True)), how.dialect, where=where
    )
    warn_lost(where, geometries[0].systems, attributes[0])
    return attributes


def stale_keys(
    existing: Mapping[str, Any], written: Mapping[str, Any], how: WriteOptions
) -> set[str]:
    """Return the attributes of a group that a new pyramid in it makes wrong.

    Attributes that N5 readers interpret may be a user's own in other formats.
    """
    described = group_keys() if how.container.lists_x_first else group_keys() & {*KEYS, *written}
    return set(described & existing.keys())
