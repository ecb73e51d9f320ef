"""Copy images as projects of BigDataViewer and BigStitcher."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import open_node
from xarray_n5.copying.copy import Copy
from xarray_n5.errors import N5Error, NodeExistsError, UnfinishedWriteWarning
from xarray_n5.formats.scenes import find_scene
from xarray_n5.model.options import check_option
from xarray_n5_bdv.target import write_options
from xarray_n5_bdv.write import write_project

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.options import LabelMultisets
    from xarray_n5.copying.array_copy import CopyOptions


def begin_copy(
    source: Any,
    source_path: str,
    xml: object,
    data: object | None = None,
    *,
    mode: str,
    options: CopyOptions,
    path: str = "",
    without: Collection[str] = (),
    resume: bool,
    source_options: Mapping[str, Any] | None,
    storage_options: Mapping[str, Any] | None,
    checksums: bool,
    fsync: bool,
) -> Copy:
    """Return the started copy of images as a project; it has ended if that to resume has.

    Raises
    ------
    ValueError
        If an option is set that is not for projects.
    """
    check_option("mode", mode, "w-", "w", "a")
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
            f"{' and '.join(refused)} cannot be used for a copy that is a project; open the source "
            "with xarray.open_datatree, select, and store that with .n5.to_bdv"
        )
    how = write_options(
        xml,
        data,
        storage_options=storage_options,
        mode=mode,
        computed=True,
        resume=resume,
        checksums=checksums,
        fsync=fsync,
    )
    multisets = options.label_multisets
    tree = _open_tree(source, source_path, storage_options=source_options, multisets=multisets)
    chosen = (("chunks", options.chunks), ("compression", options.compression))
    encoding = {key: value for key, value in chosen if value is not None and value != "same"}
    encodings: dict[str, Any] = {
        node.path: {name: dict(encoding) for name in node.data_vars}
        for node in tree.subtree
        if encoding and node.data_vars
    }
    try:
        return Copy(write_project(tree, xml, how, encodings, storage_options))
    except NodeExistsError:
        if how.resume and how.mode == "w-" and _is_complete(tree, xml, storage_options):
            return Copy()
        raise


def _open_tree(
    source: Any, path: str, *, storage_options: Mapping[str, Any] | None, multisets: LabelMultisets
) -> xr.DataTree:
    """Return a project, the arrays in a group, or one array as a tree, lazily."""
    options: dict[str, Any] = {"storage_options": storage_options, "label_multisets": multisets}
    how = {"engine": "n5", "chunks": {}, "group": path or None, **options}
    scene = find_scene(source, storage_options)
    if scene is None and isinstance(open_node(source, path, **options), Array):
        return xr.DataTree(xr.open_dataset(source, **how))
    tree: xr.DataTree = xr.open_datatree(source, **how)
    return tree


def _is_complete(tree: xr.DataTree, xml: Any, storage_options: Mapping[str, Any] | None) -> bool:
    """Return whether a project has as many samples as a tree, and no write is unfinished."""
    remote = isinstance(xml, str) and "://" in xml
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", UnfinishedWriteWarning)
        try:
            found = xr.open_datatree(
                xml, engine="n5", storage_options=storage_options if remote else None
            )
        except (N5Error, OSError, ValueError, UnfinishedWriteWarning):
            return False
    return _counts(found) == _counts(tree)


def _counts(tree: xr.DataTree) -> list[tuple[int, str]]:
    several = [array for node in tree.subtree for array in node.data_vars.values()]
    return sorted((array.size, str(array.dtype)) for array in several)
