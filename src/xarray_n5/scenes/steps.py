"""Ways between systems as transformations that others can write again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.model.transformations import parse_transformation

if TYPE_CHECKING:
    from xarray_n5.model.system_graph import Route
    from xarray_n5.model.transformations import Transformation


def steps_of(route: Route) -> tuple[Transformation, ...]:
    """Return the steps of a way: the parts of sequences, or all of it as one matrix.

    Transformations that are inverted, or whose matrix is stored as an array, are not copied.
    """
    found: list[Transformation] = []
    for edge, back in route.steps:
        parts = edge.parts if edge.type == "sequence" else (edge,)
        if back or any("path" in part.members for part in parts):
            rows = {"type": "affine", "affine": route.matrix.tolist()}
            return (parse_transformation(rows),)
        found += parts
    return tuple(found)
