"""Images of Datasets in a tree; how the nodes of a tree are stored."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.dialects.groups import type_in_paintera, without_images
from xarray_n5.images.find import (
    is_level_table,
    levels_in_tree,
    listed_levels,
    names_by_group,
    place_of_level,
)
from xarray_n5.images.levels import Levels, groups_between, is_smaller, levels_in
from xarray_n5.model.image import Image, Level, Part
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    import xarray as xr

    from xarray_n5.writing.options import Encoding, WriteOptions


Written: TypeAlias = "tuple[xr.Dataset | Levels, str, Encoding | None]"
"""A Dataset or a pyramid, the path of its group, and the encodings of a Dataset's variables."""

_NUMBERS = "biufc"
"""The kinds of types of images."""

_LEAST = 2
"""The minimum number of axes of an image."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a Dataset, as the array of a :class:`Level`."""

    name: Hashable
    dataset: xr.Dataset
    """The Dataset with no other variables, but with all coordinates, such as matrices of views."""
    around: Mapping[Any, Any]
    """The attributes of the group that describes the image."""

    @property
    def array(self) -> xr.DataArray:
        """The variable, with the coordinates along its dimensions."""
        array: xr.DataArray = self.dataset[self.name]
        return array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.array.shape

    @property
    def attrs(self) -> Mapping[Any, Any]:
        """The attributes of the variable, over those of its Dataset and its group."""
        return {**self.around, **self.dataset.attrs, **self.array.attrs}


def datasets_of(tree: xr.DataTree, path: str = "") -> dict[str, xr.Dataset]:
    """Return the Datasets of a tree by their paths in it, depth first."""
    datasets = {path: tree.to_dataset()}
    for name, child in tree.children.items():
        datasets |= datasets_of(child, join(path, name))
    return datasets


