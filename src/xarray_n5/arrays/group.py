"""Groups, and the doors to a container: open and create, arrays and groups."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.attributes import NodeAttributes, as_json
from xarray_n5.arrays.create import create_array
from xarray_n5.arrays.detect import (
    exists,
    format_to_write,
    hint,
    is_foreign,
    locate,
    missing_array,
    open_place,
    path_in,
    read,
)
from xarray_n5.arrays.opening import OpenOptions
from xarray_n5.arrays.overwrite import check_overwrite, complete_group
from xarray_n5.arrays.repr import as_text, show_group
from xarray_n5.arrays.repr_tree import group_html
from xarray_n5.arrays.structure import read_below, settle, settle_all
from xarray_n5.arrays.write_axes import forget_image
from xarray_n5.errors import (
    N5Error,
    NodeNotFoundError,
    PathError,
    ReadOnlyError,
    UnsafePathError,
)
from xarray_n5.formats import get_format
from xarray_n5.formats.keyed import (
    delete_node,
    folders_in,
    get_documents,
    get_safe_documents,
    replace_documents,
    warn_unfinished,
    where,
)
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join, new_path
from xarray_n5.stores import CachedStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.arrays.array import AxisOrder
    from xarray_n5.arrays.chunk_io import EdgeChunks, Missing
    from xarray_n5.arrays.opening import LabelMultisets
    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.model.metadata import Metadata
    from xarray_n5.stores.protocol import Store


class Group(Mapping[str, "Array | Group"]):
    """A group in a container, as :func:`open_group` and :func:`create_group` return it.

    A mapping of names to the arrays and groups in it; names may be paths. It holds no cache:
    each look is at what the container holds now.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        form: KeyedFormat,
        metadata: GroupMetadata,
        *,
        options: OpenOptions,
    ) -> None:
        self._store, self._path, self._format = store, path, form
        self._metadata, self._options = metadata, options
        self._counted: tuple[str, ...] | None = None

    @property
    def path(self) -> str:
        """The group's path in its container."""
        return self._path

    @property
    def place(self) -> object:
        """The group's location, as its store distinguishes it from others."""
        return self._store.identity(self.path)

    @property
    def url(self) -> str:
        """The container's place and the group's path in one."""
        return join(self._store.url, self._path)

    @property
    def format(self) -> str:
        """The name of the container's format."""
        return self._format.name

    @property
    def attrs(self) -> NodeAttributes:
        """The user's attributes; setting one writes it."""
        return NodeAttributes(
            self._store,
            self._path,
            self._format,
            self._metadata.attributes,
            writable=self._options.writable,
            changed=self._attributes_changed,
        )

    def _attributes_changed(self, attributes: dict[str, Any]) -> None:
        self._metadata = GroupMetadata(attributes=attributes)

    def __repr__(self) -> str:
        return as_text(*show_group(self))

    def _repr_html_(self) -> str:
        return group_html(self)

    def __iter__(self) -> Iterator[str]:
        self._counted = None
        return self._names()

    def __len__(self) -> int:
        # Python asks for it when it makes a list, just after an iterator: one listing is enough.
        self._counted = self._list()
        return len(self._counted)

    def _names(self) -> Iterator[str]:
        names, self._counted = self._counted, None
        yield from self._list() if names is None else names

    def _list(self) -> tuple[str, ...]:
        names = folders_in(self._store, self._path, self._format)
        return tuple(name for name in names if not name.startswith("."))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not self._is_inside(name):
            return False
        path = self._inner(name)
        try:
            _, document = locate(self._store, path, self._format.name)
            return exists(self._store, path, document)
        except UnsafePathError:
            return True  # a link that is refused is there, and can be deleted

    def __getitem__(self, name: str) -> Array | Group:
        path = self._inner(name)
        form, document = locate(self._store, path, self._format.name)
        if not exists(self._store, path, document):
            raise KeyError(name)
        found = form.read(document, where(self._store, path, form))
        node = self._node(path, settle(self._store, path, form, document, found))
        if isinstance(node, Array) and not self._options.writable:
            warn_unfinished(self._store, [path])
        return node

    def _is_inside(self, name: str) -> bool:
        try:
            self._inner(name)
        except PathError:
            return False
        return True

    def _inner(self, name: str) -> str:
        return join(self._path, path_in(self._format.name, name))

    def _node(self, path: str, metadata: Metadata) -> Array | Group:
        if isinstance(metadata, GroupMetadata):
            return Group(self._store, path, self._format, metadata, options=self._options)
        return self._options.array(self._store, path, self._format, metadata)

    def nodes(self, names: Iterable[str], *, strict: bool = False) -> dict[str, Array | Group]:
        """Return what is at places below; what cannot be read is left out, or raises."""
        paths = {name: self._inner(name) for name in names if self._is_inside(name)}
        several = get_safe_documents(self._store, list(paths.values()), self._format)
        found: dict[str, tuple[str, Documents, Metadata]] = {}
        for (name, path), documents in zip(paths.items(), several, strict=True):
            at = where(self._store, path, self._format)
            try:
                if isinstance(documents, N5Error):
                    raise documents
                found[name] = path, documents, self._format.read(documents, at)
            except N5Error as error:
                if strict:
                    raise
                warn(f"{name!r} is left out: {error}")
        settled = settle_all(self._store, self._format, list(found.values()))
        named = zip(found.items(), settled, strict=True)
        nodes = {name: self._node(path, metadata) for (name, (path, *_)), metadata in named}
        if not self._options.writable:
            arrays = [node for node in nodes.values() if isinstance(node, Array)]
            warn_unfinished(self._store, [array.path for array in arrays])
        return nodes

    def children(self, without: Container[str] = ()) -> dict[str, Array | Group]:
        """Return what is directly in the group but some names: one listing, one batch of reads."""
        return self.nodes(name for name in iter(self) if name not in without)

    def arrays(self, without: Container[str] = ()) -> dict[str, Array]:
        """Return the arrays directly in the group; see :meth:`children`."""
        children = self.children(without).items()
        return {name: node for name, node in children if isinstance(node, Array)}

    def groups(self) -> dict[str, Group]:
        """Return the groups directly in the group."""
        return {name: node for name, node in self.children().items() if isinstance(node, Group)}

    def create_array(self, name: str, **kwargs: Any) -> Array:
        """Create an array in the group; see :func:`create_array`."""
        self._check_writable()
        return create_array(self._store, self._inner(name), format=self._format.name, **kwargs)

    def create_group(self, name: str, **kwargs: Any) -> Group:
        """Create a group in the group; see :func:`create_group`."""
        self._check_writable()
        return create_group(self._store, self._inner(name), format=self._format.name, **kwargs)

    def delete(self, name: str) -> None:
        """Remove an array or a group with everything in it.

        Raises
        ------
        KeyError
            If there is no such node.
        """
        self._check_writable()
        path = self._inner(name)
        if path == self._path:
            raise ValueError("a group does not delete itself; delete it from its parent")
        if name not in self:
            raise KeyError(name)
        inner = path.removeprefix(self._path).strip("/").rpartition("/")[0]
        forget_image((self[inner] if inner else self).attrs, path)
        delete_node(self._store, path, self._format)

    __delitem__ = delete

    def _check_writable(self) -> None:
        if not self._options.writable:
            raise ReadOnlyError(self._store.url, self._path)


