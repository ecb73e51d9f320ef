"""Projects of BigDataViewer and BigStitcher, as their XML describes them.

A view's transforms map its samples to BigDataViewer's world; the first listed is applied last. The
world has no unit of its own. BigStitcher's first step, "calibration", scales samples to ``voxelSize
/ u``, where `u` is the smallest voxel size of all setups; BigDataViewer's exports, pybdv and MoBIE
scale them to ``voxelSize``. Both determine the size of a unit of the world: `u`, or 1.

Source: spim_data's XmlIo classes, its IntegerPattern and ViewRegistration; BigStitcher's
DatasetCreationUtils.createViewRegistrations and TransformationTools.computeCalibration, which
divides the voxel size by the scaling of the model. Sections that spim_data does not have, such as
BigStitcher's interest points, are skipped.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product, starmap
from typing import TYPE_CHECKING, Literal

import numpy as np

from xarray_n5.bdv.loaders import Loader, ViewId, XmlPath, read_loader
from xarray_n5.bdv.xml import child_text, finite_numbers, parse, whole
from xarray_n5.dialects.lists import as_tuples, per_axis
from xarray_n5.model.axes import SAME
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

NDIM = 3

Rows = tuple[tuple[float, ...], ...]
"""A matrix of three rows of four numbers, for x, y, z."""

Basis = Literal["calibration", "voxels", "assumed", "unknown"]

CALIBRATION = "calibration"
"""The name of BigStitcher's first step."""


@dataclass(frozen=True, slots=True)
class Transform:
    """One step of a registration."""

    name: str | None
    rows: Rows


@dataclass(frozen=True)
class Registration:
    """The transforms of a view, in the order of the XML: the first listed is applied last."""

    transforms: tuple[Transform, ...] = ()

    @cached_property
    def total(self) -> np.ndarray:
        """The product of all transforms: from samples of the base level to the world, x y z."""
        whole = np.eye(NDIM + 1)
        for number, transform in enumerate(self.transforms):
            step = np.eye(NDIM + 1)
            step[:NDIM] = transform.rows
            with np.errstate(all="ignore"):
                whole = whole @ step if number else step
        return whole[:NDIM]

    @property
    def calibration(self) -> tuple[float, ...] | None:
        """The factors by which the first applied transform scales x, y, z; None without any.

        Rotations and translations do not scale, and are skipped, unless their name is that of the
        calibration, which is the identity for cubic voxels.
        """
        for transform in reversed(self.transforms):
            scales = _scales(transform.rows)
            if scales is not None or transform.name == CALIBRATION:
                return scales or (1.0,) * NDIM
        return None


@lru_cache(maxsize=1024)
def _scales(rows: Rows) -> tuple[float, ...] | None:
    """Return the factors by which a matrix scales x, y, z, or None; most views share one."""
    with np.errstate(all="ignore"):
        scales = np.linalg.norm(np.array(rows)[:, :NDIM], axis=0)
    return None if np.allclose(scales, 1.0, rtol=SAME) else tuple(scales.tolist())


@dataclass(frozen=True, slots=True)
class WorldUnit:
    """The size of a unit of BigDataViewer's world along x, y, z, in the unit of the voxel size."""

    scale: tuple[float, ...] = (1.0,) * NDIM
    unit: str | None = None
    basis: Basis = "unknown"
    """The source of the size. "calibration": the first step scales to the voxel size divided by it.
    "voxels": no step scales, so a unit is a voxel. "assumed": the first step scales differently, as
    registrations in physical units do, so the size is 1. "unknown": voxel sizes are missing, or
    those of views do not agree; there is no unit.
    """

    def agrees(self, other: WorldUnit) -> bool:
        """Return whether another view has the same world."""
        if self == other:
            return True
        alike = np.allclose(self.scale, other.scale, rtol=SAME, atol=0)
        return bool(alike) and same_unit(self.unit, other.unit)


def world_of(
    registration: Registration, voxel_size: Sequence[float] | None, unit: str | None
) -> WorldUnit:
    """Return the size of a unit of the world by one view: see :class:`WorldUnit`.

    Parameters
    ----------
    registration
        The view's registration.
    voxel_size
        The size of its voxels along x, y, z.
    unit
        The unit of that.
    """
    if voxel_size is None:
        return WorldUnit()
    scales, sizes = registration.calibration, tuple(voxel_size)
    if scales is not None:
        return _world(scales, sizes, unit)
    shared = max(sizes) - min(sizes) <= SAME * min(sizes)
    if shared or per_axis(registration.total) is not None:
        return WorldUnit((sizes[0],) * NDIM if shared else sizes, unit, "voxels")
    return WorldUnit()


@lru_cache(maxsize=1024)
def _world(scales: tuple[float, ...], sizes: tuple[float, ...], unit: str | None) -> WorldUnit:
    """Return the size of a unit of the world, from the scaling of voxels of a size."""
    if min(scales) > 0:
        ratios = np.array(sizes) / np.array(scales)
        if np.allclose(ratios, ratios[0], rtol=SAME, atol=0):
            # Exactly 1, or exactly the size of a voxel, if only rounding differs.
            exact = (n for n in (1.0, *sizes) if abs(n - ratios[0]) <= SAME * n)
            return WorldUnit((next(exact, float(ratios[0])),) * NDIM, unit, "calibration")
    return WorldUnit((1.0,) * NDIM, unit, "assumed")


