"""Find damage: read all nodes once, and check them, their levels, and a few chunks of each."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import find_xml
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import Walk
from xarray_n5.arrays.records import REPAIR, look
from xarray_n5.doctor.levels import inconsistency, pyramids_in
from xarray_n5.errors import ChunkError, N5Error, NodeNotFoundError, RequestError, printable
from xarray_n5.formats.consolidated import contradictions
from xarray_n5.formats.documents import unfinished
from xarray_n5.formats.protocol import Node
from xarray_n5.integrity.report import check_chunk
from xarray_n5.leaves import scene_reader
from xarray_n5.model.alerts import ODD, REFUSED
from xarray_n5.model.json import RESTORE
from xarray_n5.model.level_names import number_in
from xarray_n5.model.metadata import ArrayMetadata, Content
from xarray_n5.model.paths import join
from xarray_n5.stores import heads, together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.doctor.levels import Pyramid
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.grid import ChunkGrid, Index

_SHOWN = 8
"""The maximum number of names in a message."""

_ARRAYS = 512
"""The maximum number of arrays whose chunks are sampled."""

_LISTED = 4096
"""The maximum number of chunks of an array that are listed."""

_CHUNKS, _DECODED = 8, 2
"""The maximum number of chunks per array whose first bytes are read, and that are decoded."""

_LARGEST, _BUDGET = 1 << 25, 1 << 28
"""The maximum size of a chunk that is decoded, and of all together, in bytes."""

_HEAD = 512
"""The number of bytes that are read from the beginning of a chunk."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a container that is damaged, missing or contradictory."""

    kind: str
    """What is wrong, as a word for programs: ``missing-level``, ``chunk-damaged``, ..."""
    path: str
    """The path of the node in its container."""
    message: str
    """What was expected, and what was found."""
    remedy: str
    """The remedy, with a command if there is one."""

    def __str__(self) -> str:
        return printable(f"{self.path or '/'}: {self.message}; {self.remedy}")


@dataclass(frozen=True)
class Survey:
    """The nodes from one group down."""

    container: Container
    root: str
    """The path of the group."""
    xml: bytes | None = None
    """The XML that describes the container's images, if the user named it."""
    arrays: dict[str, Array] = field(default_factory=dict)
    """The arrays by their paths."""
    groups: dict[str, Group] = field(default_factory=dict)
    """The groups by their paths."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """The errors of unreadable nodes, by their paths."""

    @classmethod
    def of(cls, walk: Walk, xml: bytes | None = None) -> Survey:
        """Return the survey of all nodes of a walk."""
        survey = cls(walk.container, walk.root.path, xml)
        for entry in walk.nodes():
            if isinstance(entry.node, Array):
                survey.arrays[entry.path] = entry.node
            elif isinstance(entry.node, Group):
                survey.groups[entry.path] = entry.node
            elif entry.broken:
                survey.unreadable[entry.path] = str(entry.problem)
        return survey

    @cached_property
    def pyramids(self) -> Sequence[Pyramid]:
        """The pyramids whose levels are listed by attributes, or by the names of arrays."""
        return pyramids_in(self.groups, self.arrays)

    @cached_property
    def samples(self) -> Mapping[str, Sample]:
        """Some chunks of each array."""
        return _samples(self)

    def url(self, path: str) -> str:
        """Return a node's location, for commands."""
        return join(self.container.url, path)

    def covers(self, path: str) -> bool:
        """Return whether a node would be in the survey if it were stored."""
        return not self.root or path == self.root or path.startswith(f"{self.root}/")


