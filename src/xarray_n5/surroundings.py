"""What stands around an array and says something of its axes: groups, base level, XML file."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.dialects import Node
from xarray_n5.errors import MetadataError
from xarray_n5.metadata import ArrayMetadata
from xarray_n5.paths import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.chunks import Chunks
    from xarray_n5.metadata import Attributes, Metadata
    from xarray_n5.storage import Store

_GENERATIONS = 3
"""How many groups around an array are looked at: those of a level, a timepoint, a setup."""

_COARSE = re.compile(r"(?:(.*)/)?s0*[1-9]\d*")
"""The path of a level that has a base level beside it."""

_VIEW = re.compile(r"(?:.*/)?setup\d+/timepoint\d+/s\d+")
"""The path of an array in a container of BigDataViewer, which has an XML file beside it."""


def look_around(chunks: Chunks, *, inherit: bool = False, like: Node | None = None) -> Node:
    """Return an array as dialects see it; what is around it is read in one batch.

    Parameters
    ----------
    chunks
        The array.
    inherit
        Whether all groups above have their say, as in Neuroglancer: the nearer the louder.
    like
        An array in the same group, around which has been looked already.
    """
    metadata, path, store = chunks.metadata, chunks.path, chunks.store
    coarse = _COARSE.fullmatch(path)
    if like is not None and not coarse:
        return like.other(path, metadata.attributes, metadata.shape)
    parts = path.split("/")[:-1]
    groups = ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)] if path else []
    wanted = groups if inherit else groups[:_GENERATIONS]
    others = [*wanted, *([join(coarse[1] or "", "s0")] if coarse else [])]
    found = _read(chunks, others)
    parents = tuple(each.attributes if each else {} for each in found[: len(wanted)])
    if inherit and parents:
        parents = (_inherited(parents), *parents[1:])
    base = found[-1] if coarse else None
    node = Node(
        attributes=metadata.attributes,
        shape=metadata.shape,
        path=path,
        parents=parents,
        beside=like.beside if like else {},
        xml=xml_beside(store) if _VIEW.fullmatch(path) else None,
        format=chunks.format.name,
    )
    if not isinstance(base, ArrayMetadata) or len(base.shape) != len(metadata.shape):
        return node
    return replace(node, base=node.other(others[-1], base.attributes, base.shape))


def xml_beside(store: Store) -> str | None:
    """Return the XML file of the same name beside a container, or None where there is none."""
    above = store.above()
    if above is None:
        return None
    folder, name = above
    document = folder.get(f"{name.removesuffix('.n5')}.xml")
    return None if document is None else document.decode("utf-8", "replace")


def _read(chunks: Chunks, paths: Sequence[str]) -> list[Metadata | None]:
    """Return the metadata of nodes; None where they are not to be understood."""
    keys = [join(path, chunks.format.document) for path in paths]
    found: list[Metadata | None] = []
    for key, document in zip(keys, chunks.store.get_many(keys), strict=True):
        try:
            found.append(chunks.format.read(document, join(chunks.store.url, key)))
        except MetadataError:
            found.append(None)
    return found


def _inherited(parents: Sequence[Attributes]) -> Attributes:
    merged: dict[str, object] = {}
    for attributes in reversed(parents):
        merged |= attributes
    return merged