def levels_of_tree(tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Return the levels of the pyramid in a tree, each with its variables alone."""
    datasets, levels = datasets_of(tree), {}
    for level, path in levels_in_tree(datasets, names_by_group(datasets)).items():
        dataset, name = datasets[path], level.rpartition("/")[2]
        several = len(dataset.data_vars) > 1 and path != level
        levels[level] = dataset[[name]] if several else dataset
    return levels


def images_of_datasets(datasets: Mapping[str, xr.Dataset]) -> list[Image[Variable]]:
    """Return the images in Datasets: pyramids, and variables that are not in one.

    A variable is an image if it has numbers and two axes or more. That of several levels is one
    image if each level is coarser than the one before. Tables of BigDataViewer, and those next to
    the data in a dataset of Paintera, are not images.

    Parameters
    ----------
    datasets
        The Datasets by path, such as :func:`datasets_of` a tree.

    Returns
    -------
    list of Image
        The images in the order of the Datasets, with levels by path. Their names are paths: of an
        array, of the group of a pyramid, or of a variable in such a group or in a Dataset.
    """
    nodes = {path.strip("/"): dataset for path, dataset in datasets.items()}
    nodes = {
        path: dataset
        for path, dataset in nodes.items()
        if not (is_level_table(path) or _is_beside_data(path, nodes))
    }
    groups = levels_by_group(nodes)
    pyramids = {path: (group, paths) for group, paths in groups.items() for path in paths}
    images: list[Image[Variable]] = []
    joined: set[tuple[str, Hashable]] = set()
    for path, dataset in nodes.items():
        for name, array in dataset.data_vars.items():
            if (path, name) in joined or not _is_image(array):
                continue
            group, paths = pyramids.get(path, (path, [path]))
            if not all(_is_coarser(name, nodes[a], nodes[b]) for a, b in pairwise(paths)):
                group, paths = path, [path]
            joined |= {(level, name) for level in paths}
            around = _around(group if group != path else path.rpartition("/")[0], nodes)
            levels = {level: _level(name, nodes[level], around) for level in paths}
            images.append(Image(_name(group, name, dataset), levels))
    return images


def levels_by_group(datasets: Mapping[str, xr.Dataset]) -> dict[str, list[str]]:
    """Return the paths of levels, the finest first, by the group of their pyramid.

    They are those of :func:`levels_in_tree`; a single one only if its variable has another name,
    which is that of its image.
    """
    names = names_by_group(datasets)
    listing = {path for path, dataset in datasets.items() if listed_levels(dataset.attrs)}
    groups: dict[str, list[str]] = {}
    known: set[str] = set()
    around = [group for group in dict.fromkeys([*datasets, *names]) if group in names]
    for group in sorted(around, key=lambda group: group not in listing):
        levels = list(levels_in_tree(datasets, names, group).values())
        is_image = len(levels) > 1 or any(p.rpartition("/")[2] not in datasets[p] for p in levels)
        if is_image and known.isdisjoint(levels):
            known |= {*levels}
            groups[group] = levels
    return groups


def pyramids_of(tree: xr.DataTree) -> dict[str, dict[str, xr.Dataset]]:
    """Return the Datasets of a tree with variables: the levels of each image, the finest first.

    Images and levels are called by their paths in the tree.
    """
    datasets = datasets_of(tree)
    groups = levels_by_group(datasets)
    above = {path: group for group, paths in groups.items() for path in paths}
    images: dict[str, dict[str, xr.Dataset]] = {}
    for path, dataset in datasets.items():
        if dataset.data_vars:
            group = above.get(path, path)
            levels = groups[group] if path in above else [path]
            images.setdefault(group, {level: datasets[level] for level in levels})
    return images


def _level(name: Hashable, dataset: xr.Dataset, around: Mapping[Any, Any]) -> Level[Variable]:
    others = [other for other in dataset.data_vars if other != name]
    variable = Variable(name, dataset.drop_vars(others), around)
    return Level({(): Part(variable)}, geometry_from(variable.array))


def _is_image(array: xr.DataArray) -> bool:
    return array.ndim >= _LEAST and array.size > 0 and array.dtype.kind in _NUMBERS


def _is_coarser(name: Hashable, level: xr.Dataset, after: xr.Dataset) -> bool:
    """Return whether a variable of a Dataset may be the level after that of another one."""
    if name not in level.data_vars or name not in after.data_vars:
        return False
    one, other = level[name], after[name]
    alike = one.dims == other.dims and one.dtype == other.dtype
    return alike and is_smaller(other.shape, one.shape)


def _name(path: str, name: Hashable, dataset: xr.Dataset) -> str:
    """Return an image's path: with the name of its variable, unless it is a stored array."""
    is_array = "source" in dataset.encoding and len(dataset.data_vars) == 1
    if path and (is_array or path.rpartition("/")[2] == name):
        return path
    return join(path, str(name))


def _around(group: str, nodes: Mapping[str, xr.Dataset]) -> dict[Any, Any]:
    """Return the attributes of a group, over those of the dataset of Paintera that it is in."""
    here = nodes[group].attrs if group in nodes else {}
    of_paintera = _in_paintera(f"{group}/", nodes)
    return {**(nodes[of_paintera[0]].attrs if of_paintera else {}), **here}


def _is_beside_data(path: str, nodes: Mapping[str, xr.Dataset]) -> bool:
    """Return whether a node is in a dataset of Paintera, but not in its data."""
    data = [f"{join(group, 'data')}/" for group in _in_paintera(path, nodes)]
    return any(
        not f"{path}/".startswith(inside) and any(f"{node}/".startswith(inside) for node in nodes)
        for inside in data
    )


def _in_paintera(path: str, nodes: Mapping[str, xr.Dataset]) -> list[str]:
    """Return the paths of the datasets of Paintera above a node, the nearest first."""
    parts = path.split("/")
    above = ["/".join(parts[:count]) for count in range(len(parts) - 1, -1, -1)]
    groups = (group for group in dict.fromkeys(above) if group in nodes and group != path)
    return [group for group in groups if type_in_paintera(nodes[group].attrs) is not None]


def groups_of(
    tree: xr.DataTree, path: str, encodings: Mapping[str, Encoding], how: WriteOptions
) -> list[Written]:
    """Return the content of each group.

    Raises
    ------
    MetadataError
        If the dialects that the user chose cannot describe a pyramid.
    """
    nodes = {"" if node is tree else node.relative_to(tree): node for node in tree.subtree}
    chosen = {at: encodings.get(node.path) for at, node in nodes.items()}
    datasets = datasets_of(tree)
    names = names_by_group(datasets)
    written: list[Written] = []
    stored: set[str] = set()
    for at, node in nodes.items():
        if at in stored:
            continue
        place, levels = join(path, at), None
        if not node.to_dataset(inherit=False).variables:
            levels = levels_in(datasets, names, at, place, chosen, how)
        if levels is not None:
            stored |= {*levels_in_tree(datasets, names, at).values()}
            stored |= {join(at, group) for group in groups_between(levels.datasets)}
            written.append((levels, place, None))
        else:
            # Coordinates that the tree inherits are stored in its root.
            dataset = node.to_dataset(inherit=node is tree)
            # Levels that are stored as groups are not images.
            if any(_is_group(datasets, at, level) for level in listed_levels(dataset.attrs)):
                dataset.attrs = without_images(dataset.attrs)
            written.append((dataset, place, chosen[at]))
    return written


def _is_group(datasets: Mapping[str, xr.Dataset], group: str, level: str) -> bool:
    """Return whether a level is stored as a group of its own, not as an array at its path."""
    at = place_of_level(datasets, group, level)
    if at is None:
        return False
    return at == join(group, level) or level.rpartition("/")[2] not in datasets[at].data_vars


def updates_of(
    written: Iterable[Written],
) -> Iterator[tuple[xr.Dataset, str, Sequence[str] | None]]:
    """Iterate over the Datasets to write to existing arrays.

    Yields
    ------
    tuple
        The Dataset, the path of its group, and the arrays to consider; None for all.
    """
    for content, path, _ in written:
        if isinstance(content, Levels):
            for level, dataset in content.datasets.items():
                above, _, name = level.rpartition("/")
                yield dataset.rename({content.name: name}), join(path, above), [name]
        elif content.variables:
            yield content, path, None
