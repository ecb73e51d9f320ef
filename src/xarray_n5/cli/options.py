"""Arguments and options that commands share; errors and warnings as one line without secrets."""

from __future__ import annotations

import functools
import json
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

import click
from dask.array import PerformanceWarning

from xarray_n5.errors import N5Error, UnfinishedWriteWarning, printable
from xarray_n5.formats import split_url
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]


Options: TypeAlias = "dict[str, Any] | None"
"""The options of a filesystem, if there are any."""


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


def _parse_sizes(_: object, __: object, text: str | None) -> tuple[int, ...] | int | str | None:
    if text is None or text == "auto":
        return text
    try:
        sides = tuple(int(side) for side in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected 64,64,64 or 64 or auto") from None
    return sides[0] if len(sides) == 1 else sides


def _parse_compression(_: object, __: object, text: str) -> Any:
    try:
        return json.loads(text) if text.startswith("{") else text
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not JSON: {error}") from None


def _set_option(context: click.Context, option: click.Parameter, value: bool) -> None:
    """Set an option of xarray-n5 while a command runs."""
    if value:
        from xarray_n5.writing.options import set_options

        context.with_resource(set_options(**{str(option.name): value}))


def for_url(url: str, options: dict[str, Any]) -> Options:
    """Return the storage options of a URL, or None; local paths support only those for links."""
    of_container = "://" not in url and not url.lower().endswith(".xml")
    if options.keys() - {"follow_external", "follow_links"} and of_container:
        raise click.UsageError(
            f"storage options {sorted(options)} are for URLs; {url!r} is a path (-O is for DST)"
        )
    return options or None


def _storage_option(name: str, flags: Sequence[str], of: str = "") -> Decorator:
    help_ = f"An option of the fsspec filesystem{of}, such as anon=true. VALUE: JSON or a string."
    how: dict[str, Any] = {"multiple": True, "metavar": "KEY=VALUE", "callback": _parse_options}
    return click.option(*flags, name, help=help_, **how)


def on_node(flags: Sequence[str] = ("-o", "--storage-option")) -> Decorator:
    """Return a decorator of commands about one node, whose errors are one line each.

    They have the arguments URL and PATH and the option with `flags`, and are called with the
    container's URL, the path of the node in it, and the options for its URL.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(url: str, path: str, options: dict[str, Any], **more: Any) -> None:
            container, inner = split_url(url, path)
            command(container, inner, options=for_url(container, options), **more)

        of_node = _storage_option("options", flags)(report_errors(run))
        of_node = click.argument("path", default="")(of_node)
        return click.argument("url", type=click.Path())(of_node)

    return decorate


order_option = click.option(
    "--attribute-order",
    type=click.Choice(["auto", "C", "N5"]),
    default="auto",
    show_default=True,
    help="The order of lists such as resolution: C for z first, N5 for x first. By default, "
    "the order used by the programs that write them.",
)
"""The option for the order of lists of axes in attributes."""

_SETTING: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _set_option}

_STORING: dict[str, dict[str, Any]] = {
    "--chunks": {
        "callback": _parse_sizes,
        "metavar": "64,64,64",
        "help": "The shape of chunks.",
    },
    "--shards": {
        "callback": _parse_sizes,
        "metavar": "512,512,512",
        "help": "The shape of shards, which are files of several chunks, or auto; for zarr3.",
    },
    "--compression": {
        "callback": _parse_compression,
        "default": "same",
        "show_default": True,
        "help": "A name, raw for none, or a JSON object as in N5; gzip if DST's format lacks that "
        "of SRC.",
    },
    "--format": {
        "type": click.Choice(["n5", "zarr2", "zarr3", "hdf5"]),
        "help": "The format of DST; by default, its name decides.",
    },
    "--resume": {"is_flag": True, "help": "Resume what was interrupted."},
    "--checksums": _SETTING | {"help": "Store a digest of each chunk, for verify."},
    "--fsync": _SETTING | {"help": "Flush each chunk to disk, to survive a power cut."},
}
"""Options of the commands that store arrays."""

_MODES = {"w-": "fail if it exists", "a": "add to a group", "w": "first remove what it holds"}


def storing(*modes: str) -> Decorator:
    """Return a decorator that adds SRC's and DST's options of storage, and `modes` of writing."""
    meanings = ". ".join(f"{mode}: {_MODES[mode]}" for mode in modes)
    mode = {"type": click.Choice(modes), "default": "w-", "show_default": True, "help": meanings}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        command = _storage_option("dst_options", ("-O", "--dst-storage-option"), " of DST")(command)
        command = _storage_option("options", ("-o", "--storage-option"))(computing(command))
        for flag, how in reversed((_STORING | {"--mode": mode}).items()):
            command = click.option(flag, **how)(command)
        return command

    return decorate


def computing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the number of threads, and compute there; errors are one line each."""

    @functools.wraps(command)
    def run(workers: int | None, **more: Any) -> None:
        import dask

        count: dict[str, Any] = {} if workers is None else {"num_workers": workers}
        with dask.config.set(**count):
            command(**more)

    workers = click.option("--workers", type=click.IntRange(1), help="Number of threads.")
    return workers(report_errors(run))


P = ParamSpec("P")

_EXPECTED = (OSError, ValueError, ImportError)
"""Errors whose message is enough, like the package's own; others are bugs with a traceback."""


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Return a command whose errors and warnings are one line each."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:

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
    warnings.filterwarnings("ignore", category=UnfinishedWriteWarning)


def format_error(problem: BaseException | str, context: click.Context | None = None) -> str:
    """Return an error as one line without secrets."""
    context = context or click.get_current_context()
    line = " ".join(str(problem).split()) or type(problem).__name__
    options = {name: value for name, value in context.params.items() if name.endswith("options")}
    for secret in sorted(_secrets(options), key=len, reverse=True):
        line = line.replace(secret, "***")
    return printable(redact_urls(line))


def plural(count: int, thing: str) -> str:
    """Return a count with its noun, in the plural if need be.

    >>> plural(1, "chunk"), plural(0, "chunk")
    ('1 chunk', '0 chunks')
    """
    return f"{count} {thing}{'s' * (count != 1)}"


def echo(*lines: str, err: bool = False) -> None:
    """Print lines, escaped: a name in a file must not control a terminal, or look like a line."""
    click.echo("\n".join(map(printable, lines)), err=err)


def _secrets(value: Any) -> Iterator[str]:
    """Iterate over the strings in storage options that are long enough to be secrets."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from () if key == "endpoint_url" else _secrets(item)
    elif isinstance(value, str) and len(value) > 3:  # noqa: PLR2004 - "true" is not a secret
        yield value
