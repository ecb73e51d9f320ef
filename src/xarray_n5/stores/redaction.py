"""What of a place must not be shown: who asks, and by which right."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

_USERS = re.compile(r"(?<=://)[^/\s?#'\"]*@|(?<![^\s'\"])[^/\s:?#'\"@]+:[^/\s?#'\"@]+@(?=[\w.-])")
"""A user and a password before a host; also where a library repeats it without the protocol."""

_ASKED = re.compile(r"(?P<path>://[^\s'\"?#]*[?#])[^\s'\"]+|(?<=[?&])[^=&\s'\"]*=[^\s'\"]*")
"""What is asked for behind a path: all of it in a URL, and elsewhere what has a name."""

_NAMES = re.compile(
    r"key|secret|token|pass|credential|signature|sas|auth|connection_string|cookie|header",
    re.IGNORECASE,
)
"""What options are called whose values are not to be shown."""

_SHORTEST = 4
"""How many letters a secret has at least; fewer stand in many words."""


def hide(text: str) -> str:
    """Return a text in which no URL tells who asks, or by which right.

    >>> hide("403 from https://me:hush@host/x.n5/0?signature=hush")
    '403 from https://host/x.n5/0?'
    """
    text = _USERS.sub("", text)
    return _ASKED.sub(r"\g<path>", text)


def hide_all(text: str, options: Mapping[str, Any]) -> str:
    """Return a text without what URLs and options have of secrets.

    >>> hide_all("no user AKIA", {"key": "AKIA"})
    'no user ***'
    """
    # The longest first: one may be a part of another.
    for value in sorted(_values(options), key=len, reverse=True):
        text = text.replace(value, "***").replace(quote(value, safe=""), "***")
    return hide(text)


def _values(value: object, *, secret: bool = False) -> Iterator[str]:
    """Iterate over the secrets in options, and in the parts that a secret has."""
    match value:
        case Mapping():
            for name, inner in value.items():
                named = secret or _NAMES.search(str(name)) is not None
                yield from _values(inner, secret=named)
        case list() | tuple():
            for inner in value:
                yield from _values(inner, secret=secret)
        case int() if secret and not isinstance(value, bool):
            yield from _values(str(value), secret=True)
        case str() if secret and len(value) >= _SHORTEST:
            yield value
            parts = [part.partition("=")[2] for part in value.split(";")]
            parts += value.split()[1:]  # "Bearer ..."
            yield from (part for part in parts if len(part) >= _SHORTEST)


def fingerprint(text: str) -> str:
    """Return what tells a text from others, from which it cannot be read."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
