"""What is at a path: a node's document, and the array that it describes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.structure import no_array, settle
from xarray_n5.dialects.bdv import container_of
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.formats import FORMATS, N5, Zarr2, get_format
from xarray_n5.formats.containers import open_container
from xarray_n5.formats.hdf5.signature import SUFFIXES
from xarray_n5.formats.keyed import get_documents, warn_unfinished, where
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import UNFINISHED, is_peculiar, join, normalize_path, plain_path
from xarray_n5.stores import CachedStore, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.model.metadata import Metadata
    from xarray_n5.stores.protocol import Store


_ZARR = (".zarray", ".zgroup")

_NAMES: Mapping[str, str] = {".n5": N5.name, ".zarr": Zarr2.name}
"""How the names of new containers end that tell their format; HDF5 is told by its store."""

_NO_NAMES = (".tif", ".tiff", ".zip", ".nc")
"""How no directory is called that holds arrays."""

_RULES: Mapping[str, Callable[[str], str]] = {Zarr2.name: plain_path}
"""How formats normalise paths, where they do not do as N5 does."""

_SHOWN = 10
"""How many names an error lists."""


def path_in(name: str | None, path: str) -> str:
    """Return a node's path, normalised by the rules of a format."""
    return _RULES.get(name or "", normalize_path)(path)


def open_place(
    url: object,
    path: str,
    storage_options: Mapping[str, Any] | None,
    name: str | None,
    *,
    writable: bool = False,
) -> tuple[Store, str]:
    """Return the store of a container, and the path of a node in it.

    Only of a path that formats read in different ways the container's format is looked at. Who
    writes there sees no copies of what was there before.
    """
    if is_peculiar(path):
        store, inner = open_container(url, "", storage_options)
        inner = join(inner, path_in(format_of(store, name).name, path))
    else:
        store, inner = open_container(url, path_in(name, path), storage_options)
    return (fresh(store) if writable else store), inner


def locate(store: Store, path: str, name: str | None) -> tuple[KeyedFormat, Documents]:
    """Return the format that has documents at `path`, and these."""
    candidates = [_suiting(store, name)] if name else [FORMATS[each] for each in store.formats]
    for form in candidates:
        documents = get_documents(store, path, form)
        if documents:
            return form, documents
    return (candidates[0] if name or not path else format_of(store)), {}


def _suiting(store: Store, name: str) -> KeyedFormat:
    form = get_format(name)
    if name not in store.formats:
        raise MetadataError(
            f"{store.url} can hold {' or '.join(store.formats)}, not {name}: HDF5 is one file, "
            "named *.h5; the others are directories"
        )
    return form


def format_of(store: Store, name: str | None = None) -> KeyedFormat:
    """Return the format that is asked for, or that of the root, or what the name tells."""
    return _suiting(store, name) if name else _format_found(store)[0]


def format_to_write(store: Store, name: str | None = None) -> KeyedFormat:
    """Return the format that is asked for, or that of the container; a new one has its name's.

    Raises
    ------
    MetadataError
        If a new container is called like a file of another kind.
    """
    if name:
        return _suiting(store, name)
    form, new = _format_found(store)
    if not new or form.name not in _NAMES.values():
        return form
    if (ending := _ending(store.name, _NO_NAMES)) and not any(store.list("")):
        raise MetadataError(
            f"{store.url}: {ending} files are not written, and a directory should not be called "
            "like one; choose a name such as *.n5, *.zarr or *.h5, or give format="
        )
    return FORMATS[N5.name] if form.name == Zarr2.name and _is_n5(store) else form


def _format_found(store: Store) -> tuple[KeyedFormat, bool]:
    """Return the format of the root, and whether no document but the name alone tells it."""
    try:
        form, documents = locate(store, "", None)
    except PermissionError:
        return _format_named(store), False  # who may not read the root may read what is below
    if documents or store.one_writer:
        return form, False
    if store.name.endswith(SUFFIXES):
        _check_no_file(store)
    return _format_named(store), True


def _is_n5(store: Store) -> bool:
    """Return whether what is called Zarr is N5 by what is in it, or by what it is in."""
    folders, _ = store.list("")  # TensorStore leaves roots without documents
    place: Store | None = store
    while place is not None and not _ending(place.name, _NAMES):
        place = place.parent()
    documents = [join(each, N5.documents[0]) for each in folders]
    return any(store.get_many(documents)) or bool(place and place.get(N5.documents[0]))


