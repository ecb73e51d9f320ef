"""Add views to a project's XML, keeping everything else byte for byte."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xarray_n5.bdv import elements
from xarray_n5.bdv.loaders import View
from xarray_n5.bdv.project import read_project
from xarray_n5.bdv.spans import Edits, Span, spans_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

    from xarray_n5.bdv.project import Entity, Project, ViewSetup


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
    entities = {kind: dict(each) for kind, each in project.entities.items()}
    for kind, own in added.entities.items():
        for number, entity in own.items():
            before = entities.setdefault(kind, {}).get(number)
            facts = {**(before.facts if before else {}), **entity.facts}
            entities[kind][number] = replace(entity, facts=facts)
        entities[kind] = dict(sorted(entities[kind].items()))
    loader = project.loader
    if loader is not None and added.loader is not None:
        loader = replace(loader, views={**added.loader.views, **loader.views})
    return replace(
        project,
        loader=loader,
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
        If bytes cannot be replaced in the document, or XML cannot hold a name.
    """
    before = read_project(document)
    after = combined(before, added)
    root = spans_of(document)
    sequence = root.first("SequenceDescription")
    if sequence is None:
        raise ValueError("it has no SequenceDescription")
    update = _Update(before, after, sequence, root, Edits(document))
    update.loader()
    update.setups()
    update.timepoints()
    update.missing()
    update.registrations()
    found = update.edits.apply()
    again = read_project(found)
    for name in ("setups", "timepoints", "missing", "registrations"):
        if _plain(getattr(again, name)) != _plain(getattr(after, name)):
            raise ValueError(f"its {name} cannot be updated; export the project again")
    if again.loader != after.loader:
        raise ValueError("its ImageLoader cannot be updated; export the project again")
    return found


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, range) else value


@dataclass(frozen=True)
class _Update:
    before: Project
    after: Project
    sequence: Span
    root: Span
    edits: Edits

    def loader(self) -> None:
        """Add the images of new views to a loader for OME-Zarr."""
        before, after = self.before.loader, self.after.loader
        if before is None or after is None or before.views == after.views:
            return
        element = self.sequence.first("ImageLoader")
        groups = None if element is None else element.first("zgroups")
        if groups is None:
            raise ValueError("its ImageLoader has no zgroups")
        new = sorted((v, each) for v, each in after.views.items() if v not in before.views)
        texts = [elements.text_of(elements.zgroup_element(*each)) for each in new]
        self.edits.inside(groups, texts)

    def setups(self) -> None:
        """Add and change setups and entities."""
        outer = self.sequence.first("ViewSetups")
        new = [each for n, each in self.after.setups.items() if n not in self.before.setups]
        if outer is None:
            whole = elements.text_of(elements.setups_element(self.after))
            self.edits.inside(self.sequence, [whole])
            return
        spans = {int(span.value("id") or -1): span for span in outer.all("ViewSetup")}
        for number, setup in self.before.setups.items():
            if self.after.setups[number] != setup:
                self._change_setup(spans[number], self.after.setups[number])
        texts = [elements.text_of(elements.setup_element(each)) for each in new]
        last = list(outer.all("ViewSetup"))[-1:]
        for text in texts if last else ():
            self.edits.after(last[0], text)
        listed = {span.attributes.get("name", ""): span for span in outer.all("Attributes")}
        more = []
        for kind, entities in self.after.entities.items():
            if kind in listed:
                self._change_entities(kind, listed[kind], entities)
            else:
                more.append(elements.text_of(elements.entities_element(kind, entities)))
        self.edits.inside(outer, [*([] if last else texts), *more])

    def _change_setup(self, span: Span, setup: ViewSetup) -> None:
        for element in elements.setup_element(setup):
            if element.tag != "id":
                self._set(span, element)

    def _change_entities(self, kind: str, span: Span, entities: Mapping[int, Entity]) -> None:
        own = {int(each.value("id") or -1): each for each in span.children}
        before = self.before.entities.get(kind, {})
        for number, entity in entities.items():
            if number in own and entity != before.get(number):
                for element in elements.entity_element(kind, entity):
                    self._set(own[number], element)
        new = [each for number, each in entities.items() if number not in own]
        texts = [elements.text_of(elements.entity_element(kind, each)) for each in new]
        self.edits.inside(span, texts)

    def _set(self, parent: Span, element: Element) -> None:
        """Set a child of an element, if it differs."""
        found = parent.first(element.tag)
        if found is None:
            self.edits.inside(parent, [elements.text_of(element)])
        elif len(element):
            for child in element:
                self._set(found, child)
        elif found.text.split() != (element.text or "").split():
            self.edits.replace(found, elements.text_of(element))

    def timepoints(self) -> None:
        """Replace the time points, if they differ."""
        if tuple(self.before.timepoints) == tuple(self.after.timepoints):
            return
        text = elements.text_of(elements.timepoints_element(self.after.timepoints))
        found = self.sequence.first("Timepoints")
        if found is None:
            self.edits.inside(self.sequence, [text])
        else:
            self.edits.replace(found, text)

    def missing(self) -> None:
        """Add and remove missing views."""
        outer = self.sequence.first("MissingViews")
        new = sorted(self.after.missing - self.before.missing)
        if outer is None:
            if new:
                text = elements.text_of(elements.missing_element(new))
                self.edits.inside(self.sequence, [text])
            return
        for span in outer.all("MissingView"):
            if _view(span) not in self.after.missing:
                self.edits.remove(span)
        self.edits.inside(outer, [elements.text_of(elements.missing_view(view)) for view in new])

    def registrations(self) -> None:
        """Add and replace registrations."""
        changed = {
            view: elements.text_of(elements.registration_element(view, each))
            for view, each in sorted(self.after.registrations.items())
            if self.before.registrations.get(view) != each
        }
        outer = self.root.first("ViewRegistrations")
        if outer is None:
            if changed:
                whole = elements.text_of(elements.registrations_element(self.after))
                self.edits.after(self.sequence, whole)
            return
        for span in outer.all("ViewRegistration"):
            if (text := changed.pop(_view(span), None)) is not None:
                self.edits.replace(span, text)
        self.edits.inside(outer, list(changed.values()))


def _view(span: Span) -> View:
    return View(int(span.attributes["timepoint"]), int(span.attributes["setup"]))
