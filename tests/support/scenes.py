"""Scenes of OME-Zarr 0.6 as plain JSON and arrays, made without the code that is tested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import xarray_n5

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KINDS = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
"""The types of axes by their names."""


def system(name: str, axes: str, unit: str | None = "micrometer") -> dict[str, Any]:
    """Return a coordinate system with one letter for each axis."""
    listed = []
    for axis in axes:
        own: dict[str, Any] = {"name": axis, "type": KINDS.get(axis, "space")}
        listed.append(own | ({"unit": unit} if unit and own["type"] == "space" else {}))
    return {"name": name, "axes": listed}


def image_attributes(
    axes: str,
    scale: Sequence[float],
    offset: Sequence[float] | None = None,
    *,
    levels: int = 1,
    name: str = "physical",
    systems: Sequence[Any] = (),
    edges: Sequence[Any] = (),
) -> dict[str, Any]:
    """Return the attributes of an image whose coordinate system is listed last."""
    datasets = []
    offset = offset or [0.0] * len(axes)
    for level in range(levels):
        factors = [2**level if KINDS.get(axis, "space") == "space" else 1 for axis in axes]
        steps = [
            {"type": "scale", "scale": [s * f for s, f in zip(scale, factors, strict=True)]},
            {
                "type": "translation",
                "translation": [
                    o + s * (f - 1) / 2 for o, s, f in zip(offset, scale, factors, strict=True)
                ],
            },
        ]
        edge = {"type": "sequence", "input": {"path": f"s{level}"}, "output": {"name": name}}
        datasets.append(
            {"path": f"s{level}", "coordinateTransformations": [edge | {"transformations": steps}]}
        )
    image: dict[str, Any] = {
        "name": "",
        "coordinateSystems": [*systems, system(name, axes)],
        "datasets": datasets,
    }
    if edges:
        image["coordinateTransformations"] = list(edges)
    return {"ome": {"version": "0.6", "multiscales": [image]}}


def write_image(url: Path, path: str, shape: Sequence[int], attributes: Mapping[str, Any]) -> None:
    """Write an image with numbered samples."""
    xarray_n5.create_group(url, path, format="zarr3", attributes=dict(attributes))
    axes = attributes["ome"]["multiscales"][0]["coordinateSystems"][-1]["axes"]
    values = np.arange(np.prod(shape)).reshape(shape).astype("u2")
    for number, _ in enumerate(attributes["ome"]["multiscales"][0]["datasets"]):
        steps = [2**number if axis["type"] == "space" else 1 for axis in axes]
        coarse = values[tuple(slice(None, None, step) for step in steps)]
        xarray_n5.to_n5(np.ascontiguousarray(coarse), url, f"{path}/s{number}", chunks=8)


def write_scene(url: Path, edges: Sequence[Any], systems: Sequence[Any] | None = None) -> None:
    """Write the attributes of a scene at the root."""
    scene: dict[str, Any] = {"coordinateTransformations": list(edges)}
    if systems is not None:
        scene["coordinateSystems"] = list(systems)
    xarray_n5.create_group(
        url, format="zarr3", mode="a", attributes={"ome": {"version": "0.6", "scene": scene}}
    )
