"""Find damage and contradictions in containers: :func:`diagnose`.

Each file holds the checks of one kind; a check is a function from a `Survey`, which
holds all nodes and is read once, to findings.
"""

from __future__ import annotations

from xarray_n5.integrity.diagnosis.diagnose import diagnose
from xarray_n5.integrity.diagnosis.finding import Finding

__all__ = ["Finding", "diagnose"]
