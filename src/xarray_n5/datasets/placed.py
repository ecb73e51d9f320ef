"""Datasets of images that are placed in a world: a dimension of views, and their matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.arrays.coordinates import Room
from xarray_n5.arrays.spec import supported
from xarray_n5.codecs import resolve
from xarray_n5.datasets.build import DatasetOptions, build
from xarray_n5.datasets.world import AFFINE, AXES, FRAME, START, STEP
from xarray_n5.errors import MetadataError, N5Error, NodeNotFoundError
from xarray_n5.model.json import refuse_encodings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.axes import Axis
    from xarray_n5.model.image import Image
    from xarray_n5.model.metadata import Compression
    from xarray_n5.writing.options import Encoding

BESIDE = frozenset({AFFINE, "registration", "missing", *(f"origin_{axis}" for axis in AXES)})
"""Variables of a Dataset of placed images that are not images."""

COLUMNS = (*AXES, "1")
"""The columns of matrices: of samples along z, y, x, and the constants."""

_MOST = 1 << 28
"""The maximum number of samples of a tree with coordinates: 2 GiB of them."""


@dataclass(frozen=True)
class PlacedImage:
    """An image, with the coordinates that its axes do not have."""

    image: Image[Array]
    coords: Mapping[str, Mapping[str, xr.Variable]]
    """The coordinates of each level."""
    in_world: bool
    """Whether the coordinates of z, y and x are world positions, or distances in a view."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of all levels, such as ``omero``."""

    def dataset(
        self,
        level: str,
        name: str,
        source: str,
        options: DatasetOptions,
        budget: Room | None = None,
    ) -> xr.Dataset:
        """Return a level of the image as a Dataset.

        Parameters
        ----------
        level
            The name of the level.
        name
            The name of the variable, unless a coordinate has it.
        source
            The location of what describes the positions.
        options, budget
            As for :func:`~xarray_n5.datasets.build.build`.
        """
        stored, coords = self.image.levels[level], self.coords[level]
        taken = {*coords, *(str(axis.name) for axis in stored.named().axes)}
        while name in taken:
            name += "_data"
        dataset = build({name: self.image.at(level)}, dict(self.attributes), options, budget)
        if name in dataset:
            for key in ("downsamplingFactors", "affine"):
                dataset[name].attrs.pop(key, None)
            stacked = frozenset(stored.stacked_axes)
            dataset = dataset.assign_coords(
                {key: _in_blocks(value, stacked) for key, value in coords.items()}
            )
            for dim in AXES:
                if dim in dataset.coords and not self.in_world:
                    dataset.variables[dim].encoding[FRAME] = "view"
        dataset.encoding["source"] = source
        return dataset


@dataclass(frozen=True)
class GroupScene(ABC):
    """A scene that a group describes: what is alike in each ``Scene`` of a ``GroupReader``.

    The container is the group's, so no method needs `storage_options`. Nor is there an image at a
    path: it leads to a node of the container, and not to a scene.
    """

    group: Group

    kind: ClassVar[str]
    """What it is, in one word."""
    document: ClassVar[None] = None
    """No file describes it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of variables."""

    @abstractmethod
    def placed(self, options: DatasetOptions) -> Mapping[str, PlacedImage]:
        """Return the images by name; "" if there is only one, or they are alike."""

    @property
    def url(self) -> str:
        """The location of the group."""
        return self.group.url

    def container(self, storage_options: Mapping[str, Any] | None) -> Container:  # noqa: ARG002
        """Return the container of the images."""
        return self.group.container

    def open_groups(self, group: str, options: DatasetOptions) -> dict[str, xr.Dataset]:
        """Open all images at all levels, by path: ``/s0``, or ``/image/s0`` if they differ."""
        return open_levels(self.at(group, options), self.name, self.url, options)

    def images(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,  # noqa: ARG002
    ) -> Mapping[str, Image[Array]]:
        """Return the images by name."""
        return {name: placed.image for name, placed in self.at(group, DatasetOptions()).items()}

    def at(self, group: str, options: DatasetOptions) -> Mapping[str, PlacedImage]:
        """Return the images; raise NodeNotFoundError if `group` is not empty."""
        if group:
            raise NodeNotFoundError(self.url, group, "image", "open its group instead")
        return self.placed(options)


