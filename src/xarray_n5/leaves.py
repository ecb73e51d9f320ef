"""Public names that live in packages beside the core, and are imported on first use.

The core imports no leaf: it knows them by this table alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xarray_n5_doctor.api import doctor
    from xarray_n5_hangar.api import HangarWriter, from_hangar, hangar_records, to_hangar
    from xarray_n5_view.api import View, view

__all__ = ["HangarWriter", "View", "doctor", "from_hangar", "hangar_records", "to_hangar", "view"]

LEAVES = {
    **dict.fromkeys(
        ("HangarWriter", "from_hangar", "hangar_records", "to_hangar"), "xarray_n5_hangar.api"
    ),
    "doctor": "xarray_n5_doctor.api",
    **dict.fromkeys(("View", "view"), "xarray_n5_view.api"),
}
"""Names, and the modules that define them."""


def __getattr__(name: str) -> Any:
    """Import the module of a name on first use."""
    if name not in LEAVES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LEAVES[name]), name)
