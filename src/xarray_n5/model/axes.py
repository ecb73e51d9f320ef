"""Axes and geometries: names, units, the coordinates of samples, and factors of levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Literal

from xarray_n5.errors import printable
from xarray_n5.model.units import same_unit, shown_unit, split_unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.model.system_graph import ImageSystems


Kind = Literal["space", "time", "channel"]

# Relative differences up to which numbers are equal.

ROUNDING = 1e-9
"""Of numbers that are computed in float64."""

SAME = 1e-6
"""Of numbers that other programs wrote, rounded to some digits or to float32."""

NEAR = 1e-3
"""Of sizes and ratios that programs round by different rules."""

_SHOWN = 8
"""The number of labels that ``str()`` shows."""

DEFAULT_NAMES = ("x", "y", "z")
"""Names of unnamed axes, the last axis first."""


def centre_shift(step: float, factor: float) -> float:
    """Return the distance from the base level's first sample to a level's first sample.

    A sample of a level is at the mean of the `factor` samples that it covers, `step` apart
    (imglib2, BigDataViewer, n5-viewer, COSEM).

    >>> centre_shift(4.0, 2)
    2.0
    """
    return step * (factor - 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Axis:
    """One axis of an array, in C order.

    The centre of sample ``i`` is at ``offset + i * scale``, in ``unit``.

    Parameters
    ----------
    name : str, optional
        The name of the dimension in xarray; by default one is chosen, such as "z".
    kind : {"space", "time", "channel"}, optional
        The kind of the axis; None if the metadata do not state it.
    unit : str, optional
        The unit as it is stored.
    scale : float, optional
        The distance between two samples, in `unit`; None if it is not known.
    offset : float, default: 0.0
        The coordinate of sample 0, in `unit`.
    labels : tuple of str, optional
        A label for each sample, instead of a coordinate.
    factor : float, default: 1.0
        How many samples of the base level of a pyramid one sample covers.

    Raises
    ------
    ValueError
        If `scale`, `offset` or `factor` is not finite, `scale` is 0, or `factor` is not positive.

    Examples
    --------
    >>> axis = xarray_n5.Axis(name="z", unit="nm", scale=4.0, offset=100.0)
    >>> print(axis)
    z: start 100, step 4 nm
    """

    name: str | None = None
    kind: Kind | None = None
    unit: str | None = None
    scale: float | None = None
    offset: float = 0.0
    labels: tuple[str, ...] | None = None
    factor: float = field(default=1.0, compare=False)

    def __post_init__(self) -> None:
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale != 0):
            raise ValueError(
                f"the scale of axis {self.name!r} is {self.scale}; expected a finite number but 0"
            )
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise ValueError(
                f"the factor of axis {self.name!r} is {self.factor}; expected a positive number"
            )
        if not math.isfinite(self.offset):
            raise ValueError(
                f"the offset of axis {self.name!r} is {self.offset}; expected a finite number"
            )

    def __repr__(self) -> str:
        """Show the fields that are set.

        >>> Axis(name="z", scale=4.0)
        Axis(name='z', scale=4.0)
        """
        known = ((item.name, getattr(self, item.name)) for item in fields(self))
        default = Axis.__dataclass_fields__
        shown = (f"{name}={value!r}" for name, value in known if value != default[name].default)
        return f"Axis({', '.join(shown)})"

    def __str__(self) -> str:
        """Show the coordinates of the samples.

        >>> print(Axis(name="z", unit="nm", scale=4.0, offset=100.0))
        z: start 100, step 4 nm
        """
        where = "no coordinates"
        if self.labels is not None:
            more = ["..."] if len(self.labels) > _SHOWN else []
            where = ", ".join([*self.labels[:_SHOWN], *more])
        elif self.placed:
            where = f"start {self.offset:g}, step {self.step:g} {shown_unit(self.unit)}"
        return printable(f"{self.name or '(no name)'}: {where}")

    @property
    def step(self) -> float:
        """The distance between two samples, in `unit`; 1 if it is not known.

        Examples
        --------
        >>> xarray_n5.Axis(name="z").step
        1.0
        """
        return 1.0 if self.scale is None else self.scale

    @property
    def base(self) -> tuple[float, float]:
        """The scale and the offset of the base level, by `factor`.

        Examples
        --------
        >>> xarray_n5.Axis(name="z", scale=8.0, offset=2.0, factor=2.0).base
        (4.0, 0.0)
        """
        scale = self.step / self.factor
        return scale, self.offset - centre_shift(scale, self.factor)

    def position(self, sample: float) -> float:
        """Return the coordinate of a sample.

        Parameters
        ----------
        sample : float
            The index of the sample; fractions are allowed.

        Returns
        -------
        float
            The coordinate of its centre, in `unit`.

        Examples
        --------
        >>> axis = xarray_n5.Axis(name="z", unit="nm", scale=4.0, offset=100.0)
        >>> axis.position(10)
        140.0
        """
        return self.offset + sample * self.step

    def coarser(self, factor: int, *, centred: bool = True) -> Axis:
        """Return the axis of a coarser level, whose samples cover several samples of this one.

        Parameters
        ----------
        factor : int
            How many samples one sample of the coarser level covers.
        centred : bool, default: True
            Whether a sample is at the mean of those that it covers; otherwise at the first of
            them.

        Returns
        -------
        Axis
            The axis of the coarser level.

        Examples
        --------
        >>> xarray_n5.Axis(name="z", scale=4.0).coarser(2)
        Axis(name='z', scale=8.0, offset=2.0, factor=2.0)
        """
        if factor == 1:
            return self
        shift = centre_shift(self.step, factor) if centred else 0.0
        return replace(
            self, scale=self.step * factor, offset=self.offset + shift, factor=self.factor * factor
        )

    @property
    def placed(self) -> bool:
        """Whether any coordinates of the samples are known.

        Examples
        --------
        >>> xarray_n5.Axis(name="z").placed, xarray_n5.Axis(name="z", scale=4.0).placed
        (False, True)
        """
        return self.scale is not None or self.offset != 0 or self.labels is not None


@dataclass(frozen=True, slots=True, repr=False)
class Geometry:
    """The axes of an array, in C order, and the source of each fact about them.

    Parameters
    ----------
    axes : tuple of Axis
        The axes, in C order.
    sources : mapping of str to str, default: {}
        The source of "names", "units", "scale", "offset" and "labels", as "dialect: attribute".
        Without an "offset", sample 0 of the base level is at 0.
    dialects : tuple of str, default: ()
        All dialects that describe the array, the most trusted first.
    keys : frozenset of str, default: frozenset()
        The attributes of the array and its groups that these dialects use.
    affine : tuple of tuple of float, optional
        An affine matrix of n rows of n + 1 numbers, if the axes alone cannot describe the array.
    systems : ImageSystems, optional
        The coordinate systems of an image of OME-Zarr 0.6, and the transformations between them.

    Examples
    --------
    >>> axes = (xarray_n5.Axis(name="y"), xarray_n5.Axis(name="x", unit="nm", scale=4.0))
    >>> geometry = xarray_n5.Geometry(axes)
    >>> geometry
    <xarray_n5.Geometry, 2 axes>
        y: no coordinates
        x: start 0, step 4 nm
    """

    axes: tuple[Axis, ...]
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    dialects: tuple[str, ...] = field(default=(), compare=False)
    keys: frozenset[str] = field(default=frozenset(), compare=False)
    affine: tuple[tuple[float, ...], ...] | None = None
    systems: ImageSystems | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Show a line for each axis, and the source of each fact."""
        lines = [f"<xarray_n5.Geometry, {self.ndim} axes>", *map(str, self.axes)]
        if self.affine is not None:
            lines += ["affine: " + ", ".join(f"{n:g}" for n in row) for row in self.affine]
        width = max((len(field) for field in self.sources), default=0)
        lines += [f"{field:{width}} from {where}" for field, where in self.sources.items()]
        return "\n    ".join(map(printable, lines))

    @property
    def ndim(self) -> int:
        """The number of axes.

        Examples
        --------
        >>> axes = (xarray_n5.Axis(name="y"), xarray_n5.Axis(name="x", unit="nm", scale=4.0))
        >>> geometry = xarray_n5.Geometry(axes)
        >>> geometry.ndim
        2
        """
        return len(self.axes)

    @property
    def named(self) -> bool:
        """Whether any axis has a name.

        Examples
        --------
        >>> axes = (xarray_n5.Axis(name="y"), xarray_n5.Axis(name="x", unit="nm", scale=4.0))
        >>> geometry = xarray_n5.Geometry(axes)
        >>> geometry.named
        True
        """
        return any(axis.name for axis in self.axes)

    @property
    def placed(self) -> bool:
        """Whether any coordinates of the samples are known.

        Examples
        --------
        >>> axes = (xarray_n5.Axis(name="y"), xarray_n5.Axis(name="x", unit="nm", scale=4.0))
        >>> geometry = xarray_n5.Geometry(axes)
        >>> geometry.placed
        True
        """
        return self.affine is not None or any(axis.placed for axis in self.axes)

    @property
    def relative(self) -> bool:
        """Whether coordinates are in voxels of the base level, whose size is not known.

        An array with scales of 1, without units and factors, is relative, too.

        Examples
        --------
        >>> axes = (xarray_n5.Axis(name="y"), xarray_n5.Axis(name="x", unit="nm", scale=4.0))
        >>> geometry = xarray_n5.Geometry(axes)
        >>> geometry.relative
        False
        """
        return self.affine is None and all(
            axis.unit is None and axis.labels is None and axis.base == (1.0, 0.0)
            for axis in self.axes
        )

    def with_names(self, avoid: AbstractSet[str] = frozenset()) -> Geometry:
        """Return the geometry with a name for every axis.

        The defaults are z, y and x for the last three axes, ``dim_0``, ``dim_1``, ... for those
        before them.

        Parameters
        ----------
        avoid : set of str, default: frozenset()
            Names that no unnamed axis may get.

        Returns
        -------
        Geometry
            The geometry with unique names.

        Examples
        --------
        >>> axes = (xarray_n5.Axis(), xarray_n5.Axis(), xarray_n5.Axis(name="v"))
        >>> geometry = xarray_n5.Geometry(axes)
        >>> [axis.name for axis in geometry.with_names().axes]
        ['z', 'y', 'v']
        """
        named = zip(self.axes, names(self.axes, avoid), strict=True)
        return replace(self, axes=tuple(replace(axis, name=name) for axis, name in named))

    def below(self, outer: tuple[Axis, ...]) -> Geometry:
        """Return the geometry with other axes before its own.

        Parameters
        ----------
        outer : tuple of Axis
            The axes to add, in C order.

        Returns
        -------
        Geometry
            The geometry with all axes.

        Examples
        --------
        >>> axes = (xarray_n5.Axis(name="y"), xarray_n5.Axis(name="x", unit="nm", scale=4.0))
        >>> geometry = xarray_n5.Geometry(axes)
        >>> [axis.name for axis in geometry.below((xarray_n5.Axis(name="t"),)).axes]
        ['t', 'y', 'x']
        """
        rows, more = self.affine, len(outer)
        if rows is not None:
            ones = [[float(row == at) for at in range(more + self.ndim + 1)] for row in range(more)]
            rows = (*map(tuple, ones), *((*(0.0,) * more, *row) for row in rows))
        return replace(self, axes=(*outer, *self.axes), affine=rows)

    def transpose(self) -> Geometry:
        """Return the geometry of the transposed array.

        Returns
        -------
        Geometry
            The geometry with its axes in reverse order.

        Examples
        --------
        >>> axes = (xarray_n5.Axis(name="y"), xarray_n5.Axis(name="x", unit="nm", scale=4.0))
        >>> geometry = xarray_n5.Geometry(axes)
        >>> [axis.name for axis in geometry.transpose().axes]
        ['x', 'y']
        """
        affine = self.affine and tuple((*row[-2::-1], row[-1]) for row in self.affine[::-1])
        return replace(self, axes=self.axes[::-1], affine=affine)


