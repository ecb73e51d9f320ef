"""Read all nodes of a container once, and run all checks."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

from xarray_n5.arrays.walk import Walk
from xarray_n5.errors import N5Error, NodeNotFoundError, RequestError
from xarray_n5.integrity.diagnosis import chunks, levels, nodes
from xarray_n5.integrity.diagnosis.finding import Finding
from xarray_n5.integrity.diagnosis.survey import Survey
from xarray_n5.model.alerts import ODD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Check: TypeAlias = Callable[[Survey], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "nodes that cannot be read": nodes.unreadable,
    "unfinished writes": nodes.unfinished_nodes,
    "arrays and groups": nodes.ambiguous,
    "consolidated metadata": nodes.consolidated,
    "missing levels": levels.missing_levels,
    "the sizes of levels": levels.inconsistent_levels,
    "chunks": chunks.sampled_chunks,
    "the images of the scene": nodes.missing_parts,
}
"""The checks, in the order of the findings."""


def diagnose(
    url: object,
    path: str = "",
    *,
    storage_options: Mapping[str, Any] | None = None,
    xml: bytes | None = None,
) -> list[Finding]:
    """Return everything that is damaged, missing or contradictory in a container.

    Reads the metadata of all nodes in batches, the first bytes of a few chunks of each array, and
    one or two chunks whole. Damage is returned, never raised; data are never changed.

    Parameters
    ----------
    url, path, storage_options
        As in :func:`open_array`; `url` may be an open container, `path` the node to begin at.
    xml
        The XML that describes the container's images; by default that next to it.

    Returns
    -------
    list of Finding
        In the order of the checks; empty for a healthy container.

    Raises
    ------
    NodeNotFoundError
        If there is no array or group at the location.
    RequestError
        If the location cannot be reached.
    """
    return survey_at(url, path, storage_options, xml)[1]


def survey_at(
    url: object,
    path: str,
    storage_options: Mapping[str, Any] | None,
    xml: bytes | None,
) -> tuple[Survey | None, list[Finding]]:
    """Return all nodes of a container, unless it cannot be read, and the findings about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks report the same problems
        try:
            survey = Survey.of(Walk.at(url, path, storage_options, whole=True), xml)
        except (NodeNotFoundError, RequestError):
            raise
        except N5Error as error:
            return None, [Finding("unreadable", path, str(error), "restore its metadata")]
        checks = CHECKS.items()
        return survey, [found for name, check in checks for found in _run(name, check, survey)]


def _run(name: str, check: Check, survey: Survey) -> Iterator[Finding]:
    """Iterate over the findings of a check; one that fails is a finding, too."""
    try:
        yield from check(survey)
    except (N5Error, OSError, *ODD) as error:
        why = f"{name} could not be checked: {type(error).__name__}: {error}"
        yield Finding("not-checked", survey.root, why, "see the message, and try again")
