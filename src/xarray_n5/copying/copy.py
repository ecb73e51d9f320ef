"""Copies of arrays, groups and whole trees, from any format into any other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any, cast

import xarray as xr
from dask.base import tokenize

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.attributes import as_json
from xarray_n5.arrays.context import over_base
from xarray_n5.arrays.detect import format_of, format_to_write, open_place
from xarray_n5.arrays.group import create_group, open_node
from xarray_n5.arrays.marker import WriteMarker, all_markers
from xarray_n5.copying.attributes import for_group
from xarray_n5.copying.destination import Destination
from xarray_n5.copying.replica import Changes, replica
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.errors import ResumeError
from xarray_n5.formats import Zarr2
from xarray_n5.formats.keyed import consolidate, get_documents, where
from xarray_n5.model.metadata import GroupMetadata
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join, new_path
from xarray_n5.writing.plan import start
from xarray_n5.writing.self_reads import check_one_process
from xarray_n5.writing.tasks import end, run, write_lazily
from xarray_n5.writing.transaction import end_again, together
from xarray_n5.writing.writes import now, writer_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.copying.replica import Replica
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.plan import Begun
    from xarray_n5.writing.transaction import Transaction
    from xarray_n5.writing.writes import Write


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that has begun: groups and arrays are there, their chunks are still to be written."""

    begun: Mapping[str, Begun]
    """The writes, by the paths of their arrays."""
    batch: Transaction | None
    """All of them together; None for one array alone."""

    @property
    def ended(self) -> bool:
        """Whether nothing was left of it: it had ended when it was to go on."""
        return self.batch is None and not self.begun

    @property
    def chunks(self) -> int:
        """How many chunks are left to be written."""
        counts = ((_write(each), each.before) for each in self.begun.values())
        return sum(
            math.prod(map(len, write.box)) - (0 if before is None else len(before))
            for write, before in counts
        )

    def now(self) -> xr.DataTree | xr.Dataset:
        """Compute and end the copy, and return receipts as :func:`xarray_n5.to_n5` does."""
        if self.batch is not None:
            return self.batch.now()
        if self.ended:
            return xr.DataTree()
        (only,) = self.begun.values()
        write = replace(_write(only), part=True)
        receipts = run(write_lazily(only.source, write, only.before), [write])
        end(write)
        return cast("xr.Dataset", receipts)


