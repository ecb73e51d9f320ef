"""Ways between systems as transformations that others can write again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.model.transformations import parse_transformation

if TYPE_CHECKING:
    from xarray_n5.model.system_graph import Routes
    from xarray_n5.model.systems import Reference
    from xarray_n5.model.transformations import Transformation

_MOST = 64
"""The maximum number of transformations of a way that are copied."""


def steps_of(routes: Routes, start: Reference) -> tuple[Transformation, ...]:
    """Return the steps of a way: the parts of sequences, or all of it as one matrix.

    Transformations that are inverted, or whose matrix is stored as an array, are not copied, and
    neither are many, such as those from tile to tile.
    """
    found: list[Transformation] = []
    for number, (edge, back) in enumerate(routes.steps(start)):
        parts = edge.parts if edge.type == "sequence" else (edge,)
        if back or number == _MOST or any("path" in part.members for part in parts):
            rows = {"type": "affine", "affine": routes.matrix(start).tolist()}
            return (parse_transformation(rows),)
        found += parts
    return tuple(found)
