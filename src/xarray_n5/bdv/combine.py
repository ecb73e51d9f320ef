"""Write a project's XML: a new one, or with views added and everything else kept.

Elements are as spim_data writes them. Source: its XmlIo classes, and BigDataViewer's
XmlIoN5ImageLoader.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from xarray_n5.bdv.loaders import ViewId, XmlPath
from xarray_n5.bdv.project import read_project, view_of
from xarray_n5.bdv.xml import KNOWN, ROOT, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.bdv.loaders import Loader
    from xarray_n5.bdv.project import Entity, Project, Registration, ViewSetup

_VERSION = "0.2"
"""The version of spim_data's XML."""

_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot represent."""


def document_of(project: Project) -> bytes:
    """Return the XML of a project.

    Raises
    ------
    ValueError
        If a name has characters that XML cannot hold.
    """
    root = Element(ROOT, version=_VERSION)
    _add(root, "BasePath", ".").set("type", "relative")
    sequence = SubElement(root, "SequenceDescription")
    if project.loader is not None:
        sequence.append(loader_element(project.loader))
    sequence.append(setups_element(project))
    sequence.append(timepoints_element(project.timepoints))
    missing = SubElement(sequence, "MissingViews")
    missing.extend(map(missing_view, sorted(project.missing)))
    root.append(registrations_element(project))
    indent(root)
    return document_from(root)


def document_from(root: Element) -> bytes:
    """Return the XML of an element as it is, in UTF-8."""
    text: bytes = tostring(root, encoding="UTF-8", xml_declaration=False)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + text + b"\n"


def loader_element(loader: Loader) -> Element:
    """Return ``ImageLoader``; its container is at a path or a URI, not in a bucket."""
    element = Element("ImageLoader", format=loader.format, version=loader.version or "")
    if isinstance(loader.place, XmlPath) and loader.kind is not None:
        target = _add(element, loader.kind, loader.place.target)
        if not loader.place.is_uri:
            target.set("type", "relative" if loader.place.relative else "absolute")
    return element


def setups_element(project: Project) -> Element:
    """Return ``ViewSetups``."""
    element = Element("ViewSetups")
    element.extend(map(setup_element, project.setups.values()))
    element.extend(entities_element(*of_kind) for of_kind in project.entities.items())
    return element


def setup_element(setup: ViewSetup) -> Element:
    """Return ``ViewSetup``."""
    element = Element("ViewSetup")
    _add(element, "id", str(setup.id))
    if setup.name is not None:
        _add(element, "name", setup.name)
    if setup.size is not None:
        _add(element, "size", _numbers(setup.size[::-1]))
    if setup.voxel_size is not None:
        voxel = SubElement(element, "voxelSize")
        _add(voxel, "unit", setup.unit or "")
        _add(voxel, "size", _numbers(setup.voxel_size[::-1]))
    attributes = SubElement(element, "attributes")
    for kind, number in setup.attributes.items():
        _add(attributes, kind, str(number))
    return element


def entities_element(kind: str, entities: Mapping[int, Entity]) -> Element:
    """Return ``Attributes``."""
    element = Element("Attributes", name=checked(kind))
    element.extend(entity_element(kind, entity) for entity in entities.values())
    return element


def entity_element(kind: str, entity: Entity) -> Element:
    """Return ``Channel``, ``Tile``, ``Angle``, ``Illumination`` or another one."""
    element = Element(kind[:1].upper() + kind[1:])
    _add(element, "id", str(entity.id))
    _add(element, "name", entity.name or str(entity.id))
    for key, value in entity.facts.items():
        _add(element, key, value)
    return element


def timepoints_element(timepoints: Sequence[int]) -> Element:
    """Return ``Timepoints``: a range of consecutive ones, otherwise a pattern."""
    first, last = timepoints[0], timepoints[-1]
    if last - first + 1 == len(timepoints):
        element = Element("Timepoints", type="range")
        _add(element, "first", str(first))
        _add(element, "last", str(last))
        return element
    element = Element("Timepoints", type="pattern")
    _add(element, "integerpattern", ", ".join(map(str, timepoints)))
    return element


def missing_view(view: ViewId) -> Element:
    """Return ``MissingView``."""
    return Element("MissingView", timepoint=str(view.timepoint), setup=str(view.setup))


def registrations_element(project: Project) -> Element:
    """Return ``ViewRegistrations``."""
    element = Element("ViewRegistrations")
    element.extend(registration_element(*view) for view in sorted(project.registrations.items()))
    return element


def registration_element(view: ViewId, registration: Registration) -> Element:
    """Return ``ViewRegistration``."""
    element = Element("ViewRegistration", timepoint=str(view.timepoint), setup=str(view.setup))
    for transform in registration.transforms:
        step = SubElement(element, "ViewTransform", type="affine")
        if transform.name:
            _add(step, "Name", transform.name)
        _add(step, "affine", _numbers(number for row in transform.rows for number in row))
    return element


def checked(text: str) -> str:
    """Return a string that XML can represent; raise ValueError otherwise."""
    if match := _INVALID.search(text):
        raise ValueError(f"XML cannot represent the character {match[0]!r} of {text[:80]!r}")
    return text


def _numbers(numbers: Iterable[float]) -> str:
    return " ".join(repr(number) for number in numbers)


def _add(parent: Element, tag: str, text: str) -> Element:
    element = SubElement(parent, tag)
    element.text = checked(text)
    return element


_FACTS = ("setups", "entities", "timepoints", "missing", "registrations")
"""The parts of a project that an update changes."""


def combined(project: Project, added: Project) -> Project:
    """Return a project with views that are added to it, or replace its own.

    A view that neither has is missing, as time points and setups form a grid.
    """
    timepoints = sorted({*project.timepoints, *added.timepoints})
    setups = dict(sorted({**project.setups, **added.setups}.items()))
    missing = set(project.missing)
    new_times = set(added.timepoints) - set(project.timepoints)
    new_setups = added.setups.keys() - project.setups.keys()
    missing |= {ViewId(time, setup) for time in new_times for setup in setups}
    missing |= {ViewId(time, setup) for setup in new_setups for time in timepoints}
    missing -= {
        view
        for time in added.timepoints
        for setup in added.setups
        if (view := ViewId(time, setup)) not in added.missing
    }
    entities = {kind: dict(known) for kind, known in project.entities.items()}
    for kind, new in added.entities.items():
        for number, entity in new.items():
            before = entities.setdefault(kind, {}).get(number)
            facts = {**(before.facts if before else {}), **entity.facts}
            entities[kind][number] = replace(entity, facts=facts)
        entities[kind] = dict(sorted(entities[kind].items()))
    return replace(
        project,
        setups=setups,
        entities=entities,
        timepoints=tuple(timepoints),
        missing=frozenset(missing),
        registrations={**project.registrations, **added.registrations},
    )


def updated(document: bytes, added: Project) -> bytes:
    """Return a project's XML with views that are added to it, or replace its own.

    Raises
    ------
    ValueError
        If the document cannot be updated, or XML cannot hold a name.
    """
    before = read_project(document)
    after = combined(before, added)
    if not _differences(before, after):
        return document
    root = parse(document, whole_document=True)
    sequence = root.find("SequenceDescription")
    if sequence is None:
        raise ValueError("it has no SequenceDescription")
    _update_setups(sequence, added, after)
    if tuple(before.timepoints) != tuple(after.timepoints):
        element = timepoints_element(after.timepoints)
        _replace(sequence, sequence.find("Timepoints"), element)
    _update_missing(sequence, after)
    _update_registrations(root, added, after)
    _, is_indented, unit = (root.text or "").rpartition("\n")
    for section in root if is_indented else ():
        if section.tag in KNOWN:
            indent(section, unit, level=1)
    text = document_from(root)
    if wrong := _differences(read_project(text), after):
        raise ValueError(f"its {wrong[0]} cannot be updated; export the project again")
    return text


def _differences(project: Project, other: Project) -> list[str]:
    """Return the names of the facts of two projects that differ."""
    return [
        name
        for name in _FACTS
        if _as_tuple(getattr(project, name)) != _as_tuple(getattr(other, name))
    ]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, range) else value


def _update_setups(sequence: Element, added: Project, after: Project) -> None:
    """Add and change setups and entities."""
    outer = sequence.find("ViewSetups")
    if outer is None:
        sequence.append(setups_element(after))
        return
    setups = (setup_element(after.setups[number]) for number in added.setups)
    last = max((n for n, child in enumerate(outer) if child.tag == "ViewSetup"), default=-1)
    _merge_by_id(outer, outer.findall("ViewSetup"), setups, last + 1)
    listed = {child.get("name", ""): child for child in outer.findall("Attributes")}
    for kind, entities in added.entities.items():
        if kind in listed:
            changed = (entity_element(kind, after.entities[kind][n]) for n in entities)
            inner = listed[kind]
            _merge_by_id(inner, inner, changed, len(inner))
        else:
            outer.append(entities_element(kind, after.entities[kind]))


def _merge_by_id(
    outer: Element, children: Iterable[Element], changed: Iterable[Element], at: int
) -> None:
    """Change the children with the ids of others, and insert those without one."""
    known = {text.strip(): child for child in children if (text := child.findtext("id"))}
    for element in changed:
        child = known.get(element.findtext("id") or "")
        if child is None:
            outer.insert(at, element)
            at += 1
        else:
            _merge(child, element)


def _merge(element: Element, other: Element) -> None:
    """Set the children that another element has; all others stay."""
    for wanted in other:
        child = element.find(wanted.tag)
        if child is None:
            element.append(wanted)
        elif len(wanted):
            _merge(child, wanted)
        else:
            child.text = wanted.text


def _update_missing(sequence: Element, after: Project) -> None:
    """Remove views from those that are missing, and add others."""
    outer = sequence.find("MissingViews")
    if outer is None:
        outer = SubElement(sequence, "MissingViews")
    views = {view_of(child): child for child in outer.findall("MissingView")}
    for view in views.keys() - after.missing:
        outer.remove(views[view])
    outer.extend(missing_view(view) for view in sorted(after.missing - views.keys()))


def _update_registrations(root: Element, added: Project, after: Project) -> None:
    """Add and replace registrations."""
    outer = root.find("ViewRegistrations")
    if outer is None:
        root.append(registrations_element(after))
        return
    known = {view_of(child): child for child in outer.findall("ViewRegistration")}
    for view, registration in sorted(added.registrations.items()):
        _replace(outer, known.get(view), registration_element(view, registration))


def _replace(parent: Element, child: Element | None, element: Element) -> None:
    """Replace a child of an element, or add one."""
    if child is None:
        parent.append(element)
    else:
        element.tail = child.tail
        parent[list(parent).index(child)] = element
