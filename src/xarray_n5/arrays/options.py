"""The options with which arrays are opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.node import ArrayNode
from xarray_n5.model.metadata import Content
from xarray_n5.model.options import check_option

if TYPE_CHECKING:
    from xarray_n5.arrays.array import AxisOrder
    from xarray_n5.arrays.node import EdgeChunks, Missing
    from xarray_n5.dialects.protocol import AttributeOrder
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import ArrayMetadata

LabelMultisets: TypeAlias = Literal["error", "argmax", "count"]

_CONTENTS = {"argmax": Content.LABELS, "count": Content.VOTES}
"""The content as which label multisets are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """The checked options of `open_array`, or those of the group that arrays are opened from."""

    writable: bool = False
    axis_order: AxisOrder = "C"
    missing: Missing = "fill"
    cache_bytes: int = 0
    label_multisets: LabelMultisets = "error"
    write_empty: bool = True
    edges: EdgeChunks = "truncate"
    attribute_order: AttributeOrder = "auto"

    def __post_init__(self) -> None:
        check_option("axis_order", self.axis_order, "C", "F")
        check_option("missing", self.missing, "fill", "error")
        check_option("label_multisets", self.label_multisets, "error", "argmax", "count")
        check_option("edge_chunks", self.edges, "truncate", "pad")
        check_option("attribute_order", self.attribute_order, "auto", "C", "N5")

    def array(self, container: Container, path: str, metadata: ArrayMetadata) -> Array:
        """Return the array at `path`, opened with these options."""
        if self.label_multisets in _CONTENTS:
            metadata = metadata.multisets_as(_CONTENTS[self.label_multisets])
        node = ArrayNode(
            container=container,
            path=path,
            metadata=metadata,
            missing=self.missing,
            write_empty=self.write_empty,
            edges=self.edges,
            writable=self.writable,
            transposed=self.axis_order == "F",
            attribute_order=self.attribute_order,
        )
        return Array(node, cache_bytes=self.cache_bytes)