def read_registration(element: Element) -> Registration:
    """Return the registration in an element ``ViewRegistration``."""
    return Registration(tuple(map(_transform, element.findall("ViewTransform"))))


def _transform(element: Element) -> Transform:
    kind = element.get("type", "affine")
    text = element.findtext("affine")
    if kind != "affine" or text is None:
        raise ValueError(f"a ViewTransform has the type {kind!r}; expected an affine")
    numbers = finite_numbers("affine", text)
    if len(numbers) != NDIM * (NDIM + 1):
        raise ValueError(f"the affine {text[:80]!r}; expected {NDIM * (NDIM + 1)} numbers")
    name = child_text(element, "Name") or child_text(element, "name")
    return Transform(name, as_tuples(np.reshape(numbers, (NDIM, NDIM + 1))))


_MOST_TIMEPOINTS = 1 << 20
"""The maximum number of time points of a project."""

_ENTRY = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
"""A number or a range in a pattern of time points, such as ``1,5,10-20:2``."""

KINDS = ("channel", "tile", "angle", "illumination")
"""The attributes of setups that BigStitcher supports, in the order of dimensions."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A channel, tile, angle or illumination, or one of another attribute."""

    id: int
    name: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """All other members: a tile's ``location``, an angle's ``axis`` and ``degrees``."""


@dataclass(frozen=True, slots=True)
class ViewSetup:
    """The properties that the views of a setup share at all time points. Sizes are in C order."""

    id: int
    name: str | None = None
    size: tuple[int, ...] | None = None
    """The number of samples along z, y, x."""
    voxel_size: tuple[float, ...] | None = None
    unit: str | None = None
    """The unit of the voxel size."""
    attributes: Mapping[str, int] = field(default_factory=dict)
    """The ids of the setup's channel, tile, angle and illumination, if present."""


HERE = XmlPath(".", relative=True)
"""The directory of the XML."""


@dataclass(frozen=True)
class Project:
    """The content of an XML file."""

    loader: Loader | None = None
    base_path: XmlPath = HERE
    """The base of relative paths; itself relative to the XML's directory."""
    setups: Mapping[int, ViewSetup] = field(default_factory=dict)
    """The setups by their ids, sorted."""
    entities: Mapping[str, Mapping[int, Entity]] = field(default_factory=dict)
    """The entities of each attribute, by their ids."""
    timepoints: Sequence[int] = ()
    """The ids of the time points, sorted."""
    missing: frozenset[ViewId] = frozenset()
    """Views that the microscope, or the program, omitted."""
    registrations: Mapping[ViewId, Registration] = field(default_factory=dict, repr=False)
    document: bytes = field(default=b"", repr=False)
    """The XML."""

    def __deepcopy__(self, memo: dict[int, object]) -> Project:
        """Return the project itself: it is immutable, and copied Datasets share it."""
        return self

    @cached_property
    def world(self) -> WorldUnit:
        """The size of a unit of the world, if all views agree, otherwise unknown."""
        shared: WorldUnit | None = None
        for view, registration in self.registrations.items():
            setup = self.setups.get(view.setup)
            if setup is None:
                continue
            size = None if setup.voxel_size is None else setup.voxel_size[::-1]
            world = world_of(registration, size, setup.unit)
            if shared is not None and not shared.agrees(world):
                return WorldUnit()
            shared = shared or world
        return WorldUnit() if shared is None else shared

    def name_of(self, kind: str, number: int) -> str:
        """Return the name of an entity; its id if it has no name."""
        entity = self.entities.get(kind, {}).get(number)
        return entity.name if entity is not None and entity.name else str(number)

    def views(
        self, timepoints: Iterable[int] | None = None, setups: Iterable[int] | None = None
    ) -> Iterator[ViewId]:
        """Iterate over the views that are not missing, of some time points and setups or all."""
        listed = self.loader.views if self.loader else {}
        times = self.timepoints if timepoints is None else timepoints
        for view in starmap(ViewId, product(times, self.setups if setups is None else setups)):
            if view not in self.missing and (not listed or view in listed):
                yield view

    def physical(self, view: ViewId) -> tuple[np.ndarray, str | None] | None:
        """Return the matrix from a view's samples to physical positions, x y z, and their unit.

        Returns
        -------
        tuple or None
            None if the view is not registered.
        """
        registration = self.registrations.get(view)
        if registration is None:
            return None
        scale, rows = np.array(self.world.scale), registration.total
        return (rows if (scale == 1).all() else scale[:, None] * rows), self.world.unit

    @property
    def container(self) -> str | None:
        """The container that the loader names, or None."""
        place = self.loader and self.loader.place
        if isinstance(place, XmlPath):
            place = place.resolve(HERE)
        return str(place).removeprefix("./") if place else None


