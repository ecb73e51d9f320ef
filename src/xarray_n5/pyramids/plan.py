"""Plan pyramids: all levels are checked, then created, then written one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from dask.base import tokenize

from xarray_n5.arrays.context import load_context
from xarray_n5.arrays.create import check_removable
from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.labels import is_label, list_labels, with_source
from xarray_n5.arrays.spec import ArraySpec, completed, with_fallback
from xarray_n5.codecs import resolve
from xarray_n5.datasets.level_plan import stale_keys
from xarray_n5.datasets.overwrite import (
    check_attributes,
    check_coordinates,
    check_images,
    check_only_levels,
    find_group,
    older_levels,
)
from xarray_n5.dialects.levels import is_labels
from xarray_n5.dialects.ngff_attributes import images_of, named_images, warn_lost
from xarray_n5.dialects.write import check_pyramid, warn_misspelt_units, write_pyramid
from xarray_n5.images.find import name_at
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.pyramids.base import BASE, complete_base, factors_of_base, level_layout
from xarray_n5.pyramids.reduce import check_type, coarse_shape, coarser_blocks
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.plan import planned_array
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_independent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.pyramids.base import BaseLevel
    from xarray_n5.pyramids.reduce import Method
    from xarray_n5.writing.options import WriteOptions
    from xarray_n5.writing.report import WriteReport


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidPlan:
    """The plan for the levels of a pyramid; nothing is written."""

    base: BaseLevel
    path: str
    """The group's path."""
    how: WriteOptions
    steps: Sequence[tuple[int, ...]]
    """The factors of each coarser level over the level before it."""
    method: Method
    compression: Compression
    levels: Sequence[ArrayContext]
    """All levels as dialects see them, without attributes, the base level first."""
    geometries: Sequence[Geometry]

    @property
    def names(self) -> list[str]:
        """The names of the levels."""
        return [f"s{number}" for number in range(len(self.levels))]

    @property
    def written(self) -> list[str]:
        """The names of the levels to write: the base level may exist."""
        return self.names if self.base.stored is None else self.names[1:]

    @property
    def token(self) -> str:
        """A string that distinguishes the pyramid from all others."""
        shapes = [level.shape for level in self.levels]
        axes = None if self.base.stored else self.geometries[0]
        described = repr((axes, self.how.dialect))
        return tokenize(
            *(self.base.token, self.method, list(self.steps), self.base.chunks, shapes, described),
            *([] if self.base.shards is None else [self.base.shards]),
            *([repr(self.base.meaning)] if self.base.meaning.attributes else []),
        )

    def write(self) -> WriteReport:
        """Check everything, create the group and the levels, and write them in turn."""
        how, group = self.how, find_group(self.path, self.how)
        attributes, own = self._attributes()
        old, stale = self._older(group, attributes)
        layout, more = level_layout(self.base, how.format, nested=bool(images_of(attributes)))
        own = [own[0] if self.base.stored else own[0] | more, *(each | more for each in own[1:])]

        planned = GroupWrite(
            options=how,
            path=self.path,
            requests=self._requests(own, layout),
            attributes=attributes,
            check=partial(self._check_group, group),
            prepare=partial(_prepare, self.path, old if how.mode == "w" else (), how),
            closing=partial(_close, self.path, attributes, stale, self.base.stored, own[0], how),
            in_turn=True,
        ).plan()
        if not planned.is_done:
            self._check_read_back(group, attributes, own, stale, resumes=planned.continues)
            if not planned.continues:
                self._check_source([*self.written, *old])
        return cast("WriteReport", planned.run())

    def _requests(self, own: Sequence[Any], layout: Any) -> dict[str, WriteRequest]:
        """Return the levels to write by name; each reads the level before it."""
        requests: dict[str, WriteRequest] = {}
        finer, steps, token = self.base.stored, iter([None, *self.steps]), self.token
        dims = tuple(str(axis.name) for axis in self.base.geometry.axes)
        stored = self.base.shards or self.base.chunks
        meaning = self.base.meaning if self.base.meaning.attributes else None
        for name, level, attributes in zip(self.names, self.levels, own, strict=True):
            step = next(steps)
            if name not in self.written:
                continue
            blocks = self.base.blocks
            if step is not None and finer is not None:
                key = f"{token}-{name}"
                blocks = coarser_blocks(finer, step, level.shape, stored, self.method, key, meaning)
            spec = ArraySpec(
                path=join(self.path, name),
                mode=self.how.mode,
                chunks=self.base.chunks,
                shards=self.base.shards,
                compression=self.compression,
                attributes=attributes,
                layout=layout,
            )
            requests[name] = WriteRequest.of(blocks, spec, self.how, dims=dims)
            finer = planned_array(requests[name])
        return requests

    def _attributes(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the attributes of the group and of the levels."""
        warn_misspelt_units(self._where, self.geometries)
        levels = list(zip(self.levels, self.geometries, strict=True))
        around, own = write_pyramid(levels, self.how.dialect, where=self._where)
        warn_lost(self._where, self.geometries[0].systems, around)
        around = named_images(around, name_at(self.path, self.how.container))
        return with_source(around, self.path, self.base.dtype, self.how.container), own

    def _older(
        self, group: Group | None, attributes: Mapping[str, Any]
    ) -> tuple[list[str], set[str]]:
        """Return the older arrays and attributes to remove: all of a group that is replaced."""
        if group is None or self.how.mode == "w-":
            return [], set()
        if self.base.stored is None:
            others = {name: each for name, each in group.arrays().items() if name not in self.names}
            check_removable(group.url, {name: array.node for name, array in others.items()})
            return list(others), {*group.attrs}
        lists_x_first = self.how.container.lists_x_first
        stale = stale_keys(group.attrs, attributes, lists_x_first=lists_x_first)
        return older_levels(group, self.names), stale

    def _check_group(self, group: Group | None, resumes: bool) -> None:
        """Raise if something in the group must stay."""
        if group is None or (self.how.mode == "w" and self.base.stored is None):
            return
        check_coordinates(group, [axis.name for axis in self.base.geometry.axes])
        if self.how.mode == "w":
            check_images(group)
        elif not resumes and self.base.stored is None:
            check_only_levels(group)

    def _check_read_back(
        self,
        group: Group | None,
        attributes: Mapping[str, Any],
        own: Sequence[Mapping[str, Any]],
        stale: set[str],
        *,
        resumes: bool,
    ) -> None:
        """Raise if existing attributes of the group would make readers misread the levels."""
        kept = {k: v for k, v in (group.attrs if group else {}).items() if k not in stale}
        if not resumes:
            check_attributes(kept, attributes, self._where)
        real = [dict(each) for each in own]
        if self.base.stored is not None:
            real[0] = factors_of_base(own[0]) | dict(self.base.attributes)
        levels = [
            replace(level, attributes=each, parents=({**kept, **attributes}, *level.parents[1:]))
            for level, each in zip(self.levels, real, strict=True)
        ]
        check_pyramid(levels, self.geometries, where=self._where)

    def _check_source(self, names: Sequence[str]) -> None:
        """Raise if the base level is computed from levels that would be replaced."""
        if self.how.mode == "w" and self.base.blocks is not None:
            container = self.how.container
            replaced = [container.identity(join(self.path, name)) for name in names]
            check_independent(self.base.blocks, replaced)

    @property
    def _where(self) -> str:
        return join(self.how.container.url, self.path)


def _prepare(path: str, old: Sequence[str], how: WriteOptions) -> None:
    """Create the group, and remove older levels."""
    group = create_group(how.container, path, mode="a")
    for name in old:
        if name in group:
            del group[name]


def _close(
    path: str,
    attributes: Mapping[str, Any],
    stale: set[str],
    stored: Array | None,
    own: Mapping[str, Any],
    how: WriteOptions,
) -> None:
    """Set the attributes of the group, and those that a stored base level lacks."""
    complete_base(stored, own)
    group = create_group(how.container, path, mode="a")
    group.attrs.change(dict(attributes), stale - attributes.keys())
    list_labels(how.container, {path: attributes})
    how.consolidate(path, default=True)


def plan_pyramid(
    base: BaseLevel,
    path: str,
    steps: Sequence[tuple[int, ...]],
    method: Method | None,
    compression: Any,
    how: WriteOptions,
) -> PyramidPlan:
    """Return the plan of a pyramid; by default the method is "mode" for labels.

    Raises
    ------
    MetadataError
        If the format cannot store its levels.
    """
    shapes = list(
        accumulate(
            steps,
            lambda shape, step: coarse_shape(shape, step, partial=False),
            initial=base.shape,
        )
    )
    metadata = _metadata(base, path, compression, how)
    context = replace(load_context(how.container, join(path, BASE), metadata), base=None)
    levels = [
        replace(context, path=join(path, f"s{number}"), shape=shape)
        for number, shape in enumerate(shapes)
    ]
    dtype = np.dtype(bool) if base.meaning.is_bool else base.dtype
    if method is None:
        labels = any(is_labels(base.dtype, each) for each in context.parents[:2])
        labels = labels or is_label(path, base.dtype, how.container)
        method = "mode" if labels or dtype.kind == "b" else "mean"
    check_type(dtype, method)
    return PyramidPlan(
        base=base,
        path=path,
        how=how,
        steps=steps,
        method=method,
        compression=metadata.compression,
        levels=levels,
        geometries=_geometries(base.geometry, steps, method),
    )


def _geometries(base: Geometry, steps: Sequence[tuple[int, ...]], method: Method) -> list[Geometry]:
    """Return the geometry of each level, the base level first."""
    ones = (1,) * base.ndim
    factors = list(accumulate(steps, lambda a, b: tuple(map(mul, a, b)), initial=ones))
    # Along an axis without a scale, positions are numbers of samples of the base level.
    axes = [
        replace(axis, scale=axis.step) if factor > 1 else axis
        for axis, factor in zip(base.axes, factors[-1], strict=True)
    ]
    centred = method != "nearest"
    return [
        replace(
            base,
            axes=tuple(
                axis.coarser(factor, centred=centred)
                for axis, factor in zip(axes, each, strict=True)
            ),
        )
        for each in factors
    ]


def _metadata(base: BaseLevel, path: str, compression: Any, how: WriteOptions) -> ArrayMetadata:
    """Return the metadata of the base level, with a compression that the format supports."""
    where = join(how.container.url, path, BASE)
    same = compression == "same"
    chosen = base.compression or resolve("gzip") if same else resolve(compression)
    metadata = ArrayMetadata(
        shape=base.shape,
        chunks=base.shards or base.chunks,
        inner=base.chunks if base.shards else None,
        dtype=base.dtype,
        compression=chosen,
    )
    complete = with_fallback if same else completed
    return complete(how.format, metadata, None, where)
