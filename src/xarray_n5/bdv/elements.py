"""Elements of a project's XML as spim_data writes them, and whole new documents.

Source: spim_data's XmlIo classes; BigDataViewer's XmlIoN5ImageLoader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from xarray_n5.bdv.loaders import XmlPath
from xarray_n5.bdv.xml import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.bdv.loaders import Loader, View
    from xarray_n5.bdv.project import Entity, Project, ViewSetup
    from xarray_n5.bdv.registrations import Registration

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
    found = Element("ViewSetups")
    found.extend(map(setup_element, project.setups.values()))
    found.extend(entities_element(kind, each) for kind, each in project.entities.items())
    return found


def setup_element(setup: ViewSetup) -> Element:
    """Return ``ViewSetup``."""
    found = Element("ViewSetup")
    _add(found, "id", str(setup.id))
    if setup.name is not None:
        _add(found, "name", setup.name)
    if setup.size is not None:
        _add(found, "size", _numbers(setup.size[::-1]))
    if setup.voxel_size is not None:
        voxel = SubElement(found, "voxelSize")
        _add(voxel, "unit", setup.unit or "")
        _add(voxel, "size", _numbers(setup.voxel_size[::-1]))
    attributes = SubElement(found, "attributes")
    for kind, number in setup.attributes.items():
        _add(attributes, kind, str(number))
    return found


def entities_element(kind: str, entities: Mapping[int, Entity]) -> Element:
    """Return ``Attributes``."""
    found = Element("Attributes", name=checked(kind))
    found.extend(entity_element(kind, each) for each in entities.values())
    return found


def entity_element(kind: str, entity: Entity) -> Element:
    """Return ``Channel``, ``Tile``, ``Angle``, ``Illumination`` or another one."""
    found = Element(kind[:1].upper() + kind[1:])
    _add(found, "id", str(entity.id))
    _add(found, "name", entity.name or str(entity.id))
    for key, value in entity.facts.items():
        _add(found, key, value)
    return found


def timepoints_element(timepoints: Sequence[int]) -> Element:
    """Return ``Timepoints``: a range of consecutive ones, otherwise a pattern."""
    first, last = timepoints[0], timepoints[-1]
    if last - first + 1 == len(timepoints):
        found = Element("Timepoints", type="range")
        _add(found, "first", str(first))
        _add(found, "last", str(last))
        return found
    found = Element("Timepoints", type="pattern")
    _add(found, "integerpattern", pattern_of(timepoints))
    return found


def pattern_of(numbers: Sequence[int]) -> str:
    """Return sorted numbers as spim_data's pattern.

    >>> pattern_of([0, 1, 2, 5, 10, 20])
    '0-2, 5, 10, 20'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def missing_view(view: View) -> Element:
    """Return ``MissingView``."""
    return Element("MissingView", timepoint=str(view.timepoint), setup=str(view.setup))


def registrations_element(project: Project) -> Element:
    """Return ``ViewRegistrations``."""
    found = Element("ViewRegistrations")
    found.extend(registration_element(*each) for each in sorted(project.registrations.items()))
    return found


def registration_element(view: View, registration: Registration) -> Element:
    """Return ``ViewRegistration``."""
    found = Element("ViewRegistration", timepoint=str(view.timepoint), setup=str(view.setup))
    for each in registration.transforms:
        step = SubElement(found, "ViewTransform", type="affine")
        if each.name:
            _add(step, "Name", each.name)
        _add(step, "affine", _numbers(number for row in each.rows for number in row))
    return found


def checked(text: str) -> str:
    """Return a string that XML can represent; raise ValueError otherwise."""
    if found := _INVALID.search(text):
        raise ValueError(f"XML cannot represent the character {found[0]!r} of {text[:80]!r}")
    return text


def _numbers(numbers: Iterable[float]) -> str:
    return " ".join(repr(number) for number in numbers)


def _add(parent: Element, tag: str, text: str) -> Element:
    found = SubElement(parent, tag)
    found.text = checked(text)
    return found
