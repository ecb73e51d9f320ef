"""Random sequences of operations, against a model in memory; anything may fail at any moment.

What was asked for and succeeded is there. What failed has left each chunk as it was, or as it was
to become, and can be resumed. `repair` removes nothing but what was damaged.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import xarray_n5
from tests.support.containers import NAMES
from tests.support.exhaustive import cases

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from xarray_n5 import Array

Box = tuple[slice, ...]
State = tuple[np.ndarray, tuple[int, ...]]
"""Values, and the shape of chunks."""

CHANCE = st.randoms(use_true_random=False)

FAULTS = st.one_of(
    st.none(),
    st.tuples(st.sampled_from(["kill", "error"]), st.integers(0, 25)),
    st.tuples(st.just("block"), st.integers(0, 4)),
)
"""No failure, or its kind and after how many changes of files, or blocks, it comes."""


class Killed(BaseException):
    """The process ends here: none of its handlers can write any more."""


class Failed(OSError):  # noqa: N818 - not an error of the package
    """The disk, or the user's function, fails once."""


@dataclass
class Faults:
    """Let the n-th change of a file system, or the n-th block, fail."""

    kind: str = ""
    left: int = 0
    dead: bool = False

    def count(self, *kinds: str) -> None:
        """Count a change of the file system or a block, and fail if it is its turn."""
        if self.dead:
            raise Killed
        if self.kind not in kinds:
            return
        self.left -= 1
        if self.left < 0:
            self.dead, self.kind = self.kind == "kill", ""
            raise (Killed if self.dead else Failed)("planned")


PLANNED = Faults()