def survey_at(
    url: object, path: str, storage_options: Mapping[str, Any] | None, xml: bytes | None
) -> tuple[Survey | None, list[Finding]]:
    """Return all nodes of a container, unless it cannot be read, and the findings about them.

    Reads the metadata of all nodes in batches, the first bytes of a few chunks of each array, and
    one or two chunks whole. Damage is returned, never raised; data are never changed.

    Parameters
    ----------
    url, path, storage_options
        As in :func:`open_array`; `url` may be an open container, `path` the node to begin at.
    xml
        The XML that describes the container's images; by default that next to it.

    Raises
    ------
    NodeNotFoundError
        If there is no array or group at the location.
    RequestError
        If the location cannot be reached.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks report the same problems
        try:
            survey = Survey.of(Walk.at(url, path, storage_options, whole=True), xml)
        except (NodeNotFoundError, RequestError):
            raise
        except N5Error as error:
            return None, [Finding("unreadable", path, str(error), "restore its metadata")]
        checks = CHECKS.items()
        return survey, [finding for name, check in checks for finding in _run(name, check, survey)]


def _run(name: str, check: Check, survey: Survey) -> Iterator[Finding]:
    """Iterate over the findings of a check; one that fails is a finding, too."""
    try:
        yield from check(survey)
    except (N5Error, OSError, *ODD) as error:
        why = f"{name} could not be checked: {type(error).__name__}: {error}"
        yield Finding("not-checked", survey.root, why, "see the message, and try again")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])


# Checks of nodes


def _unreadable(survey: Survey) -> Iterator[Finding]:
    """Find nodes that cannot be read, and those that a writer did not complete."""
    for path, why in survey.unreadable.items():
        remedy = "restore its metadata from a copy or by hand, or remove it"
        yield Finding("unreadable", path, why.removesuffix(f"; {RESTORE}"), remedy)
    for path, group in survey.groups.items():
        if group.node.incomplete:
            why = "it has attributes, but not the document that makes it an array or a group"
            remedy = "repeat the write that was stopped, or remove it"
            yield Finding("unreadable", path, why, remedy)


def _unfinished_nodes(survey: Survey) -> Iterator[Finding]:
    """Find nodes with an unfinished write."""
    store = survey.container.store
    for path in sorted(unfinished(store, [*survey.arrays, *survey.groups])):
        tokens = {record.token for record in look(store, path).opens}
        why = "it has an unfinished write; chunks that it has not written are read as fill values"
        if tokens == {REPAIR}:
            why = "damaged chunks were removed and not written again; they are read as fill values"
        remedy = "wait if a program is writing now; otherwise repeat the write with resume=True"
        yield Finding("unfinished", path, why, remedy)


def _ambiguous(survey: Survey) -> Iterator[Finding]:
    """Find groups with the metadata of arrays, and arrays that contain nodes.

    Setups have these metadata in BigStitcher's layout; that is not damage.
    """
    container, groups = survey.container, list(survey.groups)
    for path, claim in zip(groups, container.nodes(groups, verify=False), strict=True):
        setup = number_in(path.rpartition("/")[2], "setup") is not None
        if isinstance(claim, Node) and isinstance(claim.metadata, ArrayMetadata) and not setup:
            why = "the group has the metadata of an array; readers that trust them see zeros"
            remedy = "open the arrays in it, or all with xarray.open_datatree(..., engine='n5')"
            yield Finding("group-like-array", path, why, remedy)
    for path, sample in survey.samples.items():
        if sample.nodes:
            names = _listed(sample.nodes)
            why = f"the array also contains nodes ({names}), which most readers do not find"
            yield Finding("array-with-nodes", path, why, "move them out of it")


def _consolidated(survey: Survey) -> Iterator[Finding]:
    """Find groups whose consolidated metadata contradict the documents of nodes."""
    container = survey.container
    for path in survey.groups:
        if names := contradictions(container.store, path, container.format.documents):
            why = (
                f"consolidated metadata, which others use, differ from documents: {_listed(names)}"
            )
            remedy = f"consolidate again: zarr.consolidate_metadata({survey.url(path)!r})"
            yield Finding("consolidated", path, why, remedy)


def _missing_images(survey: Survey) -> Iterator[Finding]:
    """Find images of the scene in an XML that its container lacks."""
    container = survey.container
    document = survey.xml or (None if survey.root else find_xml(container))
    if survey.root or document is None:
        return
    why = "it does not describe a project"
    try:
        if (reader := scene_reader(document)) is not None:
            if survey.xml is None and not reader.refers_to(document, container):
                return
            if missing := reader.missing_images(document, {**survey.arrays, **survey.groups}):
                remedy = "write them, or list them in the XML's MissingViews"
                yield Finding("missing-view", "", missing, remedy)
            return
    except ValueError as error:
        why = str(error)
    why = f"the XML of the project next to the container cannot be read: {why}"
    yield Finding("unreadable-project", "", why, "restore it; BigStitcher keeps dataset.xml~1")


# Checks of levels


def _levels(survey: Survey) -> Iterator[Finding]:
    """Find levels that are listed but not stored, empty, or of inconsistent types and sizes."""
    writing = unfinished(survey.container.store, survey.samples)
    for pyramid in survey.pyramids:
        missing = [
            path
            for path in pyramid.levels
            if path not in {*survey.arrays, *survey.unreadable} and survey.covers(path)
        ]
        samples = [survey.samples[path] for path in pyramid.levels if path in survey.samples]
        empty = [sample.node.path for sample in samples if sample.is_empty]
        if len(samples) < 2 or not writing.isdisjoint(pyramid.levels):  # noqa: PLR2004
            empty = []
        for kind, lost in (("missing-level", missing), ("empty-level", empty)):
            if not lost:
                continue
            base, names = pyramid.levels[0], _listed([pyramid.inner(path) for path in lost])
            is_ = "is" if len(lost) == 1 else "are"
            why = f"no chunk of {names} is stored, so they are read as fill values"
            if kind == "missing-level":
                count, promised = len(pyramid.levels), pyramid.promised
                why = f"{count} levels by {promised}, of which {names} {is_} not stored"
            remedy = "restore or write the base level"
            if base in survey.arrays and base not in lost:
                command = f"xarray-n5 pyramid {survey.url(base)} --mode w"
                remedy = f"make the levels again with {command}, or correct {pyramid.promised}"
            yield Finding(kind, pyramid.path, why, remedy)
        for path, kind, why in inconsistency(pyramid, survey.arrays):
            yield Finding(kind, path, why, "correct its metadata, or write the pyramid again")


# Checks of chunks


@dataclass(slots=True)
class Sample:
    """Some chunks of an array."""

    array: Array
    stored: Sequence[Index] | None
    """The chunks that are listed, also beyond the array's ends; None if they were not."""
    others: Sequence[str]
    """The other files in its directory, relative to it."""
    heads: dict[Index, tuple[bytes, int]] = field(default_factory=dict)
    """The first bytes and the sizes of some chunks."""

    @property
    def node(self) -> ArrayNode:
        """The array's chunks."""
        return self.array.node

    @property
    def nodes(self) -> list[str]:
        """The names of nodes in the array."""
        documents = self.node.container.documents
        paths = [key.split("/") for key in self.others if not key.startswith(".")]
        return sorted({names[0] for names in paths if names[1:] and names[-1] in documents})

    @property
    def is_empty(self) -> bool:
        """Whether it is known that no chunk is stored."""
        return self.stored == [] and self.array.size > 0


