"""Transformations of OME-Zarr 0.6, point by point as its specification describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

SPEC = Path("../shared/specs/ome_ngff_0.6/ngff-spec")
"""The text, schemas and examples of version 0.6."""


def point_by_point(  # noqa: C901, PLR0911, PLR0912
    one: Any, point: list[float]
) -> list[float]:
    """The specification's text, for one point, without matrices."""
    match one:
        case {"type": "identity"}:
            return point
        case {"type": "mapAxis", "mapAxis": order}:
            return [point[at] for at in order]
        case {"type": "translation", "translation": shift}:
            return [p + s for p, s in zip(point, shift, strict=True)]
        case {"type": "scale", "scale": scale}:
            return [p * s for p, s in zip(point, scale, strict=True)]
        case {"type": "affine", "affine": rows}:
            return [sum(a * b for a, b in zip(row, [*point, 1.0], strict=True)) for row in rows]
        case {"type": "rotation", "rotation": rows}:
            return [sum(a * b for a, b in zip(row, point, strict=True)) for row in rows]
        case {"type": "sequence", "transformations": steps}:
            for step in steps:
                point = point_by_point(step, point)
            return point
        case {"type": "byDimension", "transformations": parts}:
            result = dict[int, float]()
            for part in parts:
                found = point_by_point(
                    part["transformation"], [point[i] for i in part["inputAxes"]]
                )
                result |= dict(zip(part["outputAxes"], found, strict=True))
            return [result[at] for at in range(len(result))]
        case {"type": "projectAxis"}:
            dropped = one.get("droppedInputs", [])
            found = [p for at, p in enumerate(point) if at not in dropped]
            for at in sorted(one.get("createdOutputs", [])):
                found.insert(at, 0.0)
            return found
        case {"type": "bijection", "forward": forward}:
            return point_by_point(forward, point)
    raise AssertionError(one)


NUMBERS = st.floats(-100, 100).map(lambda number: round(number, 6))
SCALES = st.floats(0.01, 100) | st.floats(-100, -0.01)


def vectors(numbers: st.SearchStrategy[float], size: int) -> st.SearchStrategy[list[float]]:
    return st.lists(numbers, min_size=size, max_size=size)


@st.composite
def transformations(  # noqa: PLR0911
    draw: st.DrawFn, ndim: int, depth: int = 2
) -> dict[str, Any]:
    """A transformation from and to `ndim` axes."""
    kinds = ["identity", "mapAxis", "translation", "scale", "affine", "projectAxis"]
    kind = draw(st.sampled_from(kinds + (["sequence", "byDimension", "bijection"] * (depth > 0))))
    inner = transformations(ndim, depth - 1)
    if kind == "mapAxis":
        return {"type": kind, kind: draw(st.permutations(range(ndim)))}
    if kind in {"translation", "scale"}:
        numbers = NUMBERS if kind == "translation" else SCALES
        return {"type": kind, kind: draw(vectors(numbers, ndim))}
    if kind == "affine":
        return {"type": kind, kind: [draw(vectors(NUMBERS, ndim + 1)) for _ in range(ndim)]}
    if kind == "projectAxis":
        number = draw(st.integers(1, ndim))
        indices = st.permutations(range(ndim)).map(lambda order: order[:number])
        return {"type": kind, "droppedInputs": draw(indices), "createdOutputs": draw(indices)}
    if kind == "sequence":
        return {"type": kind, "transformations": draw(st.lists(inner, max_size=3))}
    if kind == "bijection":
        return {"type": kind, "forward": draw(inner), "inverse": draw(inner)}
    if kind == "byDimension":
        into, out = draw(st.permutations(range(ndim))), draw(st.permutations(range(ndim)))
        cut = draw(st.integers(1, ndim))
        spans = [each for each in ((into[:cut], out[:cut]), (into[cut:], out[cut:])) if each[0]]
        parts = [
            {
                "transformation": draw(transformations(len(start), depth - 1)),
                "inputAxes": start,
                "outputAxes": end,
            }
            for start, end in spans
        ]
        return {"type": kind, "transformations": parts}
    return {"type": kind}
