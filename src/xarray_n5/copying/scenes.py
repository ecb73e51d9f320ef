"""Copy the images of a scene, such as a project, as the Datasets that it describes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.spec import supported
from xarray_n5.codecs import resolve
from xarray_n5.copying.bounds import tree_within
from xarray_n5.datasets.build import DatasetOptions
from xarray_n5.datasets.engine import open_groups
from xarray_n5.datasets.write import write
from xarray_n5.errors import N5Error, NodeExistsError, UnfinishedWriteWarning
from xarray_n5.images.tree import groups_of
from xarray_n5.leaves import scene_writer
from xarray_n5.model.scene import SCENE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.leaves import Scene
    from xarray_n5.writing.request import WriteOptions
    from xarray_n5.writing.transaction import Transaction

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
) -> Transaction | None:
    """Return the write of a scene's Datasets: a pyramid, or a group for each level.

    With the dialect "ngff-0.6", it is that of a scene of OME-Zarr. Return None if the write to
    resume has ended.

    Raises
    ------
    ValueError
        If an option is set that is only for copies of arrays.
    """
    check_whole(
        scene,
        region=options.region,
        dtype=options.dtype,
        without=list(without) or None,
        bounds=(options.bounds or None) if options.dialect == SCENE else None,
    )
    if options.dialect == SCENE:
        if group and scene.document is not None:
            raise ValueError(
                f"{group!r} is a part of {scene.url!r}, but a scene has all of its images; omit it"
            )
        content = scene.content(storage_options)
        return scene_writer("write_scene")(content, how, path, options)
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
    try:
        return write(groups_of(tree, path, encodings, how), how)
    except NodeExistsError:
        stored = datasets_to_resume(how, how.container, path)
        for node in tree.subtree:
            for name, array in node.data_vars.items():
                other = stored.get(node.path, xr.Dataset()).get(name)
                if other is None or (other.shape, other.dtype) != (array.shape, array.dtype):
                    raise
        return None


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


def datasets_to_resume(
    how: WriteOptions, url: object, path: str, storage_options: Mapping[str, Any] | None = None
) -> dict[str, xr.Dataset]:
    """Return the Datasets at the target of a copy to resume, by path.

    There are none if a write of them is unfinished, or if the copy is not resumed or replaces them.
    """
    if not how.resume or how.mode != "w-":
        return {}
    options: dict[str, Any] = {"form": None, "drop": (), "decoders": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", UnfinishedWriteWarning)
        try:
            return open_groups(
                url, path, storage_options=storage_options, options=DatasetOptions(), **options
            )
        except (N5Error, OSError, ValueError, UnfinishedWriteWarning):
            return {}


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
