"""Add views to a project's XML, keeping everything else: comments, order, unknown sections."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree.ElementTree import SubElement, indent

from xarray_n5.bdv import elements
from xarray_n5.bdv.loaders import View
from xarray_n5.bdv.project import read_project
from xarray_n5.bdv.xml import KNOWN, parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

    from xarray_n5.bdv.project import Project

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
    missing |= {View(time, setup) for time in new_times for setup in setups}
    missing |= {View(time, setup) for setup in new_setups for time in timepoints}
    missing -= {
        view
        for time in added.timepoints
        for setup in added.setups
        if (view := View(time, setup)) not in added.missing
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
        element = elements.timepoints_element(after.timepoints)
        _replace(sequence, sequence.find("Timepoints"), element)
    _update_missing(sequence, after)
    _update_registrations(root, added, after)
    _, is_indented, unit = (root.text or "").rpartition("\n")
    for section in root if is_indented else ():
        if section.tag in KNOWN:
            indent(section, unit, level=1)
    text = elements.document_from(root)
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
        sequence.append(elements.setups_element(after))
        return
    setups = (elements.setup_element(after.setups[number]) for number in added.setups)
    last = max((n for n, child in enumerate(outer) if child.tag == "ViewSetup"), default=-1)
    _merge_by_id(outer, outer.findall("ViewSetup"), setups, last + 1)
    listed = {child.get("name", ""): child for child in outer.findall("Attributes")}
    for kind, entities in added.entities.items():
        if kind in listed:
            changed = (elements.entity_element(kind, after.entities[kind][n]) for n in entities)
            inner = listed[kind]
            _merge_by_id(inner, inner, changed, len(inner))
        else:
            outer.append(elements.entities_element(kind, after.entities[kind]))


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
    views = {_view(child): child for child in outer.findall("MissingView")}
    for view in views.keys() - after.missing:
        outer.remove(views[view])
    outer.extend(elements.missing_view(view) for view in sorted(after.missing - views.keys()))


def _update_registrations(root: Element, added: Project, after: Project) -> None:
    """Add and replace registrations."""
    outer = root.find("ViewRegistrations")
    if outer is None:
        root.append(elements.registrations_element(after))
        return
    known = {_view(child): child for child in outer.findall("ViewRegistration")}
    for view, registration in sorted(added.registrations.items()):
        _replace(outer, known.get(view), elements.registration_element(view, registration))


def _replace(parent: Element, child: Element | None, element: Element) -> None:
    """Replace a child of an element, or add one."""
    if child is None:
        parent.append(element)
    else:
        element.tail = child.tail
        parent[list(parent).index(child)] = element


def _view(element: Element) -> View:
    return View(int(element.get("timepoint", -1)), int(element.get("setup", -1)))
