"""Read a container or a project as napari layers, in their positions."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.dask.from_n5 import are_many_small, as_blocks, choose
from xarray_n5.datasets.build import AXIS_UNITS, DatasetOptions
from xarray_n5.datasets.engine import open_groups
from xarray_n5.datasets.world import AFFINE, AXES
from xarray_n5.dialects.groups import is_labels
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.graph import label
from xarray_n5.images.tree import images_of_datasets
from xarray_n5.model.alerts import warn
from xarray_n5.model.chunking import limit_blocks
from xarray_n5.model.units import unit_of
from xarray_n5.viewing.layers import channel_facts, choices, color, matrices_of, title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import dask.array as da
    import xarray as xr

    from xarray_n5.images.tree import Variable
    from xarray_n5.model.axes import Axis
    from xarray_n5.model.image import Image

LayerData: TypeAlias = tuple[Any, dict[str, Any], Literal["image", "labels"]]
"""The data of a layer, its arguments and its type."""

MOST_LAYERS = 32
"""The maximum number of layers of one container."""

_SHOWN = 16
"""The maximum number of omitted layers that a warning names."""

_MOST_BLOCKS = 1 << 40
"""The maximum number of blocks, which are numbered only when they are computed."""


def read_layers(url: object) -> list[LayerData]:
    """Return the images of a container or a project as layers; no chunk is read.

    A pyramid is one layer, a channel and a view of a project one each. Label multisets are read
    as their most frequent labels.

    Parameters
    ----------
    url
        A container, a node in one, or the XML of a project.

    Returns
    -------
    list of tuple
        Data, arguments and "image" or "labels"; the data of a pyramid are a list of Dask arrays,
        the finest level first. Labels come last, so that napari shows them on top.

    Raises
    ------
    NodeNotFoundError
        If there is nothing, or no array of numbers with two axes or more.

    Warns
    -----
    UserWarning
        If there are more than 32 layers; the others are left out.
    """
    options = DatasetOptions(label_multisets="argmax")
    groups = open_groups(url, "", options)
    layers = [
        (image, chosen)
        for image in images_of_datasets(groups)
        for chosen in choices(image, is_labels=_is_labels(image))
    ]
    if not layers:
        hint = "napari shows arrays of numbers with at least two axes"
        raise NodeNotFoundError(str(url), "", "image", hint)
    if left := layers[MOST_LAYERS:]:
        named = ", ".join(title(*layer) for layer in left[:_SHOWN])
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        warn(f"{url}: only {MOST_LAYERS} of {len(layers)} layers are shown, not {named}{more}")
    built = [_built(*layer) for layer in layers[:MOST_LAYERS]]
    return sorted(built, key=lambda layer: layer[-1] == "labels")  # on top of the images


def _is_labels(image: Image[Variable]) -> bool:
    return is_labels(image.base.first.array.dtype, image.base.attributes)


def _built(image: Image[Variable], chosen: Mapping[str, int]) -> LayerData:
    """Return a layer; of a view that moves, one time point, which stays an axis."""
    selection = {dim: slice(at, at + 1) if dim == "t" else at for dim, at in chosen.items()}
    data = [as_dask(level.first.array, selection) for level in image.levels.values()]
    if is_lifted(image, selection):
        data = [level[..., np.newaxis, :, :] for level in data]
    labels, stated = _is_labels(image), channel_facts(image, chosen)
    facts: dict[str, Any] = {"visible": False} if stated.get("active") is False else {}
    if not labels:
        facts["rgb"] = False
        if (shown := color(image, chosen)) is not None:
            facts["blending"] = "additive"
            facts |= {} if shown == "#ffffff" else {"colormap": shown}  # napari's grey
        limits = _limits(stated.get("window"), image.base.first.array.dtype)
        facts |= {} if limits is None else {"contrast_limits": limits}
    facts |= place_of(image, selection)
    facts |= {"name": title(image, chosen), "multiscale": len(data) > 1}
    return data if len(data) > 1 else data[0], facts, "labels" if labels else "image"


def _limits(window: object, dtype: np.dtype[Any]) -> tuple[float, float] | None:
    """Return the limits of a window, unless they are only those of the type."""
    match window:
        case {"start": int() | float() as start, "end": int() | float() as end}:
            if not (math.isfinite(start) and math.isfinite(end) and start < end):
                return None
            if dtype.kind in "iu":
                ends = np.iinfo(dtype)
                if start <= ends.min and end >= ends.max:
                    return None
            return float(start), float(end)
    return None


@dataclass(frozen=True)
class _Lazy:
    """A variable that is read lazily, by indexing."""

    variable: xr.Variable
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    url: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.shape

    @property
    def ndim(self) -> int:
        return self.variable.ndim

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray:
        """Return the values at an index."""
        return self.variable[key].to_numpy()


def as_dask(array: xr.DataArray, selection: Mapping[str, int | slice]) -> da.Array:
    """Return a part of an opened array as a Dask array of stored chunks.

    If there are so many small chunks that tasks would cost more than they read, a block is several
    whole chunks, as in :func:`from_n5` with ``chunks="auto"``.

    Parameters
    ----------
    array
        An array as the engine opens it.
    selection
        An index or a slice by dimension.
    """
    variable, facts = array.variable, array.encoding
    part = variable.isel(dict(selection))
    lazy = _Lazy(
        part,
        part.dtype,
        limit_blocks(
            _sides(variable, facts.get("chunks"), part) or part.shape, part.shape, _MOST_BLOCKS
        ),
        _sides(variable, facts.get("shards"), part),
        str(facts.get("source", "")),
    )
    blocks = choose(None, lazy)
    if are_many_small(blocks, lazy):
        blocks = choose("auto", lazy)
    name = f"{label('napari', str(array.name))}-{uuid.uuid4().hex}"
    return as_blocks(lazy, blocks, name)


def _sides(whole: xr.Variable, sides: Any, part: xr.Variable) -> tuple[int, ...] | None:
    """Return the lengths of chunks along the dimensions of a part, if they are known."""
    if sides is None or len(sides) != whole.ndim:
        return None
    by_dim = dict(zip(whole.dims, sides, strict=True))
    return tuple(by_dim[dim] for dim in part.dims)


def place_of(image: Image[Variable], selection: Mapping[str, int | slice]) -> dict[str, Any]:
    """Return the arguments that position a layer like the coordinates of the array.

    If only a matrix does, such as the registration of a view, it is ``affine``, and the scale is
    that of samples.

    Parameters
    ----------
    image
        The image, whose finest level is positioned.
    selection
        The index, or the slice, of the layer along some dimensions.

    Returns
    -------
    dict
        ``scale`` and ``translate``, or ``affine``; ``axis_labels``; ``units`` if any is known.
    """
    base = image.base.first.array
    part = base.isel(dict(selection))
    if is_lifted(image, selection):
        part = part.expand_dims(AXES[0], part.dims.index(AXES[1]))
    axes = geometry_from(part).axes
    stated = base.encoding.get(AXIS_UNITS) or [None] * base.ndim
    by_dim = dict(zip(base.dims, stated, strict=True))
    units = [axis.unit or by_dim.get(dim) for axis, dim in zip(axes, part.dims, strict=True)]
    matrix = _of_attributes(base, selection)
    view = _of_view(image, selection)
    if matrix is None and view is not None:
        matrix = _matrix(axes)
        facts = image.base.first.dataset[AFFINE].attrs
        known = [at for at, name in enumerate(AXES) if name in part.dims]
        rows = [part.dims.index(AXES[at]) for at in known]
        matrix[np.ix_(rows, [*rows, -1])] = view[np.ix_(known, [*known, -1])]
        if np.linalg.matrix_rank(matrix) < len(matrix):  # a section needs the axis that it lost
            matrix = _matrix(axes)
        for row in rows:
            units[row] = facts.get("units", None if facts else units[row])
    placed = _transform(_matrix(axes) if matrix is None else matrix)
    placed["axis_labels"] = tuple(str(dim) for dim in part.dims)
    words = [unit_of(unit) for unit in units]
    if any(words):
        placed["units"] = tuple("pixel" if unit is None else unit.word for unit in words)
    return placed


def is_lifted(image: Image[Variable], selection: Mapping[str, int | slice]) -> bool:
    """Return whether a flat image of y and x is not in the plane z = 0."""
    own = image.base.first.array.dims
    view = _of_view(image, selection)
    flat = AXES[0] not in own and {*AXES[1:]} <= {*own}
    return flat and view is not None and bool(view[0, 1:].any())


def _of_view(image: Image[Variable], selection: Mapping[str, int | slice]) -> np.ndarray | None:
    """Return the matrix from samples to positions of a view, if it has one and that is known."""
    if not {AFFINE, "column"} <= {*image.base.first.dataset.coords}:
        return None
    dims, matrices = matrices_of(image) or ((), np.full((len(AXES), len(AXES) + 1), np.nan))
    views = matrices[tuple(selection.get(dim, slice(None)) for dim in dims)]
    views = views.reshape(-1, *views.shape[-2:])
    known = views[np.isfinite(views).all(axis=(1, 2))]
    return known[0] if len(known) else None


def _matrix(axes: Sequence[Axis]) -> np.ndarray:
    """Return the matrix from samples to coordinates."""
    steps = [1.0 if axis.labels is not None else axis.step for axis in axes]
    matrix = np.diag([*steps, 1.0])
    matrix[:-1, -1] = [axis.offset for axis in axes]
    return matrix


def _of_attributes(array: xr.DataArray, selection: Mapping[str, int | slice]) -> np.ndarray | None:
    """Return the matrix in the attributes of an array, for the remaining dimensions."""
    numbers = np.asarray(array.attrs.get("affine", ()))
    ndim = array.ndim
    if numbers.shape != (ndim * (ndim + 1),) or numbers.dtype.kind not in "iuf":
        return None
    matrix = np.vstack([numbers.reshape(ndim, ndim + 1).astype(np.float64), np.eye(ndim + 1)[-1]])
    indexed = {dim for dim, at in selection.items() if isinstance(at, int)}
    kept = [row for row, dim in enumerate(array.dims) if dim not in indexed]
    for column, dim in enumerate(array.dims):
        at = selection.get(str(dim), 0)
        start = at if isinstance(at, int) else at.indices(array.sizes[dim])[0]
        matrix[:, -1] += matrix[:, column] * start
    kept.append(ndim)
    matrix = matrix[np.ix_(kept, kept)]
    matrix[-1] = np.eye(len(matrix))[-1]
    usable = np.isfinite(matrix).all() and np.linalg.matrix_rank(matrix) == len(matrix)
    return matrix if usable else None


def _transform(matrix: np.ndarray) -> dict[str, Any]:
    """Return a matrix as a scale and a translation if possible, otherwise unchanged."""
    scale = np.diag(matrix)[:-1]
    if np.array_equal(matrix[:-1, :-1], np.diag(scale)) and (scale > 0).all():
        return {"scale": tuple(scale.tolist()), "translate": tuple(matrix[:-1, -1].tolist())}
    return {"affine": matrix}
