"""Arguments and options that several commands have: places, and what their file systems take."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SUFFIXES = (".n5", ".zarr", ".h5", ".hdf5", ".hdf")
"""What containers are called."""


def split_place(url: str, path: str = "") -> tuple[str, str]:
    """Return a container and a path in it, of a URL that may go on behind the container.

    >>> split_place("s3://bucket/a.n5/em/s0"), split_place("a.zarr", "em")
    (('s3://bucket/a.n5', 'em/s0'), ('a.zarr', 'em'))
    """
    if "::" in url or "?" in url:
        return url, path
    ends = [found.end() for found in re.finditer(r"[^/]+(?=/|$)", url)]
    for end in reversed(ends):
        if url[:end].endswith(_SUFFIXES):
            inner = (url[end:].strip("/"), path)
            return url[:end], "/".join(filter(None, inner))
    return url, path


def files(_: object, __: object, incomplete: str) -> list[CompletionItem]:
    """Have a shell complete the names of files, as it does for other programs."""
    return [CompletionItem(incomplete, type="file")]


def storage_option(
    name: str = "options", flags: Sequence[str] = ("-o", "--storage-option"), of: str = ""
) -> Callable[[Any], Any]:
    """Return an option for what fsspec's file system takes."""
    return click.option(
        *flags,
        name,
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parsed,
        help=f"What fsspec's file system{of} takes, such as anon=true; VALUE is JSON or a text.",
    )


def for_url(url: str, options: dict[str, Any]) -> dict[str, Any] | None:
    """Return storage options, which URLs take, and of which local files take some."""
    if options.keys() - {"follow_external", "follow_links"} and "://" not in url:
        raise click.UsageError(f"storage options {sorted(options)} are for URLs, not for {url!r}")
    return options or None


def _parsed(_: object, __: object, given: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            # The text itself may be a secret.
            raise click.BadParameter("give KEY=VALUE, such as anon=true")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
