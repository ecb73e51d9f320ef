"""Functions of users: how they are called, named, and which type they return."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import xarray as xr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the user, and what to pass to it apart from blocks."""

    func: Callable[..., Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()
    """Which of ``block_id`` and ``block_info`` the function takes."""

    def __call__(
        self,
        *boxes: np.ndarray,
        block_id: tuple[int, ...] | None = None,
        block_info: Mapping[Any, Any] | None = None,
    ) -> Any:
        """Return the function's result.

        Raises
        ------
        TypeError
            If it is something else than an array without labels, such as a tuple of arrays.
        """
        about = {"block_id": block_id, "block_info": block_info}
        result = self.func(*boxes, **self.kwargs, **{name: about[name] for name in self.wanted})
        if isinstance(result, xr.DataArray) or not hasattr(result, "shape"):
            several = f" of {len(result)}" if isinstance(result, (tuple, list)) else ""
            raise TypeError(
                f"the function {name_of(self.func)} returned a {type(result).__name__}{several}; "
                "expected one NumPy array. For several results, call map_overlap for each"
            )
        return result


def name_of(function: Any) -> str:
    """Return a name for a function, the same in each process.

    >>> name_of(len), name_of(partial(int, base=2))
    ('len', 'int')
    """
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def identity_of(function: Any) -> object:
    """Return the identity of a function in tokens: the name of one that can be imported.

    Tokens of functions are others if a package has changed how Dask makes them.

    >>> identity_of(len), identity_of(partial(int, base=2))
    ('builtins.len', ('builtins.int', (), {'base': 2}))
    """
    if isinstance(function, partial):
        return identity_of(function.func), function.args, function.keywords
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    known = None if module == "__main__" else sys.modules.get(str(module))
    for part in name.split("."):
        known = getattr(known, part, None)
    return f"{module}.{name}" if known is function else function


def meta_of(
    call: Call, ndim: int, dtypes: Sequence[np.dtype[Any]], dtype: Any, meta: Any
) -> np.ndarray:
    """Return an empty array of the type of the results, as Dask finds it out."""
    tiny = [da.ones((1,) * ndim, dtype=kind, chunks=1) for kind in dtypes]
    results = da.map_blocks(call, *tiny, dtype=dtype, meta=meta, token=name_of(call.func))
    return results._meta  # type: ignore[no-any-return]  # noqa: SLF001
