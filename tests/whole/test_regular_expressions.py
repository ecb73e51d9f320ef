"""No regular expression takes more than linear time, whatever a file or a server sends."""

from __future__ import annotations

import ast
import importlib
import re
import time
from itertools import product
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import xarray_n5

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOURCE = Path(xarray_n5.__file__).parents[1]

PATHS = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__main__.py")

METHODS = {"match", "fullmatch", "search", "sub", "split", "findall", "finditer"}

REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}


class Use(NamedTuple):
    """A pattern, and the method by which it is applied."""

    where: str
    pattern: re.Pattern[Any]
    method: str

    def seconds(self, text: str, repeats: int = 1) -> float:
        """Return the least time that it takes of this thread: others may have the processor."""
        data: Any = text.encode() if isinstance(self.pattern.pattern, bytes) else text
        arguments = (data[:0], data) if self.method == "sub" else (data,)
        apply, taken = getattr(self.pattern, self.method), []
        for _ in range(repeats):
            began = time.thread_time()
            found = apply(*arguments)
            if self.method == "finditer":
                list(found)
            taken.append(time.thread_time() - began)
        return min(taken)


def uses() -> Iterator[Use]:
    """Find all patterns of the package, by which methods they are applied, and where."""
    named: dict[str, set[str]] = {}
    owned: dict[str, tuple[str, re.Pattern[Any]]] = {}
    for path in PATHS:
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        module = vars(importlib.import_module(name))
        patterns = [*_patterns(module)]
        if not patterns and module.get("re") is not re:
            continue  # to parse the modules without patterns takes seconds
        for own, each in patterns:
            owned.setdefault(repr(each), (f"{name}.{own}", each))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=own), attr=method) if method in METHODS:
                    named.setdefault(repr(module.get(own)), set()).add(method)
        yield from _written_in_place(name, tree)
    for key, (where, pattern) in owned.items():
        # Those that functions take as arguments are matched.
        for method in named.get(key, {"match", "fullmatch"}):
            yield Use(where, pattern, method)


def _patterns(module: dict[str, Any]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    for name, value in module.items():
        for each in value if isinstance(value, tuple | list) else [value]:
            if isinstance(each, re.Pattern):
                yield name, each


def _written_in_place(name: str, tree: ast.AST) -> Iterator[Use]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str() | bytes() as text), *_],
            ) if method in METHODS:
                yield Use(f"{name}:{node.lineno}", re.compile(text), method)


def parsed(pattern: re.Pattern[Any]) -> Any:
    """Return what Python's own parser makes of a pattern."""
    return parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)


def tokens(pattern: re.Pattern[Any]) -> list[str]:
    """Return strings that parts of a pattern match."""
    found: dict[str, None] = {}
    _collect(parsed(pattern), found)
    return list(found)[:8]


def _collect(part: Any, found: dict[str, None]) -> None:
    word = ""
    for code, value in part:
        if code is codes.LITERAL:
            word += chr(value)
            continue
        found |= dict.fromkeys([word] if word else [])
        word = ""
        if code is codes.IN:
            found |= dict.fromkeys(_sample(value))
        elif code is codes.ANY:
            found["x"] = None
        for inner in _parts(value):
            _collect(inner, found)
    if word:
        found[word] = None


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, parser.SubPattern):
        return [value]
    if isinstance(value, tuple | list):
        return [part for each in value for part in _parts(each)]
    return []


def _sample(members: Any) -> Iterator[str]:
    if members[0][0] is codes.NEGATE:
        yield "x"
    for code, value in members:
        if code is codes.LITERAL:
            yield chr(value)
        elif code is codes.RANGE:
            yield chr(value[0])
        elif code is codes.CATEGORY:
            yield {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " "}.get(value, "x")


def beginnings(part: Any, before: str = "") -> Iterator[str]:
    """Iterate over strings that match a pattern up to each of its repetitions."""
    for element in part:
        if element[0] in REPEATS:
            yield before
        for inner in _parts(element[1]):
            yield from beginnings(inner, before)
        before += example([element])


def example(part: Any) -> str:
    """Return a string that a part of a pattern matches."""
    found = ""
    for code, value in part:
        if code is codes.LITERAL:
            found += chr(value)
        elif code is codes.IN:
            found += next(_sample(value))
        elif code in (codes.ANY, codes.NOT_LITERAL):
            found += "x"
        elif code in REPEATS:
            found += example(value[2]) * max(1, value[0])
        elif code not in (codes.ASSERT_NOT, codes.AT) and (inner := [*_parts(value)]):
            found += example(inner[0])
    return found


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Iterate over beginnings, what is repeated after them, and ends that do not match."""
    parts = tokens(pattern)
    repeated = dict.fromkeys([*parts, *map("".join, product(parts, parts))])
    begins = dict.fromkeys(["", *beginnings(parsed(pattern))])
    yield from product(list(begins)[:8], repeated, ["", "\0"])


def is_slow(use: Use, attack: tuple[str, str, str]) -> bool:
    """Return whether four times the length takes far more than four times as long."""
    begin, part, end = attack
    for count in (8, 16, 24, 80, 400, 1600):
        text = begin + part * count + end
        if use.seconds(text) > 0.002:
            taken, before = use.seconds(text, 3), use.seconds(begin + part * (count // 4) + end, 3)
            if taken > 0.001 + 7 * before:
                return True
    return False


USES = sorted({(use.where, use.method): use for use in uses()}.values(), key=lambda use: use[::2])


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.where}.{use.method}")
def test_a_pattern_takes_linear_time(use: Use) -> None:
    assert [attack for attack in attacks(use.pattern) if is_slow(use, attack)][:3] == []


@pytest.mark.parametrize(
    ("text", "method"),
    [
        (r"(?:\s|<!--.*?-->)*<S", "match"),
        (r"(?:a+)+b", "fullmatch"),
        (r"<a\s+(?:[^>]*?\s+)?href", "findall"),
        (r"(?<=[?&])[^=&\s'\"]*=", "sub"),
        (r"x*y", "search"),
        (r"\s*\s*b", "match"),
        (r"\d\d:\d\d\.(\d*?)0*$", "search"),
    ],
)
def test_patterns_of_more_than_linear_time_are_found(text: str, method: str) -> None:
    use = Use("here", re.compile(text), method)
    assert any(is_slow(use, attack) for attack in attacks(use.pattern))


def test_the_patterns_of_all_modules_are_found() -> None:
    found = {use.where for use in USES}
    assert {"xarray_n5.bdv.xml._START", "xarray_n5.stores._web._TAG"} <= found
    assert len(found) > 60
