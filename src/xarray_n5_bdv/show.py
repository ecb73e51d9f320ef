"""Projects of BigDataViewer, as `tree` draws and `info` describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.image import Level as StoredLevel
    from xarray_n5_bdv.images import Level
    from xarray_n5_bdv.project import Project
    from xarray_n5_bdv.project_file import ProjectFile

_SHOWN = 12
"""The maximum number of ids that are listed."""

Images = dict[str, dict[int, "Level"]]


def images_in(file: ProjectFile, group: str, options: Mapping[str, Any] | None) -> Images:
    """Return the images of a project, or of a part of it, level by level."""
    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5_bdv.open import OpenProject

    opened = OpenProject.at(file, options, DatasetOptions(), group)
    level = opened.options.level
    return {
        name: {n: each for n, each in levels.items() if level in {None, f"s{n}"}}
        for name, levels in opened.images().items()
    }


def tree_lines(
    file: ProjectFile,
    group: str,
    options: Mapping[str, Any] | None,
    branches: tuple[str, str, str],
    *,
    depth: int | None,
    chunks: bool,
) -> Iterator[str]:
    """Iterate over the lines of a project: its images and their levels, with their axes."""
    yield f"{file.url}  a project: {_loader(file.project)}"
    if depth == 0:
        return
    images = images_in(file, group, options)
    if list(images) == [""]:
        yield from _levels(images[""], "", branches, chunks=chunks)
        return
    branch, last, trunk = branches
    for number, (name, levels) in enumerate(images.items()):
        head, under = (last, "    ") if number == len(images) - 1 else (branch, trunk)
        yield f"{head}{name}/"
        if depth is None or depth > 1:
            yield from _levels(levels, under, branches, chunks=chunks)


def _levels(
    levels: Mapping[int, Level], indent: str, branches: tuple[str, str, str], *, chunks: bool
) -> Iterator[str]:
    from xarray_n5.arrays.repr import axes_line, times

    branch, last, trunk = branches
    for number, (level, found) in enumerate(levels.items()):
        image = found.image
        head, under = (last, "    ") if number == len(levels) - 1 else (branch, trunk)
        size = f"{times(image.shape)} {image.first.dtype}, chunks {times(image.chunks)}"
        stored = f", {_stored(image)}" if chunks else ""
        yield f"{indent}{head}s{level}  {size}, {image.first.compression.name}{stored}"
        yield f"{indent}{under}    {axes_line(image.named())}  (bdv)"


def _stored(level: StoredLevel[Array]) -> str:
    """Return the number of stored chunks of all views, and their size."""
    from dask.utils import format_bytes

    from xarray_n5.arrays.access import io_of

    count, size, whole = 0, 0, 0
    for array in level.arrays:
        io, whole = io_of(array), whole + array.grid.size
        for index, found in io.container.list_chunk_info(io.path, io.metadata):
            if index in array.grid:
                count, size = count + 1, size + found.size
    return f"{count} of {whole} chunks stored, {format_bytes(size)}"


def project_text(file: ProjectFile, images: Images) -> str:
    """Return the description of a project, for people."""
    from xarray_n5.arrays.repr import as_text, times
    from xarray_n5.model.units import shown_unit

    project, world = file.project, file.project.world
    rows = [
        ("loader", _loader(project)),
        ("setups", _ids(list(project.setups))),
        ("timepoints", _ids(project.timepoints)),
    ]
    if project.missing:
        views = [f"{view.timepoint}/{view.setup}" for view in sorted(project.missing)]
        rows.append(("missing", f"{_ids(views)} (timepoint/setup)"))
    for kind, entities in project.entities.items():
        named = [_named(number, project.name_of(kind, number)) for number in entities]
        rows.append((kind, _ids(named)))
    if project.registrations:
        length = " x ".join(f"{number:g}" for number in dict.fromkeys(world.scale))
        rows.append(("world", f"a unit is {length} {shown_unit(world.unit)} ({world.basis})"))
    for name, levels in images.items():
        if levels:
            first = next(iter(levels.values())).image
            axes = ", ".join(str(axis.name) for axis in first.named().axes)
            numbers = ", ".join(f"s{number}" for number in levels)
            text = f"{times(first.shape)} ({axes}), levels {numbers}"
            rows.append(("image", f"{name}: {text}" if name else text))
    return as_text(f"<project {file.url!r}>", rows).rstrip()


def project_facts(file: ProjectFile, images: Images) -> dict[str, Any]:
    """Return the description of a project, for programs."""
    project = file.project
    loader, world = project.loader, project.world
    return {
        "url": file.url,
        "kind": "project",
        "format": None if loader is None else loader.format,
        "container": project.container,
        "setups": [
            {
                "id": each.id,
                "name": each.name,
                "size": each.size,
                "voxel_size": each.voxel_size,
                "unit": each.unit,
                **each.attributes,
            }
            for each in project.setups.values()
        ],
        "timepoints": list(project.timepoints),
        "missing": [
            {"timepoint": view.timepoint, "setup": view.setup} for view in sorted(project.missing)
        ],
        "names": {
            kind: {number: project.name_of(kind, number) for number in entities}
            for kind, entities in project.entities.items()
        },
        "world": {"scale": world.scale[::-1], "unit": world.unit, "basis": world.basis},
        "images": [
            {
                "name": name,
                "dims": [str(axis.name) for axis in level.image.named().axes],
                "level": f"s{number}",
                "shape": level.image.shape,
                "dtype": str(level.image.first.dtype),
            }
            for name, levels in images.items()
            for number, level in levels.items()
        ],
    }


def _named(number: int, name: str) -> str:
    """Return an id with its name.

    >>> _named(0, "DAPI"), _named(1, "1")
    ('0 "DAPI"', '1')
    """
    return str(number) if name == str(number) else f'{number} "{name}"'


def _loader(project: Project) -> str:
    return f"{project.loader.format if project.loader else 'no loader'}, {project.container}"


def _ids(ids: Sequence[object]) -> str:
    shown = ", ".join([*map(str, ids[:_SHOWN]), *["..."] * (len(ids) > _SHOWN)])
    return f"{len(ids)}: {shown}"
