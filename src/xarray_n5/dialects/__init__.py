"""Dialects: conventions by which attributes describe axes.

A dialect reads the geometry of an array, or returns None if its attributes belong to another
dialect. The table is in order of precedence: scale, offset and unit come together from the first
dialect that has them, names from the first that has any.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.dialects.array_dimensions import ArrayDimensions
from xarray_n5.dialects.bdv import Bdv
from xarray_n5.dialects.bigstitcher import BigStitcher
from xarray_n5.dialects.canonical import Canonical
from xarray_n5.dialects.cosem import Cosem
from xarray_n5.dialects.dimension_labels import DimensionLabels
from xarray_n5.dialects.funlib import Funlib
from xarray_n5.dialects.imagej import ImageJ
from xarray_n5.dialects.list_order import context_for
from xarray_n5.dialects.n5_viewer import N5Viewer
from xarray_n5.dialects.neuroglancer import Neuroglancer
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.dialects.paintera import Paintera
from xarray_n5.dialects.precedence import combine
from xarray_n5.dialects.protocol import ArrayContext, Dialect, DialectChoice, PyramidDialect
from xarray_n5.dialects.tensorstore import TensorStore
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.keywords import suggest_keywords

if TYPE_CHECKING:
    from xarray_n5.model.axes import Geometry

__all__ = [
    "DIALECTS",
    "ArrayContext",
    "Dialect",
    "DialectChoice",
    "Funlib",
    "PyramidDialect",
    "find_dialects",
    "geometry_of",
    "register_dialect",
    "resolve_geometry",
]


DIALECTS: dict[str, Dialect] = {
    Cosem.name: Cosem(),
    Ngff.name: Ngff(),
    Bdv.name: Bdv(),
    BigStitcher.name: BigStitcher(),
    N5Viewer.name: N5Viewer(),
    Canonical.name: Canonical(),
    Funlib.name: Funlib(),
    TensorStore.name: TensorStore(),
    Neuroglancer.name: Neuroglancer(),
    Paintera.name: Paintera(),
    ImageJ.name: ImageJ(),
    ArrayDimensions.name: ArrayDimensions(),
    DimensionLabels.name: DimensionLabels(),
}


@suggest_keywords
def register_dialect(dialect: Dialect) -> None:
    """Register a metadata dialect, as the last one, or instead of a registered one of its type.

    Parameters
    ----------
    dialect : Dialect
        An object with a ``name``, the ``keys`` of its attributes, and the methods ``read`` and
        ``write``.

    Raises
    ------
    ValueError
        If a dialect of another type has its name.

    Examples
    --------
    Axes whose names funlib.persistence stores under another key:

    >>> from xarray_n5.dialects import Funlib
    >>> xarray_n5.register_dialect(Funlib(axis_names_attr="dims"))
    """
    known = DIALECTS.get(dialect.name)
    if known is not None and type(known) is not type(dialect):
        raise ValueError(
            f"a dialect named {dialect.name!r} is already registered; choose another name"
        )
    DIALECTS[dialect.name] = dialect


def geometry_of(node: ArrayContext, dialect: DialectChoice | None = None) -> Geometry:
    """Return the geometry that an array's attributes describe; invalid ones only warn.

    Parameters
    ----------
    node
        The array.
    dialect
        The dialects to read, by name or themselves, the most trusted first; by default all in
        the order of the table.

    Raises
    ------
    ValueError
        If a dialect is unknown.
    """
    geometry, complaints = resolve_geometry(node, dialect)
    for text in complaints:
        warn(f"{node.path or '/'}: {text}")
    return geometry


def resolve_geometry(
    node: ArrayContext, dialect: DialectChoice | None = None
) -> tuple[Geometry, list[str]]:
    """Return the geometry of an array, and messages about invalid attributes."""
    readings: list[tuple[str, Geometry]] = []
    invalid: list[str] = []
    node = node.without_users_own().without_units_of_values()
    keys: list[str] = []
    dialects = list(DIALECTS.values()) if dialect is None else find_dialects(dialect)
    ordered = node.attribute_order != "auto"
    for known in dialects:
        try:
            geometry = known.read(context_for(known, node) if ordered else node)
        except ODD as error:
            named = any(repr(key) in str(error) for key in known.keys) or not known.keys
            which = "" if named else f" ({', '.join(known.keys)})"
            invalid.append(f"{known.name} metadata{which} are ignored: {error}")
            continue
        if geometry is not None and geometry.ndim == len(node.shape):
            readings.append((known.name, geometry))
            keys += known.keys
    if dialect is not None and not readings:
        invalid.append(f"no {' or '.join(k.name for k in dialects)} metadata describe its axes")
    geometry, disagreements = combine(readings, len(node.shape))
    return replace(geometry, keys=frozenset(keys)), invalid + disagreements


def find_dialects(choice: DialectChoice) -> list[Dialect]:
    """Return dialects by their names; dialects themselves are returned as they are."""
    listed = [choice] if isinstance(choice, str | Dialect) else list(choice)
    if not listed:
        raise ValueError(f"dialect is empty; expected some of {', '.join(DIALECTS)}")
    return [_known(item) for item in listed]


def _known(item: str | Dialect) -> Dialect:
    if isinstance(item, Dialect) and not isinstance(item, type):
        return item
    try:
        return DIALECTS[str(item)]
    except KeyError:
        raise ValueError(
            f"unknown dialect {item!r}; expected one of {', '.join(DIALECTS)}"
        ) from None
