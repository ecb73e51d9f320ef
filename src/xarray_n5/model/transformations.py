"""Transformations of OME-Zarr 0.6, as values.

The way from JSON to a matrix, and back to JSON::

    # in xarray_n5.model.systems
    parse_system(json, where="") -> CoordinateSystem(name, axes)
    parse_reference(json, where="") -> Reference(name, path)

    # here
    parse_transformation(json, where="") -> Transformation
    Transformation.to_json() -> dict            # the syntax of 0.6, all numbers verbatim
    Transformation.between(input, output, name=None) -> Transformation
    Transformation.below(path) -> Transformation  # as an edge of a group around its own
    Transformation.reason -> str | None         # why it is not affine

    matrix(transformation, n_in, load=None) -> array of shape (n_out, n_in + 1)
    inverse(transformation, n_in, load=None) -> array of shape (n_in, n_out + 1)

A new transformation is parsed, too: ``parse_transformation({"type": "scale", "scale": [2, 2]})``.
All errors are :class:`MetadataError`, which is a ValueError. The graph of systems is in
:mod:`xarray_n5.model.system_graph`.

Transformations map points forward: parameters are in the order of the axes of the systems, and the
first step of a sequence is applied first. Source: the specification of version 0.6, "Coordinate
systems" and "Coordinate transformations".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from xarray_n5.errors import MetadataError, printable
from xarray_n5.model.paths import join, normalize_path
from xarray_n5.model.systems import MOST_AXES, Reference, invalid, parse_reference, path_inside

Loader: TypeAlias = Callable[[str], Any]
"""Opens the array at a path, relative to the group of the graph: an object with ``shape`` and
``dtype`` that NumPy can convert, such as :class:`xarray_n5.Array`. It is read only if it is small.
"""

MOST_PARTS = 4096
"""The maximum number of transformations in one."""


AFFINE = frozenset(
    {
        *("identity", "mapAxis", "translation", "scale", "affine", "rotation"),
        *("sequence", "byDimension", "projectAxis", "bijection"),
    }
)
"""The types with a matrix, if their parts have one."""

_SINGULAR = 1e14
"""The condition number from which a matrix counts as singular."""

_ENDS = ("input", "output")

_PROJECTED = ("droppedInputs", "createdOutputs")
"""The members of ``projectAxis``."""

_INVERTED = ("forward", "inverse")
"""The members of ``bijection``."""

_AXES = ("inputAxes", "outputAxes")
"""The members of parts of ``byDimension`` besides the transformation."""

_Span: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""The indices of input and output axes."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """A transformation from one coordinate system to another one, or a part of such."""

    type: str
    members: Mapping[str, Any] = field(default_factory=dict)
    """The members that are specific to its type, and those that are not known, verbatim."""
    parts: tuple[Transformation, ...] = ()
    """Those of ``sequence`` and ``byDimension``; ``forward`` and ``inverse`` of ``bijection``."""
    spans: tuple[_Span, ...] = ()
    """The indices of input and output axes of each part of ``byDimension``."""
    name: str | None = None
    input: Reference | None = None
    output: Reference | None = None
    base: str = ""
    """The path of its group, to which the paths of its arrays are relative."""

    def __str__(self) -> str:
        """Show its type or name, and the systems at both ends."""
        called = printable(f"{self.type} {self.name!r}" if self.name else self.type)
        if self.input is None or self.output is None:
            return called
        return f"{called} from {self.input} to {self.output}"

    @property
    def reason(self) -> str | None:
        """Why the transformation has no matrix, or None if it is affine."""
        if self.type not in AFFINE:
            fields = self.type in {"displacements", "coordinates"}
            return f"{self.type!r} is {'not affine' if fields else 'an unknown transformation'}"
        used = self.parts[:1] if self.type == "bijection" else self.parts
        return next((part.reason for part in used if part.reason), None)

    def between(self, start: Reference, end: Reference, name: str | None = None) -> Transformation:
        """Return the transformation as one from system to system."""
        return replace(self, input=start, output=end, name=name or self.name)

    def below(self, path: str) -> Transformation:
        """Return the transformation as seen from a group around its own, which is at a path."""
        return replace(
            self,
            input=self.input and self.input.below(path),
            output=self.output and self.output.below(path),
            parts=tuple(part.below(path) for part in self.parts),
            base=join(path, self.base),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the transformation in the syntax of version 0.6."""
        document: dict[str, Any] = {"type": self.type} | ({"name": self.name} if self.name else {})
        for key, reference in zip(_ENDS, (self.input, self.output), strict=True):
            document |= {} if reference is None else {key: reference.to_json()}
        document |= self.members
        parts = [part.to_json() for part in self.parts]
        if self.type == "bijection":
            document |= dict(zip(_INVERTED, parts, strict=True))
        elif self.type == "byDimension":
            document["transformations"] = [
                {"transformation": part, "inputAxes": [*into], "outputAxes": [*out]}
                for part, (into, out) in zip(parts, self.spans, strict=True)
            ]
        elif self.type == "sequence":
            document["transformations"] = parts
        return document


