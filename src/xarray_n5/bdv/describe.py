"""Describe Datasets as views of a project: setups, time points, registrations, levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.bdv.combine import checked
from xarray_n5.bdv.images import PROJECT
from xarray_n5.bdv.loaders import ViewId
from xarray_n5.bdv.matrices import DatasetPositions
from xarray_n5.bdv.project import KINDS, Entity, Project, ViewSetup
from xarray_n5.datasets.placed import BESIDE, only_image
from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import xarray as xr

    from xarray_n5.bdv.project import Registration

_ALIASES = {"c": "channel", "time": "t", "image": "tile"}
"""Other names of dimensions: an image of a scene is a tile."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """Views to write, and their description for an XML."""

    project: Project
    views: Mapping[ViewId, Mapping[str, int]]
    """The positions of the existing views along the dimensions before z."""
    levels: Sequence[xr.DataArray]
    """The image's levels, the dimensions of views first."""

    def data(self, view: ViewId, level: int) -> xr.DataArray:
        """Return a level of a view."""
        return self.levels[level].isel(self.views[view]).transpose(*AXES)


def describe(
    name: str, levels: Sequence[xr.Dataset], before: Project | None, taken: Mapping[int, ViewSetup]
) -> Described:
    """Return the views in the levels of an image.

    Parameters
    ----------
    name
        The image, for messages.
    levels
        The image's levels, the finest first.
    before
        The project that the views are added to.
    taken
        The setups of other images, whose ids are in use.

    Raises
    ------
    MetadataError
        If these are not the views of a project.
    """
    datasets = [_with_values(_named(level)) for level in levels]
    arrays = [only_image(dataset, name) for dataset in datasets]
    dims = [str(dim) for dim in arrays[0].dims if dim not in AXES]
    _check_dims(arrays[0], dims)
    base = datasets[0]
    times = _timepoints(base, dims)
    placement = DatasetPositions.of(base, before)
    reader = Setups(base, placement, [d for d in dims if d != "t"], arrays[0], before, taken)
    setups, views = {}, {}
    entities: dict[str, dict[int, Entity]] = {}
    missing: set[ViewId] = set()
    registrations: dict[ViewId, Registration] = {}
    for setup, position in reader.all():
        if setup.id in setups or setup.id in taken:
            raise MetadataError(f"several views of {name!r} have the setup {setup.id}")
        setups[setup.id] = setup
        for kind, number in setup.attributes.items():
            entity = reader.name_of(kind, number, position)
            first = entities.setdefault(kind, {}).setdefault(number, entity)
            if first.name != entity.name:
                raise MetadataError(
                    f"the {kind} {number} has two names, {first.name!r} and {entity.name!r}"
                )
        for place, time in enumerate(times):
            view = ViewId(time, setup.id)
            at = {**position, **({"t": place} if "t" in dims else {})}
            if "missing" in base.variables and value_of(base, "missing", at):
                missing.add(view)
            else:
                views[view] = at
            if (registered := placement.registration(view, at)) is not None:
                registrations[view] = registered
    project = Project(
        setups=dict(sorted(setups.items())),
        entities=entities,
        timepoints=tuple(sorted(times)),
        missing=frozenset(missing),
        registrations=registrations,
    )
    return Described(project=project, views=views, levels=arrays)


