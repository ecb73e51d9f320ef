"""Finish an append whose data are all stored: only documents change, and anybody may do it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from xarray_n5.arrays.records import (
    Claim,
    append_name,
    began,
    delete_records,
    look,
    new_attempt,
    read_appends,
)
from xarray_n5.errors import ResumeError
from xarray_n5.model.paths import join
from xarray_n5.stores import together
from xarray_n5.writing.options import WriteOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xarray_n5.arrays.array import Array


def row_of(token: str) -> str:
    """Return the name of the row that a finished append leaves in each array."""
    return f"done/append-{token}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The rest of an append, which may be repeated."""

    how: WriteOptions
    claim: Claim
    facts: Mapping[str, Any]
    """What the record states."""

    @classmethod
    def take(cls, how: WriteOptions, path: str, records: Mapping[str, Mapping[str, Any]]) -> Self:
        """Take over an append that has been committed by others."""
        attempt, facts = new_attempt(), dict(next(iter(records.values())))
        token, first = str(facts.pop("token", "")), str(facts.pop("began", attempt))
        claim = Claim(
            store=how.store, path=path, name=append_name(attempt), token=token, began=first
        )
        claim.begin(facts)
        now = look(how.store, path).appends
        delete_records(how.store, path, [append_name(key) for key in now if key in records])
        return cls(how=how, claim=claim, facts=facts)

    @property
    def _grows(self) -> Mapping[str, Any]:
        grows: Mapping[str, Any] = self.facts.get("grows", {})
        return grows

    def grow(self) -> None:
        """Resize the arrays that still have their former shapes, but no consolidated metadata.

        Raises
        ------
        ResumeError
            If an array has another shape than before or after the append; none was resized then.
        """
        calls = []
        for path, (shape, old, new) in self._shapes().items():
            if shape not in {old, new}:
                why = f"{path!r} has the shape {shape} now, before the append it was {old}"
                url = self.how.container.url
                raise ResumeError(url, self.claim.path, began(dict(self.facts)), why)
            if shape == old:
                calls.append(partial(self.how.container.quiet().resize, path, new))
        if calls:
            self.claim.check()
            together(self.claim.store, calls)

    def shrink(self) -> None:
        """Resize the arrays to their former shapes, as HDF5 needs it to give up an append."""
        for path, (shape, old, new) in self._shapes().items():
            if shape == new:
                self.how.container.resize(path, old)

    def _shapes(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return the shapes of the arrays as stored, and before and after, by path."""
        paths = [join(self.claim.path, name) for name in self._grows]
        nodes = self.how.container.fresh().nodes(paths, verify=False)
        stored = [getattr(getattr(node, "metadata", None), "shape", ()) for node in nodes]
        pairs = [map(tuple, pair) for pair in self._grows.values()]
        return {p: (s, *pair) for p, s, pair in zip(paths, stored, pairs, strict=True)}

    def finish(self) -> None:
        """Resize the arrays, consolidate, leave the rows, and remove the record."""
        how, claim, row = self.how, self.claim, row_of(self.claim.token)
        self.grow()
        how.consolidate(claim.path, default=True)
        how.container.renew([claim.path, *(join(claim.path, name) for name in self._grows)])
        calls: list[Callable[[], Any]] = [claim.note_names]
        for name, pair in self._grows.items():
            array = replace(claim, path=join(claim.path, name))
            calls.append(partial(array.finish, row, {"grows": {name: pair}}))
        notes, *_ = together(claim.store, calls)
        claim.delete_notes(notes)
        claim.end()


def complete(how: WriteOptions, path: str, records: Mapping[str, Mapping[str, Any]]) -> bool:
    """Finish an append that has stored all its data; return whether there was one."""
    committed = {key: facts for key, facts in records.items() if facts.get("commit")}
    if committed:
        Commit.take(how, path, committed).finish()
    return bool(committed)


def complete_appends(array: Array) -> None:
    """Finish appends to the group of an array that have stored all of their data."""
    container = array.node.container.uncached()
    if array.path:
        group = array.path.rpartition("/")[0]
        how = WriteOptions(container=container, mode="r+", consolidated=False)
        attempts = look(container.store, group).appends
        complete(how, group, read_appends(container.store, group, attempts))
