"""The samples between which targets are, along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from xarray_n5.model.axes import ROUNDING

Method: TypeAlias = Literal["linear", "nearest"]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The sample at or before each target along an axis, and the weight of the one after it.

    >>> near = Neighbours.of(np.array([0.0, 2, 4]), np.array([1.0, 4, 5]), "linear")
    >>> near.lower, near.weight
    (array([ 0,  2, -1]), array([0.5, 0. , 0. ]))
    """

    lower: np.ndarray
    """The index of the sample; -1 for targets outside of the array."""
    weight: np.ndarray
    """The weight of the next sample; if it is 0, that sample is not used."""

    @classmethod
    def of(cls, samples: np.ndarray, targets: np.ndarray, method: Method) -> Neighbours:
        """Find targets between samples, which ascend or descend.

        Targets beyond the first or the last sample are outside. The nearest of two equally distant
        samples is the one with the lower coordinate, as in xarray and SciPy.
        """
        count = samples.size
        descends = count > 1 and samples[-1] < samples[0]
        ordered = samples[::-1] if descends else samples
        lower = np.full(targets.shape, -1, np.int64)
        weight = np.zeros(targets.shape)
        if count:
            slack = slack_of(samples)
            inside = (targets >= ordered[0] - slack) & (targets <= ordered[-1] + slack)
            within = np.clip(targets[inside], ordered[0], ordered[-1])
            find = _nearest if method == "nearest" or count == 1 else _between
            index, part = find(ordered, within)
            if descends:
                index = count - 1 - index - (part > 0)
                part = np.where(part > 0, 1 - part, 0.0)
            lower[inside], weight[inside] = index, part
        return cls(lower, weight)

    @property
    def upper(self) -> np.ndarray:
        """The index of the last sample that each target needs."""
        return self.lower + (self.weight > 0)

    def within(self, where: slice) -> tuple[slice, slice] | None:
        """Return the samples that targets need, and the targets from the first to the last inside.

        Returns None if all of them are outside.
        """
        inside = np.flatnonzero(self.lower[where] >= 0)
        if not inside.size:
            return None
        first, last = where.start + int(inside[0]), where.start + int(inside[-1])
        needed = where.start + inside
        start, stop = self.lower[needed].min(), self.upper[needed].max() + 1
        return slice(int(start), int(stop)), slice(first, last + 1)


def _nearest(ordered: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the nearest samples; of two, the lower."""
    halves = ordered / 2
    index = np.searchsorted(halves[1:] + halves[:-1], targets, "left")
    return index, np.zeros(targets.shape)


def _between(ordered: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the samples before targets, and the weights of those after them."""
    index = np.clip(np.searchsorted(ordered, targets, "right") - 1, 0, ordered.size - 2)
    weight = (targets - ordered[index]) / (ordered[index + 1] - ordered[index])
    at_next = weight >= 1 - ROUNDING
    at_sample = at_next | (weight <= ROUNDING)
    return index + at_next, np.where(at_sample, 0.0, weight)


def slack_of(samples: np.ndarray) -> float:
    """Return the distance up to which coordinates are equal up to rounding."""
    rounding = 4 * np.finfo(np.float64).eps * float(np.abs(samples).max())
    steps = np.abs(np.diff(samples))
    return max(rounding, ROUNDING * float(steps.min())) if steps.size else rounding
