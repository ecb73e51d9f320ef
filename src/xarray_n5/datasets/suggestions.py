"""Refuse unknown options, and suggest the ones that were probably meant."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from xarray_n5.model.options import near

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ENCODINGS = {
    **dict.fromkeys(["chunksizes", "chunksize", "blockSize"], "chunks"),
    **dict.fromkeys(["compressor", "compressors", "zlib", "complevel"], "compression"),
    **dict.fromkeys(["filters", "order", "dimension_separator"], "layout"),
}
"""Encodings of other engines, and ours for the same."""

_OPTIONS = {
    "safe_chunks": "partial_chunks='merge' allows regions that cut stored chunks",
    "overwrite": "mode='w' replaces existing arrays",
    **dict.fromkeys(["path", "component"], "group= is the path in the container"),
    "zarr_format": "format='zarr2' writes Zarr v2, as a name that ends in .zarr does",
    "consolidated": "existing consolidated metadata is updated, never created",
}
"""Options of other functions, and how to get the same here."""


def refuse_unknown(function: Callable[..., Any], given: Iterable[str], encoding: str) -> None:
    """Raise TypeError for options that were caught by the last parameter of a function."""
    if given := list(given):
        known = [*signature(function).parameters][:-1]
        refuse_options(f"{function.__name__}()", given, known, encoding)


def refuse_options(
    what: str, given: Iterable[str], known: Iterable[str], encoding: str | None = None
) -> None:
    """Raise TypeError for the first of the unknown options, and suggest a known one.

    Parameters
    ----------
    what
        The function, for the message.
    given, known
        The names of the unknown options, and of those that the function takes.
    encoding
        How an encoding is given to the function, with ``...`` in its place; None if it takes none.
    """
    for name in given:
        if encoding and name in {"chunks", "compression", "layout", *_ENCODINGS}:
            inner = f"{{{_ENCODINGS.get(name, name)!r}: ...}}"
            hint = f"; it is given by variable: {encoding.replace('...', inner, 1)}"
        elif encoding and name in _OPTIONS:
            hint = f"; {_OPTIONS[name]}"
        else:
            hint = near(name, known) or f"; it takes {', '.join(known)}"
        raise TypeError(f"{what} takes no {name!r}{hint}")


def refuse_encodings(name: object, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for the first of the unknown encodings of a variable."""
    for each in unknown:
        meant = f"; did you mean {_ENCODINGS[each]!r}?" if each in _ENCODINGS else near(each, known)
        hint = meant or f"; known are {', '.join(sorted(known))}"
        raise ValueError(f"unexpected encoding for variable {name!r}: {each!r}{hint}")
