"""User attributes to axes and back: the conventions that people describe geometry by.

A dialect reads a node and says what it understands, or None where the node speaks another
one. The table is in order of precedence: placement (scale, offset, unit) comes whole from the
first dialect that knows it, names from the first that names anything.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from xarray_n5.axes import Axis, Geometry
from xarray_n5.dialects.array_dimensions import ArrayDimensions
from xarray_n5.dialects.cosem import Cosem
from xarray_n5.dialects.n5_viewer import N5Viewer
from xarray_n5.dialects.neuroglancer import Neuroglancer
from xarray_n5.dialects.paintera import Paintera
from xarray_n5.dialects.tensorstore import TensorStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.metadata import Attributes

__all__ = ["DIALECTS", "Dialect", "Node", "geometry_of", "register_dialect", "write_geometry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a dialect may look at."""

    attributes: Attributes
    """The array's own attributes."""
    shape: tuple[int, ...]
    """The array's shape, in C order."""
    path: str = ""
    """The array's path in its container."""
    parents: tuple[Attributes, ...] = field(default=())
    """The attributes of the groups around it, the nearest first."""


class Dialect(Protocol):
    """A convention for axes."""

    name: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]

    def read(self, node: Node) -> Geometry | None:
        """Return the axes that a node describes, or None where it speaks another dialect.

        Raises ``ValueError`` naming the attribute when they speak this one, but wrongly.
        """

    def write(self, geometry: Geometry) -> dict[str, Any]:
        """Return the attributes that describe `geometry`; ValueError when they cannot."""


DIALECTS: dict[str, Dialect] = {
    Cosem.name: Cosem(),
    N5Viewer.name: N5Viewer(),
    TensorStore.name: TensorStore(),
    Neuroglancer.name: Neuroglancer(),
    Paintera.name: Paintera(),
    ArrayDimensions.name: ArrayDimensions(),
}


def register_dialect(dialect: Dialect) -> None:
    """Add a dialect to the table, behind those that are there.

    Parameters
    ----------
    dialect
        Anything with a ``name``, the attribute ``keys`` it owns, ``read`` and ``write``.

    Raises
    ------
    ValueError
        If the name is taken by another one.
    """
    known = DIALECTS.get(dialect.name)
    if known is not None and type(known) is not type(dialect):
        raise ValueError(f"the dialect {dialect.name!r} exists; choose another name")
    DIALECTS[dialect.name] = dialect


def geometry_of(node: Node, dialect: str | None = None) -> Geometry:
    """Return the geometry of an array, as far as its attributes tell; odd ones only warn.

    Parameters
    ----------
    node
        The array.
    dialect
        The only dialect to listen to; all by default.

    Raises
    ------
    ValueError
        If there is no such dialect.
    """
    said: list[tuple[str, Geometry]] = []
    for each in [_known(dialect)] if dialect else DIALECTS.values():
        try:
            heard = each.read(node)
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            warnings.warn(
                f"{node.path or '/'}: the attributes {list(each.keys)} are not understood as "
                f"{each.name} metadata and ignored: {error}",
                UserWarning,
                stacklevel=2,
            )
            continue
        if heard is not None and heard.ndim == len(node.shape):
            said.append((each.name, heard))
    named = next(((name, g) for name, g in said if g.named), None)
    placed = next(((name, g) for name, g in said if g.placed), None)
    return replace(_combine(len(node.shape), named, placed), spoken=tuple(name for name, _ in said))


def _combine(
    ndim: int, named: tuple[str, Geometry] | None, placed: tuple[str, Geometry] | None
) -> Geometry:
    axes = placed[1].axes if placed else named[1].axes if named else (Axis(),) * ndim
    sources = {} if placed is None else {"placement": placed[0]}
    if named is not None:
        axes = tuple(
            replace(axis, name=other.name) for axis, other in zip(axes, named[1].axes, strict=True)
        )
        sources["names"] = named[0]
    return Geometry(axes, sources)


def write_geometry(
    geometry: Geometry, dialect: str | Iterable[str] | None = None
) -> dict[str, Any]:
    """Return the attributes that describe `geometry`.

    By default those that TensorStore, Neuroglancer and Fiji read, and COSEM's beside them where
    there is an offset, which the others cannot say.

    Raises
    ------
    ValueError
        If a dialect that was asked for is unknown, or cannot say it.
    """
    if dialect is not None:
        attributes: dict[str, Any] = {}
        wanted = [dialect] if isinstance(dialect, str) else list(dialect)
        for name in wanted:
            attributes |= _known(name).write(geometry)
        again = geometry_of(Node(attributes=attributes, shape=(0,) * geometry.ndim))
        if [axis.offset for axis in again.axes] != [axis.offset for axis in geometry.axes]:
            raise ValueError(f"{' and '.join(wanted)} cannot tell offsets; add 'cosem'")
        return attributes
    attributes = TensorStore().write(geometry)
    if any(axis.offset for axis in geometry.axes):
        attributes |= Cosem().write(geometry)
    if any(axis.labels for axis in geometry.axes):
        texts = tuple(Axis(name=axis.name, labels=axis.labels) for axis in geometry.axes)
        attributes |= Neuroglancer().write(Geometry(texts))
    return attributes


def _known(name: str) -> Dialect:
    try:
        return DIALECTS[name]
    except KeyError:
        raise ValueError(f"unknown dialect {name!r}; known are {', '.join(DIALECTS)}") from None
