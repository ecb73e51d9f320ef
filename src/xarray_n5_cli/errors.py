"""Report the errors and warnings of commands: one line on stderr without secrets, exit code 1."""

from __future__ import annotations

import functools
import re
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")

_RESUME = (
    "{path!r} in {url!r} has an unfinished write of something else, or with other options, begun "
    "{began}; repeat that command with the same options and --resume, or start again with --mode "
    "w and without --resume"
)
"""The message for a :class:`~xarray_n5.errors.ResumeError`."""

_PHRASES = {
    r" \(dialect='[^']*' uses the other\)": "",
    r", or register it with xarray_n5\.register_compression": "",
    r"compute with dask\.config\.set\(scheduler='threads'\)": "omit --scheduler and --processes",
    r", or was opened with axis_order='F'": "",
    r"\ba url \(and a path\)": "DST",
    r"repeat the (?:same )?call": "repeat the command that wrote it",
    r"open it with xarray\.open_dataset or xarray\.open_datatree, and engine='n5'": (
        "use it with tree, info, preview, copy or view"
    ),
    r"storage_options=\{'(\w+)': True\}": r"--storage-option \1=true",
    r"\bstorage_options\b": "--storage-option",
    r"assign some with assign_coords, or use isel": "use --region for indices",
    r"\bresume=True\b": "--resume",
    r"\bwithout resume\b": "without --resume",
    r" \(the Dask names of the data [^()]*\)": "",
    r", or load the data first \(x\.compute\(\) of an array, ds\.load\(\) of a Dataset\)": "",
}
"""Advice for Python, as patterns, and the same for the command line."""

_ARGUMENTS = {"group": "PATH", "path": "PATH", "url": "URL"}
"""Python's parameters for which commands have arguments."""

_PARAMETER = re.compile(
    r"(?<![\w?&/.'\"])(?P<name>bounds|chunks|dialect|factors|format|group|label_multisets|level|levels|link"
    r"|method|mode|path|project|region|setups?|shards|timepoint|url|attribute_order|axis_order|layout|dims)"
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
    from xarray_n5.errors import ResumeError, printable

    context = context or click.get_current_context()
    secrets = sorted(_secrets(context.params), key=len, reverse=True)
    text = str(problem)
    if isinstance(problem, ResumeError):
        text = _RESUME.format(path=problem.path or "/", url=problem.url, began=problem.began)
    line = " ".join(text.split()) or type(problem).__name__
    return printable(redact(with_options(line, context.command), secrets))


def echo(text: str, *, err: bool = False) -> None:
    """Print lines with control characters escaped: names in files must not control a terminal."""
    from xarray_n5.errors import printable

    click.echo("\n".join(map(printable, text.split("\n"))), err=err)


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

    for phrase, words in _PHRASES.items():
        text = re.sub(phrase, words, text)
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
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, str) and len(value) > 3:  # noqa: PLR2004 - "true" is not a secret
        yield value
