"""Copy the images of a scene, such as a project, as the Datasets that it describes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.spec import supported
from xarray_n5.codecs import resolve
from xarray_n5.copying.bounds import tree_within
from xarray_n5.datasets.write import write
from xarray_n5.images.tree import groups_of
from xarray_n5.model.scene import SCENE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.leaves import Scene
    from xarray_n5.writing.group import GroupWrite
    from xarray_n5.writing.options import WriteOptions

_SAME = (None, None, "same")
"""The options of chunks, shards and compression that keep them unchanged."""


def plan_scene(
    scene: Scene,
    source: Any,
    group: str,
    how: WriteOptions,
    path: str,
    options: CopyOptions,
    without: Collection[str],
    storage_options: Mapping[str, Any] | None,
) -> GroupWrite:
    """Return the write of a scene's Datasets: a pyramid, or a group for each level.

    Raises
    ------
    ValueError
        If an option is set that is only for copies of arrays, or a scene is to be written.
    """
    check_whole(scene, region=options.region, dtype=options.dtype, without=list(without) or None)
    if options.dialect == SCENE:
        raise ValueError(
            f"dialect={SCENE!r} does not place images; to write {scene.url!r} as a scene, open it "
            "with xarray.open_datatree and use .n5.to_scene"
        )
    tree = xr.open_datatree(
        source, engine="n5", chunks={}, group=group or None, storage_options=storage_options
    )
    if options.bounds:
        tree = tree_within(tree, options.bounds, scene.url)
    encodings: dict[str, Any] = {
        node.path: {name: _encoding(each, how, options) for name, each in node.data_vars.items()}
        for node in tree.subtree
        if node.data_vars and (options.chunks, options.shards, options.compression) != _SAME
    }
    if options.dialect not in {None, "same"}:
        how = replace(how, dialect=options.dialect)
    return write(groups_of(tree, path, encodings, how), how)


def check_whole(scene: Scene, **options: object) -> None:
    """Raise ValueError if an option is set that selects a part of a scene."""
    if refused := names_of(**options):
        raise ValueError(
            f"{scene.url!r} is a {scene.kind}, which is copied as a whole and does not support "
            f"{refused}; open it with xarray.open_datatree, select, and store that with .n5.to_n5"
        )


def names_of(**options: object) -> str:
    """Return the names of the options that are set."""
    return " and ".join(name for name, value in options.items() if value is not None)


def _encoding(variable: xr.DataArray, how: WriteOptions, options: CopyOptions) -> dict[str, Any]:
    """Return the encoding of a variable: as the user chose, or as it was stored."""
    stored = variable.encoding
    chunks = stored.get("chunks") if options.chunks is None else options.chunks
    encoding = {"chunks": chunks, "shards": options.shards}
    if options.compression != "same":
        encoding["compression"] = options.compression
    elif "n5_compression" in stored:
        compression, name = resolve(stored["n5_compression"]), str(variable.name)
        shape, dtype = variable.shape, variable.dtype
        encoding["compression"] = supported(how.format, compression, shape, dtype, name)
    return {key: value for key, value in encoding.items() if value is not None}
