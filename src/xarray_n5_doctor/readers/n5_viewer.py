"""n5-viewer and Fiji (n5-ij): the parsers of n5-universe, the first that fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xarray_n5_doctor.readers.n5_universe import (
    first,
    of_canonical,
    of_cosem,
    of_imagej,
    of_n5_viewer,
    of_ngff,
)

if TYPE_CHECKING:
    from xarray_n5_doctor.readers.protocol import Image, Reading

_PARSERS = (of_ngff, of_imagej, of_cosem, of_n5_viewer, of_canonical)


@dataclass(frozen=True, slots=True)
class N5ViewerFiji:
    """``N5ViewerCreator.n5vParsers`` and ``N5Importer.PARSERS``, which are the same."""

    name: ClassVar[str] = "n5_viewer"
    title: ClassVar[str] = "n5-viewer (Fiji)"
    source: ClassVar[str] = (
        "saalfeldlab/n5-viewer: N5ViewerCreator; n5-ij: N5Importer; n5-universe: metadata"
    )

    def read(self, image: Image) -> list[Reading]:
        """Return the axes of each level."""
        return [first(level, _PARSERS) for level in image.levels]
