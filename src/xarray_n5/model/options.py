"""Check what users pass: options with few values, misspelt keywords, parameters as in JSON."""

from __future__ import annotations

import difflib
import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def check_option(option: str, value: object, *allowed: str) -> None:
    """Raise ValueError unless an option has one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{option} is {value!r}; expected {' or '.join(map(repr, allowed))}")


def near(word: object, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" for the most similar known word, or "".

    >>> near("chunksizes", ["chunks", "compression"]), near("a", ["chunks"])
    ("; did you mean 'chunks'?", '')
    """
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(str(word).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""


F = TypeVar("F", bound="Callable[..., Any]")

_SAME = {
    **dict.fromkeys(["compressor", "compressors", "codec", "codecs", "complevel"], "compression"),
    **dict.fromkeys(["chunk", "chunksize", "chunksizes", "chunk_shape"], "chunks"),
    **dict.fromkeys(["block_size", "blockSize", "block_shape", "blocks"], "chunks"),
    **dict.fromkeys(["shard", "shard_size", "shard_shape"], "shards"),
    **dict.fromkeys(["path", "component", "group", "dataset", "key"], "path component group"),
    **dict.fromkeys(["store", "uri", "filename", "container"], "url destination source folder"),
    **dict.fromkeys(["attrs", "metadata"], "attributes"),
    **dict.fromkeys(["dims", "dimension_names", "units", "resolution"], "axes dims"),
    **dict.fromkeys(["zarr_version", "driver"], "format"),
    **dict.fromkeys(["options", "fs_kwargs"], "storage_options"),
    **dict.fromkeys(["downscale", "scale_factors"], "factors"),
    **dict.fromkeys(["filters", "dimension_separator"], "layout"),
}
"""Names in other libraries, and ours for the same: the first that a function has is meant."""

_HINTS = {
    "overwrite": ("mode", "mode='w' replaces existing arrays"),
    "read_only": ("mode", "mode='r+' opens for writing"),
    "fill_value": ("layout", "layout={'fill_value': ...} is for Zarr; N5 has none but 0"),
    "safe_chunks": ("partial_chunks", "partial_chunks='merge' allows regions that cut chunks"),
    "zarr_format": ("format", "format='zarr2' writes Zarr v2, as a name that ends in .zarr does"),
    **dict.fromkeys(
        ("channel", "tile", "angle", "illumination"),
        ("setups", "open all and select, as in .isel(tile=1), or choose a view by setup="),
    ),
    "consolidated": ("mode", "existing consolidated metadata is updated, never created"),
}
"""Names in other libraries, the parameter with which a function does the same, and how."""

_ENCODINGS = {
    **dict.fromkeys(["chunks", "chunksizes", "chunksize", "blockSize"], "chunks"),
    **dict.fromkeys(["compression", "compressor", "compressors"], "compression"),
    **dict.fromkeys(["zlib", "complevel"], "compression"),
    **dict.fromkeys(["shards", "shard", "shard_size", "shard_shape"], "shards"),
    **dict.fromkeys(["layout", "filters", "order", "dimension_separator"], "layout"),
}
"""Encodings of variables, ours and other engines', and ours for the same."""


def suggest_keywords(target: F) -> F:
    """Return a function whose unknown keyword arguments raise TypeError with a suggestion.

    Of a class, its public methods become such functions, and so does making an instance; but no
    method that passes keywords on.

    >>> @suggest_keywords
    ... def open_it(url, mode="r"): ...
    >>> open_it("a.n5", modes="r")
    Traceback (most recent call last):
        ...
    TypeError: open_it() has no parameter 'modes'; did you mean 'mode'?
    """
    if not isinstance(target, type):
        return suggest_keywords_of()(target)
    for name, method in list(vars(target).items()):
        called = inspect.isfunction(method) and (name == "__init__" or not name.startswith("_"))
        if called and not _passes_on(method):
            setattr(target, name, suggest_keywords_of()(method))
    return target


def suggest_keywords_of(*others: Callable[..., Any], encoding: str = "") -> Callable[[F], F]:
    """Return a decorator as :func:`suggest_keywords`, for functions that pass keywords on.

    Parameters
    ----------
    *others
        The functions that the keyword arguments are passed to.
    encoding
        How the function accepts encodings of variables, with ``...`` for one of them.
    """

    def decorate(function: F) -> F:
        functions: tuple[Callable[..., Any], ...] = (function, *others)
        known = dict.fromkeys(each for one in functions for each in _parameters(one))

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not known.keys() >= kwargs.keys():
                unknown = [each for each in kwargs if each not in known]
                refuse_keywords(f"{_name(function)}()", unknown, known, encoding)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def _passes_on(function: Callable[..., Any]) -> bool:
    """Return whether a function accepts any keywords, or refuses unknown ones already."""
    flags = inspect.unwrap(function).__code__.co_flags
    return hasattr(function, "__wrapped__") or bool(flags & inspect.CO_VARKEYWORDS)


def _name(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class that it initialises."""
    owner, _, name = function.__qualname__.rpartition(".")
    return owner if name == "__init__" else name


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that can be given by keyword."""
    code = inspect.unwrap(function).__code__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [each for each in named if each not in {"self", "cls"}]


def refuse_keywords(
    what: str, unknown: Iterable[str], known: Iterable[str], encoding: str = ""
) -> None:
    """Raise TypeError for the first of the unknown keyword arguments, and suggest a known one.

    Parameters
    ----------
    what
        The function, for the message.
    unknown, known
        The names of the unknown arguments, and of the parameters.
    encoding
        How the function accepts encodings of variables, with ``...`` for one of them; "" if it
        does not.
    """
    known = list(known)
    for name in unknown:
        raise TypeError(f"{what} has no parameter {name!r}; {_hint(name, known, encoding)}")


def _hint(name: str, known: list[str], encoding: str) -> str:
    parameter, hint = _HINTS.get(name, ("", ""))
    if encoding and name in _ENCODINGS:
        inner = f"{{{_ENCODINGS[name]!r}: ...}}"
        return f"pass it by variable: {encoding.replace('...', inner, 1)}"
    if parameter in known:
        return hint
    same = next((each for each in _SAME.get(name, "").split() if each in known), None)
    if same is not None:
        return f"did you mean {same!r}?"
    if not known:
        return "it accepts no keywords"
    return near(name, known).removeprefix("; ") or f"its parameters are {', '.join(known)}"


def refuse_encodings(name: object, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for the first of the unknown encodings of a variable."""
    for each in unknown:
        meant = f"; did you mean {_ENCODINGS[each]!r}?" if each in _ENCODINGS else near(each, known)
        hint = meant or f"; expected one of {', '.join(sorted(known))}"
        raise ValueError(f"unexpected encoding for variable {name!r}: {each!r}{hint}")


def check_range(name: str, value: object, low: int, high: int) -> None:
    """Raise MetadataError unless a parameter is an integer from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MetadataError(f"{name!r} is {value!r}; expected an integer from {low} to {high}")


def check_boolean(name: str, value: object) -> None:
    """Raise MetadataError unless a parameter is a boolean."""
    if not isinstance(value, bool):
        raise MetadataError(f"{name!r} is {value!r}; expected true or false")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise MetadataError unless a parameter is one of `choices`."""
    if value not in choices:
        raise MetadataError(f"{name!r} is {value!r}; expected one of {', '.join(choices)}")


def as_int(value: object) -> object:
    """Return a whole float as an int: Gson sometimes writes 6 as 6.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
