"""Where a copy goes: what is around it, and whether there is room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.creation import check_alone
from xarray_n5.documents import get_all_documents, get_documents
from xarray_n5.errors import NodeExistsError
from xarray_n5.metadata import GroupMetadata
from xarray_n5.nodes import where
from xarray_n5.paths import WRITING, join
from xarray_n5.writing.orders import Order

if TYPE_CHECKING:
    from collections.abc import Collection

    from xarray_n5.copies.replicas import Replica
    from xarray_n5.formats import Documents, Format
    from xarray_n5.storage import Store


@dataclass(frozen=True, slots=True)
class Destination:
    """A place in a container, and what may be done there."""

    store: Store
    form: Format
    path: str
    mode: str
    resume: bool

    @property
    def lists(self) -> str:
        """As in which format lists of axes stand."""
        return self.form.lists(lambda: get_documents(self.store, "", self.form))

    @property
    def place(self) -> tuple[Store, str]:
        """The container, and the path in it."""
        return self.store, self.path

    def order(self, made: Replica) -> Order:
        """Return what is asked for of an array."""
        return Order(
            mode="w" if self.mode == "w" else "w-",
            chunks=made.metadata.chunks,
            compression=made.metadata.compression,
            attributes=made.metadata.attributes,
            layout=made.layout,
            write_empty_chunks=not made.holes,
            format=self.form.name,
            resume=self.resume,
        )

    def around(self) -> dict[str, Documents]:
        """Return the documents of the groups around, the root's first."""
        parts = self.path.split("/") if self.path else []
        paths = ["/".join(parts[:depth]) for depth in range(len(parts))]
        return dict(zip(paths, get_all_documents(self.store, paths, self.form), strict=True))

    def check_free(self, arrays: Collection[str], *, resuming: bool) -> None:
        """Raise where something is there that must stay."""
        documents = get_documents(self.store, self.path, self.form)
        check_alone(self.store, {**self.around(), self.path: documents}, self.form)
        if resuming or self.mode == "w":
            return
        folders, _ = self.store.list(self.path)
        stopped = any(name.startswith(WRITING) for name in folders)
        hint = "use mode='w' to replace it"
        if stopped:
            hint = f"its copy has not ended: go on with resume=True, or {hint}"
        found = self.form.read(documents, where(self.store, self.path, self.form))
        # A group without anything in it may be what a copy left that was stopped at once.
        taken = folders or not isinstance(found, GroupMetadata) or found.attributes
        if self.mode == "w-" and taken:
            kind = "a group that is not empty" if isinstance(found, GroupMetadata) else "an array"
            raise NodeExistsError(self.store.url, self.path, kind, hint)
        paths = [join(self.path, inner) for inner in arrays]
        for path, there in zip(paths, get_all_documents(self.store, paths, self.form), strict=True):
            if there:
                raise NodeExistsError(self.store.url, path, "a node", hint)
