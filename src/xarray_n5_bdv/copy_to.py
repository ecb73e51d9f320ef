"""Copy images as projects of BigDataViewer and BigStitcher."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import open_node
from xarray_n5.errors import N5Error, NodeExistsError, UnfinishedWriteWarning
from xarray_n5_bdv.find import find_project
from xarray_n5_bdv.write import write_project

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.writing.request import WriteOptions
    from xarray_n5.writing.transaction import Transaction


def open_tree(source: Any, path: str, **options: Any) -> xr.DataTree:
    """Return a project, the arrays in a group, or one array as a tree, lazily."""
    how = {"engine": "n5", "chunks": {}, "group": path or None, **options}
    if find_project(source, options.get("storage_options")) is None and isinstance(
        open_node(source, path, **options), Array
    ):
        return xr.DataTree(xr.open_dataset(source, **how))
    tree: xr.DataTree = xr.open_datatree(source, **how)
    return tree


def plan_as_project(
    tree: xr.DataTree,
    how: WriteOptions,
    path: str,
    options: CopyOptions,
    without: Collection[str],
    storage_options: Mapping[str, Any] | None,
) -> Transaction | None:
    """Return the write of a tree as a project; None if the write to resume has ended.

    Raises
    ------
    ValueError
        If an option is set that is not for projects.
    """
    given = {
        "path": path or None,
        "region": options.region,
        "dtype": options.dtype,
        "shards": options.shards,
        "dialect": options.dialect,
        "without": list(without) or None,
    }
    if refused := [name for name, value in given.items() if value is not None]:
        raise ValueError(
            f"{' and '.join(refused)} and project= exclude each other; open the source with "
            "xarray.open_datatree, select, and store that with .n5.to_n5(..., project=)"
        )
    encoding = {
        key: value
        for key, value in (("chunks", options.chunks), ("compression", options.compression))
        if value is not None and value != "same"
    }
    encodings: dict[str, Any] = {
        node.path: {name: dict(encoding) for name in node.data_vars}
        for node in tree.subtree
        if encoding and node.data_vars
    }
    try:
        return write_project(tree, options.project, how, encodings, storage_options)
    except NodeExistsError:
        if how.resume and how.mode == "w-" and _is_complete(tree, options.project, storage_options):
            return None
        raise


def _is_complete(
    tree: xr.DataTree, project: Any, storage_options: Mapping[str, Any] | None
) -> bool:
    """Return whether a project has as many samples as a tree, and no write is unfinished."""
    remote = isinstance(project, str) and "://" in project
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", UnfinishedWriteWarning)
        try:
            found = xr.open_datatree(
                project, engine="n5", storage_options=storage_options if remote else None
            )
        except (N5Error, OSError, ValueError, UnfinishedWriteWarning):
            return False
    return _counts(found) == _counts(tree)


def _counts(tree: xr.DataTree) -> list[tuple[int, str]]:
    several = [array for node in tree.subtree for array in node.data_vars.values()]
    return sorted((array.size, str(array.dtype)) for array in several)
