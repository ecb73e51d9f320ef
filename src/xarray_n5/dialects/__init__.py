"""Dialects: conventions by which attributes describe axes.

A dialect reads the geometry of an array, or returns None if its attributes belong to another
dialect. The table is in order of precedence: scale, offset and unit come together from the first
dialect that has them, names from the first that has any.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.dialects.axis_lists import (
    ArrayDimensions,
    DimensionLabels,
    Funlib,
    Neuroglancer,
    TensorStore,
)
from xarray_n5.dialects.bdv import Bdv, BigStitcher
from xarray_n5.dialects.imagej import ImageJ
from xarray_n5.dialects.lists import in_c_order
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.dialects.ngff_systems import SCENE, VERSION
from xarray_n5.dialects.protocol import (
    ArrayContext,
    Dialect,
    DialectChoice,
    PyramidDialect,
    combine,
)
from xarray_n5.dialects.resolutions import N5Viewer, Paintera
from xarray_n5.dialects.transforms import Canonical, Cosem
from xarray_n5.model.alerts import ODD, warn

if TYPE_CHECKING:
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes

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


_VERSIONS: dict[str, Dialect] = {SCENE: Ngff(VERSION)}
"""Dialects by the names that choose the version that they write."""


def all_keys() -> frozenset[str]:
    """Return the attributes that any dialect may read."""
    return array_keys() | group_keys() | level_lists()


def array_keys() -> frozenset[str]:
    """Return the attributes by which any dialect describes an array."""
    return frozenset(key for dialect in DIALECTS.values() for key in dialect.keys)


def group_keys() -> frozenset[str]:
    """Return the attributes by which any dialect describes an image on its group."""
    return frozenset(key for dialect in DIALECTS.values() for key in _keys_of_group(dialect))


def level_lists() -> frozenset[str]:
    """Return the attributes of a group by which any dialect shows that it has levels."""
    return frozenset(key for d in DIALECTS.values() for key in getattr(d, "level_lists", ()))


def _keys_of_group(dialect: Dialect) -> tuple[str, ...]:
    return getattr(dialect, "group_keys", dialect.keys)


def register_dialect(dialect: Dialect) -> None:
    """Register a metadata dialect, as the last one, or instead of a registered one of its type.

    Parameters
    ----------
    dialect : Dialect
        An object with a ``name``, the ``keys`` of its attributes, and the methods ``read`` and
        ``write``.

    Raises
    ------
    TypeError
        If it is not such an object.
    ValueError
        If a dialect of another type has its name.

    Examples
    --------
    Axes whose names funlib.persistence stores under another key:

    >>> from xarray_n5.dialects import Funlib
    >>> xarray_n5.register_dialect(Funlib(axis_names_attr="dims"))
    """
    if isinstance(dialect, type) or not isinstance(dialect, Dialect):
        raise TypeError(f"expected an object with name, keys, read and write, got {dialect!r}")
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
    if dialect is None and "offset" not in geometry.sources:
        complaints += _ignored_offset(node, geometry.dialects)
    for text in complaints:
        warn(f"{node.path or '/'}: {text}")
    return geometry


def resolve_geometry(
    node: ArrayContext, dialect: DialectChoice | None = None
) -> tuple[Geometry, list[str]]:
    """Return the geometry of an array, and messages about invalid attributes."""
    readings: list[tuple[str, Geometry]] = []
    invalid: list[str] = []
    node = node.without_users_own()
    keys: list[str] = []
    dialects = list(DIALECTS.values()) if dialect is None else find_dialects(dialect)
    for known in dialects:
        if not is_shown(known, node, chosen=dialect is not None):
            continue
        try:
            geometry = read(known, node)
        except ODD as error:
            named = any(repr(key) in str(error) for key in known.keys) or not known.keys
            which = "" if named else f" ({', '.join(known.keys)})"
            invalid.append(f"{known.name} metadata{which} are ignored: {error}")
            continue
        if geometry is None:
            continue
        if (count := getattr(geometry, "ndim", geometry)) != len(node.shape):
            invalid.append(
                f"{known.name} metadata are ignored: they describe {count!r} axes, the array has "
                f"{len(node.shape)}"
            )
            continue
        readings.append((known.name, geometry))
        keys += known.keys
    if dialect is not None and not readings:
        invalid.append(f"no {' or '.join(k.name for k in dialects)} metadata describe its axes")
    names = tuple(name for name, _ in readings)
    read_by = [known for known in dialects if known.name in names]
    completed = {name for known in read_by for name in getattr(known, "completes", ())}
    geometry, disagreements = combine(
        [reading for reading in readings if reading[0] not in completed], len(node.shape)
    )
    return replace(geometry, keys=frozenset(keys), dialects=names), invalid + disagreements


def is_shown(dialect: Dialect, node: ArrayContext, *, chosen: bool = False) -> bool:
    """Return whether an array has attributes that may be those of a dialect."""
    near = node.attributes.keys() | set().union(*node.parents[:1])
    if not chosen and not near.isdisjoint(getattr(dialect, "hidden_by", ())):
        return False
    others = [*node.parents, *([] if node.base is None else [node.base.attributes])]
    # In HDF5, members of an object may be attributes of their own.
    around = {key.partition("/")[0] for attributes in others for key in attributes}
    if node.view is None and getattr(dialect, "views_only", False):
        return False
    of_array, of_group = dialect.keys, _keys_of_group(dialect)
    is_own = not node.attributes.keys().isdisjoint(of_array)
    return is_own or not (of_array or of_group) or not around.isdisjoint(of_group)


def read(dialect: Dialect, node: ArrayContext) -> Geometry | None:
    """Return what a dialect reads, from lists in the order that the user states.

    Files do not show the order of most lists: z5py, for example, stores lists as scripts pass
    them. Dialects without ``list_order`` find out themselves.
    """
    expected = getattr(dialect, "list_order", node.attribute_order)
    if expected == "format":
        expected = "N5" if node.lists_x_first else "C"
    is_read = node.attribute_order in {"auto", expected}
    return dialect.read(node if is_read else _reversed_context(node))


def _reversed_context(node: ArrayContext) -> ArrayContext:
    return replace(
        node,
        attributes=_reversed_attributes(node.attributes),
        parents=tuple(map(_reversed_attributes, node.parents)),
        base=None if node.base is None else _reversed_context(node.base),
    )


def _reversed_attributes(attributes: Attributes) -> dict[str, Any]:
    matrix = "affineTransform"
    return {
        key: _reversed_matrix(value) if key == matrix else _reversed(value)
        for key, value in attributes.items()
    }


def _reversed(value: Any) -> Any:
    """Return a list of axes reversed, each of a list of lists, or the one in a resolution."""
    match value:
        case {"dimensions": list(steps)}:
            return {**value, "dimensions": steps[::-1]}
        case [list(), *_] if all(isinstance(item, list) for item in value):
            return [item[::-1] for item in value]
        case list() if not any(isinstance(item, dict) for item in value):
            return value[::-1]
    return value


def _reversed_matrix(value: Any) -> Any:
    """Return the numbers of a matrix for the reverse order of axes; invalid ones unchanged."""
    try:
        numbers = np.array(value, dtype=np.float64)
        ndim = round(((1 + 4 * numbers.size) ** 0.5 - 1) / 2)
        return [number for row in in_c_order(numbers.reshape(ndim, ndim + 1)) for number in row]
    except (TypeError, ValueError, OverflowError):
        return value


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
        return _VERSIONS.get(str(item)) or DIALECTS[str(item)]
    except KeyError:
        raise ValueError(
            f"unknown dialect {item!r}; expected one of {', '.join({**DIALECTS, **_VERSIONS})}"
        ) from None


def _ignored_offset(node: ArrayContext, names: tuple[str, ...]) -> list[str]:
    """Return a message if ``axes`` or ``units`` are why an offset is not one of Paintera's."""
    around = node.attributes.keys() | set().union(*node.parents[:1])
    with suppress(*ODD):
        geometry = read(Paintera(), node) if {"resolution", "offset"} <= around else None
        if geometry and Paintera.name not in names and any(a.base[1] for a in geometry.axes):
            both = [Paintera.name, *names]
            ignored = f"{geometry.sources['offset']!r} is ignored next to 'axes' or 'units'"
            return [f"{' and '.join(both)} metadata disagree: {ignored} (dialect={both!r} uses it)"]
    return []
