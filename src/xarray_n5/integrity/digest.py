"""The public :func:`digest`: one short string for the values of an array, or of all in a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import Walk
from xarray_n5.dask.value_digest import digests_of
from xarray_n5.formats.structure import warn_unfinished
from xarray_n5.integrity.verify import arrays_in, inner_path
from xarray_n5.model.value_sums import group_digest

if TYPE_CHECKING:
    from collections.abc import Mapping


def digest(
    url: object, path: str | None = None, *, storage_options: Mapping[str, Any] | None = None
) -> str:
    """Return a digest of the values of an array, or of all arrays in a group or a container.

    Two arrays have the same digest if their types, shapes and values are the same, in any format,
    with any chunks, shards, compression and byte order. Values are compared bit by bit: 0.0 and
    -0.0 differ, and so do NaNs with different payloads. Attributes and names of axes are not part
    of it. A changed value, exchanged chunks and shifted rows change the digest, unless by a chance
    of less than 1 in 10^18. It is not cryptographic: it finds damage, not forgery.

    All chunks are read, in parallel by Dask; missing chunks count as their fill value.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, optional
        The path of an array or a group in the container; by default the container itself.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.

    Returns
    -------
    str
        ``"n5d1:"``, the version of the specification, and 32 hexadecimal digits. The digest of a
        group is that of the paths of its arrays and their digests.

    Raises
    ------
    NodeNotFoundError
        If there is no node, or no array in the group.
    MetadataError
        If the metadata of an array are invalid.
    ChunkError
        If a chunk cannot be decoded.

    See Also
    --------
    copy : With ``verify=True``, it compares a copy with its source, chunk by chunk.
    verify : Check each stored chunk.

    Examples
    --------
    >>> values = np.arange(24, dtype="uint16").reshape(4, 6)
    >>> _ = xarray_n5.to_n5(values, "cells.n5", "raw", chunks=(2, 3))
    >>> _ = xarray_n5.copy("cells.n5", "cells.zarr", chunks=4)
    >>> xarray_n5.digest("cells.n5", "raw")
    'n5d1:...'
    >>> xarray_n5.digest("cells.n5") == xarray_n5.digest("cells.zarr")
    True
    """
    return digest_of(digests_by_path(Walk.at(url, path or "", storage_options, whole=True)))


def digest_of(digests: Mapping[str, str]) -> str:
    """Return the digest of an array, or of a group from those of its arrays by their paths."""
    return digests[""] if [*digests] == [""] else group_digest(digests)


def digests_by_path(walk: Walk) -> dict[str, str]:
    """Return the digests of all arrays by their paths in the group; that of an array by "".

    Raises
    ------
    NodeNotFoundError, MetadataError, ChunkError
        As in :func:`digest`.
    """
    arrays, _ = arrays_in(walk, [*walk.arrays()], strict=True)
    groups = {path.rpartition("/")[0] for path in arrays if path}
    warn_unfinished(walk.container.uncached().store, [*arrays, *groups])
    filled = {path: Array(array.node.filled()) for path, array in arrays.items()}
    return digests_of({inner_path(walk, path): array for path, array in filled.items()})