def open_array(
    url: object,
    path: str = "",
    *,
    mode: Literal["r", "r+"] = "r",
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,  # noqa: A002
    metadata: Mapping[str, Any] | None = None,
    assume_metadata: bool = False,
    axis_order: AxisOrder = "C",
    missing: Missing = "fill",
    cache_bytes: int = 0,
    label_multisets: LabelMultisets = "error",
    write_empty_chunks: bool = True,
    edge_chunks: EdgeChunks = "truncate",
) -> Array:
    """Open an array that exists.

    Parameters
    ----------
    url
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a
        pair of an fsspec filesystem and a path, or a store.
    path
        The array's path in the container; the container itself by default.
    mode
        "r" for reading, "r+" for writing too.
    storage_options
        What fsspec's filesystem takes.
    format
        The container's format; found out by default.
    metadata
        Members of ``attributes.json`` (in N5 order) that the array must have exactly.
    assume_metadata
        Read no metadata at all, but take `metadata` for true; what it does not say is as
        :func:`create_array` would choose it. A false assumption damages data.
    axis_order
        "F" turns the array round: axes in the order of ``dimensions``, as in Java.
    missing
        "fill": a chunk that is not stored reads as zeros. "error": it raises.
    cache_bytes
        How many bytes of decoded chunks are kept for the next read.
    label_multisets
        "argmax" reads Paintera's label multisets as their most frequent labels (uint64).
    write_empty_chunks
        Whether chunks of nothing but zeros are stored; all are where Zarr names no fill value.
    edge_chunks
        "truncate" stores chunks at the array's ends as far as it reaches; "pad" full-size.

    Returns
    -------
    Array

    Raises
    ------
    NodeNotFoundError
        If there is no array.
    MetadataError
        If its metadata cannot be understood, or is not what `metadata` says.
    """
    check_option("mode", mode, "r", "r+")
    options = OpenOptions(
        writable=mode == "r+",
        axis_order=axis_order,
        missing=missing,
        cache_bytes=cache_bytes,
        label_multisets=label_multisets,
        write_empty=write_empty_chunks,
        edges=edge_chunks,
    )
    store, path = open_place(url, path, storage_options, format, writable=mode == "r+")
    if assume_metadata:
        form = get_format(format)
        assumed = form.assume(metadata or {}, where(store, path, form))
        return options.array(store, path, form, assumed)
    form, document, found = read(store, path, format, writable=mode == "r+")
    if not isinstance(found, ArrayMetadata):
        raise missing_array(store, path, form, document)
    if metadata:
        form.matches(document, metadata, where(store, path, form))
    return options.array(store, path, form, found)