def open_levels(
    images: Mapping[str, PlacedImage], name: str, source: str, options: DatasetOptions
) -> dict[str, xr.Dataset]:
    """Return all levels of images as Datasets, by path: ``/s0``, or ``/name/s0``."""
    budget, root = Room(_MOST), xr.Dataset()
    root.encoding["source"] = source
    datasets = {"/": root}
    for key, placed in images.items():
        for level in placed.image.levels:
            path = f"/{key}/{level}".replace("//", "/")
            datasets[path] = placed.dataset(level, name, source, options, budget)
    return datasets


def matrices(
    name: str,
    dims: tuple[str, ...],
    values: np.ndarray,
    facts: Mapping[str, Any],
    axes: Sequence[Axis] = (),
) -> dict[str, xr.Variable]:
    """Return matrices from samples along z, y, x to positions, with the names of their axes.

    Parameters
    ----------
    name
        The name of the coordinate.
    dims, values, facts
        The dimensions of views, the matrices, and the attributes.
    axes
        The axes of the level along z, y, x: by them, the matrices still apply to parts of the
        level. They may be omitted if their coordinates are unknown.
    """
    if axes:
        facts = {
            **facts,
            START: [axis.offset for axis in axes],
            STEP: [axis.step for axis in axes],
        }
    return {
        "axis": xr.Variable(("axis",), list(AXES)),
        "column": xr.Variable(("column",), list(COLUMNS)),
        name: xr.Variable((*dims, "axis", "column"), values, dict(facts)),
    }


def _in_blocks(variable: xr.Variable, stacked: frozenset[str]) -> xr.Variable:
    """Return a coordinate with a block for each view, when Dask reads it.

    They are those of the image: xarray requires the same blocks for all variables. It is stored as
    one chunk, though.
    """
    outer = stacked.intersection(map(str, variable.dims))
    if not outer:
        return variable
    encoding = {"chunks": variable.shape, "preferred_chunks": dict.fromkeys(outer, 1)}
    return variable._replace(encoding={**variable.encoding, **encoding})


def only_image(dataset: xr.Dataset, where: str) -> xr.DataArray:
    """Return the only image of a Dataset of placed images; a lazy one is read when it is written.

    Raises
    ------
    MetadataError
        If there are none or several.
    """
    names = [name for name in dataset.data_vars if name not in BESIDE]
    if len(names) != 1:
        raise MetadataError(
            f"{where}: expected one image, got {len(names)} variables: "
            f"{', '.join(map(str, names)) or 'none'}; select one with ds[[name]], or join channels "
            "along the dimension 'channel' with xarray.concat"
        )
    image = dataset[names[0]]
    sides = image.encoding.get("preferred_chunks")
    if not sides or is_dask_collection(image.variable):
        return image
    return image.chunk({dim: side for dim, side in sides.items() if dim in image.dims})


def demands_on(
    image: xr.DataArray, encodings: Encoding | None, known: set[str]
) -> Mapping[str, Any]:
    """Return the encoding that the user chose for the only image of a Dataset."""
    for name, encoding in (encodings or {}).items():
        if name != image.name:
            raise KeyError(f"the encoding has {name!r}; expected {image.name!r}")
        refuse_encodings(name, sorted(set(encoding) - known), known)
    return (encodings or {}).get(str(image.name), {})


def sides_of(key: str, image: xr.DataArray, dims: Sequence[Any], chosen: Mapping[str, Any]) -> Any:
    """Return the sides of "chunks" or "shards" along some dimensions of an image.

    They are those that the user chose, or with which the image was opened.
    """
    if key in chosen:
        sides = chosen[key]
    else:
        opened = None if "chunks" in chosen else image.encoding.get(key)
        sides = opened if opened is not None and len(opened) == image.ndim else None
    if sides is None or isinstance(sides, str | int):
        return sides
    if len(sides) not in {len(dims), image.ndim}:
        raise MetadataError(
            f"{key} is {tuple(sides)}; expected a number, 'auto', or the sides along "
            f"{', '.join(map(str, dims))}"
        )
    named = dict(zip(image.dims if len(sides) == image.ndim else dims, sides, strict=True))
    return tuple(named[dim] for dim in dims)


def compression_of(
    image: xr.DataArray, chosen: Mapping[str, Any], form: Format, shape: tuple[int, ...], path: str
) -> Compression:
    """Return the compression that the user chose, or that of the opened image if it fits."""
    if "compression" in chosen:
        return resolve(chosen["compression"])
    known = image.encoding
    try:
        wish = resolve(known.get("compression", known.get("n5_compression", "gzip")))
    except (N5Error, TypeError, ValueError):  # that of another library
        wish = resolve("gzip")
    return supported(form, wish, shape, image.dtype, path)
