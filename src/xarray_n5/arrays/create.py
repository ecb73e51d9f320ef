"""New nodes: what is checked before anything is written, and the room that they need."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xarray_n5.arrays.structure import settle
from xarray_n5.errors import MetadataError, NodeExistsError, UnknownCompressionError
from xarray_n5.formats.keyed import (
    FOREIGN,
    complete_documents,
    delete_node,
    get_all_documents,
    get_documents,
)
from xarray_n5.formats.keyed import where as _where
from xarray_n5.model.chunking import auto_chunks
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata, check_factors
from xarray_n5.model.paths import WRITING, is_left, is_own, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.formats.protocol import Documents, Format
    from xarray_n5.model.metadata import Metadata
    from xarray_n5.stores.protocol import Store


def chunk_shape(
    chunks: Sequence[int] | int | Literal["auto"],
    shape: Sequence[int],
    *,
    elements: int = 1 << 20,
    aspect_ratio: Sequence[float] | None = None,
) -> tuple[int, ...]:
    """Return the chunk shape that users mean by `chunks`: a shape, one side, or "auto"."""
    if isinstance(chunks, str):
        if chunks != "auto":
            raise MetadataError(f"chunks is {chunks!r}; give a shape, one number or 'auto'")
        return auto_chunks(shape, elements=elements, aspect_ratio=aspect_ratio)
    sides = as_sizes("chunks", chunks, len(shape))
    if len(sides) != len(shape) or min(sides, default=1) < 1:
        raise MetadataError(
            f"chunks is {sides}; the shape {tuple(shape)} needs {len(shape)} numbers of at least 1"
        )
    return sides


def as_sizes(name: str, value: object, times: int = 1) -> tuple[int, ...]:
    """Return whole numbers, one of which may stand alone for so many `times`."""
    try:
        if np.ndim(value) == 0:  # type: ignore[arg-type]
            return (operator.index(value),) * times  # type: ignore[arg-type]
        return tuple(map(operator.index, value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise MetadataError(f"{name} is {value!r}; whole numbers are needed") from None


def as_dtype(dtype: Any, where: str) -> np.dtype[Any]:
    """Return the type that users mean, in native byte order."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise MetadataError(f"{where}: {error}; name one such as 'uint8' or 'float32'") from error
    if found.names:
        from numpy.lib.recfunctions import repack_fields

        found = repack_fields(found)
    return found.newbyteorder("=")


def completed(
    form: Format,
    metadata: ArrayMetadata,
    layout: Mapping[str, Any] | None,
    where: str,
    there: ArrayMetadata | None = None,
) -> ArrayMetadata:
    """Return an array's metadata with the layout that is asked for; errors name the array.

    What it gets by default hangs on its attributes, also on those of the array that is `there`.
    """
    before = there.attributes if there else {}
    whole = replace(metadata, attributes={**before, **metadata.attributes})
    try:
        return replace(form.complete(whole, layout), attributes=metadata.attributes)
    except UnknownCompressionError as error:
        raise UnknownCompressionError(error.name, error.known, where) from error
    except MetadataError as error:
        raise MetadataError(f"{where}: {error}") from error


def check_named(store: Store, path: str, form: Format) -> None:
    """Raise where an array would be the root of a file, which is a group in HDF5."""
    if not path and store.one_writer:
        raise MetadataError(
            f"{store.url}: the root of an {form.name} file is a group; give the array a path in "
            "the file, such as 'data'"
        )


def check_storable(metadata: ArrayMetadata, form: Format, where: str) -> None:
    """Raise where the format, or the compression, could not hold the array."""
    try:
        grid = metadata.grid
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    if any(size >= 1 << 63 for size in grid.shape) or any(side >= 1 << 31 for side in grid.chunks):
        raise MetadataError(f"{where}: sizes must be below 2**63, sides of chunks below 2**31")
    check_factors(metadata.attributes, where)
    form.create(metadata, {}, where)
    one = (1,) * len(grid.shape)
    try:
        data = form.encode(metadata, np.full(one, metadata.fill_value, metadata.dtype))
        form.decode(replace(metadata, chunks=one), data)
    except Exception as error:  # a codec raises what it likes
        raise MetadataError(
            f"{where}: cannot compress with {metadata.compression}{_filters(metadata)}: {error}"
        ) from error


def _filters(metadata: ArrayMetadata) -> str:
    filters = getattr(metadata.layout, "filters", ())
    return f" behind the filters {', '.join(filters)}" if filters else ""


def check_agreement(
    found: ArrayMetadata,
    wanted: ArrayMetadata,
    where: str,
    *,
    chunks_matter: bool,
    layout: Mapping[str, Any] | None = None,
) -> None:
    """Raise where a stored array is not the one that a write expects."""
    for name in ("shape", "dtype", "chunks"):
        have, want = getattr(found, name), getattr(wanted, name)
        if have != want and (name != "chunks" or chunks_matter):
            raise MetadataError(f"{where}: the stored array has {name} {have}, not {want}")
    if layout and found.layout != wanted.layout:
        raise MetadataError(
            f"{where}: the stored array has {found.layout}; leave out layout={dict(layout)}, or "
            "replace the array with mode='w'"
        )


def make_room(
    store: Store,
    path: str,
    form: Format,
    before: Documents,
    replacement: ArrayMetadata | None = None,
) -> Documents:
    """Make room for a new node, mark what is around it, and return its documents so far.

    Raises
    ------
    NodeExistsError
        As :func:`check_place`.
    """
    above = check_place(store, path, form, before, replacement)
    root = next(iter(above.values()), before)
    around = store.list("") if not root else ((), ())
    # Hidden are what a killed attempt left, and the mark of this write.
    fresh = not root and all(name.startswith(".") for names in around for name in names)
    if replacement is not None and (before or store.is_folder(path)):
        delete_node(store, path, form)
    for parent, documents in above.items():
        complete_documents(store, parent, form, documents, fresh=fresh and not parent)
    if path:
        return {}
    return {**before, **form.above(before, _where(store, "", form), fresh=fresh)}


