"""Open containers: the format at a location, and the path of a node in it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from xarray_n5.errors import MetadataError
from xarray_n5.formats import KEYED_FORMATS, N5, Hdf5, Zarr2, get_format
from xarray_n5.formats.containers import CONTAINERS, locate
from xarray_n5.formats.hdf5.container import Hdf5Container
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.formats.structure import described, get_documents, settle, warn_unfinished, where
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import HIDDEN, join, normalize_path
from xarray_n5.stores import ArchiveStore, CachedStore, LocalStore, together, uncached
from xarray_n5.stores.archive import SUFFIXES as ARCHIVES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Documents, KeyedFormat, Node
    from xarray_n5.stores.base import Store

_NO_NAMES = (".tif", ".tiff", ".ozx", ".zip", ".nc", ".xml", *Hdf5.suffixes)
"""Suffixes of files that are not containers; directories of arrays are not named so."""


def open_container(
    url: object,
    path: str = "",
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,
    *,
    cached: bool = False,
) -> tuple[Container, str]:
    """Open a container for writing; return it and the normalised path of a node in it.

    Its format is `name`, that of its root, or, for a new container, that of its name, by default
    N5. A container is returned unchanged, caches included. With `cached`, it reads metadata and
    listings once, beginning with those that identify its format.

    Raises
    ------
    MetadataError
        If it cannot have the format, or a new container is named like a file of another kind.
    """
    if isinstance(url, CONTAINERS):
        return url, normalize_path(path)
    location, path = _locate(url, path, storage_options, format)
    if isinstance(location, Hdf5Container):
        return location, path
    _check_writable(location, path)
    store = CachedStore(location.fresh()) if cached else location.fresh()
    if cached:
        _look_ahead(store, [path, ""], KEYED_FORMATS, [path])
        if isinstance(uncached(store), LocalStore):
            _try(lambda: store.is_folder(""))  # if there is none, nothing else is requested
    return KeyedContainer(store, format_to_write(store, format)), path


def find_node(
    url: object,
    path: str = "",
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,
    *,
    writable: bool = False,
    cached: bool = False,
    ahead: Sequence[str] = (),
    listed: bool = False,
) -> tuple[Container, Node]:
    """Return the container that a user names, and the node at a path in it.

    The format is that of the node's documents; without documents, :func:`open_container` decides.
    Newer versions of formats, and arrays with an unfinished write, cause warnings.

    Parameters
    ----------
    writable
        Whether the node is going to be written; cached copies are not read then.
    cached
        Whether the container reads metadata and listings once.
    ahead, listed
        Further requests that are made together with those of the node's documents, if the
        container is `cached` and requests are slow: the documents of other nodes, by their paths,
        and a listing of the node. The root of a container named like N5 is listed in any case: it
        is a group, hardly ever an array, whose listing could be long.
    """
    if isinstance(url, CONTAINERS):
        node = url.node(normalize_path(path))
        if not writable:
            _warn_unfinished(url.store, node)
        return url, node
    location, path = _locate(url, path, storage_options, format)
    if isinstance(location, Hdf5Container):
        return find_node(location, path, writable=writable)
    if writable:
        _check_writable(location, path)
    store = location.fresh() if writable else CachedStore(location) if cached else location
    forms = [_keyed(format)]
    if format is None and _format_named(store).name == Zarr2.name:
        forms = KEYED_FORMATS
    listed = cached and (listed or (not path and store.name.endswith(N5.suffixes)))
    around = [path, ""]
    if cached or len(forms) > 1:
        around += [path.rpartition("/")[0], *ahead]
    kept = _look_ahead(store, around, forms, [join(path, HIDDEN), *([path] if listed else ())])
    form, documents = _find_documents(kept, path, format)
    if path:
        KeyedContainer(kept, form).check_version()
    else:
        form.check_container(documents, where(store, "", form))
    (node,) = settle(kept, form, [described(kept, form, path, documents)])
    if not writable:
        _warn_unfinished(kept, node)
    return KeyedContainer(store, form), node


def _check_writable(store: Store, path: str) -> None:
    if isinstance(store, ArchiveStore):
        raise store.read_only(path)


def _warn_unfinished(store: Store, node: Node) -> None:
    if isinstance(node.metadata, ArrayMetadata):
        warn_unfinished(store, [node.path])


def _locate(
    url: object, path: str, storage_options: Mapping[str, Any] | None, name: str | None
) -> tuple[Store | Hdf5Container, str]:
    """Return the file or store of a container, and the normalised path of a node in it."""
    asked = None if name is None else get_format(name)
    location, inner = locate(url, normalize_path(path), storage_options)
    held = [location.format] if isinstance(location, Hdf5Container) else KEYED_FORMATS
    if asked is not None and asked not in held:
        known = " or ".join(kind.name for kind in held)
        raise MetadataError(
            f"{location.url} supports {known}, not {name}: HDF5 is one file, named *.h5; the other "
            "formats are directories"
        )
    return location, inner


def format_of(store: Store, name: str | None = None) -> KeyedFormat:
    """Return the given format, or that of the root, or of the container's name."""
    return _keyed(name) if name else _format_found(store)[0]


