"""A node's user attributes, as a mapping that writes through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import ReadOnlyError
from xarray_n5.model.json import as_json
from xarray_n5.model.metadata import ArrayMetadata, check_factors, lists_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Kind, Node
    from xarray_n5.model.metadata import Attributes


class NodeAttributes(MutableMapping[str, Any]):
    """The attributes of one array or group, without those that the format itself needs.

    They are read from memory. Each change is applied to the attributes that are stored now, which
    keeps the changes of other writers; `update` makes several in one write.
    """

    def __init__(
        self,
        container: Container,
        node: Node | ArrayNode,
        changed: Callable[[Attributes], None],
        *,
        writable: bool,
    ) -> None:
        self._container, self._path = container, node.path
        self._items = node.metadata.attributes  # replaced by each change, never changed in place
        self._kind: Kind = "array" if isinstance(node.metadata, ArrayMetadata) else "group"
        self._writable, self._changed = writable, changed

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
        self.change({}, {key})

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Set several attributes in one write.

        Raises
        ------
        MetadataError
            If a value is not JSON, or a name is reserved by the format; nothing is written then.
        ReadOnlyError
            If the node is open for reading.
        """
        self.change(dict(other, **more), ())

    def clear(self) -> None:
        """Remove all attributes in one write."""
        self.change({}, self._items)

    def put(self, items: Mapping[str, Any]) -> None:
        """Replace all attributes by `items` in one write."""
        self.change(items, self._items.keys() - items.keys())

    def change(self, new: Mapping[str, Any], gone: Collection[str]) -> None:
        """Set several attributes and remove others in one write."""
        if not self._writable:
            raise ReadOnlyError(self._container.url, self._path)
        where = self._container.where(self._path)
        proper, gone = as_json(new, where), set(gone)

        def change(stored: Attributes) -> Attributes:
            if self._kind == "array" and not lists_levels(stored):
                check_factors(new, where)
            return {k: v for k, v in stored.items() if k not in gone} | proper

        self._items = self._container.change_attributes(self._path, change, self._kind)
        self._changed(self._items)
