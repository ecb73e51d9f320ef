"""Write views as a project: after all checks, data are written, and the XML last.

The layout is that of BigStitcher, with groups as in its N5ApiTools (setupBdvDatasetsN5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.access import io_of
from xarray_n5.arrays.group import create_group
from xarray_n5.codecs import to_json
from xarray_n5.model.metadata import GroupMetadata
from xarray_n5.writing.completed import is_finished
from xarray_n5.writing.plan import WritePlan, plan_write
from xarray_n5.writing.transaction import Transaction, resume_end
from xarray_n5.writing.write import provenance
from xarray_n5_bdv.conflicts import Existing, check_setups
from xarray_n5_bdv.describe import path_of
from xarray_n5_bdv.loaders import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.writing.request import WriteOptions
    from xarray_n5_bdv.describe import ViewImage
    from xarray_n5_bdv.project import Project
    from xarray_n5_bdv.target import ProjectTarget

_RESOLUTION = (1.0, 1.0, 1.0)


def write_views(
    images: Sequence[ViewImage], target: ProjectTarget, how: WriteOptions, *distinct: Any
) -> Transaction:
    """Check the views, create their arrays, and return the transaction that writes all.

    Parameters
    ----------
    images
        The images.
    target
        The XML.
    how
        The container and the options of the views.
    distinct
        Facts that distinguish this write from others.

    Raises
    ------
    MetadataError
        If the container cannot store a view, or a setup differs from that of the project.
    NodeExistsError
        If something exists that the mode does not allow to replace.
    """
    added = joined([image.described.project for image in images])
    marker = how.marker("", "project", *distinct)
    began = (marker.facts() or marker.planned()) if how.resume else None
    if began and began.get("done"):
        return resume_end(marker, began, closing=target.update(added))
    ended = began is None and how.resume and how.mode == "w-" and is_finished(marker)
    resumes = began is not None or bool(ended)
    existing = Existing.of(how, added, target)
    existing.check(resumes=resumes)
    check_setups(existing, images, target)
    closing = target.update(added)
    written = (began or {}).get("written", [])
    plans: dict[str, WritePlan] = {}
    for image in images:
        plans |= _plans(image, how, written)
    removed = existing.levels_beyond(images)
    others = existing.other_writers(marker, plans)
    # All checks have passed.
    for other in others:
        other.end()  # all of its views are replaced
    create_group(how.container, "", mode="a")
    facts = {**provenance(), "written": written, "copied": list(plans)}
    marker.begin(facts, planned=began is not None)
    for path in removed:
        how.container.delete(path)
    for image in images:
        _create_groups(image, plans, how)
    return Transaction(
        plans, marker, remembered=bool(how.resume) and how.mode == "w-", closing=closing
    ).begin()


def joined(projects: Sequence[Project]) -> Project:
    """Return the views of several images as those of one project."""
    first, *others = projects
    for other in others:
        times = tuple(sorted({*first.timepoints, *other.timepoints}))
        entities = {kind: dict(each) for kind, each in first.entities.items()}
        for kind, each in other.entities.items():
            entities[kind] = dict(sorted({**entities.get(kind, {}), **each}.items()))
        first = replace(
            first,
            setups=dict(sorted({**first.setups, **other.setups}.items())),
            entities=entities,
            timepoints=times,
            missing=first.missing | other.missing | _absent(first, other) | _absent(other, first),
            registrations={**first.registrations, **other.registrations},
        )
    return first


def _absent(one: Project, other: Project) -> frozenset[View]:
    """Return the views of a project at time points that only the other one has."""
    times = set(other.timepoints) - set(one.timepoints)
    return frozenset(View(time, setup) for time in times for setup in one.setups)


def _plans(image: ViewImage, how: WriteOptions, written: Sequence[str]) -> dict[str, WritePlan]:
    """Return the checked writes of an image's views by path, level by level."""
    anew = replace(how, mode="w", resume=False)
    plans: dict[str, WritePlan] = {}
    finer: dict[View, Array] = {}
    for level in range(len(image.factors)):
        for view in image.described.views:
            path = path_of(view, level)
            request = image.request(view, level, path, finer.get(view))
            if path in written:
                request = replace(request, options=anew, mode="w")
            plans[path] = plan_write(request)
            finer[view] = plans[path].target
    return plans


def _create_groups(image: ViewImage, plans: Mapping[str, WritePlan], how: WriteOptions) -> None:
    """Create the groups of setups and views, with the attributes that BigStitcher reads."""
    container, done = how.container, set()
    for view in image.described.views:
        if view.setup not in done:
            done.add(view.setup)
            base = io_of(plans[path_of(view, 0)].target).metadata
            facts = {
                "dataType": base.dtype.name,
                "blockSize": list(base.chunks[::-1]),
                "dimensions": list(base.shape[::-1]),
                "compression": to_json(base.compression),
                "downsamplingFactors": [list(each[::-1]) for each in image.factors],
            }
            path = f"setup{view.setup}"
            create_group(container, path, mode="a")
            node = container.node(path)
            whole = GroupMetadata(attributes={**node.metadata.attributes, **facts})
            container.create(node, whole)
        create_group(
            container,
            path_of(view),
            mode="a",
            attributes={
                "resolution": list(_RESOLUTION),
                "saved_completely": True,
                "multiScale": True,
            },
        )