def parse_transformation(value: Any, where: str = "coordinateTransformations") -> Transformation:
    """Return a transformation from JSON.

    One of an unknown type is kept verbatim, and has a :attr:`Transformation.reason`.

    Parameters
    ----------
    value
        The object.
    where
        What it is, for errors.

    Raises
    ------
    MetadataError
        If its members are invalid, or there are too many transformations in it.
    """
    return _parse(value, where, iter(range(MOST_PARTS)))


def _parse(value: Any, where: str, budget: Iterator[int]) -> Transformation:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise invalid(where, "", value, "an object with a 'type'")
    kind, name = value["type"], value.get("name")
    if next(budget, None) is None:
        raise invalid(where, "", f"more at a {kind!r}", f"at most {MOST_PARTS} transformations")
    inside = f"{where}, {kind}"
    ends = [value.get(key) for key in _ENDS]
    start, end = (None if e is None else parse_reference(e, inside) for e in ends)
    members = {key: member for key, member in value.items() if key not in {"type", "name", *_ENDS}}
    if members.keys() & {*_AXES}:  # as in a draft
        raise invalid(
            where, "", f"{_AXES} of {kind!r}", "parts for some axes in 'byDimension' only"
        )
    parts, spans = _parts(members, kind, where)
    _check_members(members, kind, where)
    inner = tuple(_parse(part, inside, budget) for part in parts)
    name = name if isinstance(name, str) and name else None
    return Transformation(kind, members, inner, spans, name, start, end)


def _parts(members: dict[str, Any], kind: str, where: str) -> tuple[list[Any], tuple[_Span, ...]]:
    """Remove the transformations in one from its members, and return them."""
    if kind == "bijection":
        return [members.pop(key, None) for key in _INVERTED], ()
    if kind not in {"sequence", "byDimension"}:
        return [], ()
    parts = members.pop("transformations", None)
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise invalid(where, "transformations", parts, "a list of objects")
    if kind == "sequence":
        return parts, ()
    inputs, outputs = ([_indices(part.get(key), key, where) for part in parts] for key in _AXES)
    listed = [index for out in outputs for index in out]
    if sorted(listed) != [*range(len(listed))]:
        raise invalid(where, "outputAxes", listed, "each output axis exactly once")
    spans = tuple(zip(inputs, outputs, strict=True))
    return [part.get("transformation") for part in parts], spans


def _indices(value: Any, key: str, where: str) -> tuple[int, ...]:
    proper = isinstance(value, list) and all(type(index) is int for index in value)
    if not proper or len({*value}) < len(value) or not all(0 <= i < MOST_AXES for i in value):
        raise invalid(where, key, value, f"a list of unique indices below {MOST_AXES}")
    return tuple(value)


