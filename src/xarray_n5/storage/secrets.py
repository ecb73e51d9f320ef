"""What of a place must not be shown: who asks, and by which right."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_URLS = re.compile(r"(?<=://)[^/@\s]*@|(?<=[?&])[^=&\s'\"]*=[^&\s'\"]*")
"""A user and a password before a host, and every value that is asked for behind a path."""

_NAMES = re.compile(
    r"key|secret|token|pass|credential|signature|sas|auth|connection_string", re.IGNORECASE
)
"""What options are called whose values are not to be shown."""

_SHORTEST = 4
"""How many letters a secret has at least; fewer stand in many words."""


def hide(text: str) -> str:
    """Return a text in which no URL tells who asks, or by which right.

    >>> hide("403 from https://me:hush@host/x.n5/0?signature=hush")
    '403 from https://host/x.n5/0?'
    """
    return _IN_URLS.sub("", text)


def hide_all(text: str, options: Mapping[str, Any]) -> str:
    """Return a text without what URLs and options have of secrets.

    >>> hide_all("no user AKIA", {"key": "AKIA"})
    'no user ***'
    """
    for value in _values(options):
        text = text.replace(value, "***")
    return hide(text)


def _values(options: Mapping[str, Any], *, named: bool = False) -> Iterator[str]:
    for name, value in options.items():
        secret = named or _NAMES.search(str(name)) is not None
        if isinstance(value, Mapping):
            yield from _values(value, named=secret)
        elif secret and isinstance(value, str) and len(value) >= _SHORTEST:
            yield value


def fingerprint(text: str) -> str:
    """Return what tells a text from others, from which it cannot be read."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
