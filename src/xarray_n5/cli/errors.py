"""Report the errors and warnings of commands: one line on stderr without secrets, exit code 1."""

from __future__ import annotations

import errno
import functools
import re
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")

_ARGUMENTS = {
    "group": "PATH",
    "path": "PATH",
    "url": "URL",
    "resume": "--resume",
    "storage_options": "--storage-option",
}
"""Python's parameters that commands call otherwise."""

_PARAMETER = re.compile(
    r"(?<![\w?&/.'\"])(?P<name>bounds|chunks|dialect|factors|format|group|label_multisets|level"
    r"|levels|link|method|mode|path|project|region|resume|setups?|shards|storage_options|timepoint"
    r"|url|without|attribute_order|layout|dims)"
    r"=(?P<quote>['\"]?)(?P<value>(?<=['\"])[^'\"]*|[\w-]*)(?P=quote)(?!\w)"
)
"""A parameter of Python's functions in a message, with or without a value."""

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
    """Return an error as one line without secrets that names the options of the command."""
    from xarray_n5.errors import printable

    context = context or click.get_current_context()
    secrets = sorted(_secrets(context.params), key=len, reverse=True)
    line = " ".join(_text_of(problem).split()) or type(problem).__name__
    return printable(redact(with_options(line, context.command), secrets))


def _text_of(problem: BaseException | str) -> str:
    """Return a message; where its advice is for Python, one with the facts that the error keeps."""
    from xarray_n5 import errors

    match problem:
        case errors.ResumeError():
            return (
                f"{problem.path or '/'!r} in {problem.url!r} has an unfinished write of something "
                "else, with other options, or of a source whose metadata file was written since, "
                f"begun {problem.began}; repeat that command with the same options and --resume, "
                "or start again with --mode w and without --resume"
            )
        case OSError(errno=errno.ENOSPC):
            return f"{problem}; free some space, and repeat it{' with --resume' * resumes()}"
        case errors.OneWriterError():
            return (
                f"{problem.url}: {problem.why}; only one process at a time can write an HDF5 file: "
                "omit --scheduler and --processes, or write N5 or Zarr"
            )
        case errors.UnknownCompressionError():
            where = f"{problem.where}: " if problem.where else ""
            known = ", ".join(sorted(problem.known))
            return f"{where}unknown compression {problem.name!r}; expected one of {known}"
        case errors.UnsafePathError(option=str(option)) if option:
            return (
                f"{problem.key or '/'!r} in {problem.url!r} {problem.why}, or, if you trust it, "
                f"read with --storage-option {option}=true"
            )
    lost = isinstance(problem, errors.RequestError) and not isinstance(problem, PermissionError)
    hint = "; if it has written anything, repeat it with --resume" * (lost and resumes())
    return _for_container(str(problem)) + hint


def resumes() -> bool:
    """Return whether the command can resume a write."""
    context = click.get_current_context(silent=True)
    return context is not None and "resume" in context.params


def _for_container(text: str) -> str:
    """Return the message about the XML of a project with the command for its container."""
    before, _, advice = text.partition("open it with xarray.open_")
    _, named, container = advice.partition(", or its container, ")
    context = click.get_current_context(silent=True)
    if not named or context is None:
        return text
    if context.info_name == "pyramid":
        return f"{before}to store it with other levels, use to_bdv in Python"
    return f"{before}run 'xarray-n5 {context.info_name}' on its container, {container}"


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


def with_options(text: str, command: click.Command) -> str:
    """Return a message with Python's parameters replaced by the command's options and arguments.

    >>> mode = click.Option(["--mode"])
    >>> with_options("use mode='w' to replace it", click.Command("copy", params=[mode]))
    'use --mode w to replace it'
    """
    flags = {
        flag.removeprefix("--").replace("-", "_"): flag
        for option in command.params
        for flag in option.opts
        if flag.startswith("--")
    }

    def replaced(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        known = flags.get(name) or _ARGUMENTS.get(name)
        if known is None:
            return f"{name.replace('_', ' ')} {value}".rstrip()
        return known if value in ("", "True") else f"{known} {value}"

    return _PARAMETER.sub(replaced, text)


def redact(text: str, secrets: list[str] | tuple[str, ...] = ()) -> str:
    """Return a message without the credentials in URLs, and with `secrets` replaced.

    >>> redact("no group at 's3://key:word@bucket/a.n5'")
    "no group at 's3://bucket/a.n5'"
    """
    from xarray_n5.stores.redaction import redact_urls

    for secret in secrets:
        text = text.replace(secret, "***")
    return redact_urls(text)


def _secrets(params: dict[str, Any]) -> Iterator[str]:
    """Iterate over the strings in storage options that are long enough to be secrets."""
    for name, value in params.items():
        if name.endswith("options"):
            yield from _strings(value)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from () if key == "endpoint_url" else _strings(each)
    elif isinstance(value, str) and len(value) > 3:  # noqa: PLR2004 - "true" is not a secret
        yield value
