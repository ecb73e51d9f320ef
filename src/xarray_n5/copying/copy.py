"""Copy a node: plan what is stored, refuse what must stay, write, and compare if asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import hint_of
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import open_node
from xarray_n5.copying.archives import Packing
from xarray_n5.copying.compare import compare
from xarray_n5.copying.groups import plan_array, plan_groups
from xarray_n5.copying.scenes import write_images
from xarray_n5.copying.storage import Storage, is_sparse
from xarray_n5.datasets.write import request_of, write_stored
from xarray_n5.dialects import find_dialects
from xarray_n5.errors import NodeExistsError, RefusedError
from xarray_n5.formats import split_url
from xarray_n5.formats.containers import find_scene
from xarray_n5.leaves import scene_in
from xarray_n5.model.json import as_json
from xarray_n5.model.metadata import GroupMetadata
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import HIDDEN, join, new_path
from xarray_n5.writing.begin import begin
from xarray_n5.writing.options import WriteOptions
from xarray_n5.writing.plan import WritePlan, plan_write
from xarray_n5.writing.report import WriteReport
from xarray_n5.writing.request import short_hash
from xarray_n5.writing.run import compute_writes, finish
from xarray_n5.writing.self_reads import location_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.leaves import Scene
    from xarray_n5.writing.group import GroupWrite, PlannedGroup
    from xarray_n5.writing.request import WriteRequest


def copy_node(
    source: Any,
    destination: Any,
    *,
    mode: Any,
    format: str | None,
    dialect: str | Sequence[str] | None,
    storage: Mapping[str, Any],
    without: Collection[str],
    resume: bool | str,
    source_options: Mapping[str, Any] | None,
    storage_options: Mapping[str, Any] | None,
    verify: bool,
) -> WriteReport:
    """Copy a node; parameters and errors are those of :func:`xarray_n5.copy`."""
    check_option("mode", mode, "w-", "a", "w")
    if dialect is not None:
        find_dialects(dialect)
    target, inner = _located(destination)
    packing = Packing.of(destination, storage_options, mode=mode, format=format, resume=resume)
    if packing is not None:
        if packing.ended:
            packing.check_unverified(verify=verify)
            return WriteReport({})
        target, inner, mode = packing.container, packing.path, "w-"
    how = WriteOptions.into(
        target,
        storage_options=storage_options,
        format=format,
        computed=True,
        mode=mode,
        resume=resume,
        dialect=dialect,
    )
    path = new_path(how.path(inner), how.container.documents)
    copied = _Copy(how, path, Storage(form=how.format, **storage), compares=verify)
    plan = copied.plan(source, source_options, without)
    plans = [plan] if isinstance(plan, WritePlan) else plan.plans.values()
    sources = {each.request.path: each.request.source for each in plans}
    report = _run(plan)
    container = how.container if packing is None else packing.finish()
    return replace(report, verified=compare(container, sources)) if verify else report


@dataclass(frozen=True, slots=True)
class _Copy:
    """Where something is copied to, and how."""

    how: WriteOptions
    path: str
    """The path of the copy."""
    storage: Storage
    compares: bool
    """Whether all values are compared afterwards; a changed source is then not refused."""

    def plan(
        self, source: Any, options: Mapping[str, Any] | None, without: Collection[str]
    ) -> WritePlan | PlannedGroup:
        """Run all checks; nothing is written."""
        how, path, (url, inner) = self.how, self.path, _located(source)
        scene = None if isinstance(source, Array | Group) else find_scene(source, options)
        multisets = source.node.options.label_multisets if isinstance(source, Array) else "error"
        opening: Any = {"storage_options": options, "label_multisets": multisets}
        node = None if scene is not None else open_node(url, inner, **opening)
        if node is not None:
            self._check_apart(node)
        if isinstance(node, Array):
            variable = plan_array(node, how, path, self.storage)
            return plan_write(self._request(request_of(variable, how), node))
        if isinstance(node, Group):
            scene = scene_in(node)
            within = {how.format.name, node.container.format.name}
            if scene is None or within == {"zarr3"}:
                return self._plan_group(node, without)
        if without:
            raise ValueError(
                f"{source!r} is a scene, which is copied as a whole; to leave out images, open it "
                "with xarray.open_datatree, and store what remains with .n5.to_n5"
            )
        place: Any = (how, path, self.storage, options)
        return write_images(cast("Scene", scene), url, inner, *place).plan()

    def _plan_group(self, group: Group, without: Collection[str]) -> PlannedGroup:
        groups, arrays = plan_groups(group, without, self.how, self.path, self.storage)
        for stored in groups:
            where = self.how.container.where(stored.plan.path)
            attributes = as_json(stored.plan.attributes, where)
            self.how.format.check(GroupMetadata(attributes=attributes), where)
        write = write_stored(groups, self.how, self.path)
        requests = {
            inner: self._request(request, arrays[inner]) if inner in arrays else request
            for inner, request in sorted(write.requests.items())
        }
        return replace(write, requests=requests, check=partial(self._check, write)).plan()

    def _request(self, request: WriteRequest, array: Array) -> WriteRequest:
        """Return a request that leaves out missing chunks, and refuses a changed source."""
        options = replace(request.options, write_empty_chunks=not is_sparse(array))
        state = "" if self.compares else _state_of(array)
        return replace(request, options=options, source_state=state)

    def _check(self, write: GroupWrite, resumes: bool) -> None:
        """Raise if something must stay."""
        container = self.how.container
        if self.how.mode == "w-" and not resumes:
            group = container.node(self.path)
            if group.metadata.attributes or container.occupant(self.path) is not None:
                resume = bool(self.how.resume)
                hint = hint_of("use mode='w' to replace it", resume=resume, unfinished=False)
                raise NodeExistsError(container.url, self.path, "a group that is not empty", hint)
        write.check(resumes)

    def _check_apart(self, node: Array | Group) -> None:
        """Raise if the copy is in its source, or is the source, which would look complete."""
        container, how, path = node.container, self.how, self.path
        source, target = container.identity(node.path), how.container.identity(path)
        same = target == source
        inside = location_of(target).startswith(f"{location_of(source)}/")
        if container.identity("") == how.container.identity(""):  # also in HDF5
            inside = path.startswith(f"{node.path}/" if node.path else "")
        if (how.resume and same) or (inside and not same):
            what = "the source itself" if same else f"in the source of the copy, {node.url!r}"
            hint = "choose a path outside of the source"
            raise NodeExistsError(how.container.url, path, what, hint)


def _run(plan: WritePlan | PlannedGroup) -> WriteReport:
    """Write what is planned, and return the report."""
    if not isinstance(plan, WritePlan):
        return cast("WriteReport", plan.run())
    writes = {"": begin(plan)}
    return finish(writes, compute_writes(writes))


def _located(place: Any) -> tuple[Any, str]:
    """Return a container, and the path in it that a URL, an array or a group has."""
    if isinstance(place, Array | Group):
        return place.container.fresh(), place.path
    if isinstance(place, str | Path) and "://" not in str(place):
        return split_url(str(place))
    return split_url(place) if isinstance(place, str) else (place, "")


def _state_of(array: Array) -> str:
    """Return a hash of the sizes and times of stored chunks; "" where they cannot be listed."""
    node, store, state = array.node, array.node.store, blake2b(digest_size=8)
    if node.format.one_writer:
        return short_hash(node.etag())
    try:
        for key, size, time in sorted(store.list_info(node.path)):
            if not key.startswith(f"{HIDDEN}/"):
                written = store.etag(join(node.path, key)) if time is None else time
                state.update(repr((key, size, written)).encode())
    except RefusedError:
        return ""
    return state.hexdigest()
