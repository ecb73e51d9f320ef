"""Describe the pyramids in a copy for the readers of its format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from xarray_n5.arrays.labels import relisted
from xarray_n5.arrays.open import open_group
from xarray_n5.copying.attributes import has_x_first, lists_of, original
from xarray_n5.dialects import ArrayContext
from xarray_n5.dialects.ngff_attributes import (
    are_described,
    have_systems,
    images_of,
    named_images,
    omero_of,
    with_others,
    without_images,
)
from xarray_n5.dialects.ngff_systems import STORED_WITH, WRITTEN
from xarray_n5.dialects.write import write_pyramid
from xarray_n5.errors import MetadataError
from xarray_n5.formats import FORMATS
from xarray_n5.formats.containers import find_scene
from xarray_n5.images.find import listed_levels, name_of_group, named_levels
from xarray_n5.images.select import pick_level, select_level
from xarray_n5.model.alerts import warn
from xarray_n5.model.factors import at_levels
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import is_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.copying.bounds import Part
    from xarray_n5.formats.containers import Container
    from xarray_n5.images.select import LevelChoice
    from xarray_n5.model.metadata import Attributes

CopyDialect: TypeAlias = "str | Sequence[str] | None"
"""The dialects that describe the copies; "same" for those of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPyramid:
    """The attributes that describe a pyramid in its copy."""

    around: Attributes
    """Those of the group."""
    own: Mapping[str, Attributes]
    """Those of each level, by its path in the copy."""


def copied_pyramids(
    groups: Mapping[str, Group],
    arrays: Mapping[str, Array],
    parts: Mapping[str, Part],
    container: Container,
    path: str,
    dialect: CopyDialect,
) -> dict[str, CopiedPyramid]:
    """Return the pyramids that get new attributes in the copy, by the paths of their groups.

    By default these are pyramids whose lists of axes are in another order in the copy, those that
    are copied to Zarr from another format, and those of which parts are copied. Parts of OME-Zarr
    0.6 stay 0.6 if the format can store it.

    Parameters
    ----------
    groups, arrays
        The nodes by their paths in the copy.
    parts
        The parts of the arrays that are copied; arrays without one are left out.
    container, path
        The location of the copy.
    dialect
        The dialects that the user chose.

    Raises
    ------
    MetadataError
        If the dialects that the user chose cannot describe a pyramid.
    """
    found = {}
    for inner, group in groups.items() if dialect != "same" else ():
        levels = [join(inner, name) for name in levels_of(group, inner, arrays)]
        kept = {at: parts[at] for at in levels if at in parts}
        cropped = any(not part.is_whole for part in kept.values())
        if not (cropped or dialect is not None or _is_foreign(group, container)):
            continue
        dtypes = {at: arrays[at].dtype for at in kept}
        written = dialect
        if (
            dialect is None
            and container.format.ngff_version == STORED_WITH
            and have_systems(group.attrs)
        ):
            written = WRITTEN
        pyramid = _described(kept, inner, dtypes, container, path, written) if kept else None
        if pyramid is not None:
            around = named_images(pyramid.around, name_of_group(group))
            before = original(group.attrs, lists_of(group.container)).attributes
            around = with_others(around, {**before, **group.attrs}, next(iter(dtypes.values())))
            if (cropped or dialect is not None) and images_of(group.attrs):
                around = _without_images(around, group)
            found[inner] = replace(pyramid, around=around)
        elif cropped:
            found[inner] = CopiedPyramid(around={}, own={})
        elif kept and images_of(group.attrs) and container.format.native_to_xarray:
            warn(
                f"{group.url}: 'multiscales' has no axes that OME-NGFF "
                f"{container.format.ngff_version} can describe; it is copied as it is, and viewers "
                "find no image in the copy (the axes that open from the source say why)"
            )
    return found | _lists_of_labels(groups, found)


def _lists_of_labels(
    groups: Mapping[str, Group], found: Mapping[str, CopiedPyramid]
) -> dict[str, CopiedPyramid]:
    """Return the attributes of groups whose images are labels, in the version of these."""
    within: dict[str, dict[str, Attributes]] = {}
    for inner, pyramid in found.items():
        above, _, name = inner.rpartition("/")
        within.setdefault(above, {})[name] = pyramid.around
    listed = {a: relisted(groups[a].attrs, within[a]) for a in within.keys() - found.keys()}
    return {above: CopiedPyramid(around=each, own={}) for above, each in listed.items() if each}


