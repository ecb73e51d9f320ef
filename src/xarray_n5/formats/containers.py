"""Open containers: the store and format at a URL, and the path of a node in it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from xarray_n5.codecs.hdf5 import import_h5py
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.formats import KEYED_FORMATS, N5, Hdf5, Zarr2, get_format
from xarray_n5.formats.hdf5.container import Hdf5Container
from xarray_n5.formats.hdf5.nodes import FOLLOW
from xarray_n5.formats.hdf5.opening import SIGNATURE, is_stub
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.formats.structure import described, get_documents, settle, warn_unfinished, where
from xarray_n5.leaves import LOOK, scene_reader
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import HIDDEN, join, normalize_path
from xarray_n5.stores import ArchiveStore, CachedStore, FsspecStore, LocalStore, together, uncached
from xarray_n5.stores.archive import SUFFIXES as ARCHIVES
from xarray_n5.stores.base import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xarray_n5.formats.protocol import Documents, KeyedFormat, Node
    from xarray_n5.leaves import Scene


_NO_NAMES = (".tif", ".tiff", ".ozx", ".zip", ".nc", ".xml", *Hdf5.suffixes)
"""Suffixes of files that are not containers; directories of arrays are not named so."""

_OF_PATHS = frozenset({"follow_links", FOLLOW})
"""Options that local paths support."""

_SUFFIX_OF_SCENES = ".xml"

_STARTS = (0, *(512 << doubled for doubled in range(7)))
"""Where an HDF5 file may begin: after a block of the user, whose size is a power of two."""

CONTAINERS = (KeyedContainer, Hdf5Container)
"""The kinds of containers."""

Container: TypeAlias = KeyedContainer | Hdf5Container
"""A container: nodes as metadata, chunks by index; opened once per operation.

Both kinds have the same methods. They are small, frozen and picklable, without open handles. Paths
are normalised, indices are in C order.
"""


def open_store(url: object, storage_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store at `url`.

    Parameters
    ----------
    url
        A path, a ``file://`` or any fsspec URL (chained ones too), an ``os.PathLike``, a UPath,
        an fsspec mapper or filesystem, a pair of a filesystem and a path, or a store.
    storage_options
        Options of fsspec's filesystem for a URL. For local paths: `follow_links`, whether to follow
        links out of the container; for HDF5 files: `follow_external`.

    Raises
    ------
    TypeError
        If `url` is none of these, or has `storage_options` and is not a URL.
    """
    options, follow = _split_options(url, storage_options)
    store: Store | None = LocalStore.at(url, {**options, **follow})
    if store is None:
        store = url if isinstance(url, Store) else FsspecStore.at(url, options)
    if store is not None:
        return _archive_at(store) or store
    swapped = "; the data comes before the location" if hasattr(url, "__array__") else ""
    raise TypeError(
        "expected a path, a URL, an fsspec mapper, a filesystem or a pair of one and a path, or "
        f"a store; got {type(url).__name__}{swapped}"
    )


def _archive_at(store: Store) -> ArchiveStore | None:
    """Return the store of an archive, if a location is named like one and is one."""
    return ArchiveStore.at(store) if store.name.lower().endswith(ARCHIVES) else None


