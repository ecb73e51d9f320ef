"""Translate Hangar's compression options into HDF5 filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOSC = 32001
"""The registered number of HDF5's Blosc filter."""

_BLOSC_LEAST = 17
"""The smallest sample, in bytes, that Blosc compresses."""

_CODES = {
    "blosc:blosclz": 0,
    "blosc:lz4": 1,
    "blosc:lz4hc": 2,
    "blosc:zlib": 4,
    "blosc:zstd": 5,
}
"""Blosc's numbers of its compressors."""

_LEVELS = range(10)
_NO_LEVEL = (False, None, "none")
_BLOSC_SHUFFLES: dict[Any, int] = {None: 0, "none": 0, "byte": 1, "bit": 2}
_SHUFFLES: dict[Any, bool] = {False: False, None: False, "none": False, True: True, "byte": True}

_KEYS = ("backend", "complib", "complevel", "shuffle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a dataset, as :meth:`h5py.Group.create_dataset` expects them."""

    compression: int | str
    """The number of a filter, or its name in h5py."""
    options: tuple[int, ...] | int | None
    """The filter's options; Hangar stores them in the attribute ``compression_opts``."""
    shuffle: bool
    """Whether HDF5's own shuffle filter comes first."""


def filters(options: Mapping[str, Any] | None, nbytes: int) -> Filters:
    """Return the filters for compression options.

    Parameters
    ----------
    options
        Values of "complib", "complevel", "shuffle" and optionally "backend". None for Hangar's
        defaults: "blosc:lz4hc", 5, "byte", or "lzf" for samples that are too small for Blosc.
    nbytes
        The size of a sample in bytes.

    Raises
    ------
    MetadataError
        If an option is unknown, missing or invalid.

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
            f"'complib' is {complib!r}, which requires samples of at least {_BLOSC_LEAST} bytes, "
            f"got {nbytes}; choose 'lzf' or 'gzip'"
        )
    numbers = (given["complevel"], _BLOSC_SHUFFLES[given["shuffle"]], _CODES[complib])
    return Filters(compression=_BLOSC, options=(0, 0, 0, 0, *numbers), shuffle=False)


def _check(what: str, value: Any, choices: tuple[Any, ...] | range) -> None:
    # True equals 1 and False equals 0, but neither is a level.
    if not any(type(value) is type(each) and value == each for each in choices):
        words = "0 to 9" if isinstance(choices, range) else " or ".join(map(repr, choices))
        raise MetadataError(f"compression options: {what} is {value!r}; expected {words}")
