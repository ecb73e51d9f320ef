"""How commands fail: one line on stderr, no secret in it, and the exit code 1."""

from __future__ import annotations

import functools
import re
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s'\"]*@|(?<=[?&])[^=&\s]*=[^&\s'\"]*")
"""What a URL may hold that nobody else shall see."""

_RESUMED = (
    "{path!r} in {url!r} holds an unfinished write of something else, or with other options, that "
    "began {began}: give what was given then, or start anew with mode='w' and without --resume"
)
"""What a command says of a :class:`~xarray_n5.errors.ResumeError`."""

_TOLD = (OSError, ValueError, ImportError)
"""Errors that say what is wrong, as the package's own do; others are faults, and show where."""


def one_line(command: Callable[P, None]) -> Callable[P, None]:
    """Return a command whose errors and warnings are a line each, as click shows them."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from xarray_n5.errors import N5Error

        context = click.get_current_context()

        def show(message: Warning | str, *_: object, **__: object) -> None:
            say(f"Warning: {told_of(message)}", err=True)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.filterwarnings("ignore", category=_quiet())
            warnings.showwarning = show
            try:
                command(*args, **kwargs)
            except BrokenPipeError:
                raise  # click ends without a word
            except (N5Error, *_TOLD) as error:
                if context.find_root().params.get("traceback"):
                    raise
                raise click.ClickException(told_of(error)) from error

    return run


def say_unfinished_elsewhere() -> None:
    """Show no warning of unfinished writes in a command whose output reports them."""
    from xarray_n5.errors import UnfinishedWriteWarning

    warnings.filterwarnings("ignore", category=UnfinishedWriteWarning)


def told_of(problem: BaseException | str) -> str:
    """Return a problem in one line, without secrets, in the words of the command that runs."""
    from xarray_n5.errors import ResumeError, printable

    context = click.get_current_context()
    secrets = sorted(_texts(context.params), key=len, reverse=True)
    text = _RESUMED if isinstance(problem, ResumeError) else str(problem)
    if isinstance(problem, ResumeError):
        text = text.format(path=problem.path or "/", url=problem.url, began=problem.began)
    line = " ".join(text.split()) or type(problem).__name__
    return printable(scrubbed(as_options(line, context.command), secrets))


def say(text: str, *, err: bool = False) -> None:
    """Print lines without control characters: names in files must not command a terminal."""
    from xarray_n5.errors import printable

    click.echo("\n".join(map(printable, text.split("\n"))), err=err)


def as_options(text: str, command: click.Command) -> str:
    """Return a text with the options of a command, where it names arguments of Python.

    >>> mode = click.Option(["--mode"])
    >>> as_options("use mode='w' to replace it", click.Command("copy", params=[mode]))
    'use --mode w to replace it'
    """
    options = [each for each in command.params if isinstance(each, click.Option)]
    for option, flag in ((o, f) for o in options for f in o.opts if f.startswith("--")):
        name = flag.removeprefix("--").replace("-", "_")
        if option.is_flag:
            text = re.sub(rf"\b{name}=True\b", flag, text)
        elif name == "storage_option":
            text = re.sub(r"\bstorage_options\b", flag, text)
        else:
            text = re.sub(rf"\b{name}=(['\"]?)([\w-]+)\1", rf"{flag} \2", text)
    return text


def scrubbed(text: str, secrets: list[str] | tuple[str, ...] = ()) -> str:
    """Return a text without what is secret in URLs, and without some other texts.

    >>> scrubbed("no group at 's3://key:word@bucket/a.n5'")
    "no group at 's3://bucket/a.n5'"
    """
    for secret in secrets:
        text = text.replace(secret, "***")
    return _CREDENTIALS.sub("", text)


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
    from dask.array import PerformanceWarning

    return PerformanceWarning
