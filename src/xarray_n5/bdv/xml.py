"""Parse project XML safely: no document types, bounded size and depth, unknown sections skipped."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.model.json import MOST_BYTES

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element, TreeBuilder

ROOT = "SpimData"
"""The name of a project's root element."""

LOOK = 4096
"""The number of bytes at a file's start that show whether it is a project."""

KNOWN = frozenset({"BasePath", "SequenceDescription", "ViewRegistrations"})
"""The sections that are parsed; others are BigStitcher's own, or of other programs."""

_DEPTH = 64
"""The maximum depth of elements."""

_START = re.compile(
    rb"(?:\s++|<!--(?>.*?-->)|<\?(?>.*?\?>))*+<SpimData[\s/>]",
    re.DOTALL,
)
"""The beginning of a project. It never backtracks: a file of any size is scanned once."""


def looks_like_project(start: bytes) -> bool:
    r"""Return whether a file that begins with `start` is a project, whatever its encoding.

    >>> looks_like_project(b'<?xml version="1.0"?>\n<SpimData version="0.2">')
    True
    >>> looks_like_project(b"<html>")
    False
    """
    for mark in (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"):
        start = start.removeprefix(mark)
    return _START.match(start.replace(b"\0", b"")) is not None


def parse(document: bytes, *, whole_document: bool = False) -> Element:
    """Return the root of a project's XML.

    Parameters
    ----------
    document
        The XML.
    whole_document
        Whether to keep comments, and sections that are not parsed; processing instructions, too.

    Raises
    ------
    ValueError
        If it is not XML or not a project, is too large or too deep, or has a document type. Without
        one, there are no entities, neither in the document nor outside it.
    """
    from xml.etree.ElementTree import TreeBuilder
    from xml.parsers import expat

    if len(document) > MOST_BYTES:
        raise ValueError(f"it has {len(document)} bytes, expected at most {MOST_BYTES}")
    tree = TreeBuilder(insert_comments=True, insert_pis=True)
    builder = _Builder(tree, whole_document)
    # ElementTree's own parser has neither limits nor a way to refuse document types.
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    if whole_document:
        parser.CommentHandler = builder.comment
        parser.ProcessingInstructionHandler = builder.instruction
    try:
        parser.Parse(document, True)  # noqa: FBT003 - expat's own positional argument
    except expat.ExpatError as error:
        raise ValueError(str(error)) from error
    root: Element = tree.close()
    return root


def _refuse_document_type(*_: object) -> None:
    raise ValueError("it has a document type, which is not allowed")


@dataclass(slots=True)
class _Builder:
    """Passes elements to a tree: those of known sections, or all of them."""

    tree: TreeBuilder
    is_whole: bool
    depth: int = 0
    skipping: bool = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth == 1 and tag != ROOT:
            raise ValueError(f"its root is <{tag}>, expected <{ROOT}>")
        if self.depth > _DEPTH:
            raise ValueError(f"its elements are nested more than {_DEPTH} levels deep")
        if self.depth == 2:  # noqa: PLR2004 - a section
            self.skipping = not self.is_whole and tag not in KNOWN
        if not self.skipping:
            self.tree.start(tag, attributes)

    def end(self, tag: str) -> None:
        if not self.skipping:
            self.tree.end(tag)
        self.depth -= 1
        if self.depth == 1:
            self.skipping = False

    def text(self, data: str) -> None:
        if not self.skipping and self.depth:
            self.tree.data(data)

    def comment(self, text: str) -> None:
        if self.depth:
            self.tree.comment(text)

    def instruction(self, target: str, text: str) -> None:
        if self.depth:
            self.tree.pi(target, text)


def whole(what: str, text: str | None, *, least: int = 0) -> int:
    """Return a whole number of up to 31 bits, as in Java.

    Raises
    ------
    ValueError
        If it is not one.
    """
    match = re.fullmatch(r"\s*([+-]?\d{1,10})\s*", text or "")
    number = int(match[1]) if match else -1
    if match is None or not least <= number < 1 << 31:
        shown = None if text is None else text[:40]
        raise ValueError(f"{what} is {shown!r}; expected a whole number")
    return number


def finite_numbers(what: str, text: str) -> list[float]:
    """Return the numbers in a string.

    Raises
    ------
    ValueError
        If some are not numbers, or not finite.
    """
    numbers = [float(number) for number in text.replace(",", " ").split()]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"the {what} {text[:80]!r} has numbers that are not finite")
    return numbers


def child_text(element: Element, path: str) -> str | None:
    """Return the string in a descendant without surrounding white space; None if there is none."""
    text = element.findtext(path)
    return (text.strip() or None) if text is not None else None