def _without_images(around: Attributes, group: Group) -> dict[str, Any]:
    """Return new attributes of a group, with the members of ``ome`` that are not images.

    These are kept, but only next to images of OME-NGFF do readers look for the names of channels.
    """
    if are_described(around):
        return dict(around)
    if omero_of(group.attrs) is not None:
        warn(
            f"{group.url}: the names and colours of channels in 'omero' are kept as an attribute, "
            "but readers ignore them without an image of OME-NGFF; add the dialect 'ngff' for them"
        )
    others = without_images({key: each for key, each in group.attrs.items() if key == "ome"})
    return {**others, **around}


def _is_foreign(group: Group, container: Container) -> bool:
    """Return whether a group's attributes were written for readers of another format."""
    lists = original(group.attrs, lists_of(group.container)).lists
    from_zarr = lists in FORMATS and FORMATS[lists].native_to_xarray
    into_zarr = container.format.native_to_xarray and not from_zarr
    if from_zarr and FORMATS[lists].ngff_version != container.format.ngff_version:
        return into_zarr or bool(images_of(group.attrs))
    return into_zarr or has_x_first(lists) != container.lists_x_first


def arrays_in(inner: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays directly in a group by their names."""
    parts = {path: path.rpartition("/") for path in arrays}
    return {name: arrays[at] for at, (above, _, name) in parts.items() if above == inner}


def levels_of(group: Group, inner: str, arrays: Mapping[str, Array]) -> list[str]:
    """Return the paths of the levels in a group; a single one only if the group lists it."""
    names = [] if is_dataset(group.attrs) else [*arrays_in(inner, arrays)]

    def copied(paths: Sequence[str]) -> dict[str, None]:
        return {path: None for path in paths if join(inner, path) in arrays}

    levels = list(named_levels(group.attrs, names, copied))
    return levels if len(levels) > 1 or levels[:1] == listed_levels(group.attrs)[:1] else []


def _described(
    levels: Mapping[str, Part],
    group: str,
    dtypes: Mapping[str, np.dtype[Any]],
    container: Container,
    path: str,
    dialect: CopyDialect,
) -> CopiedPyramid | None:
    """Return the attributes of a pyramid, or None if it has no coordinates to describe."""
    named = [part.geometry.with_names() for part in levels.values()]
    if not any(each.placed for each in named) or any(each.affine for each in named):
        return None
    rows = at_levels([each.axes for each in named], [part.shape for part in levels.values()])
    if rows is None:
        return None
    rows[0] = replace(rows[0], systems=named[0].systems)
    contexts = [
        ArrayContext(
            path=join(path, at),
            depth=at.removeprefix(group).strip("/").count("/"),
            shape=part.shape,
            dtype=dtypes[at],
            lists_x_first=container.lists_x_first,
            ngff=container.format.ngff_version,
        )
        for at, part in levels.items()
    ]
    where = join(container.url, contexts[0].path)
    try:
        around, own = write_pyramid(list(zip(contexts, rows, strict=True)), dialect, where=where)
    except MetadataError:
        if dialect is not None:
            raise
        return None
    if dialect is None and not around:
        return None
    return CopiedPyramid(around=around, own=dict(zip(levels, own, strict=True)))


def level_path(
    source: object, path: str, level: LevelChoice, options: Mapping[str, Any] | None
) -> str:
    """Return the path of the array that is a level of a pyramid."""
    if (scene := find_scene(source, options)) is not None:
        images = scene.images(path, options)
        if len(images) > 1:
            raise ValueError(
                f"the setups of {scene.url!r} differ; name one in addition to the level, such as "
                f"{next(iter(images))!r}"
            )
        (image,) = images.values()
        return join(path, pick_level(list(image.levels), level, lambda: image.levels, scene.url))
    group = open_group(source, path, storage_options=options)
    _, chosen = select_level(group, level)
    first, *more = next(iter(chosen.values())).base.arrays
    if more:
        raise ValueError(
            f"{group.url!r} is an image of several arrays at each level, such as {first.path!r}; "
            "name one of them instead of the level"
        )
    return first.path
