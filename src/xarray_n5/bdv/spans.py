"""Locate the elements of a project's XML in its bytes, to replace some and keep all others."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xarray_n5.bdv.xml import KNOWN, TAG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECTION = 2
"""The depth of sections; the root's is 1."""


@dataclass(slots=True)
class Span:
    """An element, and where it is in the document."""

    tag: str
    attributes: Mapping[str, str]
    start: int
    inner: int
    """The end of its first tag."""
    close: int = 0
    """The start of its last tag; the end of its only tag if it is empty."""
    stop: int = 0
    children: list[Span] = field(default_factory=list)
    text: str = ""

    is_single_tag: bool = False
    """Whether it is written as ``<a />``."""

    def all(self, path: str) -> Iterator[Span]:
        """Iterate over descendants by the tags on the way to them."""
        first, _, rest = path.partition("/")
        for child in self.children:
            if child.tag == first:
                yield from child.all(rest) if rest else (child,)

    def first(self, path: str) -> Span | None:
        """Return the first descendant by the tags on the way to it."""
        return next(self.all(path), None)

    def value(self, path: str) -> str | None:
        """Return the string in a descendant, without surrounding white space."""
        found = self.first(path)
        return None if found is None else found.text.strip()


def spans_of(document: bytes) -> Span:
    """Return the root of a document that was parsed before, with the elements of known sections.

    Raises
    ------
    ValueError
        If parts cannot be replaced, because its encoding is not like ASCII.
    """
    from xml.parsers import expat

    if b"\0" in document or re.match(rb"\xfe\xff|\xff\xfe", document):
        raise ValueError("it is encoded as UTF-16 or UTF-32; save it as UTF-8")
    parser = expat.ParserCreate()
    parser.buffer_text = True
    reader = _Reader(document, parser)
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.Parse(document, True)  # noqa: FBT003 - expat's own positional argument
    return reader.root


class _Reader:
    def __init__(self, document: bytes, parser: Any) -> None:
        self._document, self._parser = document, parser
        self._open: list[Span] = []
        self._depth = 0
        self.root: Span

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _SECTION and len(self._open) < _SECTION:
            return  # in an unknown section
        start = self._parser.CurrentByteIndex
        found = TAG.match(self._document, start)
        span = Span(tag, attributes, start, found.end() if found else start)
        if self._open:
            self._open[-1].children.append(span)
        else:
            self.root = span
        if self._depth != _SECTION or tag in KNOWN:
            self._open.append(span)

    def end(self, tag: str) -> None:  # noqa: ARG002
        self._depth -= 1
        if self._depth < len(self._open):
            span = self._open.pop()
        elif self._depth == _SECTION - 1:
            span = self._open[-1].children[-1]
        else:
            return
        span.is_single_tag = self._document[span.inner - 2 : span.inner] == b"/>"
        span.close = span.inner if span.is_single_tag else self._parser.CurrentByteIndex
        closing = None if span.is_single_tag else TAG.match(self._document, span.close)
        span.stop = closing.end() if closing else span.close

    def text(self, data: str) -> None:
        if self._open and self._depth == len(self._open):
            self._open[-1].text += data


@dataclass(slots=True)
class Edits:
    """Changes of a document, which are applied together: all else is kept byte for byte."""

    document: bytes
    changes: list[tuple[int, int, bytes]] = field(default_factory=list)

    def replace(self, span: Span, text: str) -> None:
        """Replace an element."""
        self.changes.append((span.start, span.stop, _lines(text, self._indent(span.start))))

    def remove(self, span: Span) -> None:
        """Remove an element, and its line if there is nothing else on it."""
        indent = self._indent(span.start)
        self.changes.append((span.start - len(indent), span.stop, b""))

    def after(self, span: Span, text: str) -> None:
        """Insert an element after another one, indented as that is."""
        indent = self._indent(span.start)
        self.changes.append((span.stop, span.stop, indent + _lines(text, indent)))

    def inside(self, span: Span, texts: list[str]) -> None:
        """Add elements to another one, after its last child."""
        if not texts:
            return
        if span.children:
            for text in texts:
                self.after(span.children[-1], text)
            return
        outer = self._indent(span.start)
        inner = outer + (b"\t" if b"\t" in outer else b"  ") if outer else b""
        lines = b"".join(inner + _lines(each, inner) for each in texts)
        if span.is_single_tag:
            opening = self.document[span.start : span.stop].removesuffix(b"/>").rstrip() + b">"
            whole = opening + lines + outer + b"</" + span.tag.encode() + b">"
            self.changes.append((span.start, span.stop, whole))
        else:
            last = outer if span.inner == span.close else b""
            self.changes.append((span.inner, span.inner, lines + last))

    def apply(self) -> bytes:
        """Return the document with the changes."""
        found, at = bytearray(), 0
        for start, stop, text in sorted(self.changes, key=lambda change: change[:2]):
            found += self.document[at:start] + text
            at = stop
        return bytes(found + self.document[at:])

    def _indent(self, position: int) -> bytes:
        """Return the line break and the white space before a position; none within a line."""
        before = self.document[:position]
        blank = before[len(before.rstrip(b" \t")) :]
        head = before[: len(before) - len(blank)]
        for end in (b"\r\n", b"\n"):
            if head.endswith(end):
                return end + blank
        return b""


def _lines(text: str, indent: bytes) -> bytes:
    """Return a string whose lines are indented, by tabs if the document is."""
    data = text.encode("ascii", "xmlcharrefreplace")
    if b"\t" in indent:
        data = re.sub(rb"(?m)^ +", lambda blank: b"\t" * (len(blank[0]) // 2), data)
    return data.replace(b"\n", indent) if indent else data
