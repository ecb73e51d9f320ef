"""What is kept of writes beside an HDF5 file, in a hidden folder that may outlive it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from xarray_n5.model.paths import DIGESTS, PLANNED, QUARANTINE, UNFINISHED, WRITING, join

if TYPE_CHECKING:
    from xarray_n5.stores.local import LocalStore

_MARKS = rf"(?:{re.escape(WRITING)}|{re.escape(PLANNED)})"
_MARK = re.compile(rf"(.*/)?{_MARKS}[^/]+(?=/)", re.DOTALL)
"""The folder of a mark, at the beginning of a key in it."""


_KEPT = re.compile(
    rf"(?:.*/)?(?:{_MARKS}[^/]*|{UNFINISHED}|{DIGESTS}|{QUARANTINE})(?:/.*)?", re.DOTALL
)
"""Keys of what is kept of writes."""


def is_kept(key: str) -> bool:
    """Return whether a key is in the folder beside the file, not in the file."""
    return _KEPT.fullmatch(key) is not None


def tidy(beside: LocalStore, prefix: str) -> None:
    """Remove the folders that nothing is in any more, from one upwards."""
    folder = os.path.dirname(f"{beside.root}/{prefix}")  # noqa: PTH120
    while folder.startswith(beside.root):
        try:
            os.rmdir(folder)  # noqa: PTH106
        except OSError:
            return
        folder = os.path.dirname(folder)  # noqa: PTH120


def forget_former(beside: LocalStore) -> None:
    """Remove the marks of writes into a file that is no more: a new one is about to be made."""
    found = [_MARK.match(key) for key in beside.walk("")]
    for folder in {match[0] for match in found if match}:
        beside.delete_tree(folder, "mark.json")
        beside.delete([join(folder.rpartition("/")[0], UNFINISHED)])
        tidy(beside, folder)
