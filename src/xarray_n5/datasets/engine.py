"""The xarray engine: open nodes of a container as lazily indexed Datasets."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.coordinates import Room
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import open_node
from xarray_n5.datasets.build import build
from xarray_n5.datasets.encoded import decode_attributes
from xarray_n5.dialects.groups import KEYS, has_labels_only, omero_of, without_images
from xarray_n5.dialects.lists import FACTOR_LISTS
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats.containers import find_scene
from xarray_n5.images.find import (
    combined_images,
    is_part_of_image,
    levels_among,
    levels_of,
    name_of_group,
    named_alike,
    single_image,
)
from xarray_n5.images.select import (
    levels_in_groups,
    select_images,
    select_level,
    share_dimensions,
)
from xarray_n5.leaves import scene_in
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import is_dataset, user_attributes
from xarray_n5.writing.report import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.leaves import Scene
    from xarray_n5.model.image import Image

_MOST = 1 << 28
"""The maximum number of samples of a tree with coordinates: 2 GiB of them."""

_BESIDE_SCALES = frozenset({"axes", "units", "ordering", "translate"})
"""Attributes of COSEM's and render's groups that become coordinates, besides ``scales``."""


def open_dataset(url: object, path: str, options: DatasetOptions) -> xr.Dataset:
    """Open an array, or the arrays directly in a group, as a Dataset.

    Raises
    ------
    NodeNotFoundError
        If there is nothing at `path`, or a group without arrays.
    ValueError
        If the arrays of a group cannot share a Dataset.
    """
    for again in (True, True, False):
        node, inner = _open(url, path, options)
        if not isinstance(node, Array | Group):
            return node.open_dataset(inner, options)
        try:
            return _dataset_of(node, options)
        except ValueError:
            # An append resizes one array after another: its record, read again, says which.
            if isinstance(node, Array) or not again:
                raise
    raise AssertionError  # pragma: no cover


def _dataset_of(node: Array | Group, options: DatasetOptions) -> xr.Dataset:
    """Return the Dataset of an array, or of the arrays directly in a group."""
    if options.level is None:
        images = select_images(node, **options.selection)
        attributes = {} if isinstance(node, Array) else dict(node.attrs)
    else:
        node, images = select_level(node, options.level, **options.selection)
        attributes = without_levels(node.attrs, images)
    dataset = build(images, attributes, options)
    dataset.encoding["source"] = node.url
    return dataset


def open_groups(url: object, path: str, options: DatasetOptions) -> dict[str, xr.Dataset]:
    """Open every array below a node as a Dataset, by path, and the attributes of groups.

    Levels of a pyramid differ in size under the same names, so each array has its own Dataset; but
    views of BigDataViewer and channels that are alike are one image, with a Dataset per level.
    Groups without arrays or attributes are omitted: in N5, any directory is a group.

    Raises
    ------
    NodeNotFoundError
        If there is nothing at `path`.
    """
    if options.level is not None:
        raise ValueError("level= is for open_dataset; a tree has all levels")
    root, path = _open(url, path, options, whole=True)
    if not isinstance(root, (Array, Group)):
        return root.open_groups(path, options)
    return _Tree(options).open(root, "/") or {"/": xr.Dataset()}


def align_tree(groups: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return Datasets by path so that children align with their parents, as a DataTree requires.

    If a Dataset does not align with one above, the variables of the one above become separate
    nodes, like arrays of other groups; nothing is lost.
    """
    aligned = dict(groups)
    sized = [path for path, dataset in groups.items() if dataset.sizes]
    for path in sized:
        stem = path.rstrip("/")
        below = [inside for inside in sized if inside.startswith(f"{stem}/") and inside != path]
        if all(_aligns(groups[inside], groups[path]) for inside in below):
            continue
        for name, dataset in _split(aligned.pop(path)).items():
            inner = f"{stem}/{name}" if name else path
            while inner in aligned:
                inner += "_"
            aligned[inner] = dataset
    return aligned


def _open(
    url: object, path: str, options: DatasetOptions, *, whole: bool = False
) -> tuple[Array | Group | Scene, str]:
    """Open a node, or the scene that a file or a group describes; return the path in it, too.

    The name of a file on a server need not show that it describes one.
    """
    if (scene := find_scene(url, options.storage_options)) is not None:
        return scene, path
    where: dict[str, Any] = {"storage_options": options.storage_options, "format": options.format}
    try:
        listed = whole or options.level is not None
        node = open_node(url, path, whole=whole, listed=listed, **where, **options.opening)
    except NodeNotFoundError:
        with suppress(OSError):  # keep the original error if this fails
            scene = find_scene(url, options.storage_options, by_name=False)
        if scene is None:
            raise
        return scene, path
    scene = None if isinstance(node, Array) else scene_in(node)
    return scene or node, ""


