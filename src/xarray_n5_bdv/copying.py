"""Copy images as projects of BigDataViewer and BigStitcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import open_node
from xarray_n5.copying.copy import Copy
from xarray_n5.copying.scenes import datasets_to_resume, names_of
from xarray_n5.errors import NodeExistsError
from xarray_n5.formats.containers import find_scene
from xarray_n5.model.options import check_option
from xarray_n5_bdv.target import options_of_xml, write_options
from xarray_n5_bdv.write import write_project

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from xarray_n5.arrays.array import LabelMultisets
    from xarray_n5.copying.array_copy import CopyOptions


def begin_copy(
    source: Any,
    source_path: str,
    xml: object,
    data: object | None = None,
    *,
    format: str | None = None,  # noqa: A002
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
    if refused := names_of(
        path=path or None,
        region=options.region,
        bounds=options.bounds or None,
        dtype=options.dtype,
        dialect=options.dialect,
        without=list(without) or None,
    ):
        raise ValueError(
            f"{refused} cannot be used for a copy that is a project; open the source with "
            "xarray.open_datatree, select, and store that with .n5.to_bdv"
        )
    how = write_options(
        xml,
        data,
        format=format,
        storage_options=storage_options,
        mode=mode,
        computed=True,
        resume=resume,
        checksums=checksums,
        fsync=fsync,
    )
    tree = _open_tree(source, source_path, source_options, options.label_multisets)
    chosen = tuple((name, getattr(options, name)) for name in ("chunks", "shards", "compression"))
    encoding = {key: value for key, value in chosen if value is not None and value != "same"}
    encodings: dict[str, Any] = {
        node.path: {name: dict(encoding) for name in node.data_vars}
        for node in tree.subtree
        if encoding and node.data_vars
    }
    try:
        return Copy(write_project(tree, xml, how, encodings, storage_options))
    except NodeExistsError:
        stored = datasets_to_resume(how, xml, "", options_of_xml(xml, storage_options))
        if not stored or _counts(stored.values()) != _counts(tree.subtree):
            raise
        return Copy()


def _open_tree(
    source: Any, path: str, storage_options: Mapping[str, Any] | None, multisets: LabelMultisets
) -> xr.DataTree:
    """Return a project, the arrays in a group, or one array as a tree, lazily."""
    options: dict[str, Any] = {"storage_options": storage_options, "label_multisets": multisets}
    how = {"engine": "n5", "chunks": {}, "group": path or None, **options}
    scene = find_scene(source, storage_options)
    if scene is None and isinstance(open_node(source, path, **options), Array):
        return xr.DataTree(xr.open_dataset(source, **how))
    tree: xr.DataTree = xr.open_datatree(source, **how)
    return tree


def _counts(datasets: Iterable[xr.Dataset | xr.DataTree]) -> list[tuple[int, str]]:
    """Return the number of samples and the type of each image."""
    several = [array for each in datasets for array in each.data_vars.values()]
    return sorted((array.size, str(array.dtype)) for array in several)
