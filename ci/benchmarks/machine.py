"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> str:
    """Return what ran it, and when."""
    system = f"{platform.system()} {platform.release()}"
    today = datetime.now(UTC).date().isoformat()
    return f"{cores()} cores, {system}, Python {platform.python_version()}; {today}."