def names(axes: Sequence[Axis], avoid: AbstractSet[str] = frozenset()) -> tuple[str, ...]:
    """Return a unique name for each axis: its own, or a default.

    The defaults are z, y and x for the last three, ``dim_0``, ``dim_1``, ... for those before them,
    but none of the names to `avoid`.

    >>> names((Axis(), Axis(), Axis(name="v")))
    ('z', 'y', 'v')
    >>> names((Axis(),) * 5)
    ('dim_0', 'dim_1', 'z', 'y', 'x')
    """
    given = {axis.name for axis in axes if axis.name} | avoid
    seen: set[str] = set()
    result: list[str] = []
    for number, axis in enumerate(reversed(axes)):
        default = f"dim_{len(axes) - 1 - number}"
        if number < len(DEFAULT_NAMES):
            other = f"dim_{number + max(0, len(axes) - len(DEFAULT_NAMES))}"
            default = DEFAULT_NAMES[number] if DEFAULT_NAMES[number] not in given else other
        name = axis.name or default
        while name in seen or (not axis.name and name in given):
            name += "_"
        seen.add(name)
        result.append(name)
    return tuple(reversed(result))


def kind_of(name: str | None, unit: str | None) -> Kind | None:
    """Return the kind of an axis by its name and unit, or None if they do not show it."""
    known = unit_of(unit)
    if name == "t" or (known is not None and known.quantity == "time"):
        return "time"
    if name in {"c", "channel"}:
        return "channel"
    if name in {"x", "y", "z"} or (known is not None and known.quantity == "length"):
        return "space"
    return None