def format_to_write(store: Store, name: str | None = None) -> KeyedFormat:
    """Return the given format, or that of the container; the name of a new container decides.

    Raises
    ------
    MetadataError
        If a new container is named like a file of another kind.
    """
    if name:
        return _keyed(name)
    form, new = _format_found(store)
    if not new:
        return form
    if (ending := _ending(store.name, _NO_NAMES)) and not any(store.list("")):
        other = ", or copy a container to *.ozx" if ending in ARCHIVES else ""
        other = "; a project is written by .n5.to_bdv" if ending == ".xml" else other
        other = "; HDF5 is written on local disks" if ending in Hdf5.suffixes else other
        raise MetadataError(
            f"{store.url}: {ending} files cannot be written, and a directory should not be named "
            f"like one; choose a name such as *.n5, *.zarr or *.h5, or pass format={other}"
        )
    return _keyed(N5.name) if form.name == Zarr2.name and _is_n5(store) else form


def _find_documents(store: Store, path: str, name: str | None) -> tuple[KeyedFormat, Documents]:
    """Return the format that has documents at `path`, and these."""
    candidates = [_keyed(name)] if name else KEYED_FORMATS
    for number, form in enumerate(candidates):
        if number == 1 and isinstance(store, CachedStore):
            _look_ahead(store, [path, path.rpartition("/")[0], ""], candidates[1:])
        documents = get_documents(store, path, form)
        if documents:
            return form, documents
    return (candidates[0] if name or not path else format_of(store)), {}


def _keyed(name: str | None) -> KeyedFormat:
    """Return a format of key-value stores by name."""
    return cast("KeyedFormat", get_format(name))


def _format_found(store: Store) -> tuple[KeyedFormat, bool]:
    """Return the format of the root, and whether only its name states it."""
    try:
        form, documents = _find_documents(store, "", None)
    except PermissionError:
        return _format_named(store), False  # nodes below the root may be readable
    return (form, False) if documents else (_format_named(store), True)


def _format_named(store: Store) -> KeyedFormat:
    """Return the format that the innermost name states, among the root and its parents."""
    forms = KEYED_FORMATS
    named = {suffix: form for form in forms for suffix in form.suffixes}
    above: Store | None = store
    while above is not None:
        if ending := _ending(above.name, named):
            return named[ending]
        above = above.parent()
    return forms[0]


def _is_n5(store: Store) -> bool:
    """Return whether a container named like Zarr has N5 in it, or is in an N5 container."""
    folders, _ = store.list("")  # TensorStore writes no documents for roots
    above: Store | None = store
    while above is not None and not _ending(above.name, (*N5.suffixes, *Zarr2.suffixes)):
        above = above.parent()
    documents = [join(folder, N5.documents[0]) for folder in folders]
    return any(store.get_many(documents)) or bool(above and above.get(N5.documents[0]))


def _ending(name: str, endings: Iterable[str]) -> str:
    return next(filter(name.lower().endswith, endings), "")


def _look_ahead(
    store: Store, paths: Iterable[str], forms: Iterable[KeyedFormat], listed: Iterable[str] = ()
) -> Store:
    """Return the store with the documents of nodes, and listings, which are requested together.

    Servers refuse in many ways, which is raised where an answer is needed.
    """
    if store.concurrency == 1:
        return store
    kept = store if isinstance(store, CachedStore) else CachedStore(store)
    names = [name for form in forms for name in form.documents]
    keys = list(dict.fromkeys(join(path, name) for path in paths for name in names))
    calls: list[Callable[[], object]] = [
        partial(kept.get_many, keys),
        *(partial(kept.list, path) for path in listed),
    ]
    together(kept, [partial(_try, call) for call in calls])
    return kept


def _try(call: Callable[[], object]) -> None:
    with suppress(Exception):
        call()
