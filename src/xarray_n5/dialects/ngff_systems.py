"""Coordinate systems of OME-NGFF 0.6, and the transformations between them that are not applied.

An image has several systems. Its levels lead to one of them, whose axes they have; transformations
of the image lead from there to others, and those of a scene from image to image. Source: the
specification of version 0.6, "Coordinate systems", "Multiscales" and "Scenes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext

_SHOWN = 3
"""The number of transformations that a warning names."""


def system_of(image: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return the coordinate system of an image that the transformations of a level lead to.

    Raises
    ------
    ValueError
        If the image does not have it, or the level does not name one of several.
    """
    systems: list[dict[str, Any]] = image["coordinateSystems"]
    edges = entry.get("coordinateTransformations") or [{}]
    name = _name(edges[-1].get("output"))
    if name is None and all(each["axes"] == systems[0]["axes"] for each in systems):
        return systems[0]
    found = [each for each in systems if each.get("name") == name]
    if not found:
        known = ", ".join(repr(each.get("name")) for each in systems)
        raise ValueError(
            f"'multiscales' leads from {entry.get('path')!r} to the coordinate system {name!r}; "
            f"expected one of {known}"
        )
    return found[0]


def of_all_levels(image: dict[str, Any]) -> list[Any]:
    """Return the transformations of an image that apply to all levels, which 0.6 does not have."""
    listed = image.get("coordinateTransformations") or []
    return [] if image.get("coordinateSystems") else listed


def warn_unapplied(image: dict[str, Any], entry: dict[str, Any], node: ArrayContext) -> None:
    """Warn about transformations of an image and of its scene, which are not applied."""
    parts = node.path.split("/")
    if image.get("coordinateSystems"):
        level = str(entry.get("path", "")).strip("/")
        path = node.path.removesuffix(level).strip("/")
        if shown := _shown(image.get("coordinateTransformations") or ()):
            warn(
                f"{path or '/'}: transformations to other coordinate systems are not applied: "
                f"{shown}; its coordinates are those of {system_of(image, entry).get('name')!r}"
            )
    for depth, group in enumerate(node.parents[: len(parts)], start=1):
        ome = group.get("ome")
        scene = ome.get("scene") if isinstance(ome, dict) else None
        edges = scene.get("coordinateTransformations") if isinstance(scene, dict) else None
        if not isinstance(edges, list):
            continue
        around = {"/".join(parts[-depth:stop]) for stop in range(1 - depth, 0)}
        own = any(_path(edge, side) in around for edge in edges for side in ("input", "output"))
        if own and (shown := _shown(edges)):
            warn(
                f"{'/'.join(parts[:-depth]) or '/'}: transformations of its scene are not applied: "
                f"{shown}; each image has its own coordinates"
            )


def _shown(edges: Sequence[Any]) -> str:
    """Return a description of transformations, except for identities; empty if there are none."""
    moves = [e for e in edges if isinstance(e, dict) and e.get("type") != "identity"]
    texts = [
        f"{each.get('type')} from {_text(each.get('input'))} to {_text(each.get('output'))}"
        for each in moves[:_SHOWN]
    ]
    if more := len(moves) - len(texts):
        texts.append(f"and {more} more")
    return ", ".join(texts)


def _name(reference: object) -> str | None:
    """Return the name of a referenced system; drafts of version 0.6 had only the name."""
    found = reference.get("name") if isinstance(reference, dict) else reference
    return found if isinstance(found, str) else None


def _path(edge: object, side: str) -> str | None:
    """Return the path of the image at a side of a transformation."""
    reference = edge.get(side) if isinstance(edge, dict) else None
    path = reference.get("path") if isinstance(reference, dict) else None
    return path.removeprefix("./").strip("/") if isinstance(path, str) else None


def _text(reference: object) -> str:
    """Return a referenced system as a string: its name, after the path of its image."""
    path = reference.get("path") if isinstance(reference, dict) else None
    names = [str(each) for each in (path, _name(reference)) if each]
    return repr("/".join(names)) if names else "an unnamed system"