def axis_kind(axis: Axis) -> Kind | None:
    """Return the kind of an axis: as stated, or by its name and unit."""
    return axis.kind or kind_of(axis.name, axis.unit)


def axes_apart(axes: Sequence[Axis]) -> tuple[int, ...]:
    """Return the axes of an image other than those of space, of which a chunk has one sample.

    These are axes of time, of channels, and named ones of no known kind next to two axes of space
    or more. Without these, it is not an image, and none is returned.

    >>> axes_apart([Axis(name=name) for name in "tczyx"]), axes_apart([Axis(name="t"), Axis()])
    ((0, 1), ())
    """
    kinds = [axis_kind(axis) for axis in axes]
    spatial = [k == "space" or (k is None and not a.name) for k, a in zip(kinds, axes, strict=True)]
    return tuple(i for i, s in enumerate(spatial) if not s) if sum(spatial) > 1 else ()


def as_geometry(axes: Iterable[Axis | str | None] | Geometry, ndim: int) -> Geometry:
    """Return the geometry that `axes` describe: names, :class:`Axis` objects or a geometry.

    Raises
    ------
    ValueError
        If their number is not `ndim`, or a name occurs twice.
    """
    given = (
        axes
        if isinstance(axes, Geometry)
        else Geometry(tuple(axis if isinstance(axis, Axis) else Axis(name=axis) for axis in axes))
    )
    built = tuple(map(_completed, given.axes))
    if len(built) != ndim:
        raise ValueError(f"expected {ndim} axes, got {len(built)}")
    written = [axis.name for axis in built if axis.name]
    if len(set(written)) != len(written):
        raise ValueError(f"axis names must be unique, got {written}")
    return replace(given, axes=built)


