"""Decide how the nodes of a tree are stored: as Datasets, or as pyramids with levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from xarray_n5.images.levels import Levels, levels_in
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import xarray as xr

    from xarray_n5.writing.request import Encoding, WriteOptions


Written: TypeAlias = "tuple[xr.Dataset | Levels, str, Encoding | None]"
"""A Dataset or a pyramid, the path of its group, and the encodings of a Dataset's variables."""


def groups_of(
    tree: xr.DataTree, path: str, encodings: Mapping[str, Encoding], how: WriteOptions
) -> list[Written]:
    """Return the content of each group.

    Raises
    ------
    MetadataError
        If the dialects that the user chose cannot describe a pyramid.
    """
    found: list[Written] = []
    levels_of: set[str] = set()
    for node in tree.subtree:
        if node.path in levels_of:
            continue
        inner = node.relative_to(tree)
        place = join(path, "" if inner == "." else inner)
        levels = levels_in(node, place, encodings, how)
        if levels is not None:
            levels_of |= {node.children[name].path for name in levels.datasets}
            found.append((levels, place, None))
        else:
            # Coordinates that the tree inherits are stored in its root.
            own = node.to_dataset(inherit=node is tree)
            found.append((own, place, encodings.get(node.path)))
    return found


def updates_of(
    written: Iterable[Written],
) -> Iterator[tuple[xr.Dataset, str, Sequence[str] | None]]:
    """Iterate over the Datasets to write to existing arrays.

    Yields
    ------
    tuple
        The Dataset, the path of its group, and the arrays to consider; None for all.
    """
    for each, path, _ in written:
        if isinstance(each, Levels):
            for level, dataset in each.datasets.items():
                yield dataset.rename({each.name: level}), path, [level]
        elif each.variables:
            yield each, path, None
