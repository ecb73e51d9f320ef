"""Load the metadata that dialects need: parent groups, base level, XML file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.dialects import level_lists
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.formats.protocol import Node
from xarray_n5.leaves import LOOK, scene_reader
from xarray_n5.model.alerts import warn
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import base_path, fused_in, join, level_table_of, number_in, view_in
from xarray_n5.stores import LocalStore, heads, uncached

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.dialects.protocol import AttributeOrder
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Metadata
    from xarray_n5.stores import Store


_GENERATIONS = 3
"""The number of groups around an array that are read: of a level, a timepoint, a setup."""


def context_of(node: ArrayNode, *, like: ArrayContext | None = None) -> ArrayContext:
    """Return an array as dialects see it; see :func:`load_context`."""
    order = node.options.attribute_order
    return load_context(node.container, node.path, node.metadata, like=like, attribute_order=order)


def load_context(
    container: Container,
    path: str,
    metadata: ArrayMetadata,
    *,
    like: ArrayContext | None = None,
    attribute_order: AttributeOrder = "auto",
) -> ArrayContext:
    """Return an array as dialects see it; the metadata around it are read in one batch.

    Parameters
    ----------
    container, path, metadata
        The array, stored or not.
    like
        The context of an array in the same group, if it is loaded already.
    attribute_order
        The order of lists of axes in attributes, if the user states it.
    """
    # BigDataViewer's views in HDF5 are one group deeper.
    inside, most = bool(path), _GENERATIONS + (level_table_of(path) is not None)
    name = container.name
    if not inside and (number_in(name) is not None or number_in(name, "number") is not None):
        container, path, most = _within_groups(container)
    elif inside and fused_in(name) and (above := container.parent()):
        container, path = above.cached(), join(name, path)
    base = base_path(path)
    if like is not None and base is None:
        other = like.other(path, metadata.attributes, metadata.shape)
        return replace(other, dtype=metadata.dtype)
    parts = path.split("/")[:-1]
    depths = range(len(parts), -1, -1) if path else ()
    groups = ["/".join(parts[:depth]) for depth in depths[:most]]
    metadata_around = _read(container, groups if base is None else [*groups, base])
    node = ArrayContext(
        attributes=metadata.attributes,
        shape=metadata.shape,
        path=path,
        parents=tuple(
            group.attributes if group else {} for group in metadata_around[: len(groups)]
        ),
        coordinate_sizes=like.coordinate_sizes if like else {},
        xml=_find_xml(container)[1] if inside and view_in(path) else None,
        lists_x_first=container.lists_x_first,
        ngff=container.format.ngff_version,
        attribute_order=attribute_order,
        dtype=metadata.dtype,
    )
    return over_base(node, metadata_around[-1], base) if base is not None else node


def _within_groups(container: Container) -> tuple[Container, str, int]:
    """Return the location of a level at a container's root: a parent, its path, its groups.

    A container need not be named ``*.n5``, as many in buckets are not. The parent directories are
    read in one batch, and count as groups up to the first that is not described.
    """
    above: list[Container] = []
    names, up = [container.name], container.parent()
    while up is not None and len(above) < _GENERATIONS:
        above.append(up)
        names.append(up.name)
        up = up.parent()
    if not above:
        return container, "", 0
    top, count = above[-1].cached(), len(above)
    paths = ["/".join(names[depth:count][::-1]) for depth in range(1, count + 1)]
    try:
        several = top.nodes([*paths, join(paths[0], "s0")], verify=False)[:-1]
    except PermissionError:
        return container, "", 0  # those directories may not belong to a container
    bare = [n for n, node in enumerate(several) if isinstance(node, Node) and not node.described]
    if bare[:1] == [0] and fused_in(names[1]):
        del bare[0]
    depth = next(iter(bare), count)
    if not depth or not (container.name.startswith("s") or _lists_levels(several[0])):
        return container, "", 0
    return top, "/".join(names[:count][::-1]), depth


def _lists_levels(node: Node | N5Error) -> bool:
    """Return whether a group describes levels, which may have numbers as names."""
    return isinstance(node, Node) and not level_lists().isdisjoint(node.metadata.attributes)


def over_base(node: ArrayContext, base: Metadata | None, path: str) -> ArrayContext:
    """Return a coarser level's context with that of its base level, if `base` is one."""
    if not isinstance(base, ArrayMetadata) or len(base.shape) != len(node.shape):
        return node
    return replace(node, base=node.other(path, base.attributes, base.shape))


def _read(container: Container, paths: Sequence[str]) -> list[Metadata | None]:
    """Return the metadata of nodes; None if they are unknown, or must not be read."""
    try:
        nodes = container.nodes(paths, verify=False)
    except PermissionError as error:
        warn(f"the groups around {paths[0]!r} in {container.url!r} cannot be read: {error}")
        return [None] * len(paths)
    for node in nodes:
        if isinstance(node, N5Error) and not isinstance(node, MetadataError):
            raise node
    return [node.metadata if isinstance(node, Node) else None for node in nodes]


_MOST_FILES = 32
"""The maximum number of XML files in a directory that are parsed."""


def hint_of_xml(container: Container) -> str:
    """Return the advice to open the XML file next to a container, if one describes its views."""
    name, document = _find_xml(container)
    is_scene = document is not None and scene_reader(document) is not None
    return f"{name!r} next to it describes its views: open that instead" if is_scene else ""


def _find_xml(container: Container) -> tuple[str, bytes | None]:
    """Return the name and the content of the XML file next to a container; None without one.

    It has the same name, or is the only one that refers to the container: BigStitcher-Spark lets
    users name the XML of a fusion freely.
    """
    suffix = next(filter(container.name.endswith, container.format.suffixes), "")
    name = f"{container.name.removesuffix(suffix)}.xml"
    directory = _around(container)
    try:
        document = None if directory is None else directory.get(name)
    except PermissionError as error:
        warn(f"{name!r} next to {container.url!r} cannot be read, if it exists: {error}")
        return name, None
    if document is not None or directory is None:
        return name, document
    documents: dict[str, bytes] = {}
    with suppress(OSError):  # a container may be readable in a directory that cannot be listed
        documents = dict(_pointing_at(container, uncached(directory)))
    if len(documents) > 1:
        warn(
            f"{', '.join(sorted(documents))} next to {container.url!r} all refer to it, so none is "
            "used; open one of them as a project"
        )
    return next(iter(documents.items())) if len(documents) == 1 else (name, None)


def _pointing_at(container: Container, directory: Store) -> Iterator[tuple[str, bytes]]:
    """Iterate over the XML files in a container's directory that refer to it, if it is cheap."""
    if directory.concurrency > 1 and not directory.complete_listings:
        return
    _, files = directory.list("")
    names = [name for name in files if name.lower().endswith(".xml")]
    if not 0 < len(names) <= _MOST_FILES:
        return
    first_bytes = heads(directory, names, LOOK)
    likely = [
        name
        for name, head in zip(names, first_bytes, strict=True)
        if head is not None and scene_reader(head[0]) is not None and head[1] <= MOST_BYTES
    ]
    for name, document in zip(likely, directory.get_many(likely), strict=True):
        reader = scene_reader(document or b"")
        with suppress(ValueError):
            if document and reader and reader.refers_to(document, container):
                yield name, document


def _around(container: Container) -> Store | None:
    """Return the parent directory of a container."""
    local = LocalStore.at(container.url, {}) if container.format.one_writer else None
    return (local or container.store).parent()
