"""Hangar's options of compression, as filters of HDF5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOSC = 32001
"""Blosc's number among the filters of HDF5."""

_BLOSC_LEAST = 17
"""Bytes of the smallest sample that Blosc takes."""

_CODES = {
    "blosc:blosclz": 0,
    "blosc:lz4": 1,
    "blosc:lz4hc": 2,
    "blosc:zlib": 4,
    "blosc:zstd": 5,
}
"""Numbers of Blosc's compressors."""

_LEVELS = range(10)
_NO_LEVEL = (False, None, "none")
_BLOSC_SHUFFLES: dict[Any, int] = {None: 0, "none": 0, "byte": 1, "bit": 2}
_SHUFFLES: dict[Any, bool] = {False: False, None: False, "none": False, True: True, "byte": True}

_KEYS = ("backend", "complib", "complevel", "shuffle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """How HDF5 compresses the chunks of a dataset."""

    compression: int | str
    """A filter's number, or its name in h5py."""
    options: tuple[int, ...] | int | None
    """What the filter takes; Hangar keeps it in the attribute ``compression_opts``."""
    shuffle: bool
    """Whether HDF5's own shuffle comes before it."""


def filters(options: Mapping[str, Any] | None, nbytes: int) -> Filters:
    """Return the filters that options of compression ask for.

    Parameters
    ----------
    options
        With the keys "complib", "complevel" and "shuffle", and "backend" where it is said; None
        for Hangar's own: "blosc:lz4hc", 5, "byte", or "lzf" where Blosc refuses the sample.
    nbytes
        The bytes of a sample.

    Raises
    ------
    MetadataError
        If one is unknown, missing, or has another value than it may have.

    Examples
    --------
    >>> filters({"complib": "gzip", "complevel": 4, "shuffle": True}, 1000)
    Filters(compression='gzip', options=4, shuffle=True)
    """
    given = _defaults(nbytes) if options is None else dict(options)
    for key in given:
        _check("the key", key, _KEYS)
    _check("'backend'", given.get("backend", "00"), ("00",))
    complib = given.get("complib")
    _check("'complib'", complib, (*_CODES, "lzf", "gzip"))
    if complib in _CODES:
        return _blosc(given, str(complib), nbytes)
    _check("'shuffle'", given.get("shuffle", "missing"), tuple(_SHUFFLES))
    shuffle = _SHUFFLES[given["shuffle"]]
    if complib == "lzf":
        _check("'complevel'", given.get("complevel"), _NO_LEVEL)
        return Filters(compression="lzf", options=None, shuffle=shuffle)
    _check("'complevel'", given.get("complevel"), _LEVELS)
    return Filters(compression="gzip", options=given["complevel"], shuffle=shuffle)


def _defaults(nbytes: int) -> dict[str, Any]:
    if nbytes < _BLOSC_LEAST:
        return {"complib": "lzf", "complevel": None, "shuffle": "byte"}
    return {"complib": "blosc:lz4hc", "complevel": 5, "shuffle": "byte"}


def _blosc(given: Mapping[str, Any], complib: str, nbytes: int) -> Filters:
    _check("'complevel'", given.get("complevel"), _LEVELS)
    _check("'shuffle'", given.get("shuffle", "missing"), tuple(_BLOSC_SHUFFLES))
    if nbytes < _BLOSC_LEAST:
        raise MetadataError(
            f"'complib' is {complib!r}, which takes no samples of {nbytes} bytes: at least "
            f"{_BLOSC_LEAST} are needed; choose 'lzf' or 'gzip'"
        )
    numbers = (given["complevel"], _BLOSC_SHUFFLES[given["shuffle"]], _CODES[complib])
    return Filters(compression=_BLOSC, options=(0, 0, 0, 0, *numbers), shuffle=False)


def _check(what: str, value: Any, choices: tuple[Any, ...] | range) -> None:
    # True equals 1 and False equals 0, but neither is a level.
    if not any(type(value) is type(each) and value == each for each in choices):
        words = "0 to 9" if isinstance(choices, range) else ", ".join(map(repr, choices))
        raise MetadataError(f"options of compression: {what} is {value!r}; it may be {words}")
