"""How commands fail: one line on stderr, no secret in it, and the exit code 1."""

from __future__ import annotations

import functools
import re
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from xarray_n5.errors import N5Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s'\"]*@|(?<=[?&])[^=&\s]*=[^&\s'\"]*")
"""What a URL may hold that nobody else shall see."""

_TOLD = (N5Error, OSError, ValueError, ImportError)
"""Errors that say what is wrong; others are faults of the program, and show where."""


def one_line(command: Callable[P, None]) -> Callable[P, None]:
    """Return a command whose errors and warnings are a line each, as click shows them."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        context = click.get_current_context()
        secrets = sorted(_texts(context.params), key=len, reverse=True)

        def show(message: Warning | str, *_: object, **__: object) -> None:
            click.echo(f"Warning: {scrubbed(str(message), secrets)}", err=True)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.filterwarnings("ignore", category=_quiet())
            warnings.showwarning = show
            try:
                command(*args, **kwargs)
            except BrokenPipeError:
                raise  # click ends without a word
            except _TOLD as error:
                if context.find_root().params.get("traceback"):
                    raise
                raise click.ClickException(scrubbed(_told(error), secrets)) from error

    return run


def scrubbed(text: str, secrets: list[str] | tuple[str, ...] = ()) -> str:
    """Return a text without what is secret in URLs, and without some other texts.

    >>> scrubbed("no group at 's3://key:word@bucket/a.n5'")
    "no group at 's3://bucket/a.n5'"
    """
    for secret in secrets:
        text = text.replace(secret, "***")
    return _CREDENTIALS.sub("", text)


def _told(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__


def _texts(params: dict[str, Any]) -> Iterator[str]:
    """Iterate over the texts in storage options that are long enough to be secrets."""
    for name, value in params.items():
        if name.endswith("options"):
            yield from _inner(value)


def _inner(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _inner(each)
    elif isinstance(value, str) and len(value) > 3:  # noqa: PLR2004 - "true" is no secret
        yield value


def _quiet() -> type[Warning]:
    """Return what Dask's users want to know, and those of a command cannot change."""
    from dask.array.core import PerformanceWarning

    return PerformanceWarning