def copy(
    source: object,
    source_path: str,
    url: object,
    path: str = "",
    *,
    mode: str = "w-",
    format: str | None = None,  # noqa: A002
    changes: Changes | None = None,
    without: Collection[str] = (),
    resume: bool = False,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Copy:
    """Begin to copy an array, or a group with all that is in it.

    Attributes keep their meaning, and come back as they were when they are copied back; see
    :mod:`xarray_n5.copying.attributes`. Everything is checked before anything is written.

    Parameters
    ----------
    source, source_path, source_options
        What is copied; as in :func:`~xarray_n5.open_array`.
    url, path, storage_options, format
        Where it goes; as in :func:`~xarray_n5.create_array`.
    mode
        "w-" raises where there is something; "a" adds nodes to the groups that are there; "w"
        replaces arrays of the same paths, too. Nodes of other paths stay.
    changes
        In what the arrays differ from what they are.
    without
        Patterns of paths below the group that are left out.
    resume
        Whether to go on with this very copy, where it was stopped; where it has ended, nothing is
        left to be done, unless `mode` is "w".

    Returns
    -------
    Copy
        What is computed by its ``now()``.

    Raises
    ------
    NodeNotFoundError
        If there is nothing to copy.
    NodeExistsError
        If there is something that `mode` does not allow to replace.
    MetadataError
        If the format cannot hold it.
    ResumeError
        If something else is being written there.
    """
    check_option("mode", mode, "w-", "a", "w")
    from_store, from_path = open_place(source, source_path, source_options, None)
    node = open_node(from_store, from_path)
    store, path = open_place(url, path, storage_options, format, writable=True)
    form = format_to_write(store, format)
    if store.one_writer:
        check_one_process(store.url)
    target = Destination(store, form, new_path(path, form.documents[0]), mode, resume)
    if isinstance(node, Array):
        made = _replicas({"": node}, {}, target, changes or Changes())
        if resume and mode != "w" and target.has_all(made):
            return Copy({}, None)
        target.check_free([], resuming=resume)
        order = target.order(made[""])
        begun = start(made[""].data, store, target.path, order, computed=True)
        return Copy({target.path: begun}, None)
    arrays, groups = _sorted(node, without)
    source_form = format_of(from_store, node.format)
    lists = source_form.lists(lambda: get_documents(from_store, "", source_form))
    told = {
        inner: for_group(dict(group.attrs), join(from_path, inner), lists, target.lists)
        for inner, group in groups.items()
    }
    made = _replicas(arrays, told, target, changes or Changes())
    names = {inner: (each.data.name, each.metadata.bare()) for inner, each in made.items()}
    mark = WriteMarker(store=store, path=target.path, token=tokenize(repr(sorted(names.items()))))
    began = mark.facts() if resume else None
    if began is not None and began.get("done"):
        return Copy({}, end_again(mark, began))
    if resume and mode != "w" and target.has_all(made):
        return Copy({}, None)
    for inner, attributes in told.items():
        at = where(store, join(target.path, inner), form)
        form.create(GroupMetadata(attributes=as_json(attributes, at)), {}, at)
    target.check_free(sorted(made), resuming=began is not None)
    target.check_room(made, told)
    others = _unfinished(mark, {join(target.path, inner) for inner in made})
    if others and resume and began is None:
        said = others[0].facts() or {}
        raise ResumeError(store.url, target.path, f"{said.get('began')} at {said.get('by')}")
    return _begin(made, told, mark, target)


def _sorted(group: Group, without: Collection[str]) -> tuple[dict[str, Array], dict[str, Group]]:
    """Return the arrays and the groups of a tree by their paths in it, base levels first."""
    arrays: dict[str, Array] = {}
    groups = {"": group}
    for path, node in _below(group, "", without):
        if isinstance(node, Array):
            arrays[path] = node
        else:
            groups[path] = node
    return dict(sorted(arrays.items())), groups


def _below(
    group: Group, path: str, without: Collection[str]
) -> Iterator[tuple[str, Array | Group]]:
    inner = {name: join(path, name) for name in group}
    names = [n for n, at in inner.items() if not any(fnmatch(at, each) for each in without)]
    for name, node in group.nodes(names, strict=True).items():
        yield inner[name], node
        if not isinstance(node, Array):
            yield from _below(node, inner[name], without)


def _replicas(
    arrays: Mapping[str, Array],
    groups: Mapping[str, Attributes],
    target: Destination,
    changes: Changes,
) -> dict[str, Replica]:
    """Return what arrays become, in the groups that will be around them."""
    above = {
        path: target.form.read(documents, where(target.store, path, target.form)).attributes
        for path, documents in target.around().items()
    }
    above |= {join(target.path, inner): told for inner, told in groups.items()}
    lists = target.lists
    found: dict[str, Replica] = {}
    for inner, array in arrays.items():
        path = join(target.path, inner)
        node = ArrayContext(
            shape=array.shape, path=path, parents=_parents(path, above), format=lists
        )
        base = join(inner.rpartition("/")[0], "s0")
        if base in found and base != inner:
            node = over_base(node, found[base].metadata, join(target.path, base))
        found[inner] = replica(array, node, target.form, changes)
    return found


def _parents(path: str, groups: Mapping[str, Attributes]) -> tuple[Attributes, ...]:
    """Return the attributes of the groups around a path, the nearest first."""
    parts = path.split("/")[:-1]
    around = ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)] if path else []
    return tuple(groups.get(each, {}) for each in around[:3])


def _begin(
    made: Mapping[str, Replica],
    told: Mapping[str, Attributes],
    mark: WriteMarker,
    target: Destination,
) -> Copy:
    """Create groups and arrays beneath a mark, and the groups' attributes last."""
    create_group(*target.place, mode="a", format=target.form.name)
    paths = [join(target.path, inner) for inner in made]
    for other in _unfinished(mark, paths, whole=True) if target.mode == "w" else ():
        other.end()  # all that it was about is replaced
    mark.begin({"by": writer_name(), "began": now(), "copied": paths})
    begun = {
        join(target.path, inner): start(
            each.data, target.store, join(target.path, inner), target.order(each), computed=True
        )
        for inner, each in made.items()
    }
    for inner, attributes in told.items():
        path = join(target.path, inner)
        group = create_group(target.store, path, mode="a", format=target.form.name)
        if attributes:
            group.attrs.update(attributes)
    if target.form.name == Zarr2.name:
        consolidate(target.store, target.path, target.form)
    return Copy(begun, together(begun, target.path, mark))


def _unfinished(
    mark: WriteMarker, paths: Collection[str], *, whole: bool = False
) -> list[WriteMarker]:
    """Return the marks of other copies into a group that are about some of the same arrays.

    With `whole`, only of those that are about no others.
    """
    about, found = set(paths), []
    for other in all_markers(mark.store, mark.path):
        said = {} if other == mark else other.facts() or {}
        held = set(said.get("copied", [path for path, _ in said.get("parts", ())]))
        if held & about and (held <= about or not whole):
            found.append(other)
    return found


def _write(begun: Begun) -> Write:
    return cast("Write", begun.write)
