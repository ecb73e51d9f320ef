"""New nodes: what is checked before anything is written, and the room that they need."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.attributes import as_json
from xarray_n5.axes import as_geometry
from xarray_n5.dialects import write_geometry
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.metadata import ArrayMetadata
from xarray_n5.nodes import where as _where
from xarray_n5.planning import auto_chunks
from xarray_n5.storage.fsspec import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.axes import Axis, Geometry
    from xarray_n5.formats import Format
    from xarray_n5.metadata import Metadata
    from xarray_n5.storage import Store


def chunk_shape(
    chunks: Sequence[int] | int | Literal["auto"],
    shape: Sequence[int],
    *,
    elements: int = 1 << 20,
    aspect_ratio: Sequence[float] | None = None,
) -> tuple[int, ...]:
    """Return the chunk shape that users mean by `chunks`: a shape, one side, or "auto"."""
    if chunks == "auto":
        return auto_chunks(shape, elements=elements, aspect_ratio=aspect_ratio)
    try:
        if isinstance(chunks, int):
            return (operator.index(chunks),) * len(shape)
        sides = tuple(map(operator.index, chunks))
    except TypeError:
        raise MetadataError(f"chunks is {chunks!r}; give a shape, one number or 'auto'") from None
    if len(sides) != len(shape):
        raise MetadataError(f"chunks is {sides}; the shape {tuple(shape)} has {len(shape)} axes")
    return sides


def check_sizes(metadata: ArrayMetadata, where: str) -> None:
    """Raise where no format could hold an array of that shape, or chunks of that."""
    try:
        grid = metadata.grid
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    if any(size >= 1 << 63 for size in grid.shape) or any(side >= 1 << 31 for side in grid.chunks):
        raise MetadataError(f"{where}: sizes must be below 2**63, sides of chunks below 2**31")


def all_attributes(
    axes: Iterable[Axis | str | None] | Geometry | None,
    attributes: Mapping[str, Any] | None,
    dialect: str | Iterable[str] | None,
    ndim: int,
    where: str,
) -> dict[str, Any]:
    """Return the user's attributes and those that describe the axes."""
    given = as_json(attributes or {}, where)
    if axes is None:
        return given
    try:
        described = write_geometry(as_geometry(axes, ndim), dialect)
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    clash = [key for key in described if key in given and given[key] != described[key]]
    if clash:
        raise MetadataError(f"{where}: axes and attributes both set {clash}; give one of them")
    return {**given, **described}


def check_agreement(
    found: ArrayMetadata, wanted: ArrayMetadata, where: str, *, chunks_matter: bool
) -> None:
    """Raise where a stored array is not the one that a write expects."""
    for name in ("shape", "dtype", "chunks"):
        have, want = getattr(found, name), getattr(wanted, name)
        if have != want and (name != "chunks" or chunks_matter):
            raise MetadataError(f"{where}: the stored array has {name} {have}, not {want}")


def make_room(
    store: Store,
    path: str,
    form: Format,
    found: Metadata,
    before: bytes | None,
    *,
    replace_array: bool,
) -> bytes | None:
    """Remove an array that may be replaced, mark a new container, and return the node's document.

    Raises where there is anything that must stay.
    """
    _check_ancestors(store, path, form)
    root = store.get(form.document) if path else before
    if isinstance(found, ArrayMetadata):
        if not replace_array:
            raise NodeExistsError(store.url, path, "an array", "use mode='w' to replace it")
        inner = [key for key in store.walk(path) if key.endswith(f"/{form.document}")]
        if inner:
            hint = f"delete or move them first: {', '.join(inner[:3])}"
            raise NodeExistsError(store.url, path, "an array with nodes inside", hint)
        # The document first: nobody shall read a half removed array as zeros.
        store.delete([join(path, form.document)])
        store.delete_tree(path)
    else:
        folders, files = store.list(path)
        names = [name for name in (*folders, *files) if name != form.document]
        if found.attributes or [name for name in names if not name.startswith(".")]:
            hint = "delete it first, or choose another path"
            raise NodeExistsError(store.url, path, "a group that is not empty", hint)
    fresh = root is None and not any(store.list(""))
    marked = form.mark_root(root, _where(store, "", form)) if fresh else None
    if not path:
        return marked if marked is not None else root
    if marked is not None:
        store.set(form.document, marked)
    return None


def _check_ancestors(store: Store, path: str, form: Format) -> None:
    parts = path.split("/")[:-1] if path else []
    keys = [join("/".join(parts[: n + 1]), form.document) for n in range(len(parts))]
    for key, document in zip(keys, store.get_many(keys), strict=True):
        if isinstance(form.read(document, join(store.url, key)), ArrayMetadata):
            parent = key.rpartition("/")[0]
            raise NodeExistsError(store.url, parent, "an array", "it cannot hold other nodes")
