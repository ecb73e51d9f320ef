"""Writes that are under way: a folder beside an array, with a mark and what has been done.

The folder's name holds the write's token, which is made of what is written and of where. Who sees
it sees this very container; who finds it later can go on with the same write, and with no other.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import ContainerNotVisibleError
from xarray_n5.paths import WRITING, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.storage import Store

REPAIRED = "repair"
"""The token of what goes on where damaged chunks were removed, whoever wrote the others."""

_MARK = "mark.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Underway:
    """A write that has begun, and has not ended."""

    store: Store
    path: str
    """The node that is written."""
    token: str
    """What tells this write from others."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:8], compare=False)
    """What tells its records from those of the same write that began another time."""

    @property
    def folder(self) -> str:
        """The key of the folder that is there as long as the write goes on."""
        return join(self.path, f"{WRITING}{self.token}")

    @property
    def _key(self) -> str:
        return join(self.folder, _MARK)

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Leave the mark, with some facts for those who find it."""
        self.store.set(self._key, json.dumps({**facts, "run": self.run}).encode())

    def going_on(self, facts: Mapping[str, Any]) -> Underway:
        """Return the write as it began."""
        return replace(self, run=str(facts.get("run", self.run)))

    def facts(self) -> dict[str, Any] | None:
        """Return what was said when the write began; None where there is none under way."""
        document = self.store.get(self._key)
        if document is None:
            return None
        try:
            found = json.loads(document)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def check_visible(self) -> None:
        """Raise where this process does not see the mark, before it writes.

        Raises
        ------
        ContainerNotVisibleError
            On a worker without the file system that the write began on, or with another container
            at the same place.
        """
        if not self.store.exists(self._key):
            raise ContainerNotVisibleError(self.store.url, self._key)

    def note(self, name: str, record: bytes) -> None:
        """Keep a record of what has been done."""
        self.store.set(join(self.folder, f"{self.run}-{name}"), record)

    def records(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the keys of the records, and the records."""
        _, files = self.store.list(self.folder)
        keys = [join(self.folder, name) for name in files if name.startswith(f"{self.run}-")]
        for start in range(0, len(keys), 1000):
            some = keys[start : start + 1000]
            for key, record in zip(some, self.store.get_many(some), strict=True):
                if record is not None:
                    yield key, record

    def done(self, facts: Mapping[str, Any]) -> None:
        """Say that nothing is left to be written, whatever stops from here on."""
        self.begin({**facts, "done": True})

    def end(self) -> None:
        """Remove the records, and the mark last of all."""
        _, files = self.store.list(self.folder)
        records = [name for name in files if name != _MARK]
        if records:
            self.done({})
            self.store.delete([join(self.folder, name) for name in records])
        self.store.delete_tree(self.folder, _MARK)


def all_underway(store: Store, path: str) -> list[Underway]:
    """Return the writes into a node that have begun and not ended; one listing."""
    folders, _ = store.list(path)
    tokens = [name.removeprefix(WRITING) for name in folders if name.startswith(WRITING)]
    return [Underway(store=store, path=path, token=token) for token in tokens]
