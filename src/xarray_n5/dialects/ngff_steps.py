"""The transformations of a level of OME-NGFF, without numbers that are invalid."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects.ngff_systems import has_systems, level_rows
from xarray_n5.dialects.values import as_number, matrix
from xarray_n5.model.alerts import ODD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

_NEUTRAL: Mapping[str, float] = MappingProxyType({"scale": 1.0, "translation": 0.0})
"""The numbers that replace invalid ones, by type of transform."""


@dataclass(frozen=True, slots=True)
class ValidSteps:
    """A list of transforms without their invalid numbers."""

    transforms: list[Any]
    """The transforms; numbers of invalid axes are neutral, lists of another length are omitted."""
    invalid: frozenset[int]
    """The axes with an invalid number."""
    problems: tuple[str, ...]
    """A message for each invalid number or list."""
    unscaled: bool = False
    """Whether distances between samples are unknown, since a scale is omitted."""


def valid_steps(transforms: object, names: Sequence[str]) -> ValidSteps:
    """Return a list of transforms without the scales and translations that are invalid.

    >>> valid_steps([{"type": "scale", "scale": [0, 0.5]}], ["t", "x"]).problems
    ("the scale of axis 't' is 0",)
    """
    if not isinstance(transforms, list):
        problem = f"the transforms are {transforms!r}, expected a list"
        return ValidSteps([], frozenset(), (problem,), unscaled=True)
    steps = [_valid_step(each, names) for each in transforms]
    return ValidSteps(
        [each for step in steps for each in step.transforms],
        frozenset().union(*(step.invalid for step in steps)),
        tuple(problem for step in steps for problem in step.problems),
        any(step.unscaled for step in steps),
    )


def _valid_step(step: Any, names: Sequence[str]) -> ValidSteps:
    kind = step.get("type") if isinstance(step, dict) else None
    if kind == "sequence":
        inner = valid_steps(step.get("transformations"), names)
        return replace(inner, transforms=[{**step, "transformations": inner.transforms}])
    if kind not in ("scale", "translation"):
        return ValidSteps([step], frozenset(), ())
    values = step.get(kind)
    if not isinstance(values, list) or len(values) != len(names):
        count = len(values) if isinstance(values, list) else "no"
        problem = f"the {kind} {values!r} is for {count} axes, expected {len(names)}"
        return ValidSteps([], frozenset(), (problem,), unscaled=kind == "scale")
    read = [as_number(value) for value in values]
    wrong = [not math.isfinite(n) or (kind == "scale" and n == 0) for n in read]
    return ValidSteps(
        [{**step, kind: [_NEUTRAL[kind] if w else n for w, n in zip(wrong, read, strict=True)]}],
        frozenset(axis for axis, w in enumerate(wrong) if w),
        tuple(
            f"the {kind} of axis {name!r} is {value!r}"
            for name, value, w in zip(names, values, wrong, strict=True)
            if w
        ),
    )


def level_matrix(
    image: dict[str, Any], entry: dict[str, Any], names: Sequence[str]
) -> tuple[np.ndarray | None, frozenset[int], tuple[str, ...]]:
    """Return the matrix of a level or None, its axes with invalid numbers, and messages."""
    steps = valid_steps(entry.get("coordinateTransformations"), names)
    every = None if has_systems(image) else image.get("coordinateTransformations")
    of_all = valid_steps(every or [], names)
    invalid, problems = steps.invalid | of_all.invalid, steps.problems + of_all.problems
    if steps.unscaled:
        return None, invalid, problems
    try:
        if has_systems(image):
            known = {**entry, "coordinateTransformations": steps.transforms}
            return level_rows(known, len(names)), invalid, problems
        return matrix([*steps.transforms, *of_all.transforms], len(names)), invalid, problems
    except ODD as error:
        return None, invalid, (*problems, str(error))
