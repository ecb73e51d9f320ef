"""A pyramid that is planned: it is checked, then all its arrays are made, then filled in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

from dask.base import tokenize

from xarray_n5.arrays.context import load_context
from xarray_n5.arrays.create import check_storable, completed
from xarray_n5.arrays.group import create_group
from xarray_n5.codecs import resolve
from xarray_n5.datasets.overwrite import find_group
from xarray_n5.dialects import check_pyramid, write_pyramid
from xarray_n5.errors import MetadataError, ResumeError
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.pyramids.base import BASE, complete_base, factors_of_base
from xarray_n5.pyramids.blocks import coarser_blocks
from xarray_n5.pyramids.existing import (
    check_coordinates,
    check_images,
    check_levels,
    check_same,
    older_levels,
    unfinished,
)
from xarray_n5.pyramids.reduce import coarse_shape
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_independent
from xarray_n5.writing.transaction import Transaction, resume_end
from xarray_n5.writing.write import provenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.pyramids.base import Base
    from xarray_n5.pyramids.reduce import Method
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteOptions

_KEYS = (
    *("axes", "units", "resolution", "pixelResolution"),
    *("scales", "downsamplingFactors", "multiscales"),
)
"""Attributes of a group of N5's that describe a pyramid, and are replaced with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pyramid:
    """A pyramid that is to be written."""

    base: Base
    path: str
    """The group's path."""
    how: WriteOptions
    steps: Sequence[tuple[int, ...]]
    """By how much each coarser level is coarser than the one before it."""
    method: Method
    compression: Compression
    nodes: Sequence[ArrayContext]
    """All levels as they will be, without attributes, the base level first."""
    geometries: Sequence[Geometry]

    @property
    def names(self) -> list[str]:
        """What the levels are called."""
        return [f"s{number}" for number in range(len(self.nodes))]

    @property
    def written(self) -> list[str]:
        """What the levels that are written are called: the base level may be there."""
        return self.names if self.base.stored is None else self.names[1:]

    def write(self) -> xr.DataTree:
        """Check everything, create the group and the arrays, and fill them one after another."""
        how = self.how
        marker = how.marker(self.path, self._token(), self.compression, len(self.names))
        began = marker.facts() if how.resume else None
        if began and began.get("done"):
            return resume_end(marker, began).compute()
        group = find_group(self.path, how)
        around, own = self._attributes()
        old, gone = self._check_room(group, marker, around, again=began is not None)
        self._check_described(group, around, own, gone, again=began is not None)
        self._check_source([*self.written, *old])
        layout = how.format.nested_layout if "multiscales" in around else None
        plans = self._plans(own, layout)
        group = create_group(how.container, self.path, mode="a", format=how.format.name)
        if how.mode == "w":
            for name in old:
                del group[name]
            for other in unfinished(marker):
                if other != marker:
                    other.end()
        facts = {**provenance(), "pyramid": len(self.names)}
        marker.begin({**facts, **(began or {})})
        complete_base(self.base.stored, own[0])
        transaction = Transaction(plans, marker).begin()
        group.attrs.change(around, gone)
        return transaction.compute_in_turn()

    def _token(self) -> str:
        chunks = self.base.chunks
        shapes = [node.shape for node in self.nodes]
        told = (self.method, list(self.steps), chunks, shapes)
        places = repr((self.geometries[0], self.how.dialect))
        return tokenize(self.base.token, *told, places)

    def _plans(self, own: Sequence[Any], layout: Any) -> dict[str, WritePlan]:
        """Return the checked writes of the levels by name; each reads the one before it."""
        plans: dict[str, WritePlan] = {}
        finer, steps = self.base.stored, iter([None, *self.steps])
        dims = tuple(str(axis.name) for axis in self.base.geometry.axes)
        for name, node, attributes in zip(self.names, self.nodes, own, strict=True):
            step = next(steps)
            if name not in self.written:
                continue
            blocks = self.base.blocks
            if step is not None and finer is not None:
                token = f"{self._token()}-{name}"
                blocks = coarser_blocks(
                    finer, step, node.shape, self.base.chunks, self.method, token
                )
            request = WriteRequest.of(
                blocks,
                join(self.path, name),
                self.how,
                mode=self.how.mode,
                chunks=self.base.chunks,
                compression=self.compression,
                attributes=attributes,
                layout=layout,
                dims=dims,
            )
            plans[name] = plan_write(request)
            finer = plans[name].target
        return plans

    def _check_room(
        self, group: Group | None, marker: WriteMarker, around: Mapping[str, Any], *, again: bool
    ) -> tuple[list[str], set[str]]:
        """Return older levels and attributes that go; raise where there is no room.

        What N5's readers look for on a group may be a user's in other formats.
        """
        if group is None:
            return [], set()
        others = [other for other in unfinished(marker) if other != marker]
        if others and self.how.resume:
            said = others[0].facts() or {}
            raise ResumeError(group.url, "", f"{said.get('began')} at {said.get('by')}")
        check_coordinates(group, [axis.name for axis in self.base.geometry.axes])
        if not again:
            begun = bool(others) or marker.facts() is not None
            resume = bool(self.how.resume)
            check_levels(group, self.written, self.how.mode, begun=begun, resume=resume)
        if self.how.mode == "w-":
            return [], set()
        check_images(group)
        of_n5 = self.how.container.lists_x_first
        keys = set(_KEYS if of_n5 else {"multiscales", *around}.intersection(_KEYS))
        return older_levels(group, self.names, others), keys.intersection(group.attrs)

    @property
    def _where(self) -> str:
        return join(self.how.container.url, self.path)

    def _attributes(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the attributes of the group and of the levels."""
        try:
            return write_pyramid(
                list(zip(self.nodes, self.geometries, strict=True)), self.how.dialect
            )
        except ValueError as error:
            raise MetadataError(f"{self._where}: {error}") from error

    def _check_described(
        self,
        group: Group | None,
        around: Mapping[str, Any],
        own: Sequence[Mapping[str, Any]],
        gone: set[str],
        *,
        again: bool,
    ) -> None:
        """Raise where levels would not read right with what the group has already."""
        kept = {k: v for k, v in (group.attrs if group else {}).items() if k not in gone}
        try:
            if not again:
                check_same(kept, around)
            real = [dict(each) for each in own]
            if self.base.stored is not None:
                real[0] = factors_of_base(own[0]) | dict(self.base.attributes)
            nodes = [
                replace(node, attributes=each, parents=({**kept, **around}, *node.parents[1:]))
                for node, each in zip(self.nodes, real, strict=True)
            ]
            check_pyramid(nodes, self.geometries, "the group's and the levels'")
        except ValueError as error:
            raise MetadataError(f"{self._where}: {error}") from error

    def _check_source(self, names: Sequence[str]) -> None:
        """Raise where what is to be written is read from what is replaced."""
        if self.how.mode == "w" and self.base.blocks is not None:
            store = self.how.store
            places = [store.identity(join(self.path, name)) for name in names]
            check_independent(self.base.blocks, places, exists=lambda: store.is_folder(self.path))


def plan(
    base: Base,
    path: str,
    steps: Sequence[tuple[int, ...]],
    method: Method,
    compression: Any,
    how: WriteOptions,
    *,
    partial: bool,
) -> Pyramid:
    """Return a pyramid as it will be.

    Raises
    ------
    MetadataError
        If the format cannot hold its arrays.
    """
    shapes = [base.shape]
    for step in steps:
        shapes.append(coarse_shape(shapes[-1], step, partial=partial))
    ones = (1,) * len(base.shape)
    factors = list(accumulate(steps, lambda a, b: tuple(map(mul, a, b)), initial=ones))
    coarsened = [factor > 1 for factor in factors[-1]]
    axes = tuple(
        # Of an axis of which nothing is known, places count in samples of the base level.
        replace(axis, scale=axis.step) if each else axis
        for axis, each in zip(base.geometry.axes, coarsened, strict=True)
    )
    first = replace(base.geometry, axes=axes)
    centred = method != "nearest"
    geometries = [
        replace(
            first,
            axes=tuple(
                axis.coarser(factor, centred=centred)
                for axis, factor in zip(axes, each, strict=True)
            ),
        )
        for each in factors
    ]
    where = join(how.container.url, path, BASE)
    asked = compression != "same"
    chosen = resolve(compression) if asked else base.compression or resolve("gzip")
    plain = ArrayMetadata(
        shape=base.shape, chunks=base.chunks, dtype=base.dtype, compression=chosen
    )
    metadata = completed(how.format, plain, None, where)
    if not asked:
        metadata = _held(metadata, how, where)
    check_storable(metadata, how.format, where)
    nodes = [
        load_context(how.container, join(path, f"s{number}"), replace(metadata, shape=shape))
        for number, shape in enumerate(shapes)
    ]
    return Pyramid(
        base=base,
        path=path,
        how=how,
        steps=steps,
        method=method,
        compression=metadata.compression,
        nodes=[replace(node, base=None) for node in nodes],
        geometries=geometries,
    )


def _held(metadata: ArrayMetadata, how: WriteOptions, where: str) -> ArrayMetadata:
    """Return metadata with gzip, which all formats have, where the format has not the source's."""
    try:
        how.format.check(metadata, where)
    except MetadataError:
        return replace(metadata, compression=resolve("gzip"))
    return metadata
