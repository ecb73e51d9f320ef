"""Open projects as Datasets: one level of an image, or all of them as a tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.coordinates import Room
from xarray_n5.arrays.options import OpenOptions
from xarray_n5.datasets.build import build
from xarray_n5.datasets.world import DIMS, FRAME
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.images.select import level_by_distance, level_by_number
from xarray_n5.model.image import Image
from xarray_n5.model.options import check_option
from xarray_n5_bdv.images import Level, Selection, images_of
from xarray_n5_bdv.layouts import layout_of
from xarray_n5_bdv.loaders import View
from xarray_n5_bdv.location import container_of
from xarray_n5_bdv.stored import Stored, find_views

if TYPE_CHECKING:
    from collections.abc import Collection

    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.formats.protocol import Container
    from xarray_n5_bdv.project_file import ProjectFile
    from xarray_n5_bdv.stack_axes import Arrangement

MOST_VIEWS = 1 << 18
"""The maximum number of views that are opened at once."""

_MOST = 1 << 28
"""The maximum number of samples of a tree with coordinates: 2 GiB of them."""

_GROUP = re.compile(r"(?:setup(?P<setup>\d+))?/?(?:timepoint(?P<timepoint>\d+))?/?(?P<level>s\d+)?")

_NAME = re.compile(r"s(\d{1,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The options of a project: the ids of views, and the dimensions of setups."""

    setup: int | None = None
    timepoint: int | None = None
    setups: Arrangement | None = None


@dataclass(frozen=True)
class OpenProject:
    """A project and its container, opened for one operation."""

    file: ProjectFile
    container: Container
    options: DatasetOptions
    choice: Choice

    @classmethod
    def at(
        cls,
        file: ProjectFile,
        storage_options: Mapping[str, Any] | None,
        options: DatasetOptions,
        group: str = "",
        choice: Choice | None = None,
    ) -> OpenProject:
        """Return an open project; only the XML is read yet.

        `group` is a path as in BigDataViewer's N5, such as ``setup0/timepoint0/s0``, or the
        beginning or the end of one, equivalent to the options `setup`, `timepoint` and `level`.
        """
        if options.dialect not in {None, "bdv"}:
            raise ValueError(
                f"dialect={options.dialect!r} does not apply to projects: the XML has the axes"
            )
        choice = choice or Choice()
        if choice.setups is not None:
            check_option("setups", choice.setups, "grid", "flat")
        selected = _with_group(options, choice, group)
        return cls(file, container_of(file, storage_options), *selected)

    @property
    def selection(self) -> Selection:
        """The time points and setups that the options select."""
        project, choice = self.file.project, self.choice
        return Selection(
            timepoints=self._chosen("timepoint", project.timepoints, choice.timepoint),
            setups=self._chosen("setup", project.setups, choice.setup),
            single_timepoint=choice.timepoint is not None,
            single_setup=choice.setup is not None,
            arrangement=choice.setups,
        )

    def _chosen(self, what: str, known: Collection[int], wanted: int | None) -> tuple[int, ...]:
        if wanted is None:
            if known:
                return tuple(known)
            raise MetadataError(f"{self.file.url}: the project has no {what}s")
        if isinstance(wanted, bool) or wanted not in known:
            shown = ", ".join([*map(str, list(known)[:8]), *["..."] * (len(known) > 8)])  # noqa: PLR2004
            hint = f"the {what}s are {shown}"
            raise NodeNotFoundError(self.file.url, str(wanted), what, hint)
        return (int(wanted),)

    def find(self, selection: Selection, level: int | None = None) -> Stored:
        """Return the stored views of a selection.

        Raises
        ------
        MetadataError
            If there are too many of them.
        NodeNotFoundError
            If there are none.
        """
        project = self.file.project
        count = len(selection.timepoints) * len(selection.setups)
        if count > MOST_VIEWS:
            raise MetadataError(
                f"{self.file.url}: the project has {count} views, expected at most {MOST_VIEWS}; "
                "open some of them with setup= or timepoint="
            )
        views = [View(time, setup) for time in selection.timepoints for setup in selection.setups]
        zarr = project.loader.views if project.loader else {}
        wanted = [v for v in views if v not in project.missing and (not zarr or v in zarr)]
        opening = OpenOptions(**self.options.opening)
        found = find_views(self.container, layout_of(project), wanted, opening, level)
        if found.views:
            return found
        for error in found.broken.values():
            raise error
        if selection.single_timepoint and len(project.timepoints) > 1:
            return Stored()  # another time point may have its shape
        named = f"; the XML lists {count - len(wanted)} as missing" if count > len(wanted) else ""
        hint = f"none of the {count} views of {self.file.url!r} is stored there{named}"
        raise NodeNotFoundError(self.container.url, "", "view", hint)

    def images(self, level: int | None = None) -> dict[str, dict[int, Level]]:
        """Return the images to open, level by level; only one level if it is specified."""
        selection, project = self.selection, self.file.project
        stored = self.find(selection, level)
        if stored.views:
            return images_of(project, stored, selection, self.file.url)
        # Missing views have the shape of another time point.
        whole = replace(selection, timepoints=tuple(project.timepoints), single_timepoint=False)
        return images_of(project, self.find(whole, level), whole, self.file.url)

    def dataset(self, levels: Mapping[int, Level], level: int, **how: Any) -> xr.Dataset:
        """Return a level of an image as a Dataset."""
        found, name = levels[level], self.file.name
        dims = found.image.named(self.options.dims)
        taken = {*found.coords, *(str(axis.name) for axis in dims.axes)}
        while name in taken:
            name += "_data"
        dataset = build({name: Image(None, {f"s{level}": found.image})}, {}, self.options, **how)
        if name in dataset:
            for key in ("downsamplingFactors", "affine"):
                dataset[name].attrs.pop(key, None)
            order = dims.axes[::-1] if found.image.transposed else dims.axes
            names = [str(axis.name) for axis in order]
            renamed = dict(zip(found.image.stacked_axes, names, strict=False))
            inner = names[len(renamed) :]
            coords = {
                renamed.get(key, key): _coordinate(value, renamed)
                for key, value in found.coords.items()
            }
            if "affine" in coords:
                coords["affine"].attrs[DIMS] = inner
            dataset = dataset.assign_coords(coords)
            for dim in inner:
                if dim in dataset.coords and not found.in_world:
                    dataset.variables[dim].encoding[FRAME] = "view"
        dataset.encoding["source"] = self.file.url
        return _at_timepoint(dataset, self.choice.timepoint)