def check_place(
    store: Store,
    path: str,
    form: Format,
    before: Documents,
    replacement: ArrayMetadata | None = None,
) -> dict[str, Documents]:
    """Return the documents of the groups around a new node for which there is room.

    Only with a `replacement` may an array go, or the chunks that a stopped replacement left.

    Raises
    ------
    NodeExistsError
        If there is anything that must stay.
    """
    above = _ancestors(store, path, form)
    found = form.read(before, _where(store, path, form))
    if replacement is None:
        found = settle(store, path, form, before, found)
    if isinstance(found, ArrayMetadata) and replacement is None:
        begun = any(name.startswith(WRITING) for name in store.list(path)[0])
        hint = "use mode='w' to replace it"
        if begun:
            hint = f"its write has not ended: go on with resume=True, or {hint}"
        raise NodeExistsError(store.url, path, "an array", hint)
    half = isinstance(found, GroupMetadata) and _is_half_made(store, path, before)
    if isinstance(found, GroupMetadata) and found.attributes and not half:
        hint = f"its attributes are {list(found.attributes)}; delete it, or choose another path"
        raise NodeExistsError(store.url, path, "a group that is not empty", hint)
    arrays = [node for node in (found, replacement) if isinstance(node, ArrayMetadata)]
    other = next(_others(store, path, form, arrays), None)
    if other is not None:
        hint = f"it holds {other!r}; delete it first, or choose another path in the container"
        kind = "an array with more in it" if arrays[:1] == [found] else "a group that is not empty"
        raise NodeExistsError(store.url, path, kind, hint)
    check_alone(store, {**above, path: before}, form)
    return above


def complete_group(store: Store, path: str, form: Format, before: Documents) -> None:
    """Write what a directory and those around it lack to be groups, if they are nobody else's."""
    groups = {**_ancestors(store, path, form), path: before}
    check_alone(store, groups, form)
    for group, documents in groups.items():
        complete_documents(store, group, form, documents, fresh=False)


def check_alone(store: Store, places: Mapping[str, Documents], form: Format) -> None:
    """Raise where a directory without documents of the format is a node of another one.

    N5 takes any directory for a group. What it writes into another container would hide that.

    Raises
    ------
    NodeExistsError
        Naming the directory.
    """
    names = sorted(FOREIGN.difference(form.documents))
    bare = [place for place, documents in places.items() if not documents]
    if not bare or form.name not in store.formats or len(store.formats) == 1:
        return  # one file holds one format
    keys = [(place, name) for place in bare for name in names]
    found = store.get_many([join(*key) for key in keys])
    for (place, name), document in zip(keys, found, strict=True):
        if document is not None:
            what = f"it has {name}; choose another place, or write what is there already"
            raise NodeExistsError(store.url, place, "another format", what)


def is_left_over(store: Store, path: str, form: Format, planned: ArrayMetadata | None) -> bool:
    """Return whether nothing is at a node but what a stopped write left of an array."""
    if (documents := get_documents(store, path, form)) and not _is_half_made(
        store, path, documents
    ):
        return False
    arrays = [] if planned is None else [planned]
    return next(_others(store, path, form, arrays), None) is None


def _is_half_made(store: Store, path: str, documents: Documents) -> bool:
    """Return whether a write was stopped before it wrote the document that makes a node.

    Zarr's attributes are written before that. Nothing but the mark of the write is beside them.
    """
    if not documents or not documents.keys() <= {".zattrs"}:
        return False
    return any(name.startswith(WRITING) for name in store.list(path)[0])


def foreign_key(array: Array) -> str | None:
    """Return what lies in an array's directory and is not its own, or None."""
    chunks = array._chunks  # noqa: SLF001 - the array as it is stored
    return next(_others(chunks.store, chunks.path, chunks.format, [chunks.metadata]), None)


def _others(
    store: Store, path: str, form: Format, arrays: Sequence[ArrayMetadata]
) -> Iterator[str]:
    """Iterate over what is at a node and must stay.

    Beside new nodes hidden files may lie. Where `arrays` are removed, everything with them is:
    all but their document, their chunks, what is kept of writes, and what those left must stay.
    """
    if not arrays:
        folders, files = store.list(path)
        for name in (*folders, *files):
            foreign = name in FOREIGN and name not in form.documents
            if foreign or not (name.startswith(".") or name in form.documents):
                yield name
        return
    for name in store.walk(path):
        chunk = any(form.chunk_index(array, name) is not None for array in arrays)
        if not (chunk or is_left(name) or is_own(name) or name in form.documents):
            yield name


def _ancestors(store: Store, path: str, form: Format) -> dict[str, Documents]:
    """Return the documents of the groups around, the root's first; raise where one is an array."""
    parts = path.split("/") if path else []
    paths = ["/".join(parts[:depth]) for depth in range(len(parts))]
    above = dict(zip(paths, get_all_documents(store, paths, form), strict=True))
    for parent, documents in above.items():
        if isinstance(_settled(store, parent, form, documents), ArrayMetadata):
            raise NodeExistsError(store.url, parent, "an array", "it cannot hold other nodes")
    return above


def _settled(store: Store, path: str, form: Format, documents: Documents) -> Metadata:
    metadata = form.read(documents, _where(store, path, form))
    return settle(store, path, form, documents, metadata)
