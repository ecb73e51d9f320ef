"""The public :func:`copy`: arrays, groups and containers, from any format to any other.

Modules that write are imported on first use, to keep the import fast for readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.formats import FormatName
    from xarray_n5.model.codec import Compression
    from xarray_n5.writing.report import WriteReport


def copy(
    source: object,
    destination: object,
    *,
    mode: Literal["w-", "a", "w"] = "w-",
    format: FormatName | None = None,
    chunks: Sequence[int] | int | Literal["auto"] | None = None,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    dialect: str | Sequence[str] | None = None,
    without: str | Collection[str] = (),
    resume: bool | str = False,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    verify: bool = False,
) -> WriteReport:
    """Copy an array, or a group with everything in it, into a container of any format.

    ``xr.open_dataset(copy)`` shows what ``xr.open_dataset(source)`` shows. Within one format, nodes
    are kept as they are stored. In another format, or with a `dialect`, they are written as by
    :func:`to_n5`, without decoding their values, and pyramids are described for the readers of that
    format; attributes that nobody reads stay. Everything is checked before anything is written. For
    a part, a level or another type, open the source, select, and use ``.n5.to_n5``.

    Parameters
    ----------
    source : str, os.PathLike, Array, Group or store
        What to copy: a path or an fsspec URL, which may end in the path of a node in a container,
        such as ``"cells.n5/em/raw"``; an open array or group; or a store.
    destination : str, os.PathLike, Group or store
        Where to write it, likewise; what does not exist is created. A local path ``*.ozx`` is one
        ZIP archive of Zarr v3, which appears when it is complete, and which ``mode="w"`` replaces
        as a whole.
    mode : {"w-", "a", "w"}, default: "w-"
        "w-" raises if there is anything; "a" adds to the groups that exist, and replaces arrays of
        the same paths; "w" first removes all arrays and attributes of the copied groups. Other
        groups stay.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        By default that of `destination`, or that of a new container's name.
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
    dialect : str or sequence of str, optional
        The dialects that describe axes in the copy; by default those that readers of the format
        expect, such as OME-NGFF 0.4 in Zarr v2 and 0.5 in Zarr v3.
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
        finished archive. With `verify`, its attribute ``verified`` is the number of chunks that
        were compared.

    Raises
    ------
    NodeNotFoundError
        If there is nothing to copy.
    NodeExistsError
        If something exists that `mode` does not allow to replace.
    MetadataError
        If the format cannot hold an array, or a dialect cannot describe it.
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

    >>> report = xarray_n5.copy("cells.n5/raw", "raw.h5/raw", chunks=4)
    """
    from xarray_n5.copying.copy import copy_node

    return copy_node(
        source,
        destination,
        mode=mode,
        format=format,
        dialect=dialect if dialect is None or isinstance(dialect, str) else tuple(dialect),
        storage={"chunks": chunks, "shards": shards, "compression": compression},
        without=(without,) if isinstance(without, str) else without,
        resume=resume,
        source_options=source_options,
        storage_options=storage_options,
        verify=verify,
    )
