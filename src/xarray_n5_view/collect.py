"""Find images in xarray's objects: variables, pyramids, and their channels and views."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.dialects.labels import is_labels as are_labels
from xarray_n5.errors import printable
from xarray_n5.images.select import listed_levels
from xarray_n5.model.alerts import warn
from xarray_n5.model.level_names import levels_among

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_KINDS = "biuf"
"""The kinds of types that can be shown."""


@dataclass(frozen=True, slots=True)
class Source:
    """A variable at one or several levels."""

    name: str
    variable: Any
    datasets: tuple[xr.Dataset, ...]
    """The levels, the finest first, with only the variable and all coordinates."""
    attributes: Mapping[Any, Any] = field(default_factory=dict)
    """The attributes of the image and of the groups around it."""

    @property
    def array(self) -> xr.DataArray:
        """The finest level."""
        found: xr.DataArray = self.datasets[0][self.variable]
        return found


def sources_in(shown: xr.DataArray | xr.Dataset | xr.DataTree) -> list[Source]:
    """Return the images that can be shown.

    Raises
    ------
    TypeError
        If `shown` is not an object of xarray.
    ValueError
        If there is nothing to show.
    """
    if isinstance(shown, xr.DataArray):
        name = "image" if shown.name is None else str(shown.name)
        found = list(_of_dataset(shown.to_dataset(name=name), "", {}))
    elif isinstance(shown, xr.Dataset):
        found = list(_of_dataset(shown, "", shown.attrs))
    elif isinstance(shown, xr.DataTree):
        found = list(_of_tree(shown, "", {}))
    else:
        raise TypeError(
            f"expected a DataArray, a Dataset or a DataTree, got {type(shown).__name__}"
        )
    if not found:
        raise ValueError(
            "there is nothing to show: expected a numeric variable with at least two dimensions "
            "that is not empty"
        )
    return found


def is_labels(source: Source, labels: bool | Collection[str] | None) -> bool:
    """Return whether an image is shown as a segmentation: by choice, metadata or type uint64."""
    kind = source.array.dtype.kind
    if labels is not None:
        chosen = (
            labels
            if isinstance(labels, bool)
            else not {source.name, source.variable}.isdisjoint(labels)
        )
        if chosen and kind == "f":
            raise ValueError(
                f"{source.name!r} has type {source.array.dtype}; labels must be integers"
            )
        return chosen
    return are_labels(source.array.dtype, source.attributes)


def _of_tree(
    node: xr.DataTree, path: str, around: Mapping[Any, Any], known: frozenset[str] = frozenset()
) -> Iterator[Source]:
    """Iterate over the images in a tree, apart from the nodes that are `known` levels."""
    attributes = {**around, **node.attrs}
    if node.path not in known:
        yield from _of_dataset(node.to_dataset(), path, attributes)
    nodes = _levels(node)
    levels = [each.to_dataset() for each in nodes]
    names = _shared(levels)
    for name in names:
        datasets = [only(level, name) for level in levels]
        if _is_shown(datasets[0][name]):
            more = {**attributes, **levels[0].attrs, **levels[0][name].attrs}
            yield Source(_name(path, name), name, tuple(datasets), more)
    inside = known | {each.path for each in nodes if names}
    for name, child in node.children.items():
        yield from _of_tree(child, f"{path}/{name}".strip("/"), attributes, inside)


def _of_dataset(dataset: xr.Dataset, path: str, around: Mapping[Any, Any]) -> Iterator[Source]:
    for name, array in dataset.data_vars.items():
        if _is_shown(array):
            more = {**around, **dataset.attrs, **array.attrs}
            yield Source(_name(path, str(name)), name, (only(dataset, name),), more)
        elif array.ndim > 1:
            warn(
                f"{printable(str(name))!r} is not shown: its type is {array.dtype}, or it is empty"
            )


def only(dataset: xr.Dataset, name: Any) -> xr.Dataset:
    """Return a Dataset with one variable, and with all coordinates, matrices included."""
    return dataset.drop_vars([other for other in dataset.data_vars if other != name])


def _is_shown(array: xr.DataArray) -> bool:
    return array.ndim > 1 and array.dtype.kind in _KINDS and array.size > 0


def _levels(node: xr.DataTree) -> list[xr.DataTree]:
    """Return the levels that ``multiscales`` list, or the children that are named like levels."""
    attributes: Mapping[Any, Any] = node.attrs
    listed = listed_levels(attributes)
    below = {each.relative_to(node): each for each in node.subtree} if listed else {}
    found = [below[name] for name in listed if name in below]
    found = found or [node.children[name] for name in levels_among(node.children)]
    return [] if any(each.children for each in found) else found


def _shared(levels: Sequence[xr.Dataset]) -> list[str]:
    """Return the variables that all levels have, if their sizes decrease."""
    if not levels:
        return []
    names = list(levels[0].data_vars)
    for fine, coarse in pairwise(levels):
        if list(coarse.data_vars) != names:
            return []
        for name in names:
            one, two = fine[name], coarse[name]
            alike = one.dims == two.dims and one.dtype == two.dtype
            if not alike or any(a < b for a, b in zip(one.shape, two.shape, strict=True)):
                return []
    return [str(name) for name in names]


def _name(path: str, name: str) -> str:
    """Return a layer's name: the path, with that of the variable unless it is the same."""
    if not path or path.rpartition("/")[2] == name:
        return path or name
    return f"{path}/{name}"
