"""Finish an append whose data are all stored: only documents change, and anybody may do it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from xarray_n5.arrays.appends import appends_in, name_of
from xarray_n5.arrays.changes import began
from xarray_n5.arrays.claims import Claim, delete_records, new_attempt
from xarray_n5.arrays.open import open_group
from xarray_n5.datasets.grow import move_coordinate, moved_coordinate
from xarray_n5.datasets.update import change_metadata
from xarray_n5.errors import ResumeError
from xarray_n5.model.alerts import ODD
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.writing.options import WriteOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.update import Update

_LARGEST = 1 << 26
"""The maximum size of the changes of an append: 64 MiB."""


def changes_of(plan: Update, moved: list[str]) -> dict[str, Any]:
    """Return what an append changes besides the shapes of arrays."""
    changes: dict[str, Any] = {}
    if attributes := plan.changed_attributes():
        changes["attributes"] = attributes
    if moved:
        changes["moved"] = moved
    if coordinate := moved_coordinate(plan):
        changes["coordinate"] = coordinate
    return changes


def _key(claim: Claim) -> str:
    return join(claim.path, HIDDEN, f"changes-{claim.token}.json")


def save_changes(claim: Claim, changes: Mapping[str, Any]) -> None:
    """Store the changes of an append for whoever finishes it."""
    claim.store.set(_key(claim), json.dumps(changes).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The rest of an append, which may be repeated."""

    how: WriteOptions
    path: str
    claim: Claim
    facts: Mapping[str, Any]
    row: str

    @classmethod
    def take(cls, how: WriteOptions, path: str, records: Mapping[str, Mapping[str, Any]]) -> Self:
        """Take over an append that has been committed by others."""
        attempt, facts = new_attempt(), dict(next(iter(records.values())))
        token, first = str(facts.pop("token", "")), str(facts.pop("began", attempt))
        claim = Claim(store=how.store, path=path, name=name_of(attempt), token=token, began=first)
        claim.begin(facts)
        others = {key for key in appends_in(how.store, path) if key != attempt}
        mine = [key for key in others if key in records]
        delete_records(how.store, path, map(name_of, mine))
        return cls(how=how, path=path, claim=claim, facts=facts, row=f"done/append-{token}")

    def grow(self) -> None:
        """Resize each array that still has its former shape.

        Raises
        ------
        ResumeError
            If an array has another shape than before or after the append.
        """
        container, growing = self.how.container, self.facts.get("grows", {})
        paths = {join(self.path, name): pair for name, pair in growing.items()}
        nodes = container.fresh().nodes([*paths], verify=False)
        for node, (path, (old, new)) in zip(nodes, paths.items(), strict=True):
            shape = getattr(getattr(node, "metadata", None), "shape", None)
            if shape == tuple(new):
                continue
            if shape != tuple(old):
                why = f"{path!r} has the shape {shape} now, before the append it was {tuple(old)}"
                raise ResumeError(container.url, self.path, began(dict(self.facts)), why)
            self.claim.check()
            container.resize(path, tuple(new))

    def finish(self) -> None:
        """Resize the arrays, change metadata, leave the rows, and remove the record."""
        self.grow()
        self._change()
        for name in self.facts.get("grows", {}):
            Claim(
                store=self.claim.store,
                path=join(self.path, name),
                name=self.claim.name,
                token=self.claim.token,
                began=self.claim.began,
            ).finish(self.row, {"grows": {name: self.facts["grows"][name]}})
        if self.facts.get("changes"):
            self.claim.store.delete([_key(self.claim)])
        self.claim.end(notes=True)

    def _change(self) -> None:
        """Change metadata as the append states it, and the consolidated metadata last."""
        changes: dict[str, Any] = {}
        if self.facts.get("changes"):
            found = self.claim.store.head(_key(self.claim), _LARGEST)
            changes = _parse(found[0] if found else b"{}")
        names = [*self.facts.get("grows", {})]
        if not changes and not self.how.format.consolidates:
            return
        if "coordinate" in changes:
            group = open_group(self.how.container, self.path, mode="r+")
            move_coordinate(group, changes["coordinate"], names, self.how)
        change_metadata(
            self.path,
            changes.get("moved", ()),
            changes.get("attributes", {}),
            [join(self.path, name) for name in names],
            self.how,
            consolidates=True,
        )


def _parse(document: bytes) -> dict[str, Any]:
    """Return the changes of an append, checked: they may come from anybody."""
    try:
        changes = json.loads(document)
        coordinate = changes.get("coordinate")
        sound = isinstance(changes.get("attributes", {}), dict)
        sound = sound and all(isinstance(dim, str) for dim in changes.get("moved", ()))
        if coordinate is not None:
            np.array(coordinate["values"], np.dtype(coordinate["type"]))
            sound = sound and "/" not in coordinate["dim"] and not coordinate["dim"].startswith(".")
            sound = sound and isinstance(coordinate["attributes"], dict)
    except (*ODD, AttributeError):
        return {}
    return changes if sound else {}


def complete_appends(array: Array) -> None:
    """Finish appends to the group of an array that have stored all of their data."""
    container = array.node.container.uncached()
    group = array.path.rpartition("/")[0]
    records = appends_in(container.store, group) if array.path else {}
    committed = {attempt: facts for attempt, facts in records.items() if facts.get("commit")}
    if committed:
        Commit.take(WriteOptions(container=container, mode="r+"), group, committed).finish()