def _format_named(store: Store) -> KeyedFormat:
    """Return the format that the innermost name tells, of the root or a directory around it."""
    usual = store.formats[0]
    place: Store | None = store if usual == N5.name else None
    while place is not None:
        if ending := _ending(place.name, _NAMES):
            return FORMATS[_NAMES[ending]]
        place = place.parent()
    return FORMATS[usual]


def _ending(name: str, endings: Iterable[str]) -> str:
    return next(filter(name.lower().endswith, endings), "")


def _check_no_file(store: Store) -> None:
    """Raise where a container that is called like an HDF5 file would be something else."""
    if store.exists(""):
        raise MetadataError(f"{store.url} is a file, and no HDF5: choose another place")
    if not any(store.list("")):
        raise MetadataError(
            f"{store.url}: HDF5 is read and written on local disks only; copy the file, choose "
            "another name, or say what it is with format="
        )


def read(
    store: Store, path: str, name: str | None, *, writable: bool = False
) -> tuple[KeyedFormat, Documents, Metadata]:
    """Return a node's format, documents and metadata; warn of new containers, unfinished arrays."""
    store = _looked_ahead(store, path, name)
    form, documents = locate(store, path, name)
    form.check_container(_root(store, form) if path else documents, where(store, "", form))
    metadata = form.read(documents, where(store, path, form))
    settled = settle(store, path, form, documents, metadata)
    if isinstance(settled, ArrayMetadata) and not writable:
        warn_unfinished(store, [path])
    return form, documents, settled


def _looked_ahead(store: Store, path: str, name: str | None) -> Store:
    """Return the store, asked at once for the documents that reading a node takes."""
    form = FORMATS.get(name or store.formats[0])
    if store.batch == 1 or form is None:
        return store
    kept = store if isinstance(store, CachedStore) else CachedStore(store)
    places = [path, "", *([path.rpartition("/")[0]] if kept is store else ())]
    keys = dict.fromkeys(join(place, each) for place in places for each in form.documents)
    with suppress(PermissionError):  # who may not read the root may read what is below
        try:
            kept.get_many([*keys, join(path, UNFINISHED)])
        except OSError:  # what only hints at a write must not be in the way
            kept.get_many(list(keys))
    return kept


def _root(store: Store, form: KeyedFormat) -> Documents:
    """Return the container's documents, none where this user may not read them."""
    try:
        return get_documents(store, "", form)
    except PermissionError:
        return {}


def is_foreign(store: Store, path: str, documents: Documents) -> bool:
    """Return whether a directory without documents is a node of Zarr v3."""
    return not documents and store.exists(join(path, "zarr.json"))


def exists(store: Store, path: str, documents: Documents) -> bool:
    """Return whether there is a node; one without documents is a directory."""
    return bool(documents) or any(store.list(path)) or store.is_folder(path)


def _instead(store: Store) -> str:
    """Return what a file is that is no container."""
    if store.name.endswith(".xml") and (named := container_of(store.get("") or b"")):
        return f"that is XML of BigDataViewer: open the container that it is about, {named!r}"
    return "it is a file, and no HDF5 on a local disk"


def missing_array(
    store: Store, path: str, form: KeyedFormat, documents: Documents
) -> NodeNotFoundError:
    """Return the error of opening an array where there is none."""
    if isinstance(form.read(documents, where(store, path, form)), ArrayMetadata):
        return no_array(store, path, form)
    return NodeNotFoundError(store.url, path, "array", hint(store, path, form))


def hint(store: Store, path: str, form: KeyedFormat) -> str:
    """Return what there is instead of what was looked for, or nothing where that cannot be told."""
    try:
        if store.exists(path) or store.exists(""):
            return _instead(store)
        while True:
            folders, files = store.list(path)
            if "zarr.json" in files:
                return f"{path or '/'!r} is Zarr v3 (zarr.json): use engine='zarr'"
            if zarr := sorted(name for name in files if name in _ZARR and form.name == "n5"):
                return f"{path or '/'!r} is Zarr v2 ({zarr[0]}): use format='zarr2'"
            if folders or not path or not set(form.documents).isdisjoint(files):
                break
            path = path.rpartition("/")[0]
    except Exception:  # noqa: BLE001 - a server that lists nothing must not hide the real error
        return ""
    names = [name for name in folders if not name.startswith(".")]
    if not names:
        there = not set(form.documents).isdisjoint(files)
        return "" if there else "the container is empty or does not exist"
    shown = ", ".join([*names[:_SHOWN], *["..."] * (len(names) > _SHOWN)])
    return f"{path or '/'!r} holds {shown}"
