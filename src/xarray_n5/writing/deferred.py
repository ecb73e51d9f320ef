"""Writes that are computed later: as a graph of Dask, or in shares by several processes."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import cloudpickle
from dask.base import compute
from dask.delayed import delayed

from xarray_n5.arrays.records import look, looks, read, writer_name
from xarray_n5.errors import ContainerNotVisibleError, N5Error, StaleTaskError
from xarray_n5.graph import DelayedReport, reduce_all
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.report import WriteReport
from xarray_n5.writing.run import (
    begin,
    begin_all,
    compute_writes,
    finish,
    in_batches,
    receipts_of,
    renewed,
    show,
    whole,
    write_all,
)
from xarray_n5.writing.tasks import Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.report import ArrayReport
    from xarray_n5.writing.request import WriteRequest


def place(plan: WritePlan) -> WritePlan:
    """Create the array of a deferred write, which remains a template until it is computed."""
    if plan.creates:
        claim = begin(plan).write.claim
        claim.store.set(join(claim.path, HIDDEN, f"template-{claim.token}"), b"")
        claim.end()
    elif plan.array is not None:
        plan.array.change_attributes()
    write = plan.write if plan.resumes else replace(plan.write, fresh=False)
    request = replace(plan.request, template=plan.identity)
    placed = replace(plan, request=request, write=write, array=None)
    return renewed(placed) if plan.resumes else placed


def begin_later(request: WriteRequest) -> WritePlan:
    """Begin a deferred write, whose array exists: the first task of its graph.

    Raises
    ------
    ContainerNotVisibleError
        If this process does not see the array; it must not create another one.
    """
    container, path = request.options.container, request.path
    here = request.template is not None and request.template.by == writer_name()
    for _ in looks(request.options.store, seen=here):
        (node,) = container.nodes([path], verify=False)
        if not isinstance(node, N5Error) and isinstance(node.metadata, ArrayMetadata):
            return begin(plan_write(request))
    raise ContainerNotVisibleError(container.url, path)


class DeferredWrite(DelayedReport):
    """A write that ``compute=False`` returned: compute it with Dask, or save it for shares.

    Nothing is unfinished until it begins: with its first task, or with :meth:`save`.
    """

    __slots__ = ("_closing", "_plans", "_reports")

    @classmethod
    def of(
        cls,
        plans: Mapping[str, WritePlan],
        reports: Mapping[str, ArrayReport],
        closing: Callable[[], None] | None,
    ) -> Self:
        """Return the deferred writes of some arrays, and the reports of others."""
        done = {name: plan for name, plan in plans.items() if plan.is_done}
        reports = {**reports, **write_all(done).arrays}
        plans = {name: place(plan) for name, plan in plans.items() if name not in done}
        parts: list[Any] = []
        for plan in plans.values():
            template = replace(plan.identity, attempt=plan.record.attempt, by=writer_name())
            request = plan.request.lightened(plan.source, template)
            # Among the arguments, Dask would search the request for collections.
            first = delayed(partial(begin_later, request), pure=False)()
            parts += [first, receipts_of(plan, first)]
        last = partial(_finish, names=[*plans], before=reports, closing=closing)
        whole = reduce_all(parts, last, f"to_n5-{uuid.uuid4().hex}")
        write = cls(whole.key, whole.dask)
        for name, value in zip(cls.__slots__, (closing, plans, reports), strict=True):
            object.__setattr__(write, name, value)  # Dask's own objects cannot be changed
        return write

    def save(self, file: str | Path) -> SavedWrite:
        """Begin the write, and save it for other processes, which compute shares of it.

        Parameters
        ----------
        file : str or os.PathLike
            The file to write. It is a pickle: run only your own.

        Returns
        -------
        SavedWrite
            The write: ``run(share=(3, 100))`` computes a part of it, ``run()`` the rest.
        """
        saved = self._begin()
        Path(file).write_bytes(cloudpickle.dumps(saved))
        return saved

    def run(self, share: tuple[int, int] | None = None) -> WriteReport | None:
        """Begin the write, and compute it, or a share of it; see :meth:`SavedWrite.run`."""
        return self._begin().run(share)

    def _begin(self) -> SavedWrite:
        writes = {
            name: replace(plan, request=plan.request.lightened(plan.source))
            for name, plan in begin_all(self._plans).items()
        }
        return SavedWrite(writes, self._reports, self._closing)


def _finish(
    parts: list[Any],
    names: list[str],
    before: Mapping[str, ArrayReport],
    closing: Callable[[], None] | None,
) -> WriteReport:
    """Finish writes, given the plans that have begun, and the receipts of each."""
    writes = dict(zip(names, parts[::2], strict=True))
    computed = zip(names, parts[1::2], strict=True)
    receipts = {name: whole(writes[name], written) for name, written in computed}
    return WriteReport({**before, **finish(writes, receipts, closing).arrays})


@dataclass(frozen=True, slots=True)
class SavedWrite:
    """A write that has begun, for processes that compute shares of it."""

    writes: Mapping[str, WritePlan]
    reports: Mapping[str, ArrayReport]
    closing: Callable[[], None] | None

    @classmethod
    def load(cls, file: str | Path) -> SavedWrite:
        """Return the write that :meth:`DeferredWrite.save` has saved; run only your own files."""
        return cast("SavedWrite", cloudpickle.loads(Path(file).read_bytes()))

    def run(self, share: tuple[int, int] | None = None) -> WriteReport | None:
        """Compute a share of the write, or all that is missing, and finish it.

        Parameters
        ----------
        share : tuple of int, optional
            The number of the share, from 1, and the number of shares. A share never finishes the
            write, even if nothing is left: the call without `share` does.

        Returns
        -------
        WriteReport or None
            The report; None for a share, or if the write has finished.

        Raises
        ------
        StaleTaskError
            If another write has replaced this one.
        ValueError
            If `share` is not two numbers, the first from 1 to the second.
        """
        if share is not None and not 1 <= share[0] <= share[1]:
            raise ValueError(f"share is {share}; expected such as (3, 100), the third of a hundred")
        left = {name: now for name, plan in self.writes.items() if (now := _joined(plan))}
        if not left:
            return None
        if share is not None:
            numbers = itertools.count()
            for plan in left.values():
                _compute_share(plan, share, numbers)
            return None
        writes = {
            name: renewed(left[name]) if name in left else replace(plan, is_done=True)
            for name, plan in self.writes.items()
        }
        report = finish(writes, compute_writes(writes), self.closing)
        return WriteReport({**self.reports, **report.arrays})


def _joined(plan: WritePlan) -> WritePlan | None:
    """Return a write as its record states it now; None if it has finished.

    Raise if it has been replaced. Where others have stored chunks since it began, a stored chunk
    proves nothing any more.
    """
    write, claim = plan.write, plan.write.claim
    if plan.is_done:
        return None
    try:
        claim.check(trusted=False)
    except StaleTaskError:
        if plan.row not in look(claim.store, claim.path).rows:
            raise
        return None
    facts = read(claim.store, claim.path, claim.name) or {}
    return replace(plan, write=replace(write, fresh=write.fresh and facts.get("fresh", False)))


def _compute_share(plan: WritePlan, share: tuple[int, int], numbers: Iterator[int]) -> None:
    """Compute every n-th block of a write of which chunks are missing."""
    (number, count), write, node = share, plan.write, plan.write.target
    pending = Pending(plan.source, write, plan.before)
    numbered = zip(pending.blocks(), numbers, strict=False)
    mine = [index for index, at in numbered if at % count == number - 1]
    noted = set(map(tuple, write.claim.notes(len(write.shape), write.prefix).indices.tolist()))

    def is_stored(chunk: tuple[int, ...]) -> bool:
        stored = write.fresh and node.container.has_chunk(node.path, node.metadata, chunk)
        return stored or chunk in noted

    chunks = {index: [*itertools.product(*pending.chunks_of(index))] for index in mine}
    missing = [index for index in mine if not all(map(is_stored, chunks[index]))]
    if missing:
        show(plan, sum(len(chunks[index]) for index in missing))
        compute(*in_batches(plan, len(missing), missing))
