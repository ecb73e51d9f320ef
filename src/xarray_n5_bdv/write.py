"""Store Datasets and trees as projects: views in a container, and the XML that describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from xarray_n5.arrays.create import chunk_shape
from xarray_n5.codecs import resolve
from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError
from xarray_n5.model.keywords import refuse_encodings
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.writing.compression import with_fallback
from xarray_n5.writing.request import WriteRequest
from xarray_n5_bdv.describe import Described, ViewImage, describe, level_attributes
from xarray_n5_bdv.save import write_views
from xarray_n5_bdv.scales import check_alike, factors_of_levels, images_of_tree
from xarray_n5_bdv.target import ProjectTarget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.writing.request import Encoding, WriteOptions
    from xarray_n5.writing.transaction import Transaction
    from xarray_n5_bdv.loaders import View
    from xarray_n5_bdv.project import ViewSetup

_ENCODINGS = {"chunks", "compression"}
"""The encodings of an image that users may set."""


def write_project(
    source: xr.Dataset | xr.DataTree,
    project: object,
    how: WriteOptions,
    encodings: Mapping[str, Encoding] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Transaction:
    """Return the transaction that stores a Dataset, or the levels in a tree, as a project.

    Parameters
    ----------
    source
        A Dataset of one image, or a tree of images with levels ``s0``, ``s1``, ....
    project
        The path or URL of the XML.
    how
        The container and the options of the views.
    encodings
        The encodings of variables by the paths of nodes; of a Dataset at "/".
    storage_options
        Options of the filesystem of the XML, if it is a URL.
    """
    import xarray as xr

    target = ProjectTarget.at(project, how, storage_options)
    before = target.project if how.mode != "w-" else None
    trees = images_of_tree(source) if isinstance(source, xr.DataTree) else {"": {"/": source}}
    trees = {
        name: {path: _in_blocks(level) for path, level in levels.items()}
        for name, levels in trees.items()
    }
    taken: dict[int, ViewSetup] = {}
    images = []
    for name, levels in trees.items():
        described = describe(name or "the image", list(levels.values()), before, taken)
        taken |= described.project.setups
        check_alike(name or "the image", levels, described.levels)
        chosen = [_chosen(dict(encodings or {}), path, own) for path, own in levels.items()]
        images.append(_image(name or "the image", described, chosen, how))
    facts = [[each for levels in trees.values() for each in levels.values()], target.url]
    return write_views(images, target, how, *facts)


def _in_blocks(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose images are read when they are written, if they are lazy."""
    found = {}
    for name, array in dataset.data_vars.items():
        sides = array.encoding.get("preferred_chunks")
        if sides and not is_dask_collection(array.variable):
            found[name] = array.chunk({dim: n for dim, n in sides.items() if dim in array.dims})
    return dataset.assign(found) if found else dataset


def _image(
    name: str, described: Described, chosen: Sequence[Mapping[str, Any]], how: WriteOptions
) -> ViewImage:
    factors = factors_of_levels(name, described.levels)
    stored = [Storage.of(array, own) for array, own in zip(described.levels, chosen, strict=True)]

    def request(view: View, level: int, path: str, finer: Array | None) -> WriteRequest:
        del finer
        data = described.data(view, level)
        return request_of(data, path, how, factors[level], stored[level])

    return ViewImage(described=described, factors=factors, request=request)


@dataclass(frozen=True)
class Storage:
    """The storage of a level's views: their chunks along z, y, x, and the compression."""

    chunks: Any
    compression: Any
    explicit: bool

    @classmethod
    def of(cls, array: xr.DataArray, chosen: Mapping[str, Any]) -> Storage:
        """Return the user's choice, or the storage that the image was opened from."""
        shape = tuple(array.sizes[axis] for axis in AXES)
        known = array.encoding
        chunks = chosen.get("chunks")
        if chunks is None:
            kept = known.get("chunks")
            if kept is not None and len(kept) == array.ndim:
                chunks = kept
        if chunks is not None and not isinstance(chunks, str | int) and len(chunks) != len(AXES):
            if len(chunks) != array.ndim:
                raise MetadataError(
                    f"chunks is {tuple(chunks)}; expected a number, 'auto', or the sides along z, "
                    "y, x"
                )
            sides = dict(zip(array.dims, chunks, strict=True))
            chunks = tuple(sides[axis] for axis in AXES)
        given = "compression" in chosen
        compression = chosen.get("compression", known.get("compression"))
        if not given and compression is None:
            compression = known.get("n5_compression", "gzip")
        return cls(None if chunks is None else chunk_shape(chunks, shape), compression, given)


def request_of(
    data: xr.DataArray,
    path: str,
    how: WriteOptions,
    factors: Sequence[int],
    stored: Storage,
) -> WriteRequest:
    """Return the request to write a level of a view."""
    compression = resolve(stored.compression)
    if not stored.explicit:
        metadata = ArrayMetadata(
            shape=data.shape,
            chunks=stored.chunks or (1,) * data.ndim,
            dtype=data.dtype,
            compression=compression,
        )
        compression = with_fallback(how.format, metadata, None, path).compression
    lazy = is_dask_collection(data.variable)
    return WriteRequest.of(
        data.data,
        path,
        how,
        mode="w-" if how.mode == "w-" else "w",
        chunks=stored.chunks,
        compression=compression,
        attributes=level_attributes(factors),
        dims=AXES,
        deferred=how.deferred and lazy,
    )


def _chosen(encodings: Mapping[str, Encoding], path: str, dataset: xr.Dataset) -> Mapping[str, Any]:
    """Return the user's encoding of an image."""
    found: dict[str, Any] = {}
    for name, own in (encodings.get(path) or {}).items():
        if name not in dataset.data_vars:
            raise KeyError(f"the encoding has {name!r}; expected some of {list(dataset.data_vars)}")
        refuse_encodings(name, sorted(set(own) - _ENCODINGS), _ENCODINGS)
        found |= own
    return found