def _completed(axis: Axis) -> Axis:
    """Return an axis with its kind, and with a number before its unit moved into its scale."""
    times, unit = split_unit(axis.unit)
    if times != 1:
        scale, offset = axis.step * times, axis.offset * times
        axis = replace(axis, unit=unit, scale=scale, offset=offset)
    return replace(axis, kind=axis_kind(axis))


# Factors of levels over the base level, by the positions of samples


def at_levels(
    levels: Sequence[tuple[Axis, ...]], shapes: Sequence[tuple[int, ...]]
) -> list[Geometry] | None:
    """Return the axes of levels with their factors over the first one, or None if there are none.

    Factors are whole numbers if the ratio of steps is one up to rounding.
    """
    if len({len(axes) for axes in levels}) != 1:
        return None
    columns = zip(zip(*levels, strict=True), zip(*shapes, strict=True), strict=True)
    levelled = [_axis_at_levels(axes, sizes) for axes, sizes in columns]
    if any(column is None for column in levelled):
        return None
    return [Geometry(axes) for axes in zip(*filter(None, levelled), strict=True)]


def _axis_at_levels(axes: Sequence[Axis], sizes: Sequence[int]) -> list[Axis] | None:
    """Return an axis at each level with its factor, or None if it is not that of a pyramid."""
    if any(axis.scale is not None for axis in axes):
        # A coordinate that counts samples has no scale.
        axes = [axis if axis.placed else replace(axis, scale=1.0) for axis in axes]
    base = replace(axes[0], factor=1.0)
    if base.scale is None or base.labels is not None:
        same = all(
            replace(axis, scale=None, factor=1.0, unit=base.unit) == base
            and same_unit(axis.unit, base.unit)
            for axis in axes
        )
        return list(axes) if same and len(set(sizes)) == 1 else None
    level_axes: list[Axis] = [base]
    for axis, size in zip(axes[1:], sizes[1:], strict=True):
        if axis.scale is None or size > sizes[len(level_axes) - 1]:
            return None
        if not same_unit(axis.unit, base.unit):
            return None
        last = level_axes[-1].factor
        factor, scale = nearly_whole(axis.scale / base.scale), axis.scale
        if size == 1 and factor < last:
            # A single sample has no step.
            factor = of_one_sample(axis, base, last, otherwise=last * sizes[len(level_axes) - 1])
            scale = base.scale * factor
        if factor < last:
            return None
        level_axes.append(replace(axis, scale=scale, factor=factor))
    return level_axes


def of_one_sample(axis: Axis, base: Axis, least: float = 1.0, *, otherwise: float) -> float:
    """Return the factor that centres a single sample, which has no step, in those that it covers.

    It is `otherwise` if that is less than `least`, the factor of the level before it.

    >>> of_one_sample(Axis(offset=3.5), Axis(), otherwise=9.0)
    8.0
    """
    centred = nearly_whole(2 * (axis.offset - base.offset) / base.step + 1)
    return centred if centred >= least else otherwise


def nearly_whole(factor: float) -> float:
    """Return a factor as a whole number if only rounding differs.

    >>> nearly_whole(1.9999999999), nearly_whole(1.5)
    (2.0, 1.5)
    """
    whole = float(round(factor))
    return whole if abs(factor - whole) <= ROUNDING * abs(whole) else factor
