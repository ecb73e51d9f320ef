"""The xarray engine's work: nodes of a container as Datasets, indexed lazily."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.coordinates import Room, dims_of
from xarray_n5.arrays.group import open_node
from xarray_n5.datasets.build import build
from xarray_n5.datasets.images import PART, together
from xarray_n5.datasets.select import alone, is_like_dataset, pick
from xarray_n5.dialects import DIALECTS
from xarray_n5.model.alerts import warn
from xarray_n5.model.roundtrip_attrs import is_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.build import Options
    from xarray_n5.datasets.images import Image


_MOST = 1 << 28
"""How many samples of a whole tree get coordinates: 2 GiB of them."""

_OF_ALL_LEVELS = frozenset({"multiscales", "downsamplingFactors", "scales"})
"""Attributes of a pyramid's group that say which levels there are."""


def open_dataset(
    url: object,
    path: str,
    *,
    storage_options: Mapping[str, Any] | None,
    form: str | None,
    drop: Iterable[str],
    decoders: Mapping[str, bool | None],
    options: Options,
) -> xr.Dataset:
    """Return an array, or the arrays directly in a group, as a Dataset.

    Raises
    ------
    NodeNotFoundError
        If there is nothing at `path`, or a group without arrays.
    ValueError
        If the arrays of a group cannot share a Dataset.
    """
    node = _open(url, path, storage_options, form, options)
    unwanted = frozenset(drop)
    images = pick(node, level=options.level, dims=options.dims, without=unwanted, **options.looking)
    if options.dims is not None and all(len(options.dims) != len(i.shape) for i in images.values()):
        axes = (", ".join(dims_of(image.named())) for image in images.values())
        raise ValueError(
            f"dims has {len(options.dims)} names for the axes {' or '.join(axes)} in {node.url!r}"
        )
    attributes = {} if isinstance(node, Array) else dict(node.attrs)
    if options.level is not None:
        attributes = _of_one_level(attributes, images)
    dataset = build(images, attributes, unwanted, decoders, options)
    dataset.encoding["source"] = node.url
    return dataset


def _of_one_level(attributes: dict[str, Any], images: Mapping[str, Image]) -> dict[str, Any]:
    """Return a pyramid's attributes without those of other levels, and those now in coordinates."""
    geometries = [image.geometry for image in images.values()]
    told = {name for each in geometries if each.affine is None for name in each.dialects}
    gone = _OF_ALL_LEVELS.union(*(DIALECTS[name].keys for name in told))
    return {key: value for key, value in attributes.items() if key not in gone}


def open_groups(
    url: object,
    path: str,
    *,
    storage_options: Mapping[str, Any] | None,
    form: str | None,
    drop: Iterable[str],
    decoders: Mapping[str, bool | None],
    options: Options,
) -> dict[str, xr.Dataset]:
    """Return every array below a node as a Dataset of its own, by path, and groups' attributes.

    Levels of a pyramid differ in size under the same names, so no two arrays share a Dataset;
    but views of BigDataViewer and channels that are alike are one image, a Dataset a level.
    Groups without arrays or attributes are left out: in N5 any directory is one.

    Raises
    ------
    NodeNotFoundError
        If there is nothing at `path`.
    """
    if options.level is not None:
        raise ValueError("level= is for open_dataset; a tree has all levels")
    root = _open(url, path, storage_options, form, options, whole=True)
    unwanted = frozenset(drop)
    room = Room(_MOST)

    def dataset(name: str, image: Image) -> xr.Dataset:
        built = _in_tree(build({name: image}, {}, unwanted, decoders, options, room))
        built.encoding["source"] = image.first.url
        return built

    done: set[str] = set()

    def visit(node: Array | Group, place: str, *, part: bool) -> dict[str, xr.Dataset]:
        if isinstance(node, Array):
            if node.path in done:
                return {}
            return {place: dataset(node.name, alone(node, **options.looking))}
        stem = place.rstrip("/")
        below: dict[str, xr.Dataset] = {}
        if is_dataset(node.attrs) or is_like_dataset(node):
            arrays = pick(node, level=None, without=unwanted, **options.looking)
            whole = build(arrays, dict(node.attrs), unwanted, decoders, options, room)
            whole = _in_tree(whole)
            for name, group in node.groups().items():
                below |= visit(group, f"{stem}/{name}", part=False)
            return {place: whole, **below}
        joined = {} if part else together(node, without=unwanted, **options.looking)
        for name, levels in joined.items():
            at = f"{stem}/{name}".rstrip("/")
            below |= {f"{at}/{level}": dataset(level, image) for level, image in levels.items()}
            done.update(a.path for image in levels.values() for a in image.arrays.values())
        for name, child in node.children(without=unwanted).items():
            inner = name in joined or ("" in joined and PART.fullmatch(name) is not None)
            below |= visit(child, f"{stem}/{name}", part=part or inner)
        attributes = dict(node.attrs)
        # Of the groups that an image was made of, those that hold nothing else are no nodes.
        here = xr.Dataset(attrs=attributes)
        here.encoding["source"] = node.url
        own = {place: here} if below or not part else {}
        return {**own, **below} if attributes or below else {}

    return visit(root, "/", part=False) or {"/": xr.Dataset()}


def aligned(groups: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return Datasets by path as a tree can hold them: children align with their parents.

    Where a Dataset below does not align with one above, the variables of the one above become
    nodes of their own, as arrays of other groups are; nothing is left out.
    """
    found = dict(groups)
    sized = [path for path, dataset in groups.items() if dataset.sizes]
    for path in sized:
        stem = path.rstrip("/")
        below = [each for each in sized if each.startswith(f"{stem}/") and each != path]
        if all(_fits(groups[each], groups[path]) for each in below):
            continue
        for name, dataset in _variables_apart(found.pop(path)).items():
            inner = f"{stem}/{name}" if name else path
            while inner in found:
                inner += "_"
            found[inner] = dataset
    return found


def _fits(dataset: xr.Dataset, above: xr.Dataset) -> bool:
    try:
        xr.align(dataset, above, join="exact", copy=False)
    except ValueError:
        return False
    return True


def _variables_apart(dataset: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return a Dataset for each variable with its coordinates, and the attributes at ""."""
    apart = {
        "data" if name is None else str(name): dataset[[name]].drop_attrs(deep=False)
        for name in dataset
    }
    used = {name for each in apart.values() for name in each.variables}
    left = {str(name): values for name, values in dataset.coords.items() if name not in used}
    apart |= {name: xr.Dataset(coords={name: values}) for name, values in left.items()}
    found = {"": xr.Dataset(attrs=dataset.attrs), **apart}
    for each in found.values():
        each.encoding["source"] = dataset.encoding.get("source")
    return found


def _in_tree(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose names a DataTree takes for names, not for paths."""
    names = {*dataset.dims, *dataset.variables}
    new: dict[str, str] = {}
    for name in sorted(each for each in names if isinstance(each, str) and "/" in each):
        new[name] = name.replace("/", "_")
        while new[name] in names or new[name] in [*new.values()][:-1]:
            new[name] += "_"
    if not new:
        return dataset
    warn(f"{list(new)} are not names in a tree; they are called {list(new.values())}")
    return dataset.rename(new)


def _open(
    url: object,
    path: str,
    storage_options: Mapping[str, Any] | None,
    form: str | None,
    options: Options,
    *,
    whole: bool = False,
) -> Array | Group:
    return open_node(
        url,
        path,
        storage_options=storage_options,
        format=form,
        axis_order=options.axis_order,
        missing=options.missing,
        label_multisets=options.label_multisets,
        whole=whole,
    )