def _named(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose dimensions have the names of a project's."""
    if "image" in dataset.coords:
        dataset = dataset.assign_coords(setup_name=dataset["image"])
    renamed = {
        name: other
        for name, other in _ALIASES.items()
        if (name in dataset.dims or (name == "image" and name in dataset.coords))
        and other not in dataset.variables
        and other not in dataset.dims
    }
    return dataset.rename(renamed) if renamed else dataset


def _with_values(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset with its coordinates in memory, read in one batch."""
    facts = [name for name in dataset.data_vars if name in BESIDE]
    return dataset.assign_coords(dataset.set_coords(facts).coords.to_dataset().compute().coords)


def _check_dims(array: xr.DataArray, dims: Sequence[str]) -> None:
    known = ("t", "setup", *KINDS)
    lacking = [axis for axis in AXES if axis not in array.dims]
    unknown = [dim for dim in dims if dim not in known]
    both = "setup" in dims and set(KINDS) & set(dims)
    if lacking or unknown or both:
        raise MetadataError(
            f"the image has the dimensions {', '.join(map(str, array.dims))}; expected z, y, x, "
            "preceded by any of t, channel, tile, angle, illumination, or by t and setup: rename "
            "dimensions with rename, add missing ones with expand_dims"
        )


def _timepoints(dataset: xr.Dataset, dims: Sequence[str]) -> list[int]:
    """Return the ids of time points."""
    if "t" not in dataset.coords:
        return list(range(dataset.sizes["t"])) if "t" in dims else [0]
    values = np.atleast_1d(dataset["t"].values)
    ids = whole(values)
    if ids is not None:
        return ids
    warn(
        "the coordinate 't' does not have unique whole numbers of at least 0, which a project "
        f"requires: its time points are numbered 0 to {values.size - 1}"
    )
    return list(range(values.size))


IN_XML = ("illumination", "channel", "tile", "angle")
"""The order in which BigStitcher lists the attributes of a setup."""

MOST_IDS = 1 << 31


def whole(values: np.ndarray) -> list[int] | None:
    """Return values as ids, if they are unique whole numbers in the range of ids."""
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return None
    ids = [int(value) for value in values]
    good = all(0 <= n < MOST_IDS for n in ids) and len(set(ids)) == len(ids)
    return ids if good and (values == np.array(ids)).all() else None


def value_of(dataset: xr.Dataset, name: str, position: Mapping[str, int]) -> Any:
    """Return the value of a coordinate for a view."""
    coordinate = dataset[name]
    one = coordinate.isel({dim: n for dim, n in position.items() if dim in coordinate.dims})
    if one.dims:
        raise MetadataError(
            f"the coordinate {name!r} has the dimensions {', '.join(map(str, coordinate.dims))}; "
            "expected one value for each view"
        )
    return one.values[()]


@dataclass(frozen=True)
class Setups:
    """The setups of an image."""

    dataset: xr.Dataset
    placement: DatasetPositions
    dims: Sequence[str]
    array: xr.DataArray
    before: Project | None
    taken: Mapping[int, ViewSetup]

    def all(self) -> Iterator[tuple[ViewSetup, dict[str, int]]]:
        """Iterate over setups, with their positions along the dimensions."""
        known = {**(self.before.setups if self.before else {}), **self.taken}
        sizes = [self.array.sizes[dim] for dim in self.dims]
        used: set[int] = set()
        seen = [setup.attributes for setup in known.values()]
        for at in np.ndindex(*sizes):
            position = dict(zip(self.dims, at, strict=True))
            attributes = self._attributes(position)
            if self._has_ids:
                number = int(value_of(self.dataset, "setup", position))
            elif "setup" in self.dims:
                number = position["setup"]
            else:
                number = self._number(attributes, known, used)
            used.add(number)
            if not self._has_ids and number in known:
                attributes = {k: n for k, n in known[number].attributes.items() if k in KINDS}
            elif not self._has_ids and not self._has_tiles:
                while any(_is_same(attributes, other) for other in seen):
                    attributes["tile"] += 1  # another stack is another tile
            if not 0 <= number < MOST_IDS:
                raise MetadataError(f"the setup is {number}; expected a whole number of at least 0")
            seen.append(attributes)
            yield self._setup(number, attributes, position), position

    @property
    def _has_ids(self) -> bool:
        """Whether the coordinate ``setup`` has the ids of setups."""
        return "setup" in self.dataset.coords

    @property
    def _has_tiles(self) -> bool:
        """Whether the tiles of an image have ids: as a dimension, or as numbers."""
        tile = self.dataset.coords.get("tile")
        return "tile" in self.dims or (tile is not None and tile.dtype.kind in "iuf")

    def _number(
        self, attributes: Mapping[str, int], known: Mapping[int, ViewSetup], used: set[int]
    ) -> int:
        """Return the id of the setup with these attributes, or a new one."""
        for number, setup in known.items():
            if (
                _is_same(attributes, setup.attributes)
                and number not in self.taken
                and number not in used
            ):
                return number
        return next(n for n in range(MOST_IDS) if n not in known and n not in used)

    def _setup(
        self, number: int, attributes: dict[str, int], position: Mapping[str, int]
    ) -> ViewSetup:
        name = self._text("setup_name", position)
        if name is None and not self._has_ids:
            varied = [kind for kind in attributes if kind in self.dims]
            named = [f"{k} {self.name_of(k, attributes[k], position).name}" for k in varied]
            name = ", ".join(named) or str(number if self.array.name is None else self.array.name)
            if self.before is not None and number in self.before.setups:
                name = self.before.setups[number].name
        project = self._opened_from
        more: dict[str, int] = {}
        if self._has_ids and project is not None and number in project.setups:
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

    def _attributes(self, position: Mapping[str, int]) -> dict[str, int]:
        """Return the ids of a view's channel, tile, angle and illumination."""
        ids = {kind: self._id(kind, position) for kind in IN_XML}
        if not self._has_ids:
            ids = {kind: number or 0 for kind, number in ids.items()}
        return {kind: number for kind, number in ids.items() if number is not None and number >= 0}

    def _id(self, kind: str, position: Mapping[str, int]) -> int | None:
        if kind not in self.dataset.coords:
            return position.get(kind)
        values = np.atleast_1d(self.dataset[kind].values)
        if values.dtype.kind in "iu" or (kind not in self.dims and values.dtype.kind == "f"):
            return int(value_of(self.dataset, kind, position))
        ids = whole(values) if kind in self.dims else None
        if ids is not None:
            return ids[position[kind]]
        if kind in self.dims:
            return position[kind]
        distinct = list(dict.fromkeys(values.ravel().tolist()))
        return distinct.index(value_of(self.dataset, kind, position))

    def name_of(self, kind: str, number: int, position: Mapping[str, int]) -> Entity:
        """Return a channel, tile, angle or illumination with its name."""
        project = self._opened_from
        known = project.entities.get(kind, {}).get(number) if project is not None else None
        if kind not in KINDS:
            return known or Entity(number)
        name = self._text(f"{kind}_name", position)
        if name is None and kind in self.dataset.coords:
            coordinate = self.dataset[kind]
            name = self._text(kind, position) if coordinate.dtype.kind in "UOS" else None
        before = self.before.name_of(kind, number) if self.before is not None else str(number)
        entity = Entity(number, name or before)
        return entity if known is None else replace(entity, facts=known.facts)

    def _text(self, name: str, position: Mapping[str, int]) -> str | None:
        if name not in self.dataset.coords:
            return None
        text = str(value_of(self.dataset, name, position)).strip()
        try:
            return checked(text) or None
        except ValueError as error:
            raise MetadataError(f"{name}: {error}") from error

    @property
    def _opened_from(self) -> Project | None:
        """The project that the Dataset was opened from, if it is still known."""
        setup = self.dataset.coords.get("setup")
        project = None if setup is None else setup.encoding.get(PROJECT)
        return project if isinstance(project, Project) else None


def _is_same(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Return whether setups have the same channel, tile, angle and illumination."""
    return all(one.get(kind, 0) == other.get(kind, 0) for kind in KINDS)
