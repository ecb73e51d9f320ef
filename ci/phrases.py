"""Find phrases that the documentation and the messages avoid: python ci/phrases.py [FILE ...].

Pages and notebooks are searched, and docstrings, messages and comments of Python files. Code on
pages and names in code are not.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent

PHRASES = {
    r"between brackets": "NumPy indexing",
    r"texts": "strings",
    r"an? (?:list of )?texts?(?= is (?:needed|wanted|expected))": "expected a string",
    r"tells?|told": "reports, describes, shows",
    r"go(?:es)? on|went on|going on": "resume, continue",
    r"pass(?:es|ed)? over": "skip, ignore",
    r"return (?:as in )?(?:what|which)": "Return the ...",
    r"what (?:is|was|are|were) there": "existing",
    r"what (?:stands|lies|goes on)": "a noun",
    r"what of an? \w+": "a noun",
    r"(?<!there )is no (?!longer|more|less)": "is not a",
    r"turn(?:s|ed|ing)? \w* ?(?:the other way )?round": "reverse",
    r"is noted|are noted|noted (?:on|in|when|as)": "recorded",
    r"stands?(?! for\b)|stood": "is",
    r"lies?": "is",
    r"(?:is|are|be) believed": "is used",
    r"listened to|(?:is|are|be) heard": "used, ignored",
    r"kept true": "updated",
    r"found out": "detected",
    r"arguments? (?:is|are) none": "invalid argument",
    r"takes? (?:what|them away|no notice)": "accepts, supports, removes, ignores",
    r"who asks|by which right": "credentials",
    r"for what may pass": "transient failures",
    r"(?:data|containers) of strangers": "untrusted data",
    r"ha(?:s|ve) (?:its|their) say": "is used",
    r"one (?:writes|wrote|sees|clicks)": "you",
    r"whether to go on": "resume",
    r"what must not": "a noun",
    r"anew": "again",
    r"how many \w+ (?:are|is|may|were|can)": "the (maximum) number of",
    r"the most (?:axes|blocks|bytes|characters|chunks|elements|levels)": "the maximum",
    r"(?:was|were|is|are) asked for": "requested",
    r"as far as (?:the array|it) reaches": "clipped to the array",
    r"(?:bytes|numbers|strings?) (?:are|is|were) (?:needed|wanted|expected)": "expected ...",
    r"known are": "expected one of",
    r"cut off": "truncated",
    r"nobody": "no other program, no one",
    r"beside": "next to",
    r"cures?|cured": "fix, repair",
    r"opinions?": "reading",
    r"(?<!ground )(?<!ground-)truth": "expected",
    r"(?:is|are) judged by": "counts as",
    r"it has none but": "only",
    r"what is more": "also",
    r"of which of": "a noun",
}
"""Patterns, matched as whole words in any case, and what to write instead."""

PAGES = (
    "*.md",
    "docs/*.md",
    "docs/howto/*.md",
    "docs/decisions/*.md",
    "notebooks/*.ipynb",
    "src/**/*.py",
)

_PATTERN = re.compile(
    "|".join(rf"(?P<p{number}>\b(?:{phrase})\b)" for number, phrase in enumerate(PHRASES)),
    re.IGNORECASE,
)


def main(arguments: list[str]) -> int:
    """Print each phrase that is found, and return how many there are."""
    every = [file.relative_to(ROOT) for pattern in PAGES for file in sorted(ROOT.glob(pattern))]
    files = [Path(each) for each in arguments] or every
    found = 0
    for file in files:
        for line, text in _prose(file):
            for match in _PATTERN.finditer(text):
                number = line + text.count("\n", 0, match.start())
                advice = list(PHRASES.values())[int(str(match.lastgroup)[1:])]
                print(f"{file}:{number}: {match[0]!r}; write: {advice}")
                found += 1
    return found


def _prose(file: Path) -> Iterator[tuple[int, str]]:
    """Yield each piece of prose in a file with the number of its first line."""
    text = (ROOT / file).read_text(encoding="utf-8")
    match file.suffix:
        case ".py":
            yield from _python(text)
        case ".ipynb":
            for cell in json.loads(text)["cells"]:
                if cell["cell_type"] == "markdown":
                    yield 1, _without_code("".join(cell["source"]))
        case _:
            yield 1, _without_code(text)


def _without_code(page: str) -> str:
    """Blank out blocks of code, code within lines, and targets of links."""
    code = re.compile(r"^(`{3,})(?!\{).*?^\1$|`[^`\n]+`|\]\([^)\s]*\)", re.MULTILINE | re.DOTALL)
    return code.sub(lambda block: "\n" * block[0].count("\n"), page)


def _python(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, _without_code(node.value.replace("``", "`"))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
