"""Writes that are under way: a folder beside an array, with a mark and what has been done.

The folder's name holds the write's token, which is made of what is written and of where. Who sees
it sees this very container; who finds it later can go on with the same write, and with no other.

A write that is computed later (``compute=False``) is planned first: its mark lies in a folder of
another name, which stands in no other write's way, until the first of its tasks runs.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import ContainerNotVisibleError
from xarray_n5.paths import PLANNED, UNFINISHED, WRITING, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.storage import Store

REPAIRED = "repair"
"""The token of what goes on where damaged chunks were removed, whoever wrote the others."""

_MARK = "mark.json"

_TOKEN = re.compile(r"[0-9a-f]{32}")
"""What tokens look like: nothing else that a file names is believed to be one."""


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

    @property
    def _plan(self) -> str:
        """The key of the folder that is there until a planned write begins."""
        return join(self.path, f"{PLANNED}{self.token}")

    def plan(self, facts: Mapping[str, Any]) -> None:
        """Leave the mark of a write that begins when its first task runs."""
        self.store.set(join(self._plan, _MARK), json.dumps({**facts, "run": self.run}).encode())

    def planned(self) -> dict[str, Any] | None:
        """Return the facts of a write that was planned; None if it was not, or has begun."""
        return _parsed(self.store.get(join(self._plan, _MARK)))

    def begin_planned(self) -> None:
        """Begin a planned write, unless another task has done so.

        Raises
        ------
        ContainerNotVisibleError
            If the write is neither planned nor under way, as after another write took its place.
        """
        if self.is_begun():
            return
        document = self.store.get(join(self._plan, _MARK))
        if document is not None:
            self.store.set(self._key, document)
            self._hint()
            self.forget_plan()
        elif not self.is_begun():
            raise ContainerNotVisibleError(self.store.url, join(self._plan, _MARK))

    def _hint(self) -> None:
        """Let those who open the array know by one request that a write is unfinished."""
        self.store.set(join(self.path, UNFINISHED), b"{}")

    def _remove_hint(self) -> None:
        if all(other == self for other in all_underway(self.store, self.path)):
            self.store.delete([join(self.path, UNFINISHED)])

    def is_begun(self) -> bool:
        """Return whether this process sees the mark of a write that has begun."""
        return self.store.exists(self._key)

    def forget_plan(self) -> None:
        """Remove the mark of a planned write: its tasks will fail."""
        self.store.delete_tree(self._plan, _MARK)

    def postpone(self, facts: Mapping[str, Any]) -> None:
        """Turn a write that has begun into a planned one."""
        self.plan(facts)
        self._remove_hint()
        self.store.delete_tree(self.folder, _MARK)

    def begin(self, facts: Mapping[str, Any], *, planned: bool = False) -> None:
        """Leave the mark, with some facts for those who find it; also where it was `planned`."""
        self.store.set(self._key, json.dumps({**facts, "run": self.run}).encode())
        self._hint()
        if planned:
            self.forget_plan()

    def going_on(self, facts: Mapping[str, Any]) -> Underway:
        """Return the write as it began."""
        return replace(self, run=str(facts.get("run", self.run)))

    def facts(self) -> dict[str, Any] | None:
        """Return what was said when the write began; None where there is none under way."""
        return _parsed(self.store.get(self._key))

    def check_visible(self) -> None:
        """Raise where this process does not see the mark, before it writes.

        Raises
        ------
        ContainerNotVisibleError
            On a worker without the file system that the write began on, or with another container
            at the same place.
        """
        if not self.is_begun():
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
        self._remove_hint()
        self.store.delete_tree(self.folder, _MARK)


def all_underway(store: Store, path: str) -> list[Underway]:
    """Return the writes into a node that have begun and not ended; one listing."""
    return begun_and_planned(store, path)[0]


def begun_and_planned(store: Store, path: str) -> tuple[list[Underway], list[Underway]]:
    """Return the unfinished writes into a node, and the planned ones; one listing."""
    folders, _ = store.list(path)
    begun, planned = (
        [
            Underway(store=store, path=path, token=name.removeprefix(start))
            for name in folders
            if name.startswith(start)
        ]
        for start in (WRITING, PLANNED)
    )
    return begun, planned


def revoke(mark: Underway) -> None:
    """Remove the mark of a planned write, and those of the Dataset or tree that it is part of.

    Facts come from files: only marks of groups around the node, and of nodes in these, are removed.
    """
    facts = mark.planned() or {}
    mark.forget_plan()
    for whole in _marks(mark, [facts.get("whole")]):
        if whole.path and not mark.path.startswith(f"{whole.path}/"):
            continue
        parts = (whole.planned() or {}).get("parts")
        for part in _marks(mark, parts if isinstance(parts, list) else []):
            if part.path.startswith(f"{whole.path}/" if whole.path else ""):
                part.forget_plan()
        whole.forget_plan()


def _marks(mark: Underway, named: list[Any]) -> Iterator[Underway]:
    """Iterate over the marks that a file names by path and token; ignore what is not a mark."""
    for each in named:
        match each:
            case [str(path), str(token)] if _TOKEN.fullmatch(token):
                parts = path.split("/") if path else []
                if not any(part in {"", ".", ".."} or part.startswith(".") for part in parts):
                    yield replace(mark, path=path, token=token)


def _parsed(document: bytes | None) -> dict[str, Any] | None:
    """Return the facts in a mark; None where there is none."""
    if document is None:
        return None
    try:
        found = json.loads(document)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
