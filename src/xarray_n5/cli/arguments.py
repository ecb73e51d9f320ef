"""Arguments shared by several commands: URLs, and the options of their filesystems."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from xarray_n5.cli.errors import report_errors
from xarray_n5.formats import split_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Options: TypeAlias = "dict[str, Any] | None"
"""The options of a filesystem, if there are any."""


def on_node(
    flags: Sequence[str] = ("-o", "--storage-option"),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of commands about one node, whose errors are one line each.

    They have the arguments URL and PATH and the option with `flags`, and are called with the
    container's URL, the path of the node in it, and the options for its URL.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(url: str, path: str, options: dict[str, Any], **more: Any) -> None:
            container, inner = split_url(url, path)
            command(container, inner, options=for_url(container, options), **more)

        for add in (
            storage_option(flags=flags),
            click.argument("path", default=""),
            click.argument("url", type=click.Path()),
        ):
            run = add(run)
        return report_errors(run)

    return decorate


def storage_option(
    name: str = "options", flags: Sequence[str] = ("-o", "--storage-option"), of: str = ""
) -> Callable[[Any], Any]:
    """Return an option for the arguments of an fsspec filesystem."""
    return click.option(
        *flags,
        name,
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parse_options,
        help=f"An option of the fsspec filesystem{of}, such as anon=true. VALUE: JSON or a string.",
    )


order_option = click.option(
    "--attribute-order",
    type=click.Choice(["auto", "C", "N5"]),
    default="auto",
    show_default=True,
    help="The order of lists such as resolution: C for z first, N5 for x first. By default, "
    "the order used by the programs that write them.",
)
"""The option for the order of lists of axes in attributes."""


def for_url(url: str, options: dict[str, Any]) -> Options:
    """Return the storage options of a URL, or None; local paths support only those for links."""
    of_container = "://" not in url and not url.lower().endswith(".xml")
    if options.keys() - {"follow_external", "follow_links"} and of_container:
        raise click.UsageError(
            f"storage options {sorted(options)} are for URLs; {url!r} is a path (-O is for DST)"
        )
    return options or None


def _parse_options(_: object, __: object, given: Sequence[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            # The argument may be a secret: do not show it.
            raise click.BadParameter("expected KEY=VALUE, such as anon=true")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options
