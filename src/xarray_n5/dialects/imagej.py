"""``pixelWidth``, ``pixelUnit`` and similar attributes of ImageJ, as n5-ij writes them.

The axes are x and y, then channels, slices and frames if there are several, in N5 order. Source:
N5ImagePlusMetadata and ImagePlusLegacyMetadataParser in n5-ij.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects.lists import axis, numbers, whole_number
from xarray_n5.model.axes import Geometry
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.dialects.protocol import ArrayContext

_SPACE = {"x": "pixelWidth", "y": "pixelHeight", "z": "pixelDepth"}
_COUNTS = {"c": "numChannels", "z": "numSlices", "t": "numFrames"}
_ORIGINS = {name: f"{name}Origin" for name in _SPACE}
_NEEDED = {*_SPACE.values(), *_ORIGINS.values(), *_COUNTS.values(), "pixelUnit"}


@dataclass(frozen=True, slots=True)
class ImageJ:
    """The sizes of pixels with one unit, the seconds between frames, and the counts of axes."""

    name: ClassVar[str] = "imagej"
    keys: ClassVar[tuple[str, ...]] = (*sorted(_NEEDED), "frameInterval", "fps")
    group_keys = ()

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes if all attributes of ImageJ exist."""
        said = node.attributes
        if not said.keys() >= _NEEDED:
            return None
        counts = {name: _number(said, key) for name, key in _COUNTS.items()}
        order = ["x", "y", *(name for name, count in counts.items() if count > 1)]
        if len(order) != len(node.shape):
            raise ValueError(
                f"{list(_COUNTS.values())} are {list(counts.values())}, which makes "
                f"{len(order)} axes; the array has {len(node.shape)}"
            )
        origins = {name: _number(said, key) for name, key in _ORIGINS.items()}
        moved = [_ORIGINS[name] for name, origin in origins.items() if origin]
        if moved:
            otherwise = "as n5-ij does; ImageJ itself counts them in pixels"
            node.warn(f"reading {moved} as coordinates, {otherwise}")
        spatial = [name for name in order if name in _SPACE]
        keys = ", ".join(_SPACE[name] for name in spatial)
        listed = [said[_SPACE[name]] for name in spatial]
        sizes = dict(
            zip(spatial, numbers(keys, listed, len(spatial), node=node) or (), strict=True)
        )
        axes = []
        for name in order:
            if name in sizes:
                axes.append(axis(name, said["pixelUnit"], sizes[name], origins[name]))
            else:
                interval = _number(said, "frameInterval") if name == "t" else 0.0
                timed = interval > 0
                axes.append(axis(name, "s" if timed else None, interval if timed else None))
        sources = {"names": "numChannels, numSlices, numFrames", "units": "pixelUnit"}
        return Geometry(
            tuple(axes[::-1]), sources | {"scale": keys, "offset": "xOrigin, yOrigin, zOrigin"}
        )

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attributes of an image with axes t, z, c, y, x, or some of them."""
        axes = {str(axis.name): axis for axis in geometry.with_names().axes[::-1]}
        order = [name for name in ("x", "y", "c", "z", "t") if name in axes]
        if list(axes) != order or order[:2] != ["x", "y"]:
            raise ValueError(
                "ImageJ requires the axes t, z, c, y, x in this order, or some of them; got "
                f"{', '.join(reversed(axes))}"
            )
        sizes = dict(zip(axes, node.shape[::-1], strict=True))
        units = [axes[name].unit for name in _SPACE if name in axes]
        if not same_unit(*units):
            raise ValueError(f"'pixelUnit' is one for all axes, got {sorted({*map(str, units)})}")
        time = axes.get("t")
        interval = 0.0 if time is None or time.scale is None else time.scale
        return {
            **{key: _written(axes, name, "step", 1) for name, key in _SPACE.items()},
            **{key: _written(axes, name, "offset", 0) for name, key in _ORIGINS.items()},
            **{key: sizes.get(name, 1) for name, key in _COUNTS.items()},
            "pixelUnit": units[0] or "pixel",
            "frameInterval": whole_number(interval),
            # n5-ij needs it to read an image.
            "fps": whole_number(1 / interval) if interval else 0,
        }


def _written(axes: Mapping[str, Any], name: str, field: str, default: float) -> float:
    return whole_number(getattr(axes[name], field)) if name in axes else default


def _number(said: Mapping[str, Any], key: str) -> float:
    (number,) = numbers(key, [said.get(key, 0)], 1, kind="finite") or (0.0,)
    return number