@functools.lru_cache(maxsize=16)
def read_project(document: bytes) -> Project:
    """Return the project that an XML file describes.

    Raises
    ------
    ValueError
        If it is not the XML of a project, has invalid numbers, or defines entities.
    """
    root = parse(document)
    loader = root.find("SequenceDescription/ImageLoader")
    setups = {setup.id: setup for setup in _setups(root)}
    registrations = {
        view_of(element): read_registration(element)
        for element in root.iterfind("ViewRegistrations/ViewRegistration")
    }
    if not all(np.isfinite(steps.total).all() for steps in registrations.values()):
        raise ValueError("an affine has numbers that are too large")
    return Project(
        loader=None if loader is None else read_loader(loader),
        base_path=_base_path(root),
        setups=dict(sorted(setups.items())),
        entities={
            element.get("name") or "": _entities(element)
            for element in root.iterfind("SequenceDescription/ViewSetups/Attributes")
        },
        timepoints=read_timepoints(root.find("SequenceDescription/Timepoints")),
        missing=frozenset(
            map(view_of, root.iterfind("SequenceDescription/MissingViews/MissingView"))
        ),
        registrations=registrations,
        document=document,
    )


def _base_path(root: Element) -> XmlPath:
    element = root.find("BasePath")
    text = None if element is None else child_text(root, "BasePath")
    if element is None or text is None:
        return HERE
    return XmlPath(text, relative=element.get("type", "relative") == "relative")


def view_of(element: Element) -> ViewId:
    """Return the time point and the setup of an element about a view."""
    return ViewId(
        whole("the timepoint of a view", element.get("timepoint")),
        whole("the setup of a view", element.get("setup")),
    )


def _setups(root: Element) -> Iterator[ViewSetup]:
    for element in root.iterfind("SequenceDescription/ViewSetups/ViewSetup"):
        number = whole("the id of a setup", child_text(element, "id"))
        size = child_text(element, "size")
        attributes = element.find("attributes")
        yield ViewSetup(
            number,
            name=child_text(element, "name"),
            size=None if size is None else _size(size),
            voxel_size=_voxel_size(child_text(element, "voxelSize/size")),
            unit=child_text(element, "voxelSize/unit"),
            attributes={
                child.tag: whole(f"the {child.tag} of setup {number}", child.text)
                for child in (() if attributes is None else attributes)
            },
        )


def _size(text: str) -> tuple[int, ...]:
    numbers = [whole("the size of a setup", number) for number in text.split()]
    if len(numbers) != NDIM:
        raise ValueError(f"the size {text[:80]!r} of a setup; expected {NDIM} numbers")
    return tuple(numbers[::-1])


def _voxel_size(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    numbers = finite_numbers("voxelSize", text)
    if len(numbers) != NDIM or min(numbers) <= 0:
        raise ValueError(f"the voxelSize {text[:80]!r}; expected three positive numbers")
    return tuple(numbers[::-1])


def _entities(attributes: Element) -> dict[int, Entity]:
    entities: dict[int, Entity] = {}
    for element in attributes:
        facts = {child.tag: (child.text or "").strip() for child in element}
        number = whole(f"the id of a {element.tag}", facts.pop("id", None))
        entities[number] = Entity(number, facts.pop("name", None) or None, facts)
    return entities


def read_timepoints(element: Element | None) -> Sequence[int]:
    """Return the ids of the time points, sorted; none if there is no element.

    A range of any length uses little memory.

    Raises
    ------
    ValueError
        If they are invalid, or more than the maximum.
    """
    if element is None:
        return ()
    kind = element.get("type")
    if kind == "range":
        first = whole("the first time point", child_text(element, "first"))
        last = whole("the last time point", child_text(element, "last"))
        _check_count(last - first + 1)
        return range(first, last + 1)
    if kind == "pattern":
        return _pattern(child_text(element, "integerpattern") or "")
    if kind == "list":
        ids = [child_text(child, "id") for child in element.findall("Timepoint")]
        return tuple(sorted({whole("a time point", text) for text in ids}))
    raise ValueError(f"Timepoints have the type {kind!r}; expected range, pattern or list")


def _pattern(pattern: str) -> tuple[int, ...]:
    """Return the time points that a pattern names, sorted; an empty one means time point 0.

    >>> _pattern("1, 5, 10-20:5"), _pattern("3-1"), _pattern("")
    ((1, 5, 10, 15, 20), (1, 2, 3), (0,))
    """
    timepoints: set[int] = set()
    for entry in (pattern or "0").replace(" ", "").split(","):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(
                f"invalid pattern of time points {pattern[:80]!r}; expected one like '1,5,10-20:2'"
            )
        first = whole("a time point", match[1])
        last = first if match[2] is None else whole("a time point", match[2])
        step = 1 if match[3] is None else whole("the step of time points", match[3], least=1)
        numbers = range(first, last + 1, step) if last >= first else range(first, last - 1, -step)
        _check_count(len(timepoints) + len(numbers))
        timepoints.update(numbers)
    return tuple(sorted(timepoints))


def _check_count(count: int) -> None:
    if count > _MOST_TIMEPOINTS:
        raise ValueError(f"it has {count} time points, expected at most {_MOST_TIMEPOINTS}")
