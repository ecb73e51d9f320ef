"""From Datasets to the views of a project: setups, their attributes, time points, registrations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.projects.images import PROJECT
from xarray_n5.datasets.projects.matrices import Placement
from xarray_n5.datasets.projects.places import AXES
from xarray_n5.dialects.bdv.elements import checked
from xarray_n5.dialects.bdv.loaders import View
from xarray_n5.dialects.bdv.project import KINDS, Entity, Project, ViewSetup
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import xarray as xr

    from xarray_n5.dialects.bdv.registrations import Registration

_IN_XML = ("illumination", "channel", "tile", "angle")
"""The order in which BigStitcher lists the attributes of a setup."""

_BESIDE = frozenset({"affine", "registration", "missing", *(f"origin_{axis}" for axis in AXES)})
"""Variables of an image's Dataset that are not the image."""

_ALIASES = {"c": "channel", "time": "t"}
"""Other names of dimensions."""

_MOST = 1 << 31


@dataclass(frozen=True, kw_only=True)
class Described:
    """Views that are to be written, and what an XML says of them."""

    project: Project
    views: Mapping[View, Mapping[str, int]]
    """The positions of the views that are there along the dimensions before z."""
    levels: Sequence[xr.DataArray]
    """The image's levels, the dimensions of views first."""

    def data(self, view: View, level: int) -> xr.DataArray:
        """Return a level of a view."""
        return self.levels[level].isel(self.views[view]).transpose(*AXES)


def describe(
    name: str, levels: Sequence[xr.Dataset], before: Project | None, taken: Mapping[int, ViewSetup]
) -> Described:
    """Return the views that the levels of an image hold.

    Parameters
    ----------
    name
        The image, for messages.
    levels
        The image's levels, the finest first.
    before
        The project that the views are added to.
    taken
        The setups of other images, whose ids are taken.

    Raises
    ------
    MetadataError
        If these are not the views of a project.
    """
    datasets = [_with_values(_named(level)) for level in levels]
    arrays = [_image(each, name) for each in datasets]
    dims = [str(dim) for dim in arrays[0].dims if dim not in AXES]
    _check_dims(arrays[0], dims)
    base = datasets[0]
    times = _timepoints(base, dims)
    placement = Placement.of(base, before)
    reader = _Setups(base, placement, [d for d in dims if d != "t"], arrays[0], before, taken)
    found, entities, views = {}, _Entities(), {}
    missing: set[View] = set()
    registrations: dict[View, Registration] = {}
    for setup, position in reader.all():
        if setup.id in found or setup.id in taken:
            raise MetadataError(f"several views of {name!r} have the setup {setup.id}")
        found[setup.id] = setup
        for kind, number in setup.attributes.items():
            entities.add(kind, number, reader.name_of(kind, number, position))
        for place, time in enumerate(times):
            view = View(time, setup.id)
            at = {**position, **({"t": place} if "t" in dims else {})}
            if _is_missing(base, at):
                missing.add(view)
            else:
                views[view] = at
            if (registered := placement.registration(view, at)) is not None:
                registrations[view] = registered
    project = Project(
        setups=dict(sorted(found.items())),
        entities=entities.found,
        timepoints=tuple(sorted(times)),
        missing=frozenset(missing),
        registrations=registrations,
    )
    return Described(project=project, views=views, levels=arrays)


