"""The facts that only a project has, in the attribute ``bigstitcher`` of a scene.

Nothing in it is trusted when it is read: ids, names and XML are checked like those of a file.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from xarray_n5.bdv.combine import updated
from xarray_n5.bdv.project import Entity, ViewSetup, read_project
from xarray_n5.bdv.spans import Edits, spans_of
from xarray_n5.bdv.xml import KNOWN, whole
from xarray_n5.model.alerts import warn
from xarray_n5.model.level_names import view_path

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.bdv.loaders import View
    from xarray_n5.bdv.project import Project
    from xarray_n5.bdv.registrations import Registration
    from xarray_n5.bdv.spans import Span

KEY, VERSION = "bigstitcher", "1"
"""The attribute of a scene with the facts that only a project has, and its version."""

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*?\?>\s*")

_EMPTY = '<SpimData version="0.2"><BasePath type="relative">.</BasePath></SpimData>'


def facts_of(project: Project, views: Collection[View]) -> dict[str, Any]:
    """Return the facts that a scene does not have, in the terms and order of the XML (x, y, z)."""
    stored = {*views}
    listed = {view for view in project.views() if view not in stored} | project.missing
    found: dict[str, Any] = {
        "version": VERSION,
        "views": {view_path(v.setup, v.timepoint): [v.timepoint, v.setup] for v in views},
        "setups": [_setup_json(each) for each in project.setups.values()],
        "entities": {
            kind: [
                {"id": each.id, "name": each.name, "facts": dict(each.facts)}
                for each in entities.values()
            ]
            for kind, entities in project.entities.items()
        },
        "missing": [[view.timepoint, view.setup] for view in sorted(listed)],
    }
    rest, timepoints = _rest(project, stored)
    return found | ({"timepoints": timepoints} if timepoints else {}) | {"xml": rest}


def _setup_json(setup: ViewSetup) -> dict[str, Any]:
    found: dict[str, Any] = {"id": setup.id}
    if setup.name is not None:
        found["name"] = setup.name
    if setup.size is not None:
        found["size"] = list(setup.size[::-1])
    if setup.voxel_size is not None:
        found["voxelSize"] = {"size": list(setup.voxel_size[::-1])}
        found["voxelSize"] |= {"unit": setup.unit} if setup.unit is not None else {}
    return found | {"attributes": dict(setup.attributes)}


def _rest(project: Project, stored: Collection[View]) -> tuple[str, dict[str, str]]:
    """Return the XML without what the scene has, and the time points as it lists them."""
    document, root = _located(project.document)
    edits, timepoints = Edits(document), dict[str, str]()
    if (sequence := root.first("SequenceDescription")) is not None:
        for tag in ("ImageLoader", "ViewSetups", "Timepoints", "MissingViews"):
            for span in sequence.all(tag):
                edits.remove(span)
        for span in sequence.all("Timepoints"):
            inner = _text(document, document[span.inner : span.close])
            timepoints = {"type": span.attributes.get("type", ""), "text": inner.strip()}
    registered = list(root.all("ViewRegistrations/ViewRegistration"))
    placed = [span for span in registered if _ids(span) in {(v.timepoint, v.setup) for v in stored}]
    if len(placed) == len(registered):
        placed = list(root.all("ViewRegistrations"))
    for span in placed:
        edits.remove(span)
    return _DECLARATION.sub("", _text(document, edits.apply())), timepoints


def _ids(span: Span) -> tuple[int, int]:
    return int(span.attributes["timepoint"]), int(span.attributes["setup"])


def _text(document: bytes, part: bytes) -> str:
    """Return a part of a document as a string, by the encoding that it declares."""
    head = bytes(islice(document, 200)).decode("latin-1")
    found = re.search(r"""encoding=["']([\w.:-]+)["']""", head)
    text = part.decode(found[1] if found else "utf-8")
    return text.removeprefix("\ufeff")


def kept_registrations(facts: Mapping[str, Any]) -> Mapping[View, Registration]:
    """Return the registrations in the XML that the scene has kept: those of missing views."""
    return read_project(_kept(facts.get("xml"))).registrations


def warn_of_points(document: bytes, where: str, to: str) -> None:
    """Warn if an XML names files of interest points, which belong next to the XML `to`."""
    points = _sections(document).get("ViewInterestPoints", b"")
    if b"<ViewInterestPointsFile" in points:
        # Those of older versions are text files, whose folder is in their names.
        folder = "interestpoints" if b">interestpoints/" in points else "interestpoints.n5"
        warn(
            f"{where}: the XML names interest points, whose files are not copied; copy the folder "
            f"{folder!r} from next to the XML of the project to next to {to}"
        )


def warn_of_sections(document: bytes, where: str) -> None:
    """Warn about sections of a project's XML that a new project does not get."""
    if lost := [tag for tag, inner in _sections(document).items() if inner and tag not in KNOWN]:
        warn(
            f"{where}: the XML of the copy does not have the sections {', '.join(lost)}; to keep "
            "them, copy the project to a scene (dialect='ngff-0.6'), and that to a project"
        )


def _sections(document: bytes) -> dict[str, bytes]:
    """Return the content of an XML's sections by their tags."""
    document, root = _located(document)
    return {each.tag: document[each.inner : each.close].strip() for each in root.children}


def _located(document: bytes) -> tuple[bytes, Span]:
    """Return a document whose elements can be located, and its root."""
    try:
        return document, spans_of(document)
    except ValueError:  # UTF-16
        text = ET.tostring(ET.fromstring(document), encoding="unicode")  # noqa: S314 - was parsed
        return text.encode(), spans_of(text.encode())


def _kept(text: object) -> bytes:
    return (text if isinstance(text, str) else _EMPTY).encode()


def document_of(
    text: object, timepoints: ET.Element | None, project: Project, *, keep_registrations: bool
) -> bytes:
    """Return the XML of a project without a loader, in the XML that the scene has kept."""
    document = _kept(text)
    read_project(document)
    root = spans_of(document)
    edits = Edits(document)
    for span in () if keep_registrations else root.all("ViewRegistrations"):
        edits.remove(span)
    for span in root.all("BasePath"):
        edits.replace(span, '<BasePath type="relative">.</BasePath>')
    sequence = root.first("SequenceDescription")
    new = [] if timepoints is None else [ET.tostring(timepoints, encoding="unicode")]
    if sequence is None:
        inner = f"<SequenceDescription>{''.join(new)}</SequenceDescription>"
        edits.inside(root, [inner])
    else:
        for tag in ("ImageLoader", "ViewSetups", "Timepoints", "MissingViews"):
            for span in sequence.all(tag):
                edits.remove(span)
        edits.inside(sequence, new)
    return updated(b'<?xml version="1.0" encoding="UTF-8"?>\n' + edits.apply(), project)


def read_times(value: object) -> ET.Element | None:
    """Return the element of time points that a scene has kept."""
    match value:
        case {"type": "range" | "pattern" | "list" as kind, "text": str(text)}:
            if re.search("<!", text):
                raise ValueError("'timepoints' has a declaration")
            element = ET.fromstring(f"<Timepoints>{text}</Timepoints>")  # noqa: S314 - no types
            element.set("type", kind)
            return element
    return None


def read_id(value: object) -> int:
    """Return an id; raise ValueError if it is not one."""
    return whole("an id", str(value))


def read_setup(value: Mapping[str, Any]) -> ViewSetup:
    """Return a setup as a scene has kept it."""
    size, voxel = value.get("size"), value.get("voxelSize") or {}
    sides = voxel.get("size")
    return ViewSetup(
        read_id(value["id"]),
        name=None if value.get("name") is None else str(value["name"]),
        size=None if size is None else tuple(read_id(n) for n in size)[::-1],
        voxel_size=None if sides is None else tuple(float(n) for n in sides)[::-1],
        unit=None if voxel.get("unit") is None else str(voxel["unit"]),
        attributes={str(kind): read_id(n) for kind, n in value.get("attributes", {}).items()},
    )


def read_entities(value: Mapping[str, Any]) -> dict[str, dict[int, Entity]]:
    """Return the channels, tiles and others that a scene has kept."""
    found: dict[str, dict[int, Entity]] = {}
    for kind, listed in value.items():
        for each in listed:
            name = None if each.get("name") is None else str(each["name"])
            facts = {str(key): str(text) for key, text in each.get("facts", {}).items()}
            entity = Entity(read_id(each["id"]), name, facts)
            found.setdefault(str(kind), {})[entity.id] = entity
        found.setdefault(str(kind), {})
    return found