def _check_members(members: dict[str, Any], kind: str, where: str) -> None:
    """Raise unless the members of a type without parts are those that it needs."""
    value = members.get(kind)
    match kind:
        case "mapAxis":
            if sorted(indices := _indices(value, kind, where)) != [*range(len(indices))]:
                raise invalid(where, kind, value, "each axis exactly once")
        case "translation" | "scale":
            wanted = "non-zero numbers" if kind == "scale" else "finite numbers"
            if not _are_numbers(value, MOST_AXES) or (kind == "scale" and 0 in members[kind]):
                raise invalid(where, kind, value, f"a list of up to {MOST_AXES} {wanted}")
        case "affine" | "rotation":
            if value is None and isinstance(members.get("path"), str):
                path_inside(members["path"], where)
            else:
                _check_rows(value, kind, where)
        case "projectAxis":
            if not members.keys() & {*_PROJECTED}:
                raise invalid(where, kind, members, " or ".join(map(repr, _PROJECTED)))
            for key in _PROJECTED:
                _indices(members.get(key, []), key, where)


def _check_rows(value: Any, kind: str, where: str) -> None:
    rows = value if isinstance(value, list) and len(value) <= MOST_AXES else []
    if not rows or not all(_are_numbers(row, MOST_AXES + 1) for row in rows):
        wanted = "rows of finite numbers, or the 'path' of an array"
        raise invalid(where, kind, value, wanted)
    lengths = {len(row) for row in rows}
    if len(lengths) != 1 or (kind == "rotation" and lengths != {len(rows)}):
        raise invalid(where, kind, value, "a square matrix" if kind == "rotation" else "a matrix")


def _are_numbers(value: Any, most: int) -> bool:
    """Return whether a value is a list of finite numbers that is neither empty nor too long."""
    return isinstance(value, list) and 0 < len(value) <= most and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    try:
        return type(value) in {int, float} and math.isfinite(value)
    except OverflowError:
        return False


def matrix(transformation: Transformation, n_in: int, load: Loader | None = None) -> np.ndarray:
    """Return a transformation of points with `n_in` coordinates as an affine matrix.

    Returns
    -------
    numpy.ndarray
        ``n_out`` rows of ``n_in + 1`` numbers, the last column for the offset.

    Raises
    ------
    MetadataError
        If it is not affine, is for another number of axes, or its array cannot be loaded.

    Examples
    --------
    >>> matrix(parse_transformation({"type": "scale", "scale": [2, 0.5]}), 2)
    array([[2. , 0. , 0. ],
           [0. , 0.5, 0. ]])
    """
    if reason := transformation.reason:
        raise MetadataError(f"{transformation}: {reason}; only affine ones can be computed")
    with np.errstate(all="ignore"):
        rows = _rows(transformation, n_in, load)
    if not np.isfinite(rows).all():
        raise MetadataError(f"{transformation}: its numbers are too large")
    return rows


def inverse(transformation: Transformation, n_in: int, load: Loader | None = None) -> np.ndarray:
    """Return the matrix from the output of a transformation to its input with `n_in` axes.

    That of ``bijection`` is its ``inverse``.

    Raises
    ------
    MetadataError
        If it has no inverse: it is not affine, not square, or singular.
    """
    rows = matrix(transformation, n_in, load)
    if transformation.type == "bijection":
        return matrix(transformation.parts[1], len(rows), load)
    linear = rows[:, :-1]
    if linear.shape[0] != linear.shape[1]:
        raise MetadataError(f"{transformation}: no inverse from {len(rows)} to {n_in} axes")
    with np.errstate(all="ignore"):
        back = np.linalg.inv(linear) if np.linalg.cond(linear) <= _SINGULAR else linear * np.nan
        whole = np.concatenate([back, -back @ rows[:, -1:]], axis=1)
    if not np.isfinite(whole).all():
        raise MetadataError(f"{transformation}: no inverse, its matrix is singular")
    return whole


