"""A node's user attributes, as a mapping that writes through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import MetadataError, NodeNotFoundError, ReadOnlyError
from xarray_n5.formats.keyed import change_documents, get_documents
from xarray_n5.model.json import MOST_NESTED, is_deep
from xarray_n5.model.metadata import GroupMetadata, check_factors, lists_levels
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.stores.protocol import Store


class NodeAttributes(MutableMapping[str, Any]):
    """The attributes of one array or group, without those that the format itself needs.

    Reading is from memory. Each change reads the node's document anew, changes it, and replaces
    it whole, so that what others wrote there meanwhile stays; `update` does that once.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        form: KeyedFormat,
        items: Mapping[str, Any],
        *,
        writable: bool,
        changed: Callable[[dict[str, Any]], None],
        is_array: bool = False,
    ) -> None:
        self._store, self._path, self._format = store, path, form
        self._items = items  # replaced by each change, never changed in place
        self._writable, self._changed, self._is_array = writable, changed, is_array

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(dict(self._items))

    def __setitem__(self, key: str, value: object) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        if key not in self._items:
            raise KeyError(key)
        self._change({}, {key})

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Set several attributes in one write.

        Raises
        ------
        MetadataError
            If a value is no JSON, or a name is the format's own; nothing is written then.
        ReadOnlyError
            If the node is open for reading.
        """
        self._change(dict(other, **more), set())

    def change(self, new: Mapping[str, Any], gone: Iterable[str]) -> None:
        """Set several attributes and remove others in one write."""
        self._change(dict(new), set(gone))

    def clear(self) -> None:
        """Remove all attributes in one write."""
        self._change({}, set(self._items))

    def put(self, items: Mapping[str, Any]) -> None:
        """Replace all attributes by `items` in one write."""
        self._change(dict(items), set(self._items) - set(items))

    def _change(self, new: dict[str, Any], gone: set[str]) -> None:
        if not self._writable:
            raise ReadOnlyError(self._store.url, self._path)
        where = join(self._store.url, self._path, self._format.documents[0])
        proper = as_json(new, where)

        def change(before: Documents) -> Documents:
            node = self._format.read(before, where)
            if self._is_array and isinstance(node, GroupMetadata):
                raise NodeNotFoundError(self._store.url, self._path, "array")
            if not self._is_array:
                node = self._format.as_group(before, where)
            if self._is_array and not lists_levels(node.attributes):
                check_factors(new, where)
            stored = dict(node.attributes)
            items = {k: v for k, v in stored.items() if k not in gone} | proper
            changed = self._format.with_attributes(before, items, where)
            self._items = items
            return changed

        change_documents(self._store, self._path, self._format, change)
        self._changed(dict(self._items))


def attributes_of(store: Store, path: str, form: KeyedFormat) -> NodeAttributes:
    """Return the attributes of a group as they are stored now, to be changed."""
    documents = get_documents(store, path, form)
    items = form.as_group(documents, join(store.url, path, form.documents[0])).attributes
    return NodeAttributes(store, path, form, items, writable=True, changed=lambda _: None)


def as_json(attributes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return `attributes` as they will be read back: tuples as lists, numpy's numbers as Python's.

    Raises
    ------
    MetadataError
        If a value is none that JSON has; NaN and infinity are not.
    """
    result = {}
    for key, value in attributes.items():
        if isinstance(value, dict | list | tuple) and is_deep(value):
            raise MetadataError(
                f"{where}: the attribute {key!r} is nested more than {MOST_NESTED} deep, which "
                "readers refuse; flatten it"
            )
        try:
            text = json.dumps(value, default=_plain, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise MetadataError(
                f"{where}: the attribute {key!r} is {value!r:.200}, which JSON "
                f"cannot hold ({error})"
            ) from error
        result[str(key)] = json.loads(text)
    return result


def _plain(value: object) -> object:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")