def _split_options(
    url: object, storage_options: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split storage options into those of filesystems and those of local paths."""
    options = dict(storage_options or {})
    follow = {name: options.pop(name) for name in _OF_PATHS & options.keys()}
    if options and not (isinstance(url, str) and "://" in url):
        raise TypeError(f"storage_options {sorted(options)} are for URLs; {url!r} is not a URL")
    return options, follow


def open_hdf5(location: object, options: Mapping[str, Any]) -> Hdf5Container | None:
    """Return the container at a local path of an HDF5 file, or of a new one by its name."""
    if isinstance(location, Hdf5Container):
        return location
    local = None if isinstance(location, LocalStore) else LocalStore.at(location, {})
    if local is None or not _is_hdf5(local.root):
        return None
    import_h5py()  # a missing package is reported before anything is written
    return Hdf5Container(local.root, follow_external=bool(options.get(FOLLOW)))


def _is_hdf5(path: str) -> bool:
    """Return whether a file is HDF5; if it does not exist, whether it is named like one."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return False  # a directory; or a pipe, which would block
        if is_stub(path, status):
            return path.endswith(Hdf5.suffixes)
        with open(path, "rb") as file:
            return any(_starts_at(file, start) for start in _STARTS)
    except OSError:
        return path.endswith(Hdf5.suffixes) and not os.path.isdir(path)


def _starts_at(file: BinaryIO, start: int) -> bool:
    """Return whether HDF5 starts at a position of a file."""
    file.seek(start)
    return file.read(len(SIGNATURE)) == SIGNATURE


def locate(
    url: object, path: str, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store | Hdf5Container, str]:
    """Return the HDF5 file or the store at `url`, and the path of a node in it.

    If `url` leads into a directory called ``*.n5``, or into a file, that is the container: the
    groups around a node describe its axes, however the node is named.
    """
    options = {**_split_options(url, storage_options)[1]}
    if (file := open_hdf5(url, options)) is not None:
        return file, path
    store = around = open_store(url, storage_options)
    inner: list[str] = []
    while not around.name.endswith(N5.suffixes):
        if (
            around.name.endswith(Hdf5.suffixes)
            and (file := open_hdf5(around.url, options)) is not None
        ):
            return file, join(*inner, path)
        up = around.parent()
        if up is None:
            return store, path
        inner.insert(0, around.name)
        around = up
        if (archive := _archive_at(around)) is not None:
            return archive, join(*inner, path)
    return around, join(*inner, path)


def find_scene(
    url: object, storage_options: Mapping[str, Any] | None = None, *, by_name: bool = True
) -> Scene | None:
    """Return the scene that a file describes, or None if there is no such file.

    A local file is recognised by its beginning, whatever its name. With `by_name`, others are only
    read if their name ends with ``.xml``, so that no request is made for a container.

    Raises
    ------
    MetadataError
        If it is invalid.
    """
    store = _file_at(url, storage_options, by_name=by_name)
    if store is None:
        return None
    if isinstance(store, LocalStore):
        head = store.head("", LOOK)
        if head is None or scene_reader(head[0]) is None:
            return None
    document = store.get("", MOST_BYTES)
    reader = None if document is None else scene_reader(document)
    if reader is None:
        return None
    try:
        return reader.open_scene(store, document or b"", url)
    except (ValueError, LookupError) as error:
        if isinstance(error, N5Error):
            raise
        name = getattr(reader, "__name__", type(reader).__name__)
        raise MetadataError(
            f"{store.url}: {name} cannot read the file: {type(error).__name__}: {error}; check "
            "that it is complete, and of a version that this reader knows"
        ) from error


def _file_at(
    url: object, storage_options: Mapping[str, Any] | None, *, by_name: bool
) -> Store | None:
    """Return the store of a file that may describe a scene."""
    if isinstance(url, CONTAINERS):
        return None
    follow = {k: v for k, v in (storage_options or {}).items() if k == "follow_links"}
    local = LocalStore.at(url, follow)
    if local is not None:
        return local if os.path.isfile(local.root) else None
    if isinstance(url, str):
        path = url.partition("#")[0].partition("?")[0]
        if by_name and not path.lower().endswith(_SUFFIX_OF_SCENES):
            return None
    store = open_store(url, storage_options)
    return store if not by_name or store.name.lower().endswith(_SUFFIX_OF_SCENES) else None


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
    return KeyedContainer(store, _format_to_write(store, format)), path


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


def _format_to_write(store: Store, name: str | None = None) -> KeyedFormat:
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
    return (candidates[0] if name or not path else _format_found(store)[0]), {}


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
