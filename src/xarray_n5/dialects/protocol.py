"""The protocol of dialects, and the context of an array that they read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from xarray_n5.model.alerts import warn
from xarray_n5.model.level_names import fused_in, number_in, view_in
from xarray_n5.model.roundtrip_attrs import user_attributes
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes

AttributeOrder: TypeAlias = Literal["auto", "C", "N5"]
"""The order of lists of axes: that of the dialect's writer, NumPy's, or x first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayContext:
    """An array with all metadata that describe its axes."""

    attributes: Attributes = field(default_factory=dict)
    """The array's own attributes; empty for a new array."""
    shape: tuple[int, ...]
    """The array's shape, in C order."""
    path: str = ""
    """The array's path in its container."""
    parents: tuple[Attributes, ...] = ()
    """The attributes of the groups around it, the nearest first."""
    base: ArrayContext | None = None
    """The base level, ``s0``, next to a coarser one."""
    coordinate_sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the one-dimensional arrays in its group, by name."""
    xml: bytes | None = None
    """The XML file next to a container of BigDataViewer."""
    lists_x_first: bool = True
    """Whether the container's lists of axes are in N5 order, which some dialects depend on."""
    attribute_order: AttributeOrder = "auto"
    """The order of lists of axes in attributes, if the user states it."""
    dtype: np.dtype[Any] | None = None
    """The type of the array's elements, or None if it is unknown."""
    ngff: str = "0.4"
    """The version of OME-NGFF that is written next to the array."""
    depth: int = 0
    """The number of groups between a new array and the group of its pyramid."""

    def warn(self, text: str) -> None:
        """Warn about metadata of the array."""
        warn(f"{self.path or '/'}: {text}")

    @property
    def level(self) -> int | None:
        """The number of the level that the array is called like, or None."""
        return number_in(self.path.rpartition("/")[2])

    @property
    def listed_path(self) -> str:
        """The path of a new array in the group of its pyramid."""
        return "/".join(self.path.split("/")[-1 - self.depth :])

    @property
    def view(self) -> tuple[int, int] | None:
        """The setup and timepoint of BigDataViewer that the array is called like, or None."""
        return view_in(self.path)

    @property
    def fused(self) -> bool:
        """Whether the array is called like a level of a fusion of BigStitcher-Spark."""
        return (
            self.level is not None and fused_in("/".join(self.path.split("/")[-2:-1])) is not None
        )

    def other(self, path: str, attributes: Attributes, shape: tuple[int, ...]) -> ArrayContext:
        """Return the context of another array in the same group."""
        return replace(self, path=path, attributes=attributes, shape=shape, base=None)

    def without_users_own(self) -> ArrayContext:
        """Return the context without the user's own attributes, which are not metadata of axes.

        The array's ``units`` are left out, too, if they are those of the values.
        """
        own, *parents = map(_without_own, (self.attributes, *self.parents))
        if units_of_values(own):
            del own["units"]
        return replace(self, attributes=own, parents=tuple(parents))


def _without_own(attributes: Attributes) -> dict[str, Any]:
    own = user_attributes(attributes)
    return {key: value for key, value in attributes.items() if key not in own}


def units_of_values(attributes: Attributes) -> bool:
    """Return whether ``units`` is a string about the values, as in CF, and not about axes.

    Next to a ``resolution``, a string may be the unit of all axes.
    """
    text = attributes.get("units")
    return isinstance(text, str) and ("resolution" not in attributes or unit_of(text) is None)


def is_of_funlib(attributes: Attributes) -> bool:
    """Return whether an array has lists of funlib.persistence, which are always in C order."""
    return bool({"voxel_size", "axis_names"} & attributes.keys())


@runtime_checkable
class Dialect(Protocol):
    """A convention for axes.

    It may have more members, which are tuples of names of attributes:

    - ``group_keys``: attributes of a group that describe the axes of an image, `keys` by default;
      another image in the group replaces them. Only arrays with one of `keys`, or with one of these
      around them, are read; all arrays if there are neither.
    - ``hidden_by``: attributes of the array or its group that are those of another dialect, unless
      the user chooses this one.
    - ``level_lists``: attributes of a group that show that it has levels.

    If its lists may be in either order, ``list_order`` is that of its writers: "C", "N5", or
    "format" for N5 order in N5 and C order elsewhere.
    """

    name: ClassVar[str]

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes with its metadata, which become coordinates."""

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the geometry of an array, or None if its attributes are of another dialect.

        Raises ``ValueError`` that names the attribute if they are of this one, but invalid.
        """

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attributes that describe `geometry`; raise ValueError if they cannot.

        `node` is the new array, without attributes.
        """


DialectChoice: TypeAlias = "str | Dialect | Sequence[str | Dialect]"
"""Dialects to read, by name or themselves, the most trusted first."""


@runtime_checkable
class PyramidDialect(Protocol):
    """A dialect that also describes pyramids on their group."""

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of the group around `levels`, the base level first."""
