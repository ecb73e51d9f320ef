"""How many cases of large matrices run: a few by default, all with ``N5_EXHAUSTIVE=1``."""

from __future__ import annotations

import os

EXHAUSTIVE = os.environ.get("N5_EXHAUSTIVE", "") not in {"", "0"}
"""Whether to run all of them, which takes long."""


def cases(few: int, many: int) -> int:
    """Return `few`, or `many` in an exhaustive run."""
    return many if EXHAUSTIVE else few
