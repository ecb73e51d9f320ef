"""Transformations of OME-Zarr 0.6, as values.

The way from JSON to a matrix, and back to JSON::

    # in xarray_n5.model.systems
    parse_system(json, where="") -> CoordinateSystem(name, axes)
    parse_reference(json, where="") -> Reference(name, path)

    # here
    parse_transformation(json, where="", *, axes=None) -> Transformation
    Transformation.to_json() -> dict            # the syntax of 0.6, all numbers verbatim
    Transformation.between(input, output, name=None) -> Transformation
    Transformation.below(path) -> Transformation  # as an edge of a group around its own
    Transformation.reason -> str | None         # why it is not affine

    # in xarray_n5.model.matrices
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from xarray_n5.errors import printable
from xarray_n5.model.paths import join
from xarray_n5.model.systems import MOST_AXES, Reference, invalid, parse_reference, path_inside

MOST_DEPTH = 16
"""The maximum depth of nested transformations."""

MOST_PARTS = 4096
"""The maximum number of transformations in one."""


AFFINE = frozenset(
    {
        *("identity", "mapAxis", "translation", "scale", "affine", "rotation"),
        *("sequence", "byDimension", "projectAxis", "bijection"),
    }
)
"""The types with a matrix, if their parts have one."""

PROJECTED = ("droppedInputs", "createdOutputs")
"""The members of ``projectAxis``."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """A transformation from one coordinate system to another one, or a part of such."""

    type: str
    members: Mapping[str, Any] = field(default_factory=dict)
    """The members that are specific to its type, and those that are not known, verbatim."""
    parts: tuple[Transformation, ...] = ()
    """Those of ``sequence`` and ``byDimension``; ``forward`` and ``inverse`` of ``bijection``."""
    spans: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
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
        if self.type == "sequence" and "transformations" in self.members:
            return "'sequence' has steps for some axes only, as in a draft of version 0.6"
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
        found: dict[str, Any] = {"type": self.type, **({"name": self.name} if self.name else {})}
        for key, reference in (("input", self.input), ("output", self.output)):
            found |= {} if reference is None else {key: reference.to_json()}
        found |= self.members
        parts = [part.to_json() for part in self.parts]
        if self.type == "bijection":
            found |= dict(zip(("forward", "inverse"), parts, strict=True))
        elif self.type == "byDimension":
            found["transformations"] = [
                {"transformation": part, "inputAxes": [*into], "outputAxes": [*out]}
                for part, (into, out) in zip(parts, self.spans, strict=True)
            ]
        elif self.type == "sequence" and "transformations" not in self.members:
            found["transformations"] = parts
        return found


def parse_transformation(
    value: Any,
    where: str = "coordinateTransformations",
    *,
    axes: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Transformation:
    """Return a transformation from JSON.

    One of an unknown type is kept verbatim, and has a :attr:`Transformation.reason`.

    Parameters
    ----------
    value
        The object.
    where
        What it is, for errors.
    axes
        The names of the axes of its input and output, for ``byDimension`` of drafts of version 0.6,
        which name axes.

    Raises
    ------
    MetadataError
        If its members are invalid, or it is nested too deep, or too large.
    """
    return _parse(value, where, axes, MOST_DEPTH, iter(range(MOST_PARTS)))


def _parse(
    value: Any, where: str, axes: _Names | None, depth: int, budget: Iterator[int]
) -> Transformation:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise invalid(where, "", value, "an object with a 'type'")
    kind, name = value["type"], value.get("name")
    if depth == 0 or next(budget, None) is None:
        most = f"at most {MOST_DEPTH} levels and {MOST_PARTS} parts of transformations"
        raise invalid(where, "", f"more at a {kind!r}", most)
    ends = [value.get(key) for key in _ENDS]
    start, end = (None if e is None else parse_reference(e, f"{where}, {kind}") for e in ends)
    own = {key: each for key, each in value.items() if key not in {"type", "name", *_ENDS}}
    parts, spans = _parts(own, kind, axes, where)
    if kind in _CHECKS:
        _CHECKS[kind](own, kind, where)
    inner = (_parse(part, f"{where}, {kind}", None, depth - 1, budget) for part in parts)
    name = name if isinstance(name, str) and name else None
    return Transformation(kind, own, tuple(inner), spans, name, start, end)


_ENDS = ("input", "output")

_Names: TypeAlias = tuple[Sequence[str], Sequence[str]]

_Spans: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def _parts(
    own: dict[str, Any], kind: str, axes: _Names | None, where: str
) -> tuple[list[Any], _Spans]:
    """Remove the transformations in one from its members, and return them."""
    if kind == "bijection":
        return [own.pop(key, None) for key in ("forward", "inverse")], ()
    if kind not in {"sequence", "byDimension"}:
        return [], ()
    parts = own.get("transformations")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise invalid(where, "transformations", parts, "a list of objects")
    if kind == "sequence":
        # A draft had parts for some of the axes; these are kept verbatim.
        return ([], ()) if any("inputAxes" in part for part in parts) else (_taken(own), ())
    spans = tuple(_span(part, axes, where) for part in _taken(own))
    for end, indices in enumerate(zip(*spans, strict=True)):
        listed = [index for each in indices for index in each]
        if end == 1 and sorted(listed) != [*range(len(listed))]:
            raise invalid(where, "outputAxes", listed, "each output axis exactly once")
    # In drafts, the axes were members of the transformation.
    inner = [
        part["transformation"]
        if "transformation" in part
        else {key: each for key, each in part.items() if key not in _AXES}
        for part in parts
    ]
    return inner, spans


_AXES = ("inputAxes", "outputAxes", "input_axes", "output_axes")


def _taken(own: dict[str, Any]) -> list[Any]:
    taken: list[Any] = own.pop("transformations")
    return taken


def _span(part: dict[str, Any], axes: _Names | None, where: str) -> Any:
    """Return the indices of the input and output axes of a part of ``byDimension``."""
    spans = []
    for end, (key, draft) in enumerate(zip(_AXES[:2], _AXES[2:], strict=True)):
        listed = part.get(key, part.get(draft))
        if axes is not None and isinstance(listed, list):
            names = [*axes[end]]
            listed = [names.index(each) if each in names else each for each in listed]
        spans.append(_indices(listed, key, where))
    return tuple(spans)


def _indices(value: Any, key: str, where: str) -> tuple[int, ...]:
    proper = isinstance(value, list) and all(type(each) is int for each in value)
    if not proper or len({*value}) < len(value) or not all(0 <= i < MOST_AXES for i in value):
        raise invalid(where, key, value, f"a list of unique indices below {MOST_AXES}")
    return tuple(value)


def _is_number(value: Any) -> bool:
    try:
        return type(value) in {int, float} and math.isfinite(value)
    except OverflowError:
        return False


def _check_numbers(own: dict[str, Any], kind: str, where: str) -> None:
    value, wanted = own.get(kind), "non-zero numbers" if kind == "scale" else "finite numbers"
    proper = isinstance(value, list) and 0 < len(value) <= MOST_AXES
    if not proper or not all(_is_number(e) and (e != 0 or kind != "scale") for e in value):  # type: ignore[union-attr]
        raise invalid(where, kind, value, f"a list of up to {MOST_AXES} {wanted}")


def _check_permutation(own: dict[str, Any], kind: str, where: str) -> None:
    if sorted(indices := _indices(own.get(kind), kind, where)) != [*range(len(indices))]:
        raise invalid(where, kind, own[kind], "each axis exactly once")


def _check_rows(own: dict[str, Any], kind: str, where: str) -> None:
    if kind not in own and isinstance(own.get("path"), str):
        path_inside(own["path"], where)
        return
    rows = own.get(kind)
    proper = isinstance(rows, list) and 0 < len(rows) <= MOST_AXES
    if not proper or not all(
        isinstance(row, list) and 0 < len(row) <= MOST_AXES + 1 and all(map(_is_number, row))
        for row in rows  # type: ignore[union-attr]
    ):
        raise invalid(where, kind, rows, "rows of finite numbers, or the 'path' of an array")
    if len({len(row) for row in rows}) != 1 or (kind == "rotation" and len(rows[0]) != len(rows)):  # type: ignore[union-attr,index,arg-type]
        square = " square" if kind == "rotation" else ""
        raise invalid(where, kind, rows, f"a{square} matrix")


def _check_projection(own: dict[str, Any], kind: str, where: str) -> None:
    if not own.keys() & {*PROJECTED}:
        raise invalid(where, kind, own, f"{' or '.join(map(repr, PROJECTED))}")
    for key in PROJECTED:
        _indices(own.get(key, []), key, where)


_CHECKS: Mapping[str, Callable[[dict[str, Any], str, str], None]] = MappingProxyType(
    {
        "mapAxis": _check_permutation,
        "translation": _check_numbers,
        "scale": _check_numbers,
        "affine": _check_rows,
        "rotation": _check_rows,
        "projectAxis": _check_projection,
    }
)
"""What checks the members of each type without parts."""
