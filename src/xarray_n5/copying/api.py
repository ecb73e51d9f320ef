"""The public :func:`copy`: arrays, groups and containers, from any format to any other.

Modules that write are imported on first use, to keep the import fast for readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from xarray_n5.arrays.node import LabelMultisets
    from xarray_n5.boxes.crop import Bounds
    from xarray_n5.formats import FormatName
    from xarray_n5.images.select import LevelChoice
    from xarray_n5.model.codec import Compression
    from xarray_n5.writing.report import WriteReport


def copy(
    source: object,
    destination: object,
    *,
    source_path: str = "",
    path: str = "",
    mode: Literal["w-", "a", "w"] = "w-",
    format: FormatName | None = None,
    level: LevelChoice | None = None,
    region: Sequence[slice] | None = None,
    bounds: Mapping[str, Bounds] | None = None,
    chunks: Sequence[int] | int | Literal["auto"] | None = None,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    dtype: npt.DTypeLike | None = None,
    dialect: str | Sequence[str] | None = None,
    label_multisets: LabelMultisets = "error",
    without: str | Collection[str] = (),
    resume: bool | str = False,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    verify: bool = False,
) -> WriteReport:
    """Copy an array, or a group with everything in it, into a container of any format.

    Datasets open from the copy as from the source: they are written as by :func:`to_n5`, without
    decoding their values. Attributes of other arrays keep their meaning, and are restored when they
    are copied back, unless `dialect` is given. Everything is checked before anything is written.

    Parameters
    ----------
    source : str, os.PathLike, Array, Group or store
        The container to copy from: a path, an fsspec URL, an open array or group, or a store.
    destination : str, os.PathLike or store
        The container to write to, which is created if it does not exist. A local path ``*.ozx`` is
        one ZIP archive of Zarr v3, which appears when it is complete, and which ``mode="w"``
        replaces as a whole.
    source_path : str, default: ""
        The path of the node in `source`.
    path : str, default: ""
        The path of the copy in `destination`.
    mode : {"w-", "a", "w"}, default: "w-"
        "w-" raises if anything exists at `path`; "a" adds to the groups that exist, and replaces
        arrays of the same paths; "w" first removes all arrays and attributes of the copied groups.
        Other groups stay.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        By default that of `destination`, or that of a new container's name.
    level : int, str or mapping, optional
        A level of the pyramid at `source`: its position (-1 is the coarsest), its name, or
        distances between samples by dimension, as in :func:`xarray.open_dataset`.
    region : sequence of slice, optional
        The part of the array to copy; one slice for each axis, in C order.
    bounds : mapping, optional
        The part to copy in coordinates, as `ds.n5.crop` has them: two for each
        dimension, both included, such as ``{"z": (100, "0.2 um")}`` or ``{"z": "90:200 nm"}``.
        Of a group, all arrays with these dimensions are cropped, and the levels of pyramids; those
        without samples there are left out with a warning.
    chunks : sequence of int, int or "auto", optional
        The shape of the chunks, by default that of each array. One side, and "auto", are for the
        axes of space: along those of time, channels and others, a chunk has one sample.
    shards : sequence of int, int or "auto", optional
        The shape of shards, files that hold several chunks, in Zarr v3: multiples of `chunks` along
        each axis, or "auto" for at most 256 MiB of elements. By default those of each array, if
        Zarr v3 is copied with its chunks.
    compression : str, mapping, Compression or None, default: "same"
        "same" for that of each array, or gzip if the format does not have it; otherwise a name,
        such as "zstd", the JSON object of ``attributes.json``, a compression, or None for
        uncompressed chunks.
    dtype : dtype, optional
        Another data type of all numbers but coordinates of Datasets; values must fit into it.
    dialect : str or sequence of str, optional
        The dialects that describe axes in the copy. By default, a pyramid gets those that readers
        of another format expect (OME-NGFF 0.4 in Zarr v2, 0.5 in Zarr v3), and all else keeps its
        attributes; "same" keeps those of pyramids, too. "ngff-0.6" is OME-Zarr 0.6, in Zarr v3.
    label_multisets : {"error", "argmax", "count"}, default: "error"
        How to copy Paintera's label multisets: "argmax" as their most frequent labels (uint64),
        "count" as the numbers of votes for these labels (int32); "error" raises.
    without : str or collection of str, default: ()
        Patterns of paths below the group to leave out, such as ``"em/*"``.
    resume : bool or str, default: False
        Resume this copy, if it was interrupted; if it has finished, nothing is written, unless
        `mode` is "w". A source whose chunks have changed since it began is refused: the token that
        the error names continues the copy as it is.
    source_options : mapping, optional
        Options of the fsspec filesystem of `source`.
    storage_options : mapping, optional
        Options of the fsspec filesystem of `destination`.
    verify : bool, default: False
        Whether to read the source and the copy after it was written, and to compare all values bit
        by bit; also those of a finished copy, with ``resume=True``. That takes about as long as
        copying. A system that has the copy in memory reads it from there, not from the disk.

    Returns
    -------
    WriteReport
        The report; if a copy to resume had finished, all chunks are kept. It is empty for a
        finished project or archive. With `verify`, its attribute ``verified`` is
        the number of chunks that were compared.

    Raises
    ------
    NodeNotFoundError
        If there is nothing to copy.
    NodeExistsError
        If something exists that `mode` does not allow to replace.
    MetadataError
        If the format cannot hold an array.
    ResumeError
        If another write into the destination is unfinished.
    DifferenceError
        With `verify`, if chunks differ from the source; ``keys`` names them.

    See Also
    --------
    digest : One short string for the values, to compare arrays at different locations.

    Examples
    --------
    >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=2)
    >>> array[:] = 7
    >>> report = xarray_n5.copy("cells.n5", "cells.zarr")
    >>> xarray_n5.open_array("cells.zarr", "raw")[0]
    array([7, 7, 7, 7, 7, 7], dtype=uint8)

    Copy one array into HDF5, in other chunks:

    >>> report = xarray_n5.copy("cells.n5", "raw.h5", source_path="raw", path="raw", chunks=4)
    """
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.copying.copy import begin_copy
    from xarray_n5.copying.pyramids import level_path

    if bounds is not None and not isinstance(bounds, Mapping):
        raise TypeError(f"bounds is {bounds!r}; expected a mapping such as {{'z': (20, 60)}}")
    if isinstance(source, Array | Group):
        source_path = join(source.path, source_path)
        source = source.container.fresh()
    if level is not None:
        source_path = level_path(source, source_path, level, source_options)
    changes = CopyOptions(
        region=None if region is None else tuple(region),
        bounds=bounds,
        chunks=chunks,
        shards=shards,
        compression=compression,
        dtype=dtype,
        dialect=dialect if dialect is None or isinstance(dialect, str) else tuple(dialect),
        label_multisets=label_multisets,
    )
    return begin_copy(
        source,
        source_path,
        destination,
        path,
        mode=mode,
        format=format,
        options=changes,
        without=(without,) if isinstance(without, str) else without,
        resume=resume,
        source_options=source_options,
        storage_options=storage_options,
        verify=verify,
    ).compute()
