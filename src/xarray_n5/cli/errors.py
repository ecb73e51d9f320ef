"""Report the errors and warnings of commands: one line on stderr without secrets, exit code 1."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")

_EXPECTED = (OSError, ValueError, ImportError)
"""Errors whose message is enough, like the package's own; others are bugs with a traceback."""


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Return a command whose errors and warnings are one line each."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from dask.array import PerformanceWarning

        from xarray_n5.errors import N5Error

        context = click.get_current_context()

        def show(message: Warning | str, *_: object, **__: object) -> None:
            # Warnings come from threads, too, where click has no context.
            echo(f"Warning: {format_error(message, context)}", err=True)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.filterwarnings("ignore", category=PerformanceWarning)
            warnings.showwarning = show
            try:
                command(*args, **kwargs)
            except BrokenPipeError:
                raise  # click exits silently
            except (N5Error, *_EXPECTED) as error:
                if context.find_root().params.get("traceback"):
                    raise
                raise click.ClickException(format_error(error)) from error

    return run


def ignore_unfinished_writes() -> None:
    """Ignore warnings of unfinished writes, in commands whose output reports them."""
    from xarray_n5.errors import UnfinishedWriteWarning

    warnings.filterwarnings("ignore", category=UnfinishedWriteWarning)


def format_error(problem: BaseException | str, context: click.Context | None = None) -> str:
    """Return an error as one line without secrets."""
    from xarray_n5.errors import printable

    context = context or click.get_current_context()
    line = " ".join(str(problem).split()) or type(problem).__name__
    for secret in sorted(_secrets(context.params), key=len, reverse=True):
        line = line.replace(secret, "***")
    return printable(redact(line))


def plural(count: int, thing: str) -> str:
    """Return a count with its noun, in the plural if need be.

    >>> plural(1, "chunk"), plural(0, "chunk")
    ('1 chunk', '0 chunks')
    """
    return f"{count} {thing}{'s' * (count != 1)}"


def echo(*lines: str, err: bool = False) -> None:
    """Print lines, escaped: a name in a file must not control a terminal, or look like a line."""
    from xarray_n5.errors import printable

    click.echo("\n".join(map(printable, lines)), err=err)


def redact(text: str) -> str:
    """Return a message without the credentials in URLs.

    >>> redact("no group at 's3://key:word@bucket/a.n5'")
    "no group at 's3://bucket/a.n5'"
    """
    from xarray_n5.stores.redaction import redact_urls

    return redact_urls(text)


def _secrets(params: dict[str, Any]) -> Iterator[str]:
    """Iterate over the strings in storage options that are long enough to be secrets."""
    for name, value in params.items():
        if name.endswith("options"):
            yield from _strings(value)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from () if key == "endpoint_url" else _strings(item)
    elif isinstance(value, str) and len(value) > 3:  # noqa: PLR2004 - "true" is not a secret
        yield value
