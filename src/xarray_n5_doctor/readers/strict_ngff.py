"""OME-NGFF 0.4 for programs that accept nothing but what its specification says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NDIM = range(2, 6)
_SPACE = range(2, 4)
_KINDS = ("space", "time", "channel")


def problems(images: object) -> Iterator[str]:
    """Iterate over what is wrong with ``multiscales``; see pydantic-ome-ngff's models of 0.4."""
    if not isinstance(images, list) or not images:
        yield "'multiscales' is not a list of images"
        return
    for image in images:
        axes = image.get("axes") if isinstance(image, dict) else None
        datasets = image.get("datasets") if isinstance(image, dict) else None
        if not isinstance(axes, list) or not all(map(_is_axis, axes)):
            yield "'multiscales' has no list of axes with names"
        elif not isinstance(datasets, list) or not datasets:
            yield "'multiscales' has no list of datasets"
        else:
            yield from _axes(axes)
            for each in datasets:
                yield from _transforms(each.get("coordinateTransformations"), len(axes))
            if "coordinateTransformations" in image:
                yield from _transforms(image["coordinateTransformations"], len(axes))


def _is_axis(axis: object) -> bool:
    return (
        isinstance(axis, dict)
        and isinstance(axis.get("name"), str)
        and all(isinstance(axis.get(key), str | None) for key in ("type", "unit"))
    )


def _axes(axes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    kinds = [axis.get("type") for axis in axes]
    spatial = kinds.count("space")
    if len(axes) not in _NDIM or spatial not in _SPACE:
        yield f"'multiscales' has {spatial} axes of space of {len(axes)}; it expects two or three"
    if len({axis["name"] for axis in axes}) < len(axes):
        yield "'multiscales' names an axis twice"
    if any(kind != "space" for kind in kinds[len(kinds) - spatial :]):
        yield "'multiscales' lists axes of space before others"
    if max(map(kinds.count, ("time", "channel"))) > 1 or len({*kinds} - {*_KINDS}) > 1:
        yield "'multiscales' has several axes of time or of channels"


def _transforms(found: object, ndim: int) -> Iterator[str]:
    """Iterate over what keeps transforms from being a scale, or a scale and a translation."""
    listed = found if isinstance(found, list) else []
    kinds = [each.get("type") for each in listed if isinstance(each, dict)]
    if kinds not in (["scale"], ["scale", "translation"]):
        names = ", ".join(map(str, kinds)) or "nothing"
        yield f"'coordinateTransformations' has {names}; it expects a scale, then a translation"
        return
    for kind, each in zip(kinds, listed, strict=True):
        if not isinstance(each.get(kind), list) or len(each[kind]) != ndim:
            yield f"'coordinateTransformations' has a {kind} that is not a list of {ndim} numbers"