def open_project(
    file: ProjectFile,
    group: str,
    storage_options: Mapping[str, Any] | None,
    options: DatasetOptions,
    choice: Choice | None = None,
    **how: Any,
) -> xr.Dataset:
    """Open one level of a project as a Dataset.

    Raises
    ------
    NodeNotFoundError
        If there is no such level, setup or time point, or no view is stored.
    ValueError
        If there are several levels, or images that differ, and the options do not select one.
    """
    opened = OpenProject.at(file, storage_options, options, group, choice)
    options = opened.options
    number = _number(options.level)
    images = opened.images(number)
    if len(images) > 1 or "" not in images:
        names = ", ".join(images)
        by = "setup= and timepoint=" if any("/" in name for name in images) else "setup="
        raise ValueError(
            f"the views of {file.url!r} differ in shape, type or voxel size ({names}); open one "
            f"with {by}, or all of them with xarray.open_datatree"
        )
    levels = images[""]
    if number is not None and number not in levels:
        levels = opened.images()[""]  # for an error with the names of all levels
    return opened.dataset(levels, _level(levels, opened), **how)


def open_project_groups(
    file: ProjectFile,
    group: str,
    storage_options: Mapping[str, Any] | None,
    options: DatasetOptions,
    choice: Choice | None = None,
    **how: Any,
) -> dict[str, xr.Dataset]:
    """Open all levels of a project as Datasets, by path: ``/s0``, or ``/setup0/s0``."""
    if options.level is not None:
        raise ValueError("level= is for open_dataset; a tree has all levels")
    opened = OpenProject.at(file, storage_options, options, group, choice)
    budget = Room(_MOST)
    root = xr.Dataset()
    root.encoding["source"] = file.url
    found = {"/": root}
    if opened.options.level is not None:
        return {"/": open_project(file, group, storage_options, options, choice, **how)}
    for name, levels in opened.images().items():
        for level in levels:
            path = f"/{name}/s{level}".replace("//", "/")
            found[path] = opened.dataset(levels, level, budget=budget, **how)
    return found


def _coordinate(variable: xr.Variable, renamed: Mapping[str, str]) -> xr.Variable:
    """Return a coordinate with the user's names of dimensions.

    Each view is a block when Dask reads it, as in the image: xarray requires the same blocks for
    all variables. It is stored as one chunk, though.
    """
    outer = {str(dim) for dim in variable.dims} & renamed.keys()
    encoding = {
        "chunks": variable.shape,
        "preferred_chunks": {renamed[dim]: 1 for dim in outer},
    }
    dims = [renamed.get(str(dim), str(dim)) for dim in variable.dims]
    return xr.Variable(
        dims, variable.values, variable.attrs, {**variable.encoding, **(encoding if outer else {})}
    )


def _at_timepoint(dataset: xr.Dataset, timepoint: int | None) -> xr.Dataset:
    """Return a Dataset at the selected time point, if it still has several."""
    if timepoint is None or "t" not in dataset.dims:
        return dataset
    return dataset.sel(t=timepoint)


def _with_group(
    options: DatasetOptions, choice: Choice, group: str
) -> tuple[DatasetOptions, Choice]:
    """Return options with the selection in a path."""
    match = _GROUP.fullmatch(group.strip("/"))
    if match is None:
        raise ValueError(
            f"group={group!r} is not a node of a project; expected setup0, s0 or setup0/s0"
        )
    chosen = {key: text for key, text in match.groupdict().items() if text}
    for key in chosen:
        if getattr(options if key == "level" else choice, key) is not None:
            raise ValueError(f"group={group!r} and {key}= exclude each other; pass one of them")
    if (level := chosen.pop("level", None)) is not None:
        options = replace(options, level=level)
    ids: dict[str, Any] = {key: int(text) for key, text in chosen.items()}
    return options, replace(choice, **ids)


def _number(level: object) -> int | None:
    """Return the number of the only level to find, or None if others are needed, too."""
    if isinstance(level, str) and (match := _NAME.fullmatch(level)):
        return int(match[1])
    known = isinstance(level, int) and not isinstance(level, bool)
    return level if known and level >= 0 else None  # type: ignore[operator,return-value]


def _level(levels: Mapping[int, Level], opened: OpenProject) -> int:
    """Return the level that the options select."""
    options, where = opened.options, opened.file.url
    number = _number(options.level)
    if number is not None and number in levels:
        return number
    names = {f"s{number}": number for number in levels}
    if options.level is None:
        if len(names) == 1:
            return next(iter(names.values()))
        raise ValueError(
            f"{where!r} has the levels {', '.join(names)}; open one of them with level=0, or all "
            "with xarray.open_datatree"
        )
    if isinstance(options.level, Mapping):
        images = {f"s{number}": level.image for number, level in levels.items()}
        return names[level_by_distance(images, options.level, options.dims, where)]
    wanted = options.level if number is None else f"s{number}"
    return names[level_by_number(list(names), wanted, where)]
