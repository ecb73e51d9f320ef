"""Copy images as projects of BigDataViewer and BigStitcher."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import open_node
from xarray_n5.bdv.coordinates import ViewSelection
from xarray_n5.bdv.facts import warn_of_points, warn_of_sections
from xarray_n5.bdv.from_scene import project_of
from xarray_n5.bdv.images import images_of
from xarray_n5.bdv.target import write_options
from xarray_n5.bdv.write import write_project
from xarray_n5.copying.scenes import names_of
from xarray_n5.copying.started import Copy
from xarray_n5.datasets.build import DatasetOptions
from xarray_n5.datasets.placed import open_levels
from xarray_n5.formats.containers import find_scene
from xarray_n5.leaves import scene_in
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import stem_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.node import LabelMultisets
    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.leaves import Scene


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
    )
    tree, base = _open_tree(source, source_path, source_options, options.label_multisets)
    chosen = tuple((name, getattr(options, name)) for name in ("chunks", "shards", "compression"))
    encoding = {key: value for key, value in chosen if value is not None and value != "same"}
    encodings: dict[str, Any] = {
        node.path: {name: dict(encoding) for name in node.data_vars}
        for node in tree.subtree
        if encoding and node.data_vars
    }
    return Copy(write_project(tree, xml, how, encodings, storage_options, base).plan())


def _open_tree(
    source: Any, path: str, storage_options: Mapping[str, Any] | None, multisets: LabelMultisets
) -> tuple[xr.DataTree, bytes | None]:
    """Return a project, a scene, the arrays in a group, or one array as a tree, lazily.

    The XML that a scene has kept is returned, too.
    """
    options: dict[str, Any] = {"storage_options": storage_options, "label_multisets": multisets}
    how = {"engine": "n5", "chunks": {}, "group": path or None, **options}
    scene = find_scene(source, storage_options)
    node = open_node(source, path, **options) if scene is None else None
    if isinstance(node, Array):
        return xr.DataTree(xr.open_dataset(source, **how)), None
    if (group := scene_in(node)) is not None and group.kind == "scene":
        return _views_of(group)
    if scene is not None and scene.document is not None:
        warn_of_sections(scene.document, scene.url)
    tree: xr.DataTree = xr.open_datatree(source, **how)
    return tree, None


def _views_of(scene: Scene) -> tuple[xr.DataTree, bytes]:
    """Return the views of a scene as they open from a project, and its XML without a loader."""
    project, stored, base = project_of(scene.content(None), scene.url)
    warn_of_points(base, scene.url, "the new XML")
    selection = ViewSelection(timepoints=tuple(project.timepoints), setups=tuple(project.setups))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*views are not stored")
        images = images_of(project, stored, selection, scene.url)
    name = stem_of(scene.url.rpartition("/")[2], [".zarr"])
    groups = open_levels(images, name, scene.url, DatasetOptions(), drop=frozenset(), decoders={})
    return xr.DataTree.from_dict(groups), base