def compose(first: np.ndarray, then: np.ndarray) -> np.ndarray:
    """Return the matrix that applies one matrix after another one.

    Raises
    ------
    MetadataError
        If the second matrix is for another number of axes, or the numbers are too large.
    """
    if then.shape[1] != len(first) + 1:
        raise MetadataError(
            f"a transformation to {len(first)} axes precedes one from {then.shape[1] - 1} axes"
        )
    with np.errstate(all="ignore"):
        rows: np.ndarray = then[:, :-1] @ first
        rows[:, -1] += then[:, -1]
    if not np.isfinite(rows).all():
        raise MetadataError("the numbers of several transformations are too large")
    return rows


def _rows(one: Transformation, n_in: int, load: Loader | None) -> np.ndarray:
    match one.type:
        case "identity":
            return np.eye(n_in, n_in + 1)
        case "bijection":
            return matrix(one.parts[0], n_in, load)
        case "sequence":
            rows = np.eye(n_in, n_in + 1)
            for part in one.parts:
                rows = compose(rows, matrix(part, len(rows), load))
            return rows
        case "byDimension":
            return _by_dimension(one, n_in, load)
        case "projectAxis":
            return _project_axis(one, n_in)
    rows = _stated(one, load)
    if rows.shape[1] != n_in + 1:
        raise MetadataError(f"{one}: is for {rows.shape[1] - 1} axes, expected {n_in}")
    return rows


def _stated(one: Transformation, load: Loader | None) -> np.ndarray:
    """Return the matrix of the numbers in a transformation, or in its array."""
    numbers = one.members[one.type] if one.type in one.members else _loaded(one, load)
    count = len(numbers)
    if one.type == "mapAxis":
        return np.eye(count, count + 1).take(numbers, axis=0)
    values = np.asarray(numbers, np.float64)
    match one.type:
        case "translation":
            return np.column_stack([np.eye(count), values])
        case "scale":
            return np.diag(values) @ np.eye(count, count + 1)
        case "rotation" if values.shape != (count, count):
            raise MetadataError(f"{one}: has the shape {values.shape}, expected a square matrix")
        case "rotation":
            return np.pad(values, ((0, 0), (0, 1)))
    return values


def _loaded(one: Transformation, load: Loader | None) -> np.ndarray:
    path = join(one.base, normalize_path(one.members["path"]))
    if load is None:
        raise MetadataError(f"{one}: its numbers are in the array {path!r}, which is not read here")
    array = load(path)
    shape = tuple(array.shape)
    small = len(shape) == len(("row", "column")) and all(0 < n <= MOST_AXES + 1 for n in shape)
    if not small or np.dtype(array.dtype).kind not in "iuf":
        raise MetadataError(
            f"{one}: the array {path!r} has the shape {shape} of {array.dtype}; expected a matrix "
            f"of numbers for up to {MOST_AXES} axes"
        )
    return np.asarray(array)


def _by_dimension(one: Transformation, n_in: int, load: Loader | None) -> np.ndarray:
    rows = np.zeros((sum(len(out) for _, out in one.spans), n_in + 1))
    for part, (into, out) in zip(one.parts, one.spans, strict=True):
        inner = matrix(part, len(into), load)
        if len(inner) != len(out) or any(index >= n_in for index in into):
            raise MetadataError(
                f"{one}: its {part} is from axes {[*into]} to {[*out]}; expected {len(inner)} "
                f"output axes, and input axes below {n_in}"
            )
        rows[np.ix_(out, into)] = inner[:, :-1]
        rows[[*out], -1] = inner[:, -1]
    return rows


def _project_axis(one: Transformation, n_in: int) -> np.ndarray:
    dropped, created = ({*one.members.get(key, ())} for key in _PROJECTED)
    kept = [index for index in range(n_in) if index not in dropped]
    n_out = len(kept) + len(created)
    if max(dropped, default=0) >= n_in or max(created, default=0) >= n_out:
        raise MetadataError(
            f"{one}: drops {sorted(dropped)} of {n_in} axes and creates {sorted(created)} of "
            f"{n_out}"
        )
    rows = np.zeros((n_out, n_in + 1))
    rows[[index for index in range(n_out) if index not in created], kept] = 1
    return rows
