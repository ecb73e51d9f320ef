"""Redact credentials from URLs and options."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

_USERS = re.compile(r"(?<=://)[^/\s?#'\"]*@|(?<![^\s'\"])[^/\s:?#'\"@]+:[^/\s?#'\"@]+@(?=[\w.-])")
"""A user and a password before a host, even if a library repeats them without the protocol."""

_WORDS = re.compile(r"[^\s'\"]+")
"""Parts of a text that may be URLs."""

_QUERY, _PART = re.compile("[?#]"), re.compile("[?&]")
"""What the query of a URL begins with, and what its parts begin with elsewhere."""

_SECRET_NAMES = re.compile(
    r"key|secret|token|pass|credential|signature|sas|auth|connection_string|cookie|header",
    re.IGNORECASE,
)
"""Names of options whose values are secret."""

_SHORTEST = 4
"""The minimum length of a secret; shorter ones are part of many words."""


def redact_urls(text: str) -> str:
    """Return a string with the credentials in its URLs removed.

    >>> redact_urls("403 from https://me:hush@host/x.n5/0?signature=hush")
    '403 from https://host/x.n5/0?'
    """
    return _WORDS.sub(_without_query, _USERS.sub("", text))


def _without_query(word: re.Match[str]) -> str:
    """Return a word up to the query of its first URL, or up to its first ``name=value``."""
    text, ends = word[0], []
    if (url := text.find("://")) >= 0 and (query := _QUERY.search(text, url)):
        ends.append(query.end())
    if (part := _PART.search(text)) and (value := text.find("=", part.end())) >= 0:
        ends.append(max(part.end(), text.rfind("&", 0, value) + 1))
    return text[: min(ends, default=None)]


def redact(text: str, options: Mapping[str, Any]) -> str:
    """Return a string without the secrets of URLs and options.

    >>> redact("no user AKIA", {"key": "AKIA"})
    'no user ***'
    """
    # The longest first: one may be part of another.
    for value in sorted(_secrets(options), key=len, reverse=True):
        text = text.replace(value, "***").replace(quote(value, safe=""), "***")
    return redact_urls(text)


def _secrets(value: object, *, secret: bool = False) -> Iterator[str]:
    """Iterate over the secrets in options, and over parts of secrets."""
    match value:
        case Mapping():
            for name, inner in value.items():
                named = secret or _SECRET_NAMES.search(str(name)) is not None
                yield from _secrets(inner, secret=named)
        case list() | tuple():
            for inner in value:
                yield from _secrets(inner, secret=secret)
        case int() if secret and not isinstance(value, bool):
            yield from _secrets(str(value), secret=True)
        case str() if secret and len(value) >= _SHORTEST:
            yield value
            parts = [part.partition("=")[2] for part in value.split(";")]
            parts += value.split()[1:]  # "Bearer ..."
            yield from (part for part in parts if len(part) >= _SHORTEST)


def fingerprint(text: str) -> str:
    """Return a short digest of a string."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
