"""Find damage and contradictions in containers: :func:`diagnose`.

Each file has the checks of one kind; a check is a function that returns findings for a `Survey`,
which has all nodes and is read once.
"""

from __future__ import annotations

from xarray_n5.integrity.diagnosis.diagnose import diagnose
from xarray_n5.integrity.diagnosis.finding import Finding

__all__ = ["Finding", "diagnose"]
