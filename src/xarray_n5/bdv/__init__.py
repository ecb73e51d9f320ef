"""Projects of BigDataViewer and BigStitcher: opened by their XML, and written.

``xr.open_dataset("dataset.xml")`` opens them with the engine "bdv".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xarray_n5.bdv.api import copy, pyramid, register, to_bdv

__all__ = ["copy", "pyramid", "register", "to_bdv"]


def __getattr__(name: str) -> Any:
    """Import public functions on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from xarray_n5.bdv import api

    return getattr(api, name)
