"""Coordinate systems of OME-Zarr 0.6: named lists of axes, and references to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xarray_n5.errors import MetadataError, PathError
from xarray_n5.model.paths import join, normalize_path

MOST_AXES = 32
"""The maximum number of axes of a system."""


@dataclass(frozen=True, slots=True)
class SystemAxis:
    """An axis of a coordinate system."""

    name: str
    type: str | None = None
    unit: str | None = None
    discrete: bool | None = None
    long_name: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the axis as JSON."""
        values = (self.name, self.type, self.unit, self.discrete, self.long_name)
        keys = ("name", "type", "unit", "discrete", "longName")
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}


@dataclass(frozen=True, slots=True)
class CoordinateSystem:
    """A coordinate system: a name, and axes in their listed order."""

    name: str
    axes: tuple[SystemAxis, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the system as JSON."""
        return {"name": self.name, "axes": [axis.to_json() for axis in self.axes]}


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a system by its name, in the group at a path; no name for a dataset."""

    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        """Show the name after the path."""
        return repr("/".join(filter(None, (self.path, self.name))))

    def below(self, path: str) -> Reference:
        """Return the same reference in a group around its own, which is at a path."""
        return replace(self, path=join(path, self.path))

    def to_json(self) -> dict[str, str]:
        """Return the reference as JSON."""
        path = {"path": self.path} if self.path else {}
        return path | ({"name": self.name} if self.name else {})


def parse_system(value: Any, where: str = "coordinateSystems") -> CoordinateSystem:
    """Return a coordinate system from JSON.

    Raises
    ------
    MetadataError
        If its name, or its axes and their names, are invalid.
    """
    match value:
        case {"name": str(name), "axes": [_, *_] as listed} if len(listed) <= MOST_AXES:
            axes = tuple(_axis(axis, f"{where}, axes of {name!r}") for axis in listed)
        case _:
            raise invalid(where, "", value, f"a 'name' and 1 to {MOST_AXES} 'axes'")
    if len({axis.name for axis in axes}) != len(axes):
        raise invalid(where, "axes", [axis.name for axis in axes], "unique names")
    return CoordinateSystem(name, axes)


def _axis(value: Any, where: str) -> SystemAxis:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise invalid(where, "", value, "objects with a 'name'")
    texts = [value.get(key) for key in ("type", "unit", "longName")]
    kind, unit, long_name = (text if isinstance(text, str) else None for text in texts)
    discrete = value.get("discrete")
    return SystemAxis(
        value["name"], kind, unit, discrete if isinstance(discrete, bool) else None, long_name
    )


def parse_reference(value: Any, where: str = "") -> Reference:
    """Return a reference from JSON: an object, or the name alone, as in drafts of version 0.6.

    Raises
    ------
    MetadataError
        If it is neither, or its path leaves its group.
    """
    if isinstance(value, str):
        return Reference(value)
    name, path = (value.get("name"), value.get("path")) if isinstance(value, dict) else (0, 0)
    if not isinstance(name, str | None) or not isinstance(path, str | None) or not (name or path):
        raise invalid(where, "", value, "an object with a 'name', a 'path', or both")
    return Reference(name or "", "" if path is None else path_inside(path, where))


def path_inside(path: str, where: str) -> str:
    """Return a normalised path below a group; raise if it leads elsewhere."""
    wanted = "a relative path below its group"
    if path.startswith("/") or ".." in path.split("/"):
        raise invalid(where, "path", path, wanted)
    try:
        return normalize_path(path)
    except PathError as error:
        raise invalid(where, "path", path, f"{wanted} ({error})") from error


def invalid(where: str, key: str, value: object, expected: str) -> MetadataError:
    """Return an error that names a member, what it is, and what is expected."""
    prefix = f"{where}: " if where else ""
    what = f"{key!r} is {value!r}" if key else f"got {value!r}"
    return MetadataError(f"{prefix}{what}; expected {expected}")
