"""The same image in every dialect: read to its numbers, written to the same attributes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.geometries import (
    CALIBRATED,
    MOVED,
    facts,
    geometries,
    places,
    project,
    read,
)
from xarray_n5.dialects import DIALECTS, geometry_of
from xarray_n5.dialects.protocol import ArrayContext, PyramidDialect
from xarray_n5.dialects.write import write_geometry, write_pyramid
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.units import canonical_unit, same_unit

Facts = list[tuple[Any, ...]]

XML = project({(0, 0): [MOVED, CALIBRATED]})


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Attributes as a tool writes them, and what they mean in C order."""

    dialect: str
    attributes: dict[str, Any]
    means: Facts
    shape: tuple[int, ...] = (3, 20, 10)
    path: str = "p/s0"
    group: dict[str, Any] = field(default_factory=dict)
    lists_x_first: bool = True

    def node(self) -> ArrayContext:
        """The array that has the attributes."""
        return ArrayContext(
            attributes=self.attributes,
            shape=self.shape,
            path=self.path,
            parents=(self.group, {}),
            lists_x_first=self.lists_x_first,
        )


NGFF = {
    "multiscales": [
        {
            "version": "0.4",
            "name": "x",
            "axes": [
                {"name": "t", "type": "time", "unit": "millisecond"},
                {"name": "c", "type": "channel"},
                {"name": "z", "type": "space", "unit": "micrometer"},
                {"name": "y", "type": "space", "unit": "micrometer"},
                {"name": "x", "type": "space", "unit": "micrometer"},
            ],
            "datasets": [
                {
                    "path": "0",
                    "coordinateTransformations": [
                        {"type": "scale", "scale": [1, 1, 0.5, 0.5, 0.5]},
                        {"type": "translation", "translation": [0, 0, 0, 0, 0]},
                    ],
                }
            ],
            "coordinateTransformations": [{"type": "scale", "scale": [0.1, 1, 1, 1, 1]}],
            "type": "gaussian",
        }
    ]
}

