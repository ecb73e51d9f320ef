"""Read all nodes of a container once, and run all checks; those of nodes are here."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

from xarray_n5.arrays.context import find_xml
from xarray_n5.arrays.open import Walk
from xarray_n5.arrays.records import REPAIR, look
from xarray_n5.doctor import chunks, levels
from xarray_n5.doctor.finding import Finding, listed
from xarray_n5.doctor.survey import Survey
from xarray_n5.errors import N5Error, NodeNotFoundError, RequestError
from xarray_n5.formats.consolidated import contradictions
from xarray_n5.formats.documents import unfinished
from xarray_n5.formats.protocol import Node
from xarray_n5.leaves import scene_reader
from xarray_n5.model.alerts import ODD
from xarray_n5.model.json import RESTORE
from xarray_n5.model.level_names import number_in
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group

    Check: TypeAlias = Callable[[Survey], Iterator[Finding]]


def survey_at(
    url: object,
    path: str,
    storage_options: Mapping[str, Any] | None,
    xml: bytes | None,
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
            yield Finding(
                "group-like-array",
                path,
                "the group has the metadata of an array; readers that trust them see a single "
                "array of zeros",
                "open the arrays in it, or all with xarray.open_datatree(..., engine='n5')",
            )
    for path, names in _nested(survey).items():
        yield Finding(
            "array-with-nodes",
            path,
            f"the array has chunks and also contains nodes ({listed(names)}), which most readers "
            "do not find",
            "move them out of it",
        )


def _nested(survey: Survey) -> dict[str, list[str]]:
    """Return the names of nodes in arrays, by the paths of arrays with any; one batch of reads."""
    inside = {path: folders for path, (folders, _) in survey.listings.items() if folders}
    names = {
        path: [name for name in folders if not name.startswith(".")]
        for path, folders in inside.items()
    }
    # Of directories named by numbers, which usually have chunks, two are read.
    tried = [
        (path, name)
        for path, inner in names.items()
        for name in (*(n for n in inner if not n.isdecimal()), *filter(str.isdecimal, inner[:2]))
    ]
    nested: dict[str, list[str]] = {}
    paths = [join(path, name) for path, name in tried]
    nodes = survey.container.nodes(paths, verify=False) if paths else []
    for (path, name), node in zip(tried, nodes, strict=True):
        if isinstance(node, Node) and node.described:
            nested.setdefault(path, []).append(name)
    return nested


def _consolidated(survey: Survey) -> Iterator[Finding]:
    """Find groups whose consolidated metadata contradict the documents of nodes."""
    container = survey.container
    for path in survey.groups:
        if names := contradictions(container.store, path, container.format.documents):
            yield Finding(
                "consolidated",
                path,
                "consolidated metadata differ from the documents of nodes, which other readers "
                f"use: {listed(names)}",
                f"consolidate again: zarr.consolidate_metadata({survey.url(path)!r})",
            )


def _missing_images(survey: Survey) -> Iterator[Finding]:
    """Find images of the scene in an XML that its container lacks."""
    document = survey.xml or (None if survey.root else find_xml(survey.container))
    if survey.root or document is None:
        return
    container, why = survey.container, "it does not describe a project"
    try:
        if (reader := scene_reader(document)) is not None:
            if survey.xml is None and not reader.refers_to(document, container):
                return
            nodes: dict[str, Array | Group] = {**survey.arrays, **survey.groups}
            if missing := reader.missing_images(document, nodes):
                remedy = "write them, or list them in the XML's MissingViews"
                yield Finding("missing-view", "", missing, remedy)
            return
    except ValueError as error:
        why = str(error)
    why = f"the XML of the project next to the container cannot be read: {why}"
    yield Finding("unreadable-project", "", why, "restore it; BigStitcher keeps dataset.xml~1")


CHECKS: Mapping[str, Check] = {
    "nodes that cannot be read": _unreadable,
    "unfinished writes": _unfinished_nodes,
    "arrays and groups": _ambiguous,
    "consolidated metadata": _consolidated,
    "missing levels": levels.missing_levels,
    "the sizes of levels": levels.inconsistent_levels,
    "chunks": chunks.sampled_chunks,
    "the images of the scene": _missing_images,
}
"""The checks, in the order of the findings."""
