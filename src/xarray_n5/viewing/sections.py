"""Sections through volumes: two axes of a level at an index of a third one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.dialects.levels import is_labels, type_in_paintera
from xarray_n5.errors import NodeNotFoundError, printable
from xarray_n5.images.find import combined_images, levels_of
from xarray_n5.model.metadata import Content
from xarray_n5.model.paths import name_of_root
from xarray_n5.model.units import shown_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from xarray_n5.model.axes import Axis, Geometry

_MOST_CHUNKS = 1 << 17
"""The maximum number of chunks that are read for a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The values of a picture, and their axes."""

    values: np.ndarray
    """The values, by rows and columns."""
    rows: Axis
    columns: Axis
    """The axes, with the scales of the rows and columns."""
    title: str
    """The title of the picture."""
    stored: bool = True
    """Whether any of its chunks are stored."""
    is_labels: bool = False
    """Whether the values are labels; see :func:`is_labels`."""


class Drawable(Protocol):
    """An array, or an object that can be drawn like one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk."""

    @property
    def url(self) -> str:
        """Its location."""

    @property
    def path(self) -> str:
        """Its path in the container."""

    def geometry(self) -> Geometry:
        """Return its axes."""

    def chunk_exists(self, index: Sequence[int], /) -> bool:
        """Return whether a chunk is stored."""

    def __getitem__(self, key: Any, /) -> Any:
        """Return values."""


def section(
    node: Array | Group | Sequence[Drawable],
    *,
    axis: str | None = None,
    index: int | None = None,
    at: float | None = None,
    pixels: int = 800,
) -> Section:
    """Return a section through an array, or through the coarsest sufficient level of a pyramid.

    Parameters
    ----------
    node
        An array, the group of a pyramid, a dataset of Paintera, or a group of groups that form one
        image, as in BigDataViewer: the first timepoint, setup or channel of it. Or levels, the
        finest first.
    axis
        The axis to cut across; by default z, or the third from last. Index 0 is used along all
        others but the last two.
    index
        The position of the section: an index at the finest level, by default the middle.
    at
        The position of the section: a coordinate in the axis's unit.
    pixels
        The minimum number of samples of the longer side, if there are enough.

    Raises
    ------
    NodeNotFoundError
        If a group is not a pyramid.
    ValueError
        If the array has fewer than two axes, no samples, or no such axis or index.
    """
    node, described = _data_of_paintera(node)
    levels = _levels(node)
    base = levels[0]
    if base.ndim < 2:  # noqa: PLR2004 - rows and columns
        raise ValueError(f"{base.url!r} has {base.ndim} axes; expected at least two for a picture")
    if 0 in base.shape:
        raise ValueError(f"{base.url!r} has no samples to draw: its shape is {base.shape}")
    axes = base.geometry().with_names().axes
    cut = _cut(axes, axis, base)
    shown = [number for number in range(base.ndim) if number != cut][-2:]
    fine = [a for a in levels if max(a.shape[number] for number in shown) >= pixels]
    array = fine[-1] if fine else base
    own = array.geometry().with_names().axes
    place: list[int | slice] = [0] * array.ndim
    if cut is not None:
        place[cut] = _sample(own[cut], axes[cut], (array, base), cut, index, at)
    elif index is not None or at is not None:
        raise ValueError(f"{base.url!r} has no third axis to cut across")
    step = max(1, max(array.shape[number] for number in shown) // pixels)
    for number in shown:
        place[number] = slice(None, None, step)
    rows, columns = (_every(own[number], step) for number in shown)
    touched = _touched(array, place)
    if (count := math.prod(map(len, touched))) > _MOST_CHUNKS:
        raise ValueError(
            f"{array.url!r} has chunks of {array.chunks}: a section of {pixels} pixels would read "
            f"{count} of them, more than {_MOST_CHUNKS}; choose fewer pixels, or a coarser level"
        )
    values = array[tuple(place)]
    return Section(
        values=values,
        rows=rows,
        columns=columns,
        title=_title(array, own, cut, place),
        # Different values cannot all be the fill value.
        stored=bool((values != values.flat[0]).any())
        or any(array.chunk_exists(index) for index in product(*touched)),
        is_labels=is_labels(values.dtype, {} if _is_votes(array) else described),
    )


def _data_of_paintera(
    node: Array | Group | Sequence[Drawable],
) -> tuple[Array | Group | Sequence[Drawable], Mapping[str, Any]]:
    """Return the array or pyramid of a dataset of Paintera, and the attributes that describe it."""
    if not isinstance(node, Group):
        return node, {}
    if type_in_paintera(node.attrs) is None:
        return node, node.attrs
    return node.nodes(["data"]).get("data", node), node.attrs


def _is_votes(array: Drawable) -> bool:
    return isinstance(array, Array) and array.node.metadata.content is Content.VOTES


def _levels(node: Array | Group | Sequence[Drawable]) -> Sequence[Drawable]:
    """Return the levels, the finest first."""
    if isinstance(node, Array):
        return [node]
    if not isinstance(node, Group):
        return node
    arrays = node.arrays()
    if levels := list(levels_of(node, arrays).values()):
        return levels
    if arrays:
        hint = f"it has the arrays {', '.join(arrays)}: name one"
        raise NodeNotFoundError(node.url, "", "pyramid", hint)
    # Each setup may be an image of its own.
    joined = combined_images(node, dialect=None)
    for image in joined.values():
        return [level.first for level in image.levels.values()]
    groups = ", ".join(sorted(node))
    hint = f"it has no arrays, but {groups}: name one" if groups else "it has no arrays"
    raise NodeNotFoundError(node.url, "", "pyramid", hint)


def _touched(array: Drawable, place: list[int | slice]) -> list[list[int]]:
    """Return the chunks to read along each axis."""
    sides = []
    stored = array.grid.chunks if isinstance(array, Array) else array.chunks
    for where, size, chunk in zip(place, array.shape, stored, strict=True):
        samples = range(where, where + 1) if isinstance(where, int) else range(size)[where]
        sides.append(sorted({sample // chunk for sample in samples}))
    return sides


def _cut(axes: tuple[Axis, ...], name: str | None, array: Drawable) -> int | None:
    """Return the axis to cut across; None for pictures."""
    names = [axis.name for axis in axes]
    if name is not None:
        if name not in names or len(names) < 3:  # noqa: PLR2004 - two are shown
            raise ValueError(f"cannot cut {array.url!r} across {name!r}; expected one of {names}")
        return names.index(name)
    if len(names) < 3:  # noqa: PLR2004 - two are shown
        return None
    return names.index("z") if "z" in names else len(names) - 3


def _sample(
    axis: Axis,
    finest: Axis,
    arrays: tuple[Drawable, Drawable],
    number: int,
    index: int | None,
    at: float | None,
) -> int:
    """Return the sample of a level at which it is cut."""
    size, most = (array.shape[number] for array in arrays)
    if at is None:
        wanted = most // 2 if index is None else index
        if not 0 <= wanted < most:
            raise ValueError(f"no sample {wanted} along {axis.name!r}, which has {most} samples")
        return min(size - 1, wanted * size // most)
    if finest.labels is not None:
        raise ValueError(f"{axis.name!r} has labels instead of coordinates; use an index")
    found = round((at - axis.offset) / axis.step)
    ends = sorted((finest.position(-0.5), finest.position(most - 0.5)))
    if not ends[0] <= at <= ends[1]:
        unit = printable(shown_unit(finest.unit))
        raise ValueError(f"{at:g} is outside of {axis.name!r}: {ends[0]:g} to {ends[1]:g} {unit}")
    return min(max(found, 0), size - 1)


def _every(axis: Axis, step: int) -> Axis:
    scale = axis.step * step if axis.labels is None else None
    return replace(axis, scale=scale, labels=None)


def _title(
    array: Drawable, axes: tuple[Axis, ...], cut: int | None, place: list[int | slice]
) -> str:
    name = array.path or name_of_root(array.url.rpartition("/")[2])
    if cut is None:
        return name
    axis, sample = axes[cut], place[cut]
    unit = f" ({axis.position(sample):g} {shown_unit(axis.unit)})" if axis.unit else ""  # type: ignore[arg-type]
    return f"{name}, {axis.name} = {sample}{unit}"