def _samples(survey: Survey) -> dict[str, Sample]:
    """Return some chunks of each array, or of some of very many: those at the ends of its grid."""
    step = -(-len(survey.arrays) // _ARRAYS) or 1
    arrays = dict(islice(survey.arrays.items(), 0, None, step))
    store = survey.container.store
    listings = together(store, [partial(_listing, array.node) for array in arrays.values()])
    samples = {
        path: Sample(arrays[path], *listing) for path, listing in zip(arrays, listings, strict=True)
    }
    wanted = [(sample, index) for sample in samples.values() for index in _wanted(sample)]
    if survey.container.documents:
        first = heads(store, [sample.node.key(index) for sample, index in wanted], _HEAD)
    else:
        first = (_head(sample.node, index) for sample, index in wanted)
    for (sample, index), head in zip(wanted, first, strict=True):
        if head is not None:
            sample.heads[index] = head
    return samples


def _listing(node: ArrayNode) -> tuple[list[Index] | None, list[str]]:
    """Return the chunks of an array and other files, unless there are too many of them."""
    if node.metadata.grid.size > _LISTED:
        return None, []
    others: list[str] = []
    chunks = node.container.list_chunks(node.path, node.metadata, others)
    try:
        stored = sorted(islice(chunks, _LISTED + 1))
    except REFUSED:
        return None, []
    return (stored if len(stored) <= _LISTED else None), others


def _head(node: ArrayNode, index: Index) -> tuple[bytes, int] | None:
    return next(node.container.head_chunks(node.path, node.metadata, [index], _HEAD))


def _wanted(sample: Sample) -> list[Index]:
    """Return the chunks to check: some that are stored, and those at the ends of the grid."""
    grid = sample.node.metadata.grid
    stored = [index for index in sample.stored or () if index in grid]
    some = [*stored[:1], *stored[-1:], *stored[len(stored) // 2 :][:1]]
    return list(dict.fromkeys([*some, *_corners(grid)]))[:_CHUNKS]


def _corners(grid: ChunkGrid) -> Iterator[Index]:
    """Iterate over the first chunk, the last one, those at the end of one axis, and the middle."""
    if not grid.size:
        return
    zero, last = (0,) * len(grid.counts), tuple(count - 1 for count in grid.counts)
    yield zero
    yield last
    for axis in range(len(zero)):
        yield (*zero[:axis], last[axis], *zero[axis + 1 :])
    yield tuple(count // 2 for count in grid.counts)


def _sampled_chunks(survey: Survey) -> Iterator[Finding]:
    """Find stray chunks, and chunks that are damaged or have another shape."""
    left = _BUDGET
    for path, sample in survey.samples.items():
        node, verify = sample.node, f"xarray-n5 verify {survey.url(path)}"
        grid = node.metadata.grid
        if strays := [node.key(index) for index in sample.stored or () if index not in grid]:
            why = f"chunks are outside the grid of {grid.counts} chunks: {_listed(strays)}"
            remedy = f"list them with {verify}, and remove them or correct the array's shape"
            yield Finding("stray-chunk", path, why, remedy)
        if node.metadata.content is Content.OBJECTS:
            continue
        for number, (index, head) in enumerate(sample.heads.items()):
            state, _, _ = check_chunk(node, index, head, 0)
            if state == "ok" and number < _DECODED and head[1] <= min(_LARGEST, left):
                left -= head[1]
                state = _decoded(sample.array, index)
            if state != "ok":
                kind = "chunk-shape" if state == "wrong-shape" else "chunk-damaged"
                what = f"chunk {node.key(index)!r} is {state}"
                yield Finding(kind, path, what, f"see {verify}")


def _decoded(array: Array, index: Index) -> str:
    """Return the state of a chunk by decoding it; of a shard, its index and one chunk."""
    if array.node.metadata.inner is None:
        return check_chunk(array.node, index, ..., 0)[0]
    corner = (slice(side.start, side.start + 1) for side in array.grid.slices(index))
    try:
        _ = array[tuple(corner)]
    except ChunkError:
        return "undecodable"
    return "ok"


Check: TypeAlias = "Callable[[Survey], Iterator[Finding]]"

CHECKS: Mapping[str, Check] = {
    "nodes that cannot be read": _unreadable,
    "unfinished writes": _unfinished_nodes,
    "arrays and groups": _ambiguous,
    "consolidated metadata": _consolidated,
    "levels": _levels,
    "chunks": _sampled_chunks,
    "the images of the scene": _missing_images,
}
"""The checks, in the order of the findings."""
