"""Copy the images of a scene, such as a project, as the Datasets that it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.spec import supported
from xarray_n5.codecs import resolve
from xarray_n5.datasets.write import write
from xarray_n5.images.tree import groups_of
from xarray_n5.model.scene import SCENE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.copying.storage import Storage
    from xarray_n5.leaves import Scene
    from xarray_n5.writing.group import GroupWrite
    from xarray_n5.writing.options import WriteOptions


def write_images(
    scene: Scene,
    url: Any,
    group: str,
    how: WriteOptions,
    path: str,
    storage: Storage,
    storage_options: Mapping[str, Any] | None,
) -> GroupWrite:
    """Return the write of a scene's Datasets: a pyramid, or a group for each level.

    Parameters
    ----------
    scene, url, group, storage_options
        The scene, and its location.
    how, path, storage
        The location of the copy, and the storage of its arrays.

    Raises
    ------
    ValueError
        If a scene is to be written.
    """
    if how.dialect == SCENE:
        raise ValueError(
            f"dialect={SCENE!r} does not place images; to write {scene.url!r} as a scene, open it "
            "with xarray.open_datatree and use .n5.to_scene"
        )
    tree = xr.open_datatree(
        url, engine="n5", chunks={}, group=group or None, storage_options=storage_options
    )
    encodings: dict[str, Any] = {
        node.path: {name: _encoding(each, storage) for name, each in node.data_vars.items()}
        for node in tree.subtree
        if node.data_vars and storage.changes
    }
    return write(groups_of(tree, path, encodings, how), how)


def _encoding(variable: xr.DataArray, storage: Storage) -> dict[str, Any]:
    """Return the encoding of a variable: as the user chose, or as it was stored."""
    stored = variable.encoding
    chunks = stored.get("chunks") if storage.chunks is None else storage.chunks
    encoding = {"chunks": chunks, "shards": storage.shards}
    if storage.compression != "same":
        encoding["compression"] = storage.compression
    elif "n5_compression" in stored:
        compression, name = resolve(stored["n5_compression"]), str(variable.name)
        shape, dtype = variable.shape, variable.dtype
        encoding["compression"] = supported(storage.form, compression, shape, dtype, name)
    return {key: value for key, value in encoding.items() if value is not None}
