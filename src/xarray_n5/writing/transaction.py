"""Several writes that begin and end together."""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import xarray as xr
from dask.base import tokenize

from xarray_n5.arrays.detect import format_to_write
from xarray_n5.arrays.marker import WriteMarker
from xarray_n5.formats import Zarr2, get_format
from xarray_n5.formats.containers import open_container
from xarray_n5.formats.keyed import consolidate, get_all_documents
from xarray_n5.graph import gather_all
from xarray_n5.model.options import check_option
from xarray_n5.stores import fresh
from xarray_n5.writing.finished import remember
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_one_process
from xarray_n5.writing.tasks import run, write_lazily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.graph import Written
    from xarray_n5.stores.protocol import Store
    from xarray_n5.writing.plan import Begun
    from xarray_n5.writing.request import PartialChunks
    from xarray_n5.writing.writes import Write

Mode: TypeAlias = Literal["w-", "w", "a", "r+"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where and how datasets are written."""

    url: object
    mode: Mode = "w-"
    storage_options: Mapping[str, Any] | None = None
    form: KeyedFormat = field(default_factory=lambda: get_format(None))
    """The container's format."""
    dialect: str | Iterable[str] | None = None
    align_chunks: bool = True
    partial_chunks: PartialChunks = "error"
    write_empty_chunks: bool = True
    resume: bool | str = False
    checksums: bool = False
    fsync: bool = False
    deferred: bool = False
    """Whether Dask's arrays are computed later; all else is written at once."""
    whole: WriteMarker | None = None
    """The mark of all together, where they have one."""
    consolidated: bool | None = None
    """Whether a group gets consolidated metadata; None for where xarray writes them, too."""

    def __post_init__(self) -> None:
        check_option("mode", self.mode, "w-", "w", "a", "r+")
        check_option("partial_chunks", self.partial_chunks, "error", "merge")
        if self.consolidated and self.form.name != Zarr2.name:
            raise ValueError(
                f"consolidated=True is for Zarr v2; {self.form.name} has no consolidated metadata"
            )

    @classmethod
    def into(
        cls,
        url: object,
        *,
        format: str | None,  # noqa: A002
        computed: bool,
        **options: Any,
    ) -> Self:
        """Return how datasets are written into a container, whose format is looked at once."""
        store, _ = open_container(url, "", options.get("storage_options"))
        if computed and store.one_writer:
            check_one_process(store.url)
        return cls(url=url, form=format_to_write(store, format), deferred=not computed, **options)

    def order(self, **options: Any) -> WriteRequest:
        """Return what is asked for of an array."""
        return WriteRequest(
            align_chunks=self.align_chunks,
            partial_chunks=self.partial_chunks,
            write_empty_chunks=self.write_empty_chunks,
            resume=self.resume,
            checksums=self.checksums,
            format=self.form.name,
            whole=self.whole,
            **options,
        )

    def consolidate(self, path: str, *, usual: bool) -> None:
        """Write the consolidated metadata of a group, if asked for or, where not, if `usual`."""
        wanted = usual if self.consolidated is None else self.consolidated
        if wanted and self.form.name == Zarr2.name:
            store, inner = open_container(self.url, path, self.storage_options)
            consolidate(fresh(store), inner, self.form)

    def mark(self, path: str, *facts: Any) -> WriteMarker:
        """Return the mark of a write into a group, which is made of what is written."""
        store, inner = open_container(self.url, path, self.storage_options)
        told = self.resume if isinstance(self.resume, str) else facts
        options = (self.mode, self.align_chunks, self.write_empty_chunks, self.checksums)
        return WriteMarker(store=fresh(store), path=inner, token=tokenize(told, path, options))

    def around(self, path: str) -> tuple[Store, dict[str, Documents]]:
        """Return the container, and the documents of a group and of those that it is in."""
        store, inner = open_container(self.url, path, self.storage_options)
        store = fresh(store)
        parts = inner.split("/") if inner else []
        places = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
        found = get_all_documents(store, places, self.form)
        return store, dict(zip(places, found, strict=True))

    @property
    def place(self) -> dict[str, Any]:
        """How the container is found."""
        return {"storage_options": self.storage_options, "format": self.form.name}


@dataclass(frozen=True, slots=True)
class Transaction:
    """Several writes beneath one mark, which says when they are over."""

    begun: Mapping[str, Begun]
    """The writes, by the names of what they write."""
    mark: WriteMarker
    ends: Sequence[WriteMarker]
    """The marks of the writes themselves."""
    remembered: bool = False
    """Whether resuming it once more, when it has ended, is to find nothing to do."""

    def later(self) -> Written:
        """Write what is in memory, and return what computes the other writes, and ends them."""
        if not self.begun:
            return self._gathered(functools.partial(_end_after, batch=(self.mark, self.ends)))
        at_once = {n: each for n, each in self.begun.items() if not _write(each).deferred}
        rest = {n: each for n, each in self.begun.items() if _write(each).deferred}
        receipts = self._at_once(at_once)
        if not rest:
            self.mark.end()
            return gather_all([], functools.partial(_given, receipts=receipts), _name())
        ends = [_write(each).underway for each in rest.values()]
        if all(_write(each).planned for each in rest.values()):
            parts = [[each.path, each.token] for each in ends]
            self.mark.postpone({**(self.mark.facts() or {}), "parts": parts})
        last = functools.partial(_end_after, batch=(self.mark, ends), before=receipts)
        return replace(self, begun=rest, ends=ends)._gathered(last)  # noqa: SLF001

    def _at_once(self, begun: Mapping[str, Begun]) -> dict[str, xr.Dataset]:
        """Compute some of the writes and end them; whoever resumes the others finds these named."""
        if not begun:
            return {}
        receipts = run(replace(self, begun=begun)._gathered(_as_they_are), self._writes)  # noqa: SLF001
        ends = [_write(each).underway for each in begun.values()]
        self.mark.begin({**(self.mark.facts() or {}), "written": [each.path for each in ends]})
        for each in ends:
            each.end()
        return cast("dict[str, xr.Dataset]", receipts)

    def now(self) -> xr.DataTree:
        """Compute the writes, and end them here: no worker can be lost that had ended them."""
        receipts = run(self._gathered(_as_they_are), self._writes)
        found = _end(receipts, self.mark, self.ends)
        for each in (*self.ends, self.mark) if self.remembered else ():
            remember(each)
        return found

    def in_turn(self) -> xr.DataTree:
        """Compute the writes one after another, as where each reads what the last one wrote."""
        receipts = {}
        for name, each in self.begun.items():
            write = replace(_write(each), part=True)
            receipts[name] = run(write_lazily(each.source, write, each.before), self._writes)
        return _end(receipts, self.mark, self.ends)

    @property
    def _writes(self) -> list[Write]:
        return [_write(each) for each in self.begun.values()]

    def _gathered(self, last: Callable[[dict[str, Any]], Any]) -> Written:
        parts = []
        for each in self.begun.values():
            write = replace(_write(each), part=True)
            parts.append(write_lazily(each.source, write, each.before))
        named = functools.partial(_named, names=list(self.begun), last=last)
        return gather_all(parts, named, _name())


def together(begun: Mapping[str, Begun], root: str, mark: WriteMarker) -> Transaction:
    """Return writes that end together, called after where they are below `root`."""
    named = {path.removeprefix(root).strip("/"): each for path, each in begun.items()}
    ends = [_write(each).underway for each in named.values()]
    return Transaction(named, mark, ends)


def end_again(mark: WriteMarker, facts: Mapping[str, Any]) -> Transaction:
    """Return what is left of writes that had been over when they were stopped."""
    mark.begin(facts)
    parts = facts.get("parts", ())
    return Transaction({}, mark, [replace(mark, path=path, token=token) for path, token in parts])


def side_by_side(batches: Mapping[str, Transaction]) -> Written:
    """Return what computes batches, each of which ends by itself."""
    named = functools.partial(_named, names=list(batches), last=_as_tree)
    parts = [batch.later() for batch in batches.values()]
    return gather_all(parts, named, _name())


def _write(begun: Begun) -> Write:
    return cast("Write", begun.write)


def _name() -> str:
    return f"to_n5-{uuid.uuid4().hex}"


def _given(_: list[Any], receipts: dict[str, xr.Dataset]) -> xr.DataTree:
    return _as_tree(receipts)


def _named(results: list[Any], names: list[str], last: Callable[[dict[str, Any]], Any]) -> Any:
    return last(dict(zip(names, results, strict=True)))


def _as_they_are(receipts: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    return receipts


def _as_tree(results: dict[str, Any]) -> xr.DataTree:
    return xr.DataTree.from_dict(results)


def _end_after(
    receipts: dict[str, xr.Dataset],
    batch: tuple[WriteMarker, Sequence[WriteMarker]],
    before: Mapping[str, xr.Dataset] | None = None,
) -> xr.DataTree:
    return _end({**(before or {}), **receipts}, *batch)


def _end(
    receipts: dict[str, xr.Dataset], mark: WriteMarker, ends: Sequence[WriteMarker]
) -> xr.DataTree:
    """End writes: from the moment when their mark says that all is done, they are over."""
    mark.check()
    mark.done({"parts": [[each.path, each.token] for each in ends]})
    for each in ends:
        each.end()
    mark.end()
    return _as_tree(receipts)
