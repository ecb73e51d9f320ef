"""Add views to a project's XML, keeping everything else: comments, order, unknown sections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from xml.etree.ElementTree import indent

from xarray_n5.bdv import elements
from xarray_n5.bdv.loaders import View
from xarray_n5.bdv.project import read_project
from xarray_n5.bdv.xml import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from xml.etree.ElementTree import Element

    from xarray_n5.bdv.project import Entity, Project

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
    update = _Update(before, after, root, sequence, _indentation(root))
    update.setups()
    update.timepoints()
    update.missing()
    update.registrations()
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


def _indentation(root: Element) -> str | None:
    """Return the white space by which a document indents each level; None for one line."""
    before = root.text or ""
    return before.rpartition("\n")[2] if "\n" in before and not before.strip() else None


@dataclass(frozen=True)
class _Update:
    before: Project
    after: Project
    root: Element
    sequence: Element
    unit: str | None
    """The indentation of a level."""

    def setups(self) -> None:
        """Add and change setups and entities."""
        outer = self.sequence.find("ViewSetups")
        if outer is None:
            self._add(self.sequence, [elements.setups_element(self.after)], 1)
            return
        known = _by_id(outer.findall("ViewSetup"))
        for number, setup in self.before.setups.items():
            if self.after.setups[number] != setup:
                for child in elements.setup_element(self.after.setups[number]):
                    if child.tag != "id":
                        self._set(known[number], child, 3)
        added = sorted(self.after.setups.keys() - known.keys())
        new = [elements.setup_element(self.after.setups[number]) for number in added]
        last = max((n for n, child in enumerate(outer) if child.tag == "ViewSetup"), default=None)
        self._add(outer, new, 2, at=None if last is None else last + 1)
        listed = {child.get("name", ""): child for child in outer.findall("Attributes")}
        for kind, entities in self.after.entities.items():
            if kind in listed:
                self._entities(kind, listed[kind], entities)
            else:
                self._add(outer, [elements.entities_element(kind, entities)], 2)

    def _entities(self, kind: str, outer: Element, entities: Mapping[int, Entity]) -> None:
        known = _by_id(child for child in outer if child.find("id") is not None)  # no comments
        before = self.before.entities.get(kind, {})
        for number, entity in entities.items():
            element = elements.entity_element(kind, entity)
            if number not in known:
                self._add(outer, [element], 3)
            elif entity != before.get(number):
                for child in element:
                    self._set(known[number], child, 4)

    def timepoints(self) -> None:
        """Replace the time points, if they differ."""
        if tuple(self.before.timepoints) == tuple(self.after.timepoints):
            return
        element = elements.timepoints_element(self.after.timepoints)
        if (old := self.sequence.find("Timepoints")) is None:
            self._add(self.sequence, [element], 1)
        else:
            self._replace(self.sequence, list(self.sequence).index(old), element, 1)

    def missing(self) -> None:
        """Add and remove missing views."""
        outer = self.sequence.find("MissingViews")
        new = sorted(self.after.missing - self.before.missing)
        if outer is None:
            if new:
                self._add(self.sequence, [elements.missing_element(new)], 1)
            return
        kept = [
            child
            for child in outer
            if child.tag != "MissingView" or _view(child) in self.after.missing
        ]
        if len(kept) < len(outer):
            if kept:
                kept[-1].tail = outer[-1].tail
            else:
                outer.text = None
            outer[:] = kept
        self._add(outer, [elements.missing_view(view) for view in new], 2)

    def registrations(self) -> None:
        """Add and replace registrations."""
        changed = {
            view: elements.registration_element(view, registration)
            for view, registration in sorted(self.after.registrations.items())
            if self.before.registrations.get(view) != registration
        }
        outer = self.root.find("ViewRegistrations")
        if outer is None:
            if changed:
                at = list(self.root).index(self.sequence) + 1
                self._add(self.root, [elements.registrations_element(self.after)], 0, at=at)
            return
        for at, child in enumerate(list(outer)):
            if child.tag == "ViewRegistration" and _view(child) in changed:
                self._replace(outer, at, changed.pop(_view(child)), 1)
        self._add(outer, list(changed.values()), 1)

    def _set(self, parent: Element, wanted: Element, depth: int) -> None:
        """Set a child of an element at a depth, if it differs."""
        child = parent.find(wanted.tag)
        if child is None:
            self._add(parent, [wanted], depth)
        elif len(wanted):
            for inner in wanted:
                self._set(child, inner, depth + 1)
        elif (child.text or "").split() != (wanted.text or "").split():
            child.text = wanted.text

    def _add(
        self, parent: Element, new: list[Element], depth: int, *, at: int | None = None
    ) -> None:
        """Insert elements into one at a depth, by default as its last ones, indented like it."""
        at = len(parent) if at is None else at
        for position, element in enumerate(new, start=at):
            if self.unit is not None:
                indent(element, self.unit, depth + 1)
                if position == 0:
                    parent.text = f"\n{self.unit * (depth + 1)}"
                    element.tail = f"\n{self.unit * depth}"
                else:
                    before = parent[position - 1]
                    element.tail = before.tail
                    before.tail = f"\n{self.unit * (depth + 1)}"
            parent.insert(position, element)

    def _replace(self, parent: Element, at: int, element: Element, depth: int) -> None:
        """Replace a child of an element at a depth."""
        if self.unit is not None:
            indent(element, self.unit, depth + 1)
        element.tail = parent[at].tail
        parent[at] = element


def _by_id(items: Iterable[Element]) -> dict[int, Element]:
    return {int(element.findtext("id") or -1): element for element in items}


def _view(element: Element) -> View:
    return View(int(element.get("timepoint", -1)), int(element.get("setup", -1)))