def _named(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose dimensions have the names of a project's."""
    renamed = {a: b for a, b in _ALIASES.items() if a in dataset.dims and b not in dataset.dims}
    return dataset.rename(renamed) if renamed else dataset


def _with_values(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose coordinates are in memory, read at once."""
    facts = [name for name in dataset.data_vars if name in _BESIDE]
    return dataset.assign_coords(dataset.set_coords(facts).coords.to_dataset().compute().coords)


def _image(dataset: xr.Dataset, where: str) -> xr.DataArray:
    """Return the only image of a Dataset."""
    names = [name for name in dataset.data_vars if name not in _BESIDE]
    if len(names) != 1:
        raise MetadataError(
            f"a project has one image, {where!r} has {len(names)} variables: "
            f"{', '.join(map(str, names)) or 'none'}; select one with ds[[name]], or join channels "
            "along the dimension 'channel' with xarray.concat"
        )
    return dataset[names[0]]


def _check_dims(array: xr.DataArray, dims: Sequence[str]) -> None:
    known = ("t", "setup", *KINDS)
    lacking = [axis for axis in AXES if axis not in array.dims]
    unknown = [dim for dim in dims if dim not in known]
    both = "setup" in dims and set(KINDS) & set(dims)
    if lacking or unknown or both:
        raise MetadataError(
            f"the image has the dimensions {', '.join(map(str, array.dims))}; expected z, y, x, "
            "and before them any of t, channel, tile, angle, illumination, or t and setup: rename "
            "dimensions with rename, add missing ones with expand_dims"
        )


def _timepoints(dataset: xr.Dataset, dims: Sequence[str]) -> list[int]:
    """Return the ids of time points."""
    if "t" not in dataset.coords:
        return list(range(dataset.sizes["t"])) if "t" in dims else [0]
    values = np.atleast_1d(dataset["t"].values)
    ids = _whole(values)
    if ids is not None:
        return ids
    warn(
        "the coordinate 't' is not distinct whole numbers from 0 on, which time points of a "
        f"project are: they are numbered 0 to {values.size - 1}"
    )
    return list(range(values.size))


def _whole(values: np.ndarray) -> list[int] | None:
    """Return values as ids, if they are distinct whole numbers that an id can be."""
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return None
    ids = [int(value) for value in values]
    good = all(0 <= n < _MOST for n in ids) and len(set(ids)) == len(ids)
    return ids if good and (values == np.array(ids)).all() else None


def _is_missing(dataset: xr.Dataset, position: Mapping[str, int]) -> bool:
    if "missing" not in dataset.variables:
        return False
    return bool(_value(dataset, "missing", position))


def _value(dataset: xr.Dataset, name: str, position: Mapping[str, int]) -> Any:
    """Return the value of a coordinate for a view."""
    found = dataset[name]
    one = found.isel({dim: n for dim, n in position.items() if dim in found.dims})
    if one.dims:
        raise MetadataError(
            f"the coordinate {name!r} has the dimensions {', '.join(map(str, found.dims))}: it "
            "does not have one value for each view"
        )
    return one.values[()]


class _Entities:
    """The entities of setups by attribute and id."""

    def __init__(self) -> None:
        self.found: dict[str, dict[int, Entity]] = {}

    def add(self, kind: str, number: int, entity: Entity) -> None:
        before = self.found.setdefault(kind, {}).setdefault(number, entity)
        if before.name != entity.name:
            raise MetadataError(
                f"the {kind} {number} has two names, {before.name!r} and {entity.name!r}"
            )


@dataclass(frozen=True)
class _Setups:
    """The setups of an image."""

    dataset: xr.Dataset
    placement: Placement
    dims: Sequence[str]
    array: xr.DataArray
    before: Project | None
    taken: Mapping[int, ViewSetup]

    def all(self) -> Iterator[tuple[ViewSetup, dict[str, int]]]:
        """Iterate over setups, with their positions along the dimensions."""
        known = {**(self.before.setups if self.before else {}), **self.taken}
        sizes = [self.array.sizes[dim] for dim in self.dims]
        own = "setup" in self.dataset.coords
        used: set[int] = set()
        for at in np.ndindex(*sizes):
            position = dict(zip(self.dims, at, strict=True))
            attributes = self._attributes(position, own=own)
            if own:
                number = int(_value(self.dataset, "setup", position))
            elif "setup" in self.dims:
                number = position["setup"]
            else:
                number = self._number(attributes, known, used)
            used.add(number)
            if not own and number in known:
                attributes = {k: n for k, n in known[number].attributes.items() if k in KINDS}
            if not 0 <= number < _MOST:
                raise MetadataError(f"the setup {number} is not a whole number from 0 on")
            yield self._setup(number, attributes, position, own=own), position

    def _number(
        self, attributes: Mapping[str, int], known: Mapping[int, ViewSetup], used: set[int]
    ) -> int:
        """Return the id of the setup with these attributes, or a new one."""
        for number, setup in known.items():
            same = all(setup.attributes.get(k, 0) == attributes.get(k, 0) for k in KINDS)
            if same and number not in self.taken and number not in used:
                return number
        return next(n for n in range(_MOST) if n not in known and n not in used)

    def _setup(
        self,
        number: int,
        attributes: dict[str, int],
        position: Mapping[str, int],
        *,
        own: bool,
    ) -> ViewSetup:
        name = self._text("setup_name", position)
        if name is None and not own:
            varied = [kind for kind in attributes if kind in self.dims]
            named = [f"{k} {self.name_of(k, attributes[k], position).name}" for k in varied]
            name = ", ".join(named) or str(number if self.array.name is None else self.array.name)
            if self.before is not None and number in self.before.setups:
                name = self.before.setups[number].name
        project = self._opened_from
        more: dict[str, int] = {}
        if own and project is not None and number in project.setups:
            others = project.setups[number].attributes
            more = {kind: n for kind, n in others.items() if kind not in KINDS}
        return ViewSetup(
            number,
            name=name,
            size=tuple(self.array.sizes[axis] for axis in AXES),
            voxel_size=self.placement.voxel_size,
            unit=self.placement.unit,
            attributes={**attributes, **more},
        )

    def _attributes(self, position: Mapping[str, int], *, own: bool) -> dict[str, int]:
        """Return the ids of a view's channel, tile, angle and illumination."""
        found = {}
        for kind in _IN_XML:
            number = self._id(kind, position)
            if number is None and not own:
                number = 0
            if number is not None and number >= 0:
                found[kind] = number
        return found

    def _id(self, kind: str, position: Mapping[str, int]) -> int | None:
        if kind not in self.dataset.coords:
            return position.get(kind)
        values = np.atleast_1d(self.dataset[kind].values)
        if values.dtype.kind in "iu" or (kind not in self.dims and values.dtype.kind == "f"):
            return int(_value(self.dataset, kind, position))
        ids = _whole(values) if kind in self.dims else None
        if ids is not None:
            return ids[position[kind]]
        if kind in self.dims:
            return position[kind]
        distinct = list(dict.fromkeys(values.ravel().tolist()))
        return distinct.index(_value(self.dataset, kind, position))

    def name_of(self, kind: str, number: int, position: Mapping[str, int]) -> Entity:
        """Return a channel, tile, angle or illumination with its name."""
        project = self._opened_from
        known = project.entities.get(kind, {}).get(number) if project is not None else None
        if kind not in KINDS:
            return known or Entity(number)
        name = self._text(f"{kind}_name", position)
        if name is None and kind in self.dataset.coords:
            found = self.dataset[kind]
            name = self._text(kind, position) if found.dtype.kind in "UOS" else None
        entity = Entity(number, name or str(number))
        return entity if known is None else replace(entity, facts=known.facts)

    def _text(self, name: str, position: Mapping[str, int]) -> str | None:
        if name not in self.dataset.coords:
            return None
        found = str(_value(self.dataset, name, position)).strip()
        try:
            return checked(found) or None
        except ValueError as error:
            raise MetadataError(f"{name}: {error}") from error

    @property
    def _opened_from(self) -> Project | None:
        """The project that the Dataset was opened from, if it is still known."""
        setup = self.dataset.coords.get("setup")
        found = None if setup is None else setup.encoding.get(PROJECT)
        return found if isinstance(found, Project) else None