SAMPLES = {
    "B1 TensorStore, with a dimensionless axis": Sample(
        dialect="tensorstore",
        attributes={"axes": ["x", "y"], "resolution": [4.0, 1.0], "units": ["nm", ""]},
        means=[("y", None, 1.0, 0.0), ("x", "nm", 4.0, 0.0)],
        shape=(2, 3),
    ),
    "B1 Neuroglancer's labels": Sample(
        dialect="neuroglancer",
        attributes={"axes": ["x", "c"], "coordinateArrays": {"c": ["A", "B"]}},
        means=[("c", None, None, 0.0), ("x", None, None, 0.0)],
        shape=(2, 5),
    ),
    "B7 ImageJ": Sample(
        dialect="imagej",
        attributes={
            "title": "cells",
            "fps": 2,
            "frameInterval": 0.5,
            "pixelWidth": 0.1,
            "pixelHeight": 0.2,
            "pixelDepth": 1.5,
            "pixelUnit": "µm",
            "xOrigin": 0.0,
            "yOrigin": 0.0,
            "zOrigin": 0.0,
            "numChannels": 2,
            "numSlices": 3,
            "numFrames": 4,
            "ImagePlusType": 1,
        },
        means=[
            ("t", "s", 0.5, 0.0),
            ("z", "µm", 1.5, 0.0),
            ("c", None, None, 0.0),
            ("y", "µm", 0.2, 0.0),
            ("x", "µm", 0.1, 0.0),
        ],
        shape=(4, 3, 2, 20, 10),
    ),
    "B9 OME-NGFF 0.4 in Zarr": Sample(
        dialect="ngff",
        attributes={},
        means=[
            ("t", "millisecond", 0.1, 0.0),
            ("c", None, None, 0.0),
            ("z", "micrometer", 0.5, 0.0),
            ("y", "micrometer", 0.5, 0.0),
            ("x", "micrometer", 0.5, 0.0),
        ],
        shape=(2, 2, 3, 4, 5),
        path="p/0",
        group=NGFF,
        lists_x_first=False,
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_mean_what_they_should(name: str) -> None:
    sample = SAMPLES[name]
    assert facts(geometry_of(sample.node()).with_names()) == sample.means
    only = geometry_of(sample.node(), sample.dialect)
    assert facts(only.with_names()) == sample.means


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_written_as_they_were_read(name: str) -> None:
    sample = SAMPLES[name]
    node = sample.node()
    geometry = geometry_of(node)
    dialect = DIALECTS[sample.dialect]
    bare = replace(node, attributes={}, parents=())
    written = dialect.write(geometry, bare)
    for key, value in written.items():
        kept = sample.attributes[key]
        if key == "transform":
            value.pop("order")
        assert value == kept
    assert set(written) >= set(dialect.keys) & set(sample.attributes)
    if sample.dialect == "ngff":
        group = dialect.write_group([(bare, geometry)])  # type: ignore[attr-defined]
        again = replace(node, parents=(group,))
        assert facts(geometry_of(again)) == sample.means
        image, theirs = group["multiscales"][0], sample.group["multiscales"][0]
        assert (image["version"], image["axes"]) == (theirs["version"], theirs["axes"])


# Groups of pyramids, as tools write them

LEVELS: dict[str, tuple[str, dict[str, Any]]] = {
    "B3 COSEM": (
        "cosem",
        {
            "axes": ["x", "y", "z"],
            "units": ["nm", "nm", "nm"],
            "scales": [[1, 1, 1], [2, 2, 2]],
            "pixelResolution": {"dimensions": [4.0, 4.0, 5.24], "unit": "nm"},
            "multiscales": [
                {
                    "name": None,
                    "datasets": [
                        {
                            "path": f"s{level}",
                            "transform": {
                                "axes": ["z", "y", "x"],
                                "scale": [5.24 * 2**level, 4.0 * 2**level, 4.0 * 2**level],
                                "translate": [2.62 * level, 2.0 * level, 2.0 * level],
                                "units": ["nm", "nm", "nm"],
                                "order": "C",
                            },
                        }
                        for level in (0, 1)
                    ],
                }
            ],
        },
    ),
    "B5 Paintera": (
        "paintera",
        {"multiScale": True, "resolution": [4, 4, 40], "offset": [0, 0, 0]},
    ),
    "B2 n5-viewer": (
        "n5_viewer",
        {
            "pixelResolution": {"unit": "um", "dimensions": [0.097, 0.097, 0.18]},
            "downsamplingFactors": [[1, 1, 1], [2, 2, 1]],
        },
    ),
}


@pytest.mark.parametrize("name", LEVELS)
def test_groups_of_pyramids_are_written_as_they_were_read(name: str) -> None:
    dialect, group = LEVELS[name]
    own: dict[str, Any] = {}
    if dialect == "n5_viewer":
        own = {"pixelResolution": group["pixelResolution"]}
    factors = group.get("downsamplingFactors") or group.get("scales") or [[1, 1, 1], [2, 2, 1]]
    levels = []
    for number, each in enumerate(factors):
        attributes = {**own, "downsamplingFactors": each} if dialect != "cosem" else own
        node = ArrayContext(
            attributes=attributes, shape=(4, 4, 4), path=f"p/s{number}", parents=(group, {})
        )
        levels.append((replace(node, attributes={}, parents=()), geometry_of(node)))
    written = DIALECTS[dialect].write_group(levels)  # type: ignore[attr-defined]
    assert written == group


# One image, in each dialect that can say it

NAMED = {"z": (40.0, 1.0), "y": (4.0, 2.0), "x": (4.0, 4.0)}


def pyramid(
    moved: float, unit: str | None, *, named: bool = True
) -> list[tuple[ArrayContext, Geometry]]:
    """Two levels, 4 x 4 x 40 nm and downsampled by 4, 2 and 1."""
    base, coarse = [], []
    for name, (scale, factor) in NAMED.items():
        offset = moved if name == "x" else 0.0
        axis = Axis(name=name if named else None, unit=unit, scale=scale, offset=offset)
        base.append(axis)
        shift = scale * (factor - 1) / 2
        coarse.append(replace(axis, scale=scale * factor, offset=offset + shift, factor=factor))
    nodes = [
        ArrayContext(shape=(6, 20, 40), path="p/s0"),
        ArrayContext(shape=(6, 10, 10), path="p/s1"),
    ]
    return list(zip(nodes, (Geometry(tuple(base)), Geometry(tuple(coarse))), strict=True))


@pytest.mark.parametrize(
    ("dialect", "moved", "unit"),
    [
        ("cosem", 100, "nm"),
        ("ngff", 100, "nanometer"),
        ("canonical", 100, "nm"),
        ("paintera", 100, "nm"),
        ("n5_viewer", 0, "nm"),
        ("neuroglancer", 0, "nm"),
        ("tensorstore+neuroglancer+n5_viewer", 0, "nm"),
        ("tensorstore+n5_viewer", 0, "nm"),
        ("cosem+paintera", 100, "nm"),
    ],
)
def test_an_anisotropic_pyramid_lies_right_in_every_dialect(
    dialect: str, moved: float, unit: str
) -> None:
    levels = pyramid(moved, unit)
    group, own = write_pyramid(levels, dialect.split("+"))
    base = replace(levels[0][0], attributes=own[0], parents=(group, {}))
    level = replace(levels[1][0], attributes=own[1], parents=(group, {}), base=base)
    assert places(geometry_of(base)) == [(40, 0), (4, 0), (4, moved)]
    found = geometry_of(level)
    assert places(found) == [(40, 0), (8, 2), (16, moved + 6)]
    assert [axis.unit for axis in found.axes] == [unit] * 3
    assert [axis.factor for axis in found.axes] == [1, 2, 4]


def sections() -> dict[str, dict[str, Any]]:
    """The attributes that the documentation shows, by dialect and by what they stand on."""
    page = (Path(__file__).parents[2] / "docs/dialects.md").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = {}
    for part in page.split("\n### ")[1:]:
        name = re.match(r"`(\w+)`", part)
        blocks = re.findall(
            r"^The (\w+)[^\n]*:\n\n```json\n(.*?)^```$", part, re.MULTILINE | re.DOTALL
        )
        assert name is not None
        found[name[1]] = {what: json.loads(text) for what, text in blocks}
    return found


def test_the_documentation_shows_every_dialect() -> None:
    assert list(sections()) == list(DIALECTS)


@pytest.mark.filterwarnings("ignore:.*counts them in pixels:UserWarning")
@pytest.mark.parametrize("name", DIALECTS)
def test_the_documentation_shows_one_image(name: str) -> None:
    shown = sections()[name]
    group = shown.get("group", {})
    base, level = (node for node, _ in pyramid(0, "nm"))
    if name == "bdv":
        parents: tuple[dict[str, Any], ...] = ({}, shown["setup"])
        base = replace(base, path="setup0/timepoint0/s0", parents=parents, xml=XML)
        level = replace(level, path="setup0/timepoint0/s1", parents=parents, xml=XML)
    elif name == "bigstitcher":
        level = replace(
            level, path="ch0tp0/s1", parents=({}, shown["root"]), attributes=shown["level"]
        )
        assert facts(geometry_of(level)) == [
            ("z", None, 10.0, 0.0),
            ("y", None, 2.0, 0.5),
            ("x", None, 4.0, 26.5),
        ]
        return
    else:
        around = (group, shown.get("root", {}))
        base = replace(base, parents=around, attributes=shown.get("array", {}))
        level = replace(level, parents=around, attributes=shown.get("level", {}))
    if name in {"array_dimensions", "dimension_labels"}:
        assert facts(geometry_of(base)) == [(axis, None, None, 0.0) for axis in "zyx"]
        return
    moved = 0 if name in {"tensorstore", "neuroglancer", "n5_viewer"} else 100
    if "array" in shown:
        assert places(geometry_of(base)) == [(40, 0), (4, 0), (4, moved)]
    else:
        assert places(geometry_of(level)) == [(40, 0), (8, 2), (16, 6 + moved)]
    node = base if "array" in shown else level
    written = DIALECTS[name].write(geometry_of(node), replace(node, attributes={}, parents=()))
    own = shown.get("array", shown.get("level", {}))
    assert {key: written[key] for key in own} == own
    if "group" in shown:
        levels = [(replace(each, parents=()), geometry_of(each)) for each in (base, level)]
        assert DIALECTS[name].write_group(levels) == group  # type: ignore[attr-defined]


# Any geometry

SAYABLE = {
    "tensorstore": lambda axis: Axis(name=axis.name, scale=abs(axis.step), unit=axis.unit or "s"),
    "n5_viewer": lambda axis: Axis(unit="nm", scale=abs(axis.step)),
    "paintera": lambda axis: Axis(unit="um", scale=abs(axis.step), offset=axis.offset),
    "neuroglancer": lambda axis: Axis(name=axis.name, labels=("a", "b")),
    "array_dimensions": lambda axis: Axis(name=axis.name),
    "cosem": lambda axis: axis,
    "canonical": lambda axis: axis,
}


@given(geometries(), st.sampled_from(sorted(SAYABLE)))
def test_every_dialect_reads_what_it_can_write(geometry: Geometry, name: str) -> None:
    geometry = Geometry(tuple(map(SAYABLE[name], geometry.axes)))
    shape = (2,) * geometry.ndim
    again = read(write_geometry(geometry, shape, name), shape, name)
    assert [axis.labels for axis in again.axes] == [axis.labels for axis in geometry.axes]
    named, found = geometry.with_names(), again.with_names()
    for axis, other in zip(named.axes, found.axes, strict=True):
        assert axis.name == other.name
        assert same_unit(axis.unit, other.unit)
        assert (axis.step, axis.offset) == (other.step, other.offset)


@given(geometries(), st.sampled_from(sorted(SAYABLE)))
def test_every_dialect_is_read_in_the_stated_order(geometry: Geometry, name: str) -> None:
    """Lists of the transposed array, in the usual order, are those of this one in the other."""
    geometry = Geometry(tuple(map(SAYABLE[name], geometry.axes)))
    shape, usual = (2,) * geometry.ndim, DIALECTS[name]
    lists = getattr(usual, "list_order", "N5")
    other = "N5" if lists == "C" or name == "cosem" else "C"
    written = write_geometry(geometry.transpose(), shape, name)
    if name == "cosem":
        written["transform"].pop("order")
        written = {"transform": written["transform"]}
    plain = read(write_geometry(geometry, shape, name), shape, name)
    assert meant(read(written, shape, name, attribute_order=other)) == meant(plain)
    same = "C" if other == "N5" else "N5"
    assert read(write_geometry(geometry, shape, name), shape, name, attribute_order=same) == plain


def meant(geometry: Geometry) -> Geometry:
    """A geometry with one spelling of each unit: axes with the same unit may share one."""
    units = [canonical_unit(axis.unit) or axis.unit for axis in geometry.axes]
    axes = (replace(axis, unit=unit) for axis, unit in zip(geometry.axes, units, strict=True))
    return replace(geometry, axes=tuple(axes))


def numbers_of(geometry: Geometry) -> list[tuple[Any, ...]]:
    """The facts of all axes, named, with a distance of 1 where it is not known."""
    return [(axis.name, axis.unit, axis.step, axis.offset) for axis in geometry.with_names().axes]


@given(geometries(), st.sampled_from(sorted(DIALECTS)))
@example(
    Geometry((Axis(scale=1.0, offset=0.0), Axis(scale=1.0, offset=0.0, unit="nm"))), "paintera"
)
def test_a_dialect_loses_nothing_silently(geometry: Geometry, name: str) -> None:
    shape = (2,) * geometry.ndim
    try:
        written = write_geometry(geometry, shape, name)
    except ValueError:
        return
    assert numbers_of(meant(read(written, shape))) == numbers_of(meant(geometry))


@given(geometries())
def test_ome_ngff_holds_any_geometry(geometry: Geometry) -> None:
    known = {"µm": "micrometer", "nm": "nanometer", "s": "second"}
    axes = tuple(replace(axis, unit=known.get(str(axis.unit), axis.unit)) for axis in geometry.axes)
    node = ArrayContext(shape=(2,) * geometry.ndim, path="p/s0", lists_x_first=False)
    group, own = write_pyramid([(node, Geometry(axes))], "ngff")
    again = geometry_of(replace(node, attributes=own[0], parents=(group,)))
    assert numbers_of(again) == numbers_of(Geometry(axes))


@pytest.mark.parametrize("names", [["z", "y", "x"], ["t", "z", "y", "x"], ["c", "y", "x"], ["x"]])
def test_ome_ngff_is_written_in_n5_order_into_n5(names: list[str]) -> None:
    axes = tuple(Axis(name=name, scale=2.0 + at) for at, name in enumerate(names))
    node = ArrayContext(shape=(2,) * len(names), path="p/s0")
    group, _ = write_pyramid([(node, Geometry(axes))], "ngff")
    assert [axis["name"] for axis in group["multiscales"][0]["axes"]] == names[::-1]
    again = geometry_of(replace(node, parents=(group,)))
    assert [(axis.name, axis.scale) for axis in again.axes] == [(a.name, a.scale) for a in axes]


def test_ome_ngff_whose_order_nobody_could_tell_is_not_written_into_n5() -> None:
    geometry = Geometry((Axis(name="x", scale=2.0), Axis(name="c", scale=3.0)))
    with pytest.raises(ValueError, match="ngff metadata cannot describe the name"):
        write_pyramid([(ArrayContext(shape=(2, 2), path="p/s0"), geometry)], "ngff")


@given(geometries())
def test_what_is_written_by_default_is_read_back(geometry: Geometry) -> None:
    shape = tuple(range(2, 2 + geometry.ndim))
    again = read(write_geometry(geometry, shape), shape)
    assert numbers_of(again) == numbers_of(geometry)
    if not geometry.placed and all(axis.unit is None for axis in geometry.axes):
        assert not again.placed


def test_the_default_is_what_everybody_reads() -> None:
    yx = Geometry((Axis(name="y", unit="nm", scale=4.0), Axis(name="x", unit="nm", scale=2)))
    plain = {"axes": ["x", "y"], "units": ["nm", "nm"], "resolution": [2, 4]}
    assert write_geometry(yx, (3, 3)) == plain
    timed = Geometry((Axis(name="t", kind="time", unit="s", scale=0.5), *yx.axes))
    written = write_geometry(timed, (3, 3, 3))
    assert written["transform"]["axes"] == ["t", "y", "x"]
    assert "pixelResolution" not in written
    moved = Geometry((replace(yx.axes[0], offset=1.0), yx.axes[1]))
    assert write_geometry(moved, (3, 3))["transform"]["translate"] == [1, 0]
    names = Geometry((Axis(name="c", kind="channel"), Axis(name="x")))
    assert write_geometry(names, (3, 3)) == {"axes": ["x", "c"]}


def test_several_dialects_are_written_at_once() -> None:
    geometry = Geometry((Axis(name="y", unit="nm", scale=4.0), Axis(name="x", unit="nm", scale=2)))
    assert write_geometry(geometry, (3, 3), ["tensorstore", "n5_viewer", "array_dimensions"]) == {
        "axes": ["x", "y"],
        "units": ["nm", "nm"],
        "resolution": [2, 4],
        "pixelResolution": {"dimensions": [2, 4], "unit": "nm"},
        "_ARRAY_DIMENSIONS": ["y", "x"],
    }


@pytest.mark.parametrize(
    ("geometry", "dialect", "message"),
    [
        (Geometry((Axis(unit="nm", scale=4.0), Axis(unit="s", scale=2))), "n5_viewer", "one unit"),
        (Geometry((Axis(name="x", scale=4.0, offset=2.0),)), "tensorstore", "the offset of axis"),
        (Geometry((Axis(name="t", scale=4.0),)), "paintera", "the name of axis 't'"),
        (Geometry((Axis(name="x", scale=4.0),)), "ngff", "cannot be written on a single array"),
        (
            Geometry((Axis(name="x", scale=4.0, unit="nm"),)),
            "bdv",
            "cannot be written on a single array",
        ),
        (Geometry((Axis(name="q"), Axis(name="y"), Axis(name="x"))), "imagej", "t, z, c, y, x"),
        (
            Geometry((Axis(name="y", scale=-1.0), Axis(name="x"))),
            "tensorstore",
            "in reverse direction",
        ),
        (Geometry((Axis(), Axis()), affine=((1, 1, 0), (0, 1, 0))), "cosem", "affine"),
    ],
)
def test_a_dialect_that_cannot_say_it_refuses(
    geometry: Geometry, dialect: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write_geometry(geometry, (3,) * geometry.ndim, dialect)


def test_dialects_that_need_one_key_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="'multiscales'"):
        write_pyramid(pyramid(100, "nm"), ["cosem", "ngff"])


def test_every_dialect_of_pyramids_describes_their_groups() -> None:
    grouped = {name for name, each in DIALECTS.items() if isinstance(each, PyramidDialect)}
    assert set(DIALECTS) - grouped == {
        *("bigstitcher", "funlib", "tensorstore", "imagej"),
        *("array_dimensions", "dimension_labels"),
    }