@pytest.fixture
def _failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count each change of the file system."""
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def counted(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if name != "open" or (args[1] if len(args) > 1 else kwargs.get("flags", 0)) & writing:
                PLANNED.count("kill", "error")
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in ("open", "replace", "rename", "unlink", "rmdir", "mkdir"):
        counted(name)
    with dask.config.set(scheduler="synchronous"):
        yield


def fragile(block: np.ndarray) -> np.ndarray:
    """Return a block, or fail as planned."""
    PLANNED.count("block")
    return block


@dataclass
class Change:
    """An operation: what it does, and what it may leave."""

    do: Callable[[], object]
    old: State | None
    """What was there before."""
    new: State | None
    """What it is to become."""
    between: np.ndarray | None = None
    """What new chunks hold before they are written."""
    may_go: bool = False
    """Whether there may be nothing at all after a failure."""


@dataclass
class Unfinished:
    """A write that failed, as it can be resumed."""

    write: Callable[[bool], object]
    """Write again; with True, only what is left."""
    box: Box
    values: np.ndarray
    """What the whole array is to hold there."""
    again: np.ndarray
    """Which elements others have written since."""
    disturbed: bool = False
    """Whether the array has been resized, or others have written in its box."""


def cover(shape: tuple[int, ...]) -> Box:
    """Return the box of a whole array."""
    return tuple(slice(0, n) for n in shape)


exists = precondition(lambda self: self.values is not None)


class Operations(RuleBasedStateMachine):
    """A container with an array, two handles of it, and what it must hold."""

    form = "n5"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.url = f"{self.folder}/{NAMES[self.form]}"
        self.values: np.ndarray | None = None
        self.chunks: tuple[int, ...] = ()
        self.handles: list[Array] = []
        self.unfinished: Unfinished | None = None
        self.repaired = self.appended = False
        """Whether damaged chunks were removed, and not written again: the next write with `resume`
        is taken for the one that does it."""
        self.count = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    # What is there

    def open(self) -> Array:
        return xarray_n5.open_array(self.url, "g/a", mode="r+")

    def verify(self) -> xr.Dataset:
        return xarray_n5.verify(self.url, "g/a").compute()

    def become(self, values: np.ndarray | None, chunks: tuple[int, ...] | None = None) -> None:
        """Take values as the model, and open both handles anew."""
        self.values, self.chunks = values, chunks or self.chunks
        self.handles = [] if values is None else [self.open(), self.open()]

    @property
    def array(self) -> np.ndarray:
        assert self.values is not None
        return self.values

    def new_values(self, shape: tuple[int, ...], chance: random.Random) -> np.ndarray:
        """Return numbers that were never written before; sometimes there are zeros among them."""
        self.count += 1
        values = np.arange(self.count * 1000, self.count * 1000 + int(np.prod(shape)), dtype="i4")
        values = values.reshape(shape)
        if chance.random() < 0.2:
            values[: shape[0] // 2] = 0
        return values

    def chunk_boxes(self) -> dict[tuple[int, ...], Box]:
        counts = [-(-n // c) for n, c in zip(self.array.shape, self.chunks, strict=True)]
        return {
            index: tuple(
                slice(i * c, min((i + 1) * c, n))
                for i, c, n in zip(index, self.chunks, self.array.shape, strict=True)
            )
            for index in itertools.product(*map(range, counts))
        }

    def random_box(self, chance: random.Random) -> Box:
        aligned, box = chance.random() < 0.3, []
        for size, chunk in zip(self.array.shape, self.chunks, strict=True):
            edges = sorted({*range(0, size, chunk), size}) if aligned else range(size + 1)
            box.append(slice(*sorted(chance.sample(list(edges), 2))))
        return tuple(box)

    def source(self, values: np.ndarray, chance: random.Random) -> da.Array:
        """Return blocks that may fail; their name depends on the values alone."""
        blocks = tuple(chance.randint(1, max(1, n)) for n in values.shape)
        name = f"source-{self.count}-{blocks}"
        plain: Any = da.from_array(values, chunks=blocks, name=f"plain-{name}")
        blocked = plain.map_blocks(fragile, dtype=values.dtype, name=name, meta=values[:0, :0])
        return cast("da.Array", blocked)

    @invariant()
    def all_see_what_must_be_there(self) -> None:
        for array in [*self.handles, *([self.open()] if self.values is not None else ())]:
            np.testing.assert_array_equal(array[...], self.array)

    # What changes it

    def attempt(self, change: Change, fault: tuple[str, int] | None) -> str:
        """Change something, perhaps with a failure; the model becomes what is there after it."""
        kind, left = fault or ("", 0)
        if self.form == "hdf5" and kind != "block":
            kind = ""
        vars(PLANNED).update(kind=kind, left=left, dead=False)
        outcome = "done"
        try:
            change.do()
        except (Killed, Failed):
            outcome = "failed"
        except xarray_n5.ResumeError:
            outcome, change.new = "refused", None
        except xarray_n5.N5Error as error:
            if not isinstance(error.__cause__, Failed | Killed):
                raise
            outcome = "failed"
        finally:
            vars(PLANNED).update(kind="", dead=False)
        if outcome != "done":
            self.adopt(change)
        else:
            assert change.new is not None
            self.values, self.chunks = change.new
        return outcome

    def adopt(self, change: Change) -> None:
        """Take as model what a failure has left, if that is one of what it may leave."""
        try:
            stored = self.open()
        except xarray_n5.NodeNotFoundError:
            assert change.may_go or change.old is None
            self.become(None)
            return
        whole = stored[...]
        states = [state for state in (change.old, change.new) if state is not None]
        fitting = [v for v, c in states if v.shape == whole.shape and c == stored.chunks]
        assert fitting, (whole.shape, stored.chunks, [(v.shape, c) for v, c in states])
        if change.between is not None and any(v is (change.new or [0])[0] for v in fitting):
            fitting.append(change.between)
        self.become(whole, stored.chunks)
        for box in self.chunk_boxes().values():
            assert any(np.array_equal(whole[box], values[box]) for values in fitting)

    def others_wrote(self, box: Box, *, all_of_it: bool = False) -> None:
        """Note what an unfinished write, when it is resumed, finds changed."""
        if self.unfinished is not None:
            self.unfinished.disturbed |= all_of_it
            if self.unfinished.again.shape == self.array.shape:
                self.unfinished.again[box] = True
            else:
                self.unfinished.disturbed = True

    def disturb(self) -> None:
        """Note that an unfinished write may be refused when it is resumed."""
        if self.unfinished is not None:
            self.unfinished.disturbed = True

    def run(
        self,
        write: Callable[[bool], object],
        box: Box,
        change: Change,
        fault: tuple[str, int] | None,
    ) -> None:
        """Make a write, and keep it if it fails."""
        assert change.new is not None
        values = change.new[0]
        if change.old is not None and change.old[0].shape == values.shape and not change.may_go:
            self.others_wrote(box, all_of_it=True)
        else:
            self.disturb()
        self.repaired &= not change.may_go
        littered = self.values is not None and bool(self.verify().attrs["unfinished"])
        was_there = self.values is not None
        outcome = self.attempt(change, fault)
        if outcome == "done":
            if change.may_go or not was_there:
                self.unfinished = None
            self.become(self.values)
        elif outcome == "failed":
            self.unfinished = None
            if self.values is not None and self.values.shape == values.shape:
                again = np.zeros(values.shape, bool)
                # What another write left may refuse this one, where it had not begun.
                self.unfinished = Unfinished(write, box, values, again, littered)

    def writing(self, source: da.Array, **options: Any) -> Callable[[bool], object]:
        """Return a function that writes an array, or resumes that."""
        checksums = options.pop("checksums")

        def write(resume: bool) -> object:
            with xarray_n5.set_options(checksums=checksums):
                return xarray_n5.to_n5(source, self.url, "g/a", resume=resume, **options)

        return write

    @rule(chance=CHANCE, fault=FAULTS, empty=st.booleans(), sums=st.booleans(), anew=st.booleans())
    def store(
        self,
        chance: random.Random,
        fault: tuple[str, int] | None,
        empty: bool,
        sums: bool,
        anew: bool,
    ) -> None:
        """Write all of the array, replacing it or not."""
        old = None if self.values is None else (self.values, self.chunks)
        options: dict[str, Any] = {"write_empty_chunks": empty, "checksums": sums}
        if old is None or anew:
            shape = tuple(chance.randint(3, 11) for _ in range(2))
            chunks = tuple(chance.randint(2, 5) for _ in range(2))
            options |= {"chunks": chunks, "compression": chance.choice([None, "gzip"])}
            options |= {"axes": ["y", "x"], "mode": "w" if old else "a"}
        else:
            (shape, chunks), options["mode"] = (self.array.shape, self.chunks), "r+"
        values = self.new_values(shape, chance)
        write = self.writing(self.source(values, chance), **options)
        resume = chance.random() < 0.3 and not self.repaired
        replaces = options["mode"] != "r+"
        between = np.zeros_like(values) if replaces else None
        change = Change(lambda: write(resume), old, (values, chunks), between, replaces)
        self.run(write, cover(shape), change, fault)

    @exists
    @rule(chance=CHANCE, fault=FAULTS, empty=st.booleans(), sums=st.booleans())
    def region(
        self, chance: random.Random, fault: tuple[str, int] | None, empty: bool, sums: bool
    ) -> None:
        """Write a part of the array."""
        box = self.random_box(chance)
        values = self.array.copy()
        values[box] = self.new_values(self.array[box].shape, chance)
        options = {"region": box, "safe_chunks": False, "write_empty_chunks": empty}
        write = self.writing(self.source(values[box], chance), checksums=sums, **options)
        resume = chance.random() < 0.3 and not self.repaired
        change = Change(lambda: write(resume), (self.array, self.chunks), (values, self.chunks))
        self.run(write, box, change, fault)

    @precondition(lambda self: self.values is not None and len(self.values) <= 14)
    @rule(chance=CHANCE, fault=FAULTS)
    def append(self, chance: random.Random, fault: tuple[str, int] | None) -> None:
        """Append along an axis, as a Dataset."""
        part = self.new_values((chance.randint(1, 5), self.array.shape[1]), chance)
        dataset = xr.Dataset({"a": (("y", "x"), self.source(part, chance))})

        def write(resume: bool) -> object:
            return dataset.n5.to_n5(self.url, group="g", append_dim="y", resume=resume)

        self.appended = True
        values = np.concatenate([self.array, part])
        grown = np.concatenate([self.array, np.zeros_like(part)])
        change = Change(
            lambda: write(False),  # noqa: FBT003
            (self.array, self.chunks),
            (values, self.chunks),
            grown,
        )
        self.run(write, (slice(len(self.array), None), slice(None)), change, fault)

    @precondition(lambda self: self.values is not None and self.unfinished is not None)
    @rule()
    def resume(self) -> None:
        """Resume what failed."""
        assert self.unfinished is not None
        left, was, self.unfinished = self.unfinished, self.array.copy(), None
        if left.values.shape != was.shape:
            return
        try:
            left.write(True)  # noqa: FBT003
        except xarray_n5.N5Error as error:
            ended = "no write of it is unfinished" in str(error)
            assert left.disturbed or ended
            if not left.disturbed:
                self.expect_resumed(was, left)
            return
        stored = self.open()[...]
        if left.disturbed and stored.shape != was.shape:
            # An append of which nothing was left to resume has been made once more.
            np.testing.assert_array_equal(stored[: len(was)], was)
        else:
            self.expect_resumed(stored, left)
            outside = np.ones(stored.shape, bool)
            outside[left.box] = False
            np.testing.assert_array_equal(stored[outside], was[outside])
        self.become(stored)

    def expect_resumed(self, stored: np.ndarray, left: Unfinished) -> None:
        """Each element is the source's, or what somebody has written since."""
        right = (stored == left.values) | (left.again & (stored == self.array))
        assert right[left.box].all()

    @exists
    @rule(chance=CHANCE, fault=FAULTS, how=st.sampled_from(["assign", "write", "delete"]))
    def edit(self, chance: random.Random, fault: tuple[str, int] | None, how: str) -> None:
        """Assign some elements, or write or delete a chunk, through one of the handles."""
        index, box = chance.choice([*self.chunk_boxes().items()])
        if how == "assign":
            box = self.random_box(chance)
        part = self.new_values(self.array[box].shape, chance)
        values = self.array.copy()
        values[box] = 0 if how == "delete" else part
        array = chance.choice(self.handles)
        edits: dict[str, Callable[[], object]] = {
            "assign": lambda: array.__setitem__(box, part),
            "write": lambda: array.write_chunk(index, part),
            "delete": lambda: array.delete_chunk(index),
        }
        self.others_wrote(box)
        change = Change(edits[how], (self.array, self.chunks), (values, self.chunks))
        self.attempt(change, fault)

    @exists
    @rule(chance=CHANCE)
    def resize(self, chance: random.Random) -> None:
        """Change the shape through one of the handles."""
        shape = tuple(max(1, n + chance.randint(-3, 3)) for n in self.array.shape)
        both = cover(tuple(map(min, shape, self.array.shape)))
        values = np.zeros(shape, self.array.dtype)
        values[both] = self.array[both]
        try:
            chance.choice(self.handles).resize(shape)
        except xarray_n5.ResumeError:
            assert self.appended  # one that is unfinished
            return
        self.disturb()
        self.become(values)

    @precondition(lambda self: self.values is not None and self.form != "hdf5")
    @rule(chance=CHANCE, how=st.sampled_from(["quarantine", "remove"]))
    def repair(self, chance: random.Random, how: Any) -> None:
        """Damage a chunk, repair the array, and write it again."""
        before, array = self.array.copy(), self.open()
        there = [index for index in self.chunk_boxes() if array.chunk_exists(index)]
        if not there:
            return
        index = chance.choice(there)
        path = f"{self.url}/{array.node.key(index)}"
        os.truncate(path, os.stat(path).st_size // 2)  # noqa: PTH116
        states = self.verify()["state"].to_numpy()
        assert np.argwhere(~np.isin(states, ["ok", "missing"])).tolist() == [[*index]]
        xarray_n5.repair(self.url, "g/a", how=how)
        box = self.chunk_boxes()[index]
        self.array[box] = 0
        self.all_see_what_must_be_there()
        self.others_wrote(box, all_of_it=True)
        self.repaired = True
        if self.verify().attrs["unfinished"] == ["repair"]:
            source = self.source(before, chance)
            try:
                xarray_n5.to_n5(source, self.url, "g/a", mode="r+", resume=True)
            except xarray_n5.ResumeError:
                assert self.appended
                return
            self.repaired = False
            self.become(before)

    @exists
    @rule()
    def check(self) -> None:
        """Nothing is called damaged, and nothing is missing that is not zeros."""
        states = self.verify()["state"].to_numpy()
        for index, box in self.chunk_boxes().items():
            assert states[index] == "ok" or (
                states[index] == "missing" and not self.array[box].any()
            )

    @exists
    @rule(chance=CHANCE)
    def write_anew(self, chance: random.Random) -> None:
        """Write all of it once more: nothing of all that has been stays."""
        values = self.new_values(self.array.shape, chance)
        source = self.source(values, chance)
        try:
            xarray_n5.to_n5(source, self.url, "g/a", mode="w", chunks=self.chunks)
        except xarray_n5.ResumeError:
            assert self.appended
            chunks = dict(zip("yx", self.chunks, strict=True))
            xr.Dataset({"a": (("y", "x"), values)}).chunk(chunks).n5.to_n5(
                self.url, group="g", mode="w"
            )
        self.unfinished, self.repaired = None, False
        self.become(values, self.open().chunks)
        self.check()
        assert not self.verify().attrs["unfinished"]
        for top, folders, files in os.walk(f"{self.url}/g/a"):
            for name in (*folders, *files):
                assert not name.startswith(("open-", "clears-", "notes-"))
                # What was to become a record is taken away by `repair`.
                assert ".xn5" in top or not name.endswith(".partial")


@pytest.mark.usefixtures("_failing")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.more
@pytest.mark.parametrize("form", NAMES)
def test_nothing_is_lost_whatever_is_done_and_fails(form: str) -> None:
    machine = type("Operations", (Operations,), {"form": form})
    few = settings(max_examples=cases(4, 25), stateful_step_count=14, phases=[Phase.generate])
    run_state_machine_as_test(machine, settings=few)  # type: ignore[no-untyped-call]
