"""Plan pyramids: all levels are checked, then created, then written one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import tokenize

from xarray_n5.arrays.create import groups_around
from xarray_n5.arrays.labels import is_label, with_source
from xarray_n5.arrays.spec import ArraySpec, supported
from xarray_n5.codecs import resolve
from xarray_n5.datasets.encoded import EncodedVariable
from xarray_n5.datasets.encoding import GroupPlan, VariablePlan
from xarray_n5.datasets.level_plan import stale_keys
from xarray_n5.datasets.overwrite import check_attributes
from xarray_n5.datasets.write import Stored, existing_at, request_of, write_stored
from xarray_n5.datasets.write import plan_pyramid as plan_group
from xarray_n5.dialects.levels import is_labels
from xarray_n5.dialects.ngff_attributes import images_of, named_images
from xarray_n5.errors import NodeExistsError
from xarray_n5.images.find import name_at
from xarray_n5.images.levels import describe_levels
from xarray_n5.model.paths import join
from xarray_n5.pyramids.base import BASE, complete_base, level_layout, with_factors
from xarray_n5.pyramids.reduce import check_type, coarse_shape, coarser_blocks
from xarray_n5.writing.plan import planned_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.datasets.overwrite import ExistingGroup
    from xarray_n5.model.axes import Geometry
    from xarray_n5.pyramids.base import BaseLevel
    from xarray_n5.pyramids.reduce import Method
    from xarray_n5.writing.group import GroupWrite
    from xarray_n5.writing.options import WriteOptions
    from xarray_n5.writing.request import WriteRequest


def plan_pyramid(
    base: BaseLevel,
    path: str,
    steps: Sequence[tuple[int, ...]],
    method: Method | None,
    compression: Any,
    how: WriteOptions,
) -> GroupWrite:
    """Return the write of a pyramid after all checks of its metadata.

    Parameters
    ----------
    base, path
        The base level, and the path of the group.
    steps
        The factors of each coarser level over the level before it.
    method
        The reduction of windows; by default "mode" for labels, and "mean" for others.
    compression
        That of all levels, or "same" for that of the base level.
    how
        The container and the options of the write.

    Raises
    ------
    MetadataError
        If the format cannot store the levels, or the dialects cannot describe them.
    NodeExistsError
        If something in the group must stay.
    ValueError
        If the method is not defined for the type.
    """
    # Levels next to a stored array are added to its group.
    group = how if base.stored is None else replace(how, mode="a")
    existing = existing_at(path, group)
    if method is None:
        method = "mode" if _is_of_labels(base, path, existing, how) else "mean"
    check_type(np.dtype(bool) if base.meaning.is_bool else base.dtype, method)
    chosen = base.compression if compression == "same" else resolve(compression)
    if compression == "same":
        where, inner = join(how.container.url, path, BASE), base.chunks if base.shards else None
        chosen = supported(how.format, chosen, base.shape, base.dtype, where, inner)
    spec = ArraySpec(path=path, chunks=base.chunks, shards=base.shards, compression=chosen)
    pyramid = _Pyramid(base, spec, steps, method, how)
    attributes, variables, requests = pyramid.levels()
    plan = GroupPlan(path=path, variables=variables, attributes=attributes, is_pyramid=True)
    stored = plan_group(plan, existing, group)
    if base.stored is not None:
        new = {name: variable for name, variable in variables.items() if name != BASE}
        removed = () if how.mode == "w-" else stored.removed
        stored = replace(stored, plan=replace(plan, variables=new), removed=removed)
    write = write_stored([stored], group, path)
    write = replace(write, options=how, requests=requests, in_turn=True)
    if base.stored is None:
        return write
    own = variables[BASE].spec.attributes or {}
    return replace(
        write,
        check=partial(_check_added, write, stored),
        closing=partial(complete_base, write.closing, base.stored, own),
    )


def _check_added(write: GroupWrite, stored: Stored, resumes: bool) -> None:
    """Raise if new levels next to a stored array would replace what must stay."""
    write.check(resumes)
    if stored.existing is None or write.options.mode == "w" or resumes:
        return
    group, written = stored.existing.group, stored.plan.attributes
    if there := sorted(stored.existing.arrays.keys() & stored.plan.variables):
        raise NodeExistsError(group.url, there[0], "an array", "use mode='w' to replace levels")
    lists_x_first = write.options.container.lists_x_first
    stale = stale_keys(group.attrs, written, lists_x_first=lists_x_first)
    check_attributes(group.attrs, {**dict.fromkeys(stale), **written}, group.url)


def _is_of_labels(
    base: BaseLevel, path: str, existing: ExistingGroup | None, how: WriteOptions
) -> bool:
    """Return whether the levels are of labels, by their type and the groups around them."""
    around = [node.metadata.attributes for node in groups_around(how.container, path)[-1:]]
    around += [] if existing is None else [existing.group.attrs]
    return (
        base.meaning.is_bool
        or base.dtype.kind == "b"
        or any(is_labels(base.dtype, each) for each in around or [{}])
        or is_label(path, base.dtype, how.container)
    )


@dataclass(frozen=True, slots=True)
class _Pyramid:
    """What the levels of a pyramid have in common."""

    base: BaseLevel
    spec: ArraySpec
    """The storage of all levels, with the path of their group."""
    steps: Sequence[tuple[int, ...]]
    method: Method
    how: WriteOptions

    def levels(
        self,
    ) -> tuple[dict[str, Any], dict[str, VariablePlan], dict[str, WriteRequest]]:
        """Return the attributes of the group, all levels, and the writes of the new ones.

        Each level is computed from the stored one before it.
        """
        base, how, path = self.base, self.how, self.spec.path
        shapes = [*accumulate(self.steps, _coarser, initial=base.shape)]
        names = [f"s{number}" for number in range(len(shapes))]
        geometries = _geometries(base.geometry, self.steps, self.method)
        around, own = describe_levels(
            {name: (shape, base.dtype) for name, shape in zip(names, shapes, strict=True)},
            geometries,
            path,
            how,
        )
        around = named_images(around, name_at(path, how.container))
        layout, more = level_layout(base, how.format, nested=bool(images_of(around)))
        dims = tuple(str(axis.name) for axis in base.geometry.axes)
        stored = base.shards or base.chunks
        token = tokenize(
            base.token, self.method, [*self.steps], base.chunks, stored, repr(base.meaning)
        )
        variables: dict[str, VariablePlan] = {}
        requests: dict[str, WriteRequest] = {}
        finer: Any = base.stored
        for number, name in enumerate(names):
            data: Any = base.source
            attributes = own[number] | more
            if number:
                data = coarser_blocks(
                    finer,
                    self.steps[number - 1],
                    shapes[number],
                    stored,
                    self.method,
                    f"{token}-{name}",
                    base.meaning if base.meaning.attributes else None,
                )
            elif base.stored is not None:
                attributes = with_factors(base.stored, own[0])
            spec = replace(self.spec, path=join(path, name), attributes=attributes, layout=layout)
            encoded = EncodedVariable(data, dims, attributes)
            level = VariablePlan(
                encoded=encoded, spec=spec, geometry=geometries[number], axis_coords=()
            )
            if data is not base.stored:
                requests[name] = request_of(level, how)
                finer = planned_array(requests[name])
            # A coarser level is computed from the new array, not from one that it replaces.
            stays = replace(encoded, data=finer) if number else encoded
            variables[name] = replace(level, encoded=stays)
        return with_source(around, path, base.dtype, how.container), variables, requests


def _coarser(shape: tuple[int, ...], step: Sequence[int]) -> tuple[int, ...]:
    return coarse_shape(shape, step, partial=False)


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
                for axis, factor in zip(axes, absolute, strict=True)
            ),
        )
        for absolute in factors
    ]
