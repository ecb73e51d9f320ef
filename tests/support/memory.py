"""How much memory something takes."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

OWN_PEAK = """
def own_peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
"""
"""Code by which a process learns the most bytes that it has taken, on Linux.

What getrusage tells of a new process is as much as its parent has taken, at least.
"""


def peak(work: Callable[[], object]) -> int:
    """The most bytes that were in use at once while something was done, its result among them.

    It is done once before, since imports and caches are not counted, and the least of three counts
    is returned: other threads of the process, such as those of a cluster, may add to one of them.
    """
    work()
    found = []
    for _ in range(3):
        tracemalloc.start()
        try:
            work()
            found.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(found)
