"""What is asked for under a name that means nothing here, and what is meant by it perhaps."""

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
"""Encodings of other engines, and what stands for them."""

_OPTIONS = {
    "safe_chunks": "partial_chunks='merge' allows regions that cut stored chunks",
    "overwrite": "mode='w' replaces what is there",
    **dict.fromkeys(["path", "component"], "group= is the place in the container"),
    "zarr_format": "format='zarr2' writes Zarr v2, as a name that ends in .zarr does",
    "consolidated": "consolidated metadata are kept true where they are, and not made",
}
"""Options of other functions, and what stands for them."""


def refuse_unknown(function: Callable[..., Any], given: Iterable[str], encoding: str) -> None:
    """Raise where options came to a function's last parameter, which takes what is none of it."""
    known = [*signature(function).parameters][:-1]
    refuse_options(f"{function.__name__}()", given, known, encoding)


def refuse_options(
    what: str, given: Iterable[str], known: Iterable[str], encoding: str | None = None
) -> None:
    """Raise where options are none of those that a function takes.

    Parameters
    ----------
    what
        The function, for the message.
    given, known
        Names of options that it was given in vain, and of those that it takes.
    encoding
        Where it takes encodings: how one of a variable stands there, with ``...`` for itself.

    Raises
    ------
    TypeError
        Naming the first, and what may be meant.
    """
    for name in given:
        if encoding and name in {"chunks", "compression", "layout", *_ENCODINGS}:
            asked = f"{{{_ENCODINGS.get(name, name)!r}: ...}}"
            hint = f"; it is given by variable: {encoding.replace('...', asked, 1)}"
        elif encoding and name in _OPTIONS:
            hint = f"; {_OPTIONS[name]}"
        else:
            hint = near(name, known) or f"; it takes {', '.join(known)}"
        raise TypeError(f"{what} takes no {name!r}{hint}")


def refuse_encodings(name: object, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise where encodings of a variable are none.

    Raises
    ------
    ValueError
        Naming them, and what may be meant.
    """
    for each in unknown:
        meant = f"; did you mean {_ENCODINGS[each]!r}?" if each in _ENCODINGS else near(each, known)
        hint = meant or f"; known are {', '.join(sorted(known))}"
        raise ValueError(f"unexpected encoding for variable {name!r}: {each!r}{hint}")
