"""Plan copies of arrays and groups, and begin them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import xarray as xr
from dask.base import tokenize

from xarray_n5.arrays.access import container_of, nodes_of
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.attributes import as_json
from xarray_n5.arrays.context import over_base
from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.marker import WriteMarker, unfinished_writes
from xarray_n5.arrays.open import open_group, open_node
from xarray_n5.copying.attributes import for_group, lists_of
from xarray_n5.copying.destination import Destination
from xarray_n5.copying.replica import Changes, replica
from xarray_n5.datasets.select import pyramid_levels
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.errors import NodeNotFoundError, ResumeError
from xarray_n5.model.metadata import GroupMetadata
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join, new_path
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteOptions
from xarray_n5.writing.transaction import Transaction, compute_alone, resume_end
from xarray_n5.writing.write import provenance

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.copying.replica import Replica
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import Mode


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that has begun: groups and arrays exist, their chunks are still to be written."""

    transaction: Transaction | None = None
    """The writes of a group's arrays; None for an array alone."""
    alone: WritePlan | None = None

    @property
    def ended(self) -> bool:
        """Whether the copy to resume had ended."""
        return self.transaction is None and self.alone is None

    @property
    def chunks(self) -> int:
        """The number of chunks that are still to be written."""
        plans = [] if self.transaction is None else list(self.transaction.plans.values())
        plans += [] if self.alone is None else [self.alone]
        return sum(plan.remaining for plan in plans)

    def compute(self) -> xr.DataTree | xr.Dataset:
        """Compute and end the copy, and return the report as :func:`xarray_n5.to_n5` does."""
        if self.transaction is not None:
            return self.transaction.compute()
        return xr.DataTree() if self.alone is None else compute_alone(self.alone)


def level_path(
    source: object, path: str, level: int | str, options: Mapping[str, Any] | None
) -> str:
    """Return the path of a level of a pyramid."""
    group = open_group(source, path, storage_options=options)
    levels = pyramid_levels(group, group.arrays())
    if level in levels:
        return levels[str(level)].path
    number = int(level) if str(level).lstrip("-").isdigit() else len(levels)
    if not -len(levels) <= number < len(levels):
        held = f"the levels are {', '.join(levels)}" if levels else "there is no pyramid"
        raise NodeNotFoundError(group.url, str(level), "level", held)
    return list(levels.values())[number].path


def begin_copy(
    source: object,
    source_path: str,
    url: object,
    path: str = "",
    *,
    mode: Mode = "w-",
    format: str | None = None,  # noqa: A002
    changes: Changes | None = None,
    without: Collection[str] = (),
    resume: bool = False,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Copy:
    """Check a copy, create its groups and arrays, and return what computes their chunks.

    Parameters and errors are those of :func:`xarray_n5.copy`.
    """
    check_option("mode", mode, "w-", "a", "w")
    node = open_node(source, source_path, storage_options=source_options)
    how = WriteOptions.into(
        url,
        storage_options=storage_options,
        format=format,
        computed=True,
        fsync=False,
        mode=mode,
        resume=resume,
    )
    target = Destination(how, new_path(how.path(path), how.container.documents))
    if isinstance(node, Array):
        made = _replicas({"": node}, {}, target, changes or Changes())
        if resume and mode != "w" and target.has_all(made):
            return Copy()
        target.check_free([], resuming=resume)
        return Copy(alone=plan_write(target.request("", made[""])).begin())
    arrays, groups = _sorted(node, without)
    lists = lists_of(container_of(node))
    told = {
        inner: for_group(dict(group.attrs), join(node.path, inner), lists, target.lists)
        for inner, group in groups.items()
    }
    made = _replicas(arrays, told, target, changes or Changes())
    names = {inner: (each.data.name, each.metadata.bare()) for inner, each in made.items()}
    mark = WriteMarker(
        store=how.store, path=target.path, token=tokenize(repr(sorted(names.items())))
    )
    began = mark.facts() if resume else None
    if began is not None and began.get("done"):
        return Copy(resume_end(mark, began))
    if resume and mode != "w" and target.has_all(made):
        return Copy()
    for inner, attributes in told.items():
        at = how.container.where(join(target.path, inner))
        how.format.check(GroupMetadata(attributes=as_json(attributes, at)), at)
    target.check_free(sorted(made), resuming=began is not None)
    plans = target.plan(made, told)
    others = _unfinished(mark, {join(target.path, inner) for inner in made})
    if others and resume and began is None:
        said = others[0].facts() or {}
        raise ResumeError(
            how.container.url, target.path, f"{said.get('began')} at {said.get('by')}"
        )
    return _begin(plans, told, mark, target)


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
    for name, node in nodes_of(group, names, strict=True).items():
        yield inner[name], node
        if not isinstance(node, Array):
            yield from _below(node, inner[name], without)


def _replicas(
    arrays: Mapping[str, Array],
    groups: Mapping[str, Attributes],
    target: Destination,
    changes: Changes,
) -> dict[str, Replica]:
    """Return the arrays as they will be, in the groups that will be around them."""
    how = target.how
    above = {node.path: node.metadata.attributes for node in target.around()}
    above |= {join(target.path, inner): told for inner, told in groups.items()}
    x_first = how.container.lists_x_first
    found: dict[str, Replica] = {}
    for inner, array in arrays.items():
        path = join(target.path, inner)
        node = ArrayContext(
            shape=array.shape, path=path, parents=_parents(path, above), lists_x_first=x_first
        )
        base = join(inner.rpartition("/")[0], "s0")
        if base in found and base != inner:
            node = over_base(node, found[base].metadata, join(target.path, base))
        found[inner] = replica(array, node, how.format, changes)
    return found


def _parents(path: str, groups: Mapping[str, Attributes]) -> tuple[Attributes, ...]:
    """Return the attributes of the groups around a path, the nearest first."""
    parts = path.split("/")[:-1]
    around = ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)] if path else []
    return tuple(groups.get(each, {}) for each in around[:3])


def _begin(
    plans: Mapping[str, WritePlan],
    told: Mapping[str, Attributes],
    mark: WriteMarker,
    target: Destination,
) -> Copy:
    """Create groups and arrays beneath a marker, and the groups' attributes last."""
    how = target.how
    create_group(how.container, target.path, mode="a", format=how.format.name)
    paths = [plan.request.path for plan in plans.values()]
    for other in _unfinished(mark, paths, whole=True) if how.mode == "w" else ():
        other.end()  # all that it was about is replaced
    mark.begin({**provenance(), "copied": paths})
    transaction = Transaction(plans, mark).begin()
    for inner, attributes in told.items():
        path = join(target.path, inner)
        group = create_group(how.container, path, mode="a", format=how.format.name)
        if attributes:
            group.attrs.update(attributes)
    how.consolidate(target.path, default=True)
    return Copy(transaction)


def _unfinished(
    mark: WriteMarker, paths: Collection[str], *, whole: bool = False
) -> list[WriteMarker]:
    """Return the marks of other copies into a group that are about some of the same arrays.

    With `whole`, only of those that are about no others.
    """
    about, found = set(paths), []
    for other in unfinished_writes(mark.store, mark.path):
        said = {} if other == mark else other.facts() or {}
        held = set(said.get("copied", [path for path, _ in said.get("parts", ())]))
        if held & about and (held <= about or not whole):
            found.append(other)
    return found
