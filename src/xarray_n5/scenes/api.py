"""The function that stores images as a scene of OME-Zarr 0.6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import xarray as xr

from xarray_n5.model.json import check_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.writing.deferred import DeferredWrite
    from xarray_n5.writing.report import WriteReport


Mode = Literal["w-", "w"]


def to_scene(
    source: xr.Dataset | xr.DataTree,
    url: object,
    group: str | None = None,
    mode: Mode = "w-",
    encoding: Mapping[str, Any] | None = None,
    compute: bool = True,
    *,
    write_empty_chunks: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    resume: bool | str = False,
) -> WriteReport | DeferredWrite:
    """Store images as a scene of OME-Zarr 0.6, in Zarr v3: ``images.n5.to_scene(url)``.

    Each matrix of the coordinate ``affine`` becomes an image, with one transformation to the world.
    Images are named by the coordinate ``image``, or as ``setup0/timepoint0`` if they are views of a
    project.

    Parameters
    ----------
    source : xarray.Dataset or xarray.DataTree
        The images. The nodes ``s0``, ``s1``, ... of a tree are the levels of an image, or those in
        other groups of images that differ.
    url : str, os.PathLike or store
        The container.
    group : str, optional
        The path of the scene's group, which is created; by default the root of the container.
    mode : {"w-", "w"}, default: "w-"
        "w-" raises if the group is not empty; "w" replaces arrays at the same paths.
    encoding : mapping, optional
        By variable, or for a tree by the path of a node and by variable: "chunks", "shards",
        "compression". By default those with which it was opened.
    compute : bool, default: True
        Whether to compute Dask arrays now.
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros.
    storage_options : mapping, optional
        Options of the fsspec filesystem.
    resume : bool or str, default: False
        Resume an interrupted write; see :func:`xarray_n5.to_n5`.

    Returns
    -------
    WriteReport or DeferredWrite
        The report of :func:`xarray_n5.to_n5` for each level; with ``compute=False``, a
        Dask collection that computes to it.

    Raises
    ------
    KeyError
        If an encoding is for a node or a variable that does not exist.
    MetadataError
        If a scene cannot describe the images, or the container is not Zarr v3.
    NodeExistsError
        If something exists that `mode` does not allow to replace, or has another format.
    ResumeError
        If the unfinished write is another one than that to `resume`.
    """
    from xarray_n5.scenes.write import plan_scene
    from xarray_n5.writing.options import WriteOptions

    check_option("mode", mode, *get_args(Mode))
    encodings = dict(encoding or {})
    if not isinstance(source, xr.DataTree):
        source, encodings = xr.DataTree(source), {"/": encodings}
    elif missing := encodings.keys() - set(source.groups):
        raise KeyError(f"the encoding has {sorted(missing)}; expected some of {source.groups}")
    how = WriteOptions.into(
        url,
        format="zarr3",
        storage_options=storage_options,
        mode=mode,
        computed=compute,
        write_empty_chunks=write_empty_chunks,
        resume=resume,
    )
    return plan_scene(source, how.path(group or ""), encodings, how).write()
