"""The public functions that write projects: :func:`to_bdv` and :func:`register`.

Modules that write are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import xarray as xr

from xarray_n5.model.json import check_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.pyramids.reduce import Method, Step
    from xarray_n5.writing.deferred import DeferredWrite
    from xarray_n5.writing.report import WriteReport

Mode = Literal["w-", "w", "a"]


def to_bdv(
    source: xr.DataArray | xr.Dataset | xr.DataTree,
    xml: object,
    data: object | None = None,
    mode: Mode = "w-",
    encoding: Mapping[str, Any] | None = None,
    compute: bool = True,
    *,
    factors: Step | Sequence[Step] | None = None,
    levels: int | None = None,
    method: Method = "mean",
    write_empty_chunks: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    resume: bool | str = False,
) -> WriteReport | DeferredWrite:
    """Store an image as a project of BigDataViewer and BigStitcher: ``image.n5.to_bdv(xml)``.

    Views are stored in N5: a setup for each channel, tile, angle and illumination, and a time point
    for each t. The XML is written after all data; everything else in it stays, comments included.

    Parameters
    ----------
    source : xarray.DataArray, xarray.Dataset or xarray.DataTree
        The image. The nodes ``s0``, ``s1``, ... of a tree are the levels of an image, or those in
        groups such as ``setup0`` of images that differ.
    xml : str or os.PathLike
        The path or URL of the XML file.
    data : str, os.PathLike or store, optional
        The N5 container of the views. By default that of an existing project, or ``dataset.n5``
        next to ``dataset.xml``.
    mode : {"w-", "w", "a"}, default: "w-"
        "w-" raises if there is a project, or if the container is not empty; "a" adds views, and
        replaces those of the same setups and time points; "w" also replaces them by others of
        another size, type or voxel size.
    encoding : mapping, optional
        By variable, or for a tree by the path of a node and by variable: "chunks" (a shape along z,
        y, x, one side, "auto") and "compression". By default those with which it was opened.
    compute : bool, default: True
        Whether to compute Dask arrays now.
    factors : int, mapping or sequence of these, optional
        Also compute coarser levels of each view: the factors of a level over the one before it
        along z, y, x, as in :func:`xarray_n5.pyramid`.
    levels : int, optional
        The number of coarser levels. By default none without `factors`; with one factor for all
        levels, until a level fits into one chunk.
    method : {"mean", "max", "min", "mode"}, default: "mean"
        How samples are reduced, as in :func:`xarray_n5.pyramid`, without "nearest": BigDataViewer
        assumes that samples are in the middle of their windows.
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros.
    storage_options : mapping, optional
        Options of the fsspec filesystem of the container, and of the XML if it is a URL.
    resume : bool or str, default: False
        Resume an interrupted write: blocks whose chunks have been written are not computed again.
        See :func:`xarray_n5.to_n5`.

    Returns
    -------
    WriteReport or DeferredWrite
        The report, with an array for each level of a view; with ``compute=False``, a
        Dask collection that computes to it.

    Raises
    ------
    KeyError
        If an encoding is for a node that does not exist.
    MetadataError
        If these are not the views of a project, or the container is not that of the XML.
    NodeExistsError
        If something exists that `mode` does not allow to replace.
    ResumeError
        If the unfinished write is another one than that to `resume`.
    ValueError
        If levels cannot be computed: the factors are invalid, `source` has levels, or `compute` is
        False.

    Examples
    --------
    >>> tiles = xr.DataArray(np.ones((2, 4, 8, 8)), dims=("tile", "z", "y", "x"), name="raw")
    >>> report = tiles.n5.to_bdv("tiles.xml", factors=2, levels=1)
    >>> list(xr.open_datatree("tiles.xml", engine="bdv").children)
    ['s0', 's1']
    """
    from xarray_n5.bdv.write import Coarser, write_options, write_project

    check_option("mode", mode, *get_args(Mode))
    check_option("method", method, "mean", "max", "min", "mode")
    coarser = None if factors is None and levels is None else Coarser(factors, levels, method)
    if coarser is not None and not compute:
        raise ValueError("levels are computed from stored ones, at once; omit compute=False")
    encodings: dict[str, Any] = dict(encoding or {})
    if isinstance(source, xr.DataArray):
        source = source.to_dataset(name="image" if source.name is None else source.name)
    if not isinstance(source, xr.DataTree):
        encodings = {"/": encodings}
    elif missing := encodings.keys() - set(source.groups):
        raise KeyError(f"the encoding has {sorted(missing)}; expected some of {source.groups}")
    how = write_options(
        xml,
        data,
        storage_options=storage_options,
        mode=mode,
        computed=compute,
        write_empty_chunks=write_empty_chunks,
        resume=resume,
    )
    return write_project(source, xml, how, encodings, storage_options, coarser).write()


def register(
    source: xr.Dataset, xml: object, *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Store the positions of views in the XML of their project, and leave the images as they are.

    The new matrices replace the transforms of these views. All else in the XML is kept byte for
    byte, and the file is replaced in one step.

    Parameters
    ----------
    source : xarray.Dataset
        The whole base level of the views, opened from the project, with changed positions: the
        coordinate ``affine``, or ``origin_z``, ``origin_y`` and ``origin_x`` without it.
    xml : str or os.PathLike
        The path or URL of the XML file.
    storage_options : mapping, optional
        Options of the fsspec filesystem of the XML, if it is a URL.

    Raises
    ------
    FileNotFoundError
        If there is no such project.
    MetadataError
        If views are not in the project, differ from its setups, or are parts of images.

    Examples
    --------
    >>> tiles = xr.DataArray(np.ones((2, 4, 8, 8)), dims=("tile", "z", "y", "x"), name="raw")
    >>> report = tiles.n5.to_bdv("tiles.xml")
    >>> ds = xr.open_dataset("tiles.xml", engine="bdv", chunks={})
    >>> affine = ds.affine.copy()
    >>> affine.loc[{"tile": 1, "axis": "x", "column": "1"}] += 6
    >>> xarray_n5.bdv.register(ds.assign_coords(affine=affine), "tiles.xml")
    >>> xr.open_dataset("tiles.xml", engine="bdv").origin_x.values
    array([0., 6.])
    """
    from xarray_n5.bdv.save import options_of_xml
    from xarray_n5.bdv.write import register_views

    register_views(source, xml, options_of_xml(xml, storage_options))
