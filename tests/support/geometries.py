"""Geometries for tests: read from attributes, told as plain facts, and made up by Hypothesis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from xarray_n5.dialects import geometry_of
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.model.axes import Axis, Geometry

Attributes = dict[str, Any]


def node(attributes: Attributes, shape: tuple[int, ...] = (2, 3, 4), **around: Any) -> ArrayContext:
    """An array with attributes, and what is around it."""
    return ArrayContext(attributes=attributes, shape=shape, **around)


def read(
    attributes: Attributes,
    shape: tuple[int, ...] = (2, 3, 4),
    dialect: str | list[str] | None = None,
    **around: Any,
) -> Geometry:
    """What attributes say."""
    return geometry_of(node(attributes, shape, **around), dialect)


def facts(geometry: Geometry) -> list[tuple[Any, ...]]:
    """Name, unit, scale and offset of each axis."""
    return [(axis.name, axis.unit, axis.scale, axis.offset) for axis in geometry.axes]


def places(geometry: Geometry) -> list[tuple[float | None, float]]:
    """Scale and offset of each axis."""
    return [(axis.scale, axis.offset) for axis in geometry.axes]


axes = st.builds(
    Axis,
    unit=st.sampled_from([None, "nm", "µm", "micrometer", "s", "parsec", "wish"]),
    scale=st.one_of(st.none(), st.floats(1e-6, 1e6), st.floats(-1e6, -1e-6)),
    offset=st.floats(-1e6, 1e6),
    labels=st.none(),
)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Up to five axes with different names."""
    drawn = draw(st.lists(axes, min_size=1, max_size=5))
    labels = draw(st.permutations(["t", "c", "z", "y", "x"]))
    named = (replace(axis, name=name) for axis, name in zip(drawn, labels, strict=False))
    return Geometry(tuple(named))


MOVED = "1 0 0 100 0 1 0 0 0 0 1 0"
CALIBRATED = "4 0 0 0 0 4 0 0 0 0 40 0"
"""Transforms of BigDataViewer's views: by 100 along x, and to 4 x 4 x 40."""

XML = """<SpimData version="0.2">
  <SequenceDescription>
    <ViewSetups>{setups}</ViewSetups>
  </SequenceDescription>
  <ViewRegistrations>{registrations}</ViewRegistrations>
</SpimData>"""


def project(affines: dict[tuple[int, int], list[str]], unit: str = "um") -> bytes:
    """An XML file with the transforms of views, by timepoint and setup."""
    setups = "".join(
        f"<ViewSetup><id>{setup}</id><voxelSize><unit>{unit}</unit><size>0.5 0.5 2</size>"
        "</voxelSize></ViewSetup>"
        for setup in sorted({setup for _, setup in affines} | {0})
    )
    registrations = "".join(
        f'<ViewRegistration timepoint="{timepoint}" setup="{setup}">'
        + "".join(
            f'<ViewTransform type="affine"><Name>x</Name><affine>{text}</affine></ViewTransform>'
            for text in texts
        )
        + "</ViewRegistration>"
        for (timepoint, setup), texts in affines.items()
    )
    return XML.format(setups=setups, registrations=registrations).encode()