@dataclass(frozen=True, slots=True)
class _Tree:
    """The options for the nodes of a tree, and the arrays that have been opened."""

    options: DatasetOptions
    budget: Room = field(default_factory=lambda: Room(_MOST))
    done: set[str] = field(default_factory=set)

    def open(
        self, node: Array | Group, path: str, *, is_part: bool = False
    ) -> dict[str, xr.Dataset]:
        """Open a node and all below it; `is_part` if it is part of an image."""
        if isinstance(node, Array):
            image = single_image(node, dialect=self.options.dialect)
            return {path: self._image(node.node.name, image)}
        if (scene := scene_in(node)) is not None:
            stem, inside = path.rstrip("/"), scene.open_groups("", self.options)
            return {f"{stem}{at}".rstrip("/") or "/": inside[at] for at in inside}
        if is_dataset(node.attrs):
            return self._open_dataset(node, path)
        children = node.nodes(without=self.options.drop)
        arrays = {n: c for n, c in children.items() if isinstance(c, Array)}
        # Levels of a group around it may be opened.
        is_done = self.done.issuperset(array.path for array in arrays.values())
        if share_dimensions(arrays, node.attrs) and not is_done:
            with suppress(ValueError):  # levels of one size differ in their coordinates
                return self._open_dataset(node, path)
        return self._open_group(node, path, children, is_part=is_part)

    def _open_dataset(self, group: Group, path: str) -> dict[str, xr.Dataset]:
        images = select_images(group, **self.options.selection)
        datasets = {path: self._build(images, dict(group.attrs))}
        for name, inner in group.nodes().items():
            if isinstance(inner, Group):
                datasets |= self.open(inner, f"{path.rstrip('/')}/{name}")
        return datasets

    def _open_group(
        self, group: Group, path: str, children: Mapping[str, Array | Group], *, is_part: bool
    ) -> dict[str, xr.Dataset]:
        stem = path.rstrip("/")
        below: dict[str, xr.Dataset] = {}
        combined = {}
        if not is_part:
            combined = combined_images(group, **self.options.selection)
        for name, image in combined.items():
            at = f"{stem}/{name}".rstrip("/")
            below |= {f"{at}/{n}": self._image(n, image.at(n)) for n in image.levels}
            self.done.update(a.path for level in image.levels.values() for a in level.arrays)
        arrays = {n: c for n, c in children.items() if isinstance(c, Array)}
        known = levels_of(group, arrays)
        images = self._images(group, arrays, known)
        for level in images.keys() - children.keys():
            below[f"{stem}/{level}"] = self._image(level, images[level])
        for name, child in children.items():
            of_image = name in combined or ("" in combined and is_part_of_image(name))
            if name in images:
                below[f"{stem}/{name}"] = self._image(name, images[name])
            elif not isinstance(child, Array):
                below |= self.open(child, f"{stem}/{name}", is_part=is_part or of_image)
        paths = {f"{stem}/{level}" for level in known}
        # Only a list shows which nodes are levels if their names do not.
        is_listed = [*known] != levels_among(arrays) and paths <= below.keys()
        attributes = tree_attributes(group.attrs, images, list(known) if is_listed else [])
        attributes = decode_attributes(attributes, group.path or "/")
        if not below and (is_part or not attributes):
            return {}  # the content of a part of an image is in the image
        here = xr.Dataset(attrs=attributes)
        here.encoding["source"] = group.url
        return {path: here, **below}

    def _images(
        self, group: Group, arrays: Mapping[str, Array], levels: Mapping[str, Array]
    ) -> dict[str, Image[Array]]:
        """Return the arrays of a group, and levels in its groups, that are not opened yet."""
        inner = levels_in_groups(group, levels)
        images = {
            name: single_image(array, dialect=self.options.dialect)
            for name, array in {**arrays, **inner}.items()
            if array.path not in self.done
        }
        self.done.update(array.path for array in inner.values())
        alike = {name: images[name] for name in levels if name in images}
        if len(alike) > 1:
            images |= named_alike(alike, name_of_group(group))
        return images

    def _image(self, name: str, image: Image[Array]) -> xr.Dataset:
        dataset = self._build({name: image}, {})
        dataset.encoding["source"] = image.base.first.url
        return dataset

    def _build(self, images: Mapping[str, Image[Array]], attributes: dict[str, Any]) -> xr.Dataset:
        return _without_slashes(build(images, attributes, self.options, self.budget))


def _aligns(dataset: xr.Dataset, above: xr.Dataset) -> bool:
    try:
        xr.align(dataset, above, join="exact", copy=False)
    except ValueError:
        return False
    return True


def _split(dataset: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return a Dataset for each variable with its coordinates, and the attributes at ""."""
    apart = {
        "data" if name is None else str(name): dataset[[name]].drop_attrs(deep=False)
        for name in dataset
    }
    used = {name for part in apart.values() for name in part.variables}
    left = {str(name): values for name, values in dataset.coords.items() if name not in used}
    apart |= {name: xr.Dataset(coords={name: values}) for name, values in left.items()}
    parts = {"": xr.Dataset(attrs=dataset.attrs), **apart}
    for part in parts.values():
        part.encoding["source"] = dataset.encoding.get("source")
    return parts


def _without_slashes(dataset: xr.Dataset) -> xr.Dataset:
    """Rename nodes whose names a DataTree would interpret as paths."""
    names = {str(name) for name in (*dataset.dims, *dataset.variables)}
    invalid = sorted(name for name in names if "/" in name)
    if not invalid:
        return dataset
    valid = distinct([name.replace("/", "_") for name in invalid], names)
    warn(f"{invalid} are not valid names in a tree; they are renamed to {list(valid)}")
    return dataset.rename(dict(zip(invalid, valid, strict=True)))


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
    used = frozenset(FACTOR_LISTS).union(*(g.keys for g in geometries if g.affine is None))
    used |= _BESIDE_SCALES if "scales" in attributes else frozenset()
    labelled = any(axis.labels for geometry in geometries for axis in geometry.axes)
    users = {*user_attributes(attributes)}
    if not users & KEYS:
        plain = labelled and has_labels_only(omero_of(attributes))
        attributes = without_images(attributes, omero=plain)
    return {key: value for key, value in attributes.items() if key not in used - users}