def open_group(
    url: object,
    path: str = "",
    *,
    mode: Literal["r", "r+"] = "r",
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,  # noqa: A002
    cache_metadata: bool = False,
) -> Group:
    """Open a group that exists; in N5 every directory is one.

    Parameters
    ----------
    url, path, storage_options, format
        As in :func:`open_array`.
    mode
        "r" for reading, "r+" for writing too.
    cache_metadata
        Whether metadata are read, and groups are listed, once for this group and all that is
        opened from it: what others write after that is not seen. For reading only.

    Returns
    -------
    Group

    Raises
    ------
    NodeNotFoundError
        If there is nothing, or an array.
    """
    check_option("mode", mode, "r", "r+")
    if cache_metadata and mode != "r":
        raise ValueError("cache_metadata=True is for mode='r': a write goes by what is there now")
    store, path = open_place(url, path, storage_options, format, writable=mode == "r+")
    store = CachedStore(store) if cache_metadata else store
    form, document, found = read(store, path, format)
    if not isinstance(found, GroupMetadata):
        raise NodeNotFoundError(store.url, path, "group", "it is an array: use open_array")
    if not exists(store, path, document):
        raise NodeNotFoundError(store.url, path, "group", hint(store, path, form))
    return Group(store, path, form, found, options=OpenOptions(writable=mode == "r+"))


def open_node(
    url: object,
    path: str = "",
    *,
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,  # noqa: A002
    axis_order: AxisOrder = "C",
    missing: Missing = "fill",
    label_multisets: LabelMultisets = "error",
    whole: bool = False,
) -> Array | Group:
    """Open what is at `path` for reading, be it an array or a group whose arrays open alike.

    Metadata are read once from here on; with `whole`, those of all that is below at once.

    Raises
    ------
    NodeNotFoundError
        If there is nothing.
    """
    store, path = open_place(url, path, storage_options, format)
    store = CachedStore(store)
    form, document, found = read(store, path, format)
    options = OpenOptions(axis_order=axis_order, missing=missing, label_multisets=label_multisets)
    if isinstance(found, ArrayMetadata):
        return options.array(store, path, form, found)
    if not exists(store, path, document) or is_foreign(store, path, document):
        raise NodeNotFoundError(store.url, path, "array or group", hint(store, path, form))
    if whole and store.batch > 1:
        read_below(store, path, form)
    return Group(store, path, form, found, options=options)


def open_existing(url: object, path: str, mode: str, **options: Any) -> Array | None:
    """Return the array that a write with `mode` would go into, or None where it makes a new one."""
    if mode not in {"a", "r+"}:
        return None
    try:
        return open_array(url, path, mode="r+", **options)
    except NodeNotFoundError:
        return None


def create_group(
    url: object,
    path: str = "",
    *,
    attributes: Mapping[str, Any] | None = None,
    mode: Literal["w-", "a"] = "w-",
    format: str | None = None,  # noqa: A002
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group, or open one.

    Parameters
    ----------
    url, path, storage_options, format
        As in :func:`create_array`.
    attributes
        The user's attributes; JSON values.
    mode
        "w-" raises where there is something; "a" opens a group that is there, and adds
        `attributes` to its own.

    Returns
    -------
    Group
        Open for writing.

    Raises
    ------
    NodeExistsError
        If there is something that `mode` does not allow.
    """
    check_option("mode", mode, "w-", "a")
    store, path = open_place(url, path, storage_options, format, writable=True)
    form = format_to_write(store, format)
    path = new_path(path, form.documents[0])
    at = where(store, path, form)
    metadata = GroupMetadata(attributes=as_json(attributes or {}, at))
    before = get_documents(store, path, form)
    found = settle(store, path, form, before, form.read(before, at))
    if mode == "a" and isinstance(found, GroupMetadata) and exists(store, path, before):
        complete_group(store, path, form, before)
        group = Group(store, path, form, found, options=OpenOptions(writable=True))
        if metadata.attributes:
            group.attrs.update(metadata.attributes)
        return group
    form.create(metadata, {}, at)
    before = check_overwrite(store, path, form, before).make_room()
    replace_documents(store, path, before, form.create(metadata, before, at))
    return Group(store, path, form, metadata, options=OpenOptions(writable=True))
