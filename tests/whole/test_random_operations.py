"""Random sequences of operations, against a model in memory; anything may fail at any moment.

What was asked for and succeeded is there. What failed has left each chunk as it was, or as it was
to become, and can be resumed. `repair` removes nothing but what was damaged.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.support.containers import NAMES
from tests.support.exhaustive import seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from xarray_n5 import Array

OPERATIONS = 14

Box = tuple[slice, ...]


class Killed(BaseException):
    """The process ends here: none of its handlers can write any more."""


class Failed(OSError):  # noqa: N818 - not an error of the package
    """The disk refuses once."""


@dataclass
class Faults:
    """Let the n-th change of a file system, or the n-th block, fail."""

    calls: int = 0
    kind: str = ""
    left: int = -1
    dead: bool = False

    def plan(self, kind: str, left: int) -> None:
        """Fail after some more calls."""
        self.kind, self.left, self.dead = kind, left, False

    def clear(self) -> None:
        """Let nothing fail."""
        self.plan("", -1)

    def change(self) -> None:
        """Count a change of the file system."""
        if self.dead:
            raise Killed
        if self.kind in {"kill", "error"}:
            self._count(Killed if self.kind == "kill" else Failed)

    def block(self) -> None:
        """Count a block."""
        if self.kind == "block":
            self._count(Failed)

    def _count(self, error: type[BaseException]) -> None:
        if self.left == 0:
            self.left, self.dead = -1, error is Killed
            raise error("planned")
        self.left -= 1


FAULTS = Faults()

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@pytest.fixture(autouse=True)
def _failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count each change of the file system."""

    def counted(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if name != "open" or (args[1] if len(args) > 1 else kwargs.get("flags", 0)) & _WRITING:
                FAULTS.change()
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in ("open", "replace", "rename", "unlink", "rmdir", "mkdir"):
        counted(name)
    with dask.config.set(scheduler="synchronous"):
        yield
    FAULTS.clear()


def fragile(block: np.ndarray) -> np.ndarray:
    """Return a block, or fail as planned."""
    FAULTS.block()
    return block


@dataclass
class Unfinished:
    """A write that failed, as it can be resumed."""

    write: Callable[[bool], object]
    """Write again; with True, only what is left."""
    box: Box
    """Where in the array it writes."""
    values: np.ndarray
    """What the whole array is to hold there."""
    again: np.ndarray
    """Which elements others have written since."""
    disturbed: bool = False
    """Whether the array has been resized, or others have written in its box."""


@dataclass
class World:
    """A container with an array, two handles of it, and what it must hold."""

    url: str
    format: str
    chance: random.Random
    values: np.ndarray | None = None
    chunks: tuple[int, ...] = ()
    handles: list[Array] = field(default_factory=list)
    unfinished: Unfinished | None = None
    repaired: bool = False
    """Whether damaged chunks were removed, and not written again: the next write with `resume`
    is taken for the one that does it."""
    log: list[str] = field(default_factory=list)
    count: int = 0

    # What is there

    def open(self) -> Array:
        return xarray_n5.open_array(self.url, "g/a", mode="r+")

    def reopen(self) -> None:
        """Open both handles anew, as after a change of the shape."""
        self.handles = [self.open(), self.open()] if self.values is not None else []

    @property
    def array(self) -> np.ndarray:
        assert self.values is not None
        return self.values

    def pick(self) -> Array:
        return self.chance.choice(self.handles)

    def new_values(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return numbers that were never written before; sometimes there are zeros among them."""
        self.count += 1
        values = np.arange(self.count * 1000, self.count * 1000 + int(np.prod(shape)), dtype="i4")
        values = values.reshape(shape)
        if self.chance.random() < 0.2:
            values[: shape[0] // 2] = 0
        return values

    def chunk_boxes(self) -> Iterator[tuple[tuple[int, ...], Box]]:
        counts = [-(-n // c) for n, c in zip(self.array.shape, self.chunks, strict=True)]
        for index in itertools.product(*map(range, counts)):
            yield (
                index,
                tuple(
                    slice(i * c, min((i + 1) * c, n))
                    for i, c, n in zip(index, self.chunks, self.array.shape, strict=True)
                ),
            )

    def random_box(self, *, aligned: bool = False) -> Box:
        box = []
        for size, chunk in zip(self.array.shape, self.chunks, strict=True):
            edges = sorted({*range(0, size, chunk), size}) if aligned else range(size + 1)
            start, stop = sorted(self.chance.sample(list(edges), 2))
            box.append(slice(start, stop))
        return tuple(box)

    def source(self, values: np.ndarray) -> da.Array:
        """Return blocks that may fail; their name depends on the values alone."""
        blocks = tuple(self.chance.randint(1, max(1, n)) for n in values.shape)
        name = f"source-{self.count}-{blocks}"
        plain: Any = da.from_array(values, chunks=blocks, name=f"plain-{name}")
        blocked = plain.map_blocks(fragile, dtype=values.dtype, name=name, meta=values[:0, :0])
        return cast("da.Array", blocked)

    # Checks

    def check(self) -> None:
        """All handles see what must be there."""
        for array in [*self.handles, *([self.open()] if self.values is not None else ())]:
            found = array[...]
            assert found.shape == self.array.shape, self.story()
            np.testing.assert_array_equal(found, self.array, self.story())

    def verify(self) -> None:
        """Nothing is called damaged, and nothing is missing that is not zeros."""
        report = xarray_n5.verify(self.url, "g/a").compute()
        states = report["state"].to_numpy()
        for index, box in self.chunk_boxes():
            state = states[index]
            assert state in {"ok", "missing"}, f"{index} is {state}\n{self.story()}"
            assert state == "ok" or not self.array[box].any(), self.story()

    def story(self) -> str:
        return "\n".join(self.log)

    # Operations

    def try_to(self, what: str, change: Callable[[], object], outcomes: Outcomes) -> bool:
        """Change something, perhaps with a failure; the model becomes what is there after it."""
        kinds = ["block"] if self.format == "hdf5" else ["block", "kill", "error"]
        kind = self.chance.choice(kinds) if self.chance.random() < 0.4 else ""
        at = self.chance.randint(0, 4 if kind == "block" else 25)
        self.log.append(f"{what}{f', {kind} at {at}' if kind else ''}")
        before = FAULTS
        before.plan(kind, at if kind else -1)
        try:
            change()
        except (Killed, Failed) as error:
            FAULTS.clear()
            self.log.append(f"  failed: {error!r}")
            self.adopt(outcomes)
            return False
        except xarray_n5.ResumeError as error:
            FAULTS.clear()
            self.log.append(f"  refused: {error}")
            self.adopt(Outcomes(old=outcomes.old, new=None))
            return False
        except xarray_n5.N5Error as error:
            FAULTS.clear()
            if not isinstance(error.__cause__, Failed | Killed):
                raise AssertionError(self.story()) from error  # noqa: TRY004 - it is a test's
            self.log.append(f"  failed: {error!r}")
            self.adopt(outcomes)
            return False
        finally:
            FAULTS.clear()
        assert outcomes.new is not None
        self.values, self.chunks = outcomes.new
        return True

    def adopt(self, outcomes: Outcomes) -> None:
        """Take as model what a failure has left, if that is one of what it may leave."""
        self.handles = []
        try:
            found = self.open()
            whole = found[...]
        except xarray_n5.NodeNotFoundError:
            assert outcomes.may_go or outcomes.old is None, f"it is gone\n{self.story()}"
            self.values = None
            return
        candidates = [each for each in (outcomes.old, outcomes.new) if each is not None]
        fitting = [
            values
            for values, chunks in candidates
            if values.shape == whole.shape and chunks == found.chunks
        ]
        assert fitting, f"{whole.shape} {found.chunks}\n{self.story()}"
        is_new = outcomes.new is not None and any(v is outcomes.new[0] for v in fitting)
        if is_new and outcomes.between is not None:
            fitting.append(outcomes.between)
        self.values, self.chunks = whole, found.chunks
        for index, box in self.chunk_boxes():
            assert any(np.array_equal(whole[box], each[box]) for each in fitting), (
                f"chunk {index} is neither old nor new:\n{whole[box]}\n"
                f"{[each[box] for each in fitting]}\n{self.story()}"
            )
        self.reopen()

    def others_wrote(self, box: Box, *, all_of_it: bool = False) -> None:
        """Note what an unfinished write, when it is resumed, finds changed."""
        if self.unfinished is not None:
            if self.unfinished.again.shape != self.array.shape:
                self.unfinished.disturbed = True
                return
            self.unfinished.again[box] = True
            if all_of_it:
                self.unfinished.disturbed = True

    def store(self) -> None:
        """Write all of the array, replacing it or not."""
        replace = self.values is None or self.chance.random() < 0.4
        old = None if self.values is None else (self.values, self.chunks)
        if replace:
            shape = tuple(self.chance.randint(3, 11) for _ in range(2))
            chunks = tuple(self.chance.randint(2, 5) for _ in range(2))
        else:
            shape, chunks = self.array.shape, self.chunks
        values = self.new_values(shape)
        source = self.source(values)
        options: dict[str, Any] = {
            "mode": "r+" if not replace else "w" if old else "a",
            "write_empty_chunks": self.chance.random() < 0.7,
        }
        if replace:
            packed = self.chance.choice([None, "gzip"])
            options |= {"chunks": chunks, "compression": packed, "axes": ["y", "x"]}

        checksums = self.chance.random() < 0.4

        def write(resume: bool) -> object:
            with xarray_n5.set_options(checksums=checksums):
                return xarray_n5.to_n5(source, self.url, "g/a", resume=resume, **options)

        whole = tuple(slice(0, n) for n in shape)
        resume = self.chance.random() < 0.3 and not self.repaired
        outcomes = Outcomes(
            old,
            (values, chunks),
            between=np.zeros_like(values) if replace else None,
            may_go=replace,
        )
        self.run_write(f"to_n5 {options} {source.chunks}", write, resume, outcomes, whole)

    def region(self) -> None:
        """Write a part of the array."""
        box = self.random_box(aligned=self.chance.random() < 0.5)
        part = self.new_values(self.array[box].shape)
        values = self.array.copy()
        values[box] = part
        source = self.source(part)
        options: dict[str, Any] = {
            "region": box,
            "safe_chunks": False,
            "write_empty_chunks": self.chance.random() < 0.7,
        }

        checksums = self.chance.random() < 0.4

        def write(resume: bool) -> object:
            with xarray_n5.set_options(checksums=checksums):
                return xarray_n5.to_n5(source, self.url, "g/a", resume=resume, **options)

        outcomes = Outcomes((self.array, self.chunks), (values, self.chunks))
        resume = self.chance.random() < 0.3 and not self.repaired
        self.run_write(f"to_n5 {options} {source.chunks}", write, resume, outcomes, box)

    def append(self) -> None:
        """Append along an axis, as a Dataset."""
        if self.array.shape[0] > 14:
            return
        rows = self.chance.randint(1, 5)
        part = self.new_values((rows, self.array.shape[1]))
        source = self.source(part)
        values = np.concatenate([self.array, part])
        grown = np.concatenate([self.array, np.zeros_like(part)])
        box = (slice(len(self.array), len(values)), slice(0, values.shape[1]))

        def write(resume: bool) -> object:
            dataset = xr.Dataset({"a": (("y", "x"), source)})
            return dataset.n5.to_n5(self.url, group="g", append_dim="y", resume=resume)

        outcomes = Outcomes((self.array, self.chunks), (values, self.chunks), between=grown)
        if self.unfinished is not None:
            self.unfinished.disturbed = True
        self.run_write(f"append {rows} {source.chunks}", write, False, outcomes, box)  # noqa: FBT003

    def run_write(
        self,
        what: str,
        write: Callable[[bool], object],
        resume: bool,
        outcomes: Outcomes,
        box: Box,
    ) -> None:
        shape = None if self.values is None else self.values.shape
        if outcomes.old is not None and outcomes.new is not None:
            same = outcomes.old[0].shape == outcomes.new[0].shape and not outcomes.may_go
            if same:
                self.others_wrote(box, all_of_it=True)
            elif self.unfinished is not None:
                self.unfinished.disturbed = True
        if outcomes.may_go:
            self.repaired = False
        littered = bool(shape and xarray_n5.verify(self.url, "g/a").attrs["unfinished"])
        if self.try_to(f"{what} resume={resume}", lambda: write(resume), outcomes):
            if outcomes.may_go or shape is None:
                self.unfinished = None
            self.reopen()
        elif self.log[-1].startswith("  failed") and outcomes.new is not None:
            self.unfinished = None
            if self.values is not None and self.values.shape == outcomes.new[0].shape:
                again = np.zeros(self.values.shape, bool)
                # What another write left may refuse this one, where it had not begun.
                self.unfinished = Unfinished(write, box, outcomes.new[0], again, littered)

    def resume(self) -> None:
        """Resume what failed."""
        left = self.unfinished
        if left is None or self.values is None:
            return
        if left.values.shape != self.array.shape:
            self.unfinished = None
            return
        was = self.array.copy()
        self.log.append("resume")
        try:
            left.write(True)  # noqa: FBT003
        except xarray_n5.N5Error as error:
            self.log.append(f"  refused: {type(error).__name__} {error}")
            ended = "no write of it is unfinished" in str(error)
            assert left.disturbed or ended, self.story()
            np.testing.assert_array_equal(self.open()[...], was, self.story())
            if ended and not left.disturbed:
                self.expect_resumed(was, left)
            self.unfinished = None
            self.reopen()
            return
        found = self.open()[...]
        if left.disturbed and found.shape != was.shape:
            # An append of which nothing was left to resume has been made once more.
            np.testing.assert_array_equal(found[: len(was)], was, self.story())
            self.values, self.unfinished = found, None
            self.reopen()
            return
        self.expect_resumed(found, left)
        outside = np.ones(found.shape, bool)
        outside[left.box] = False
        np.testing.assert_array_equal(found[outside], was[outside], self.story())
        self.values, self.unfinished = found, None
        self.reopen()

    def expect_resumed(self, found: np.ndarray, left: Unfinished) -> None:
        """Each element is the source's, or what somebody has written since."""
        right = (found == left.values) | (left.again & (found == self.array))
        assert right[left.box].all(), f"{found}\n{left.values}\n{self.story()}"

    def assign(self) -> None:
        """Write some elements through one of the handles."""
        box = self.random_box()
        part = self.new_values(self.array[box].shape)
        values = self.array.copy()
        values[box] = part
        array = self.pick()
        outcomes = Outcomes((self.array, self.chunks), (values, self.chunks))
        self.others_wrote(box)
        self.try_to(f"assign {box}", lambda: array.__setitem__(box, part), outcomes)

    def chunk(self) -> None:
        """Write or delete one chunk through one of the handles."""
        index, box = self.chance.choice(list(self.chunk_boxes()))
        delete = self.chance.random() < 0.4
        part = self.new_values(self.array[box].shape)
        values = self.array.copy()
        values[box] = 0 if delete else part
        array = self.pick()
        outcomes = Outcomes((self.array, self.chunks), (values, self.chunks))
        self.others_wrote(box)
        if delete:
            self.try_to(f"delete {index}", lambda: array.delete_chunk(index), outcomes)
        else:
            self.try_to(f"chunk {index}", lambda: array.write_chunk(index, part), outcomes)

    def resize(self) -> None:
        """Change the shape through one of the handles."""
        shape = tuple(max(1, n + self.chance.randint(-3, 3)) for n in self.array.shape)
        both = tuple(slice(0, min(a, b)) for a, b in zip(shape, self.array.shape, strict=True))
        values = np.zeros(shape, self.array.dtype)
        values[both] = self.array[both]
        array = self.pick()
        trimmed = np.zeros_like(self.array)
        trimmed[both] = self.array[both]
        self.log.append(f"resize {self.array.shape} to {shape}")
        try:
            array.resize(shape)
        except xarray_n5.ResumeError:
            assert any(line.startswith("append") for line in self.log), self.story()
            return  # an append is unfinished
        if self.unfinished is not None:
            self.unfinished.disturbed = True
        self.values = values
        self.reopen()

    def repair(self) -> None:
        """Damage a chunk, repair the array, and write it again."""
        before = self.array.copy()
        there = [index for index, _ in self.chunk_boxes() if self.pick().chunk_exists(index)]
        if not there or self.format == "hdf5":
            return
        index = self.chance.choice(there)
        key = self.open().node.key(index)
        path = f"{self.url}/{key}"
        os.truncate(path, os.stat(path).st_size // 2)  # noqa: PTH116
        self.log.append(f"repair {index}")
        report = xarray_n5.verify(self.url, "g/a").compute()
        found = np.argwhere(~np.isin(report["state"].to_numpy(), ["ok", "missing"]))
        assert found.tolist() == [list(index)], self.story()
        how: Any = self.chance.choice(["quarantine", "remove"])
        xarray_n5.repair(self.url, "g/a", how=how)
        box = dict(self.chunk_boxes())[index]
        self.array[box] = 0
        self.check()
        self.others_wrote(box, all_of_it=True)
        if xarray_n5.verify(self.url, "g/a").attrs["unfinished"] == ["repair"]:
            self.log.append("  and write it again")
            source = self.source(before)
            xarray_n5.to_n5(source, self.url, "g/a", mode="r+", resume=True)
            self.values = before
        else:
            self.repaired = True
        self.reopen()

    def step(self) -> None:
        """Do something, and see that it was done."""
        if self.values is None:
            self.store()
        else:
            steps = [self.assign, self.chunk, self.region, self.append, self.resize, self.repair]
            weighted = [*steps, self.assign, self.store, self.region, self.resume, self.resume]
            self.chance.choice(weighted)()
        self.check()
        if self.values is not None and self.chance.random() < 0.3:
            self.verify()

    def end(self) -> None:
        """Write all of it once more: nothing of all that has been stays."""
        if self.values is None:
            return
        values = self.new_values(self.array.shape)
        try:
            xarray_n5.to_n5(self.source(values), self.url, "g/a", mode="w", chunks=self.chunks)
        except xarray_n5.ResumeError:
            assert any(line.startswith("append") for line in self.log), self.story()
            chunks = dict(zip("yx", self.chunks, strict=True))
            dataset = xr.Dataset({"a": (("y", "x"), values)}).chunk(chunks)
            with pytest.warns(UserWarning, match="unfinished"):
                dataset.n5.to_n5(self.url, group="g", mode="w")
        self.values = values
        self.reopen()
        self.check()
        self.verify()
        assert not xarray_n5.verify(self.url, "g/a").attrs["unfinished"], self.story()
        hidden = [
            name
            for _, folders, files in os.walk(f"{self.url}/g/a")
            for name in [*folders, *files]
            if name.startswith(("open-", "clears-", "notes-")) or name.endswith(".partial")
        ]
        assert not hidden, f"{hidden}\n{self.story()}"


State = tuple[np.ndarray, tuple[int, ...]]
"""Values, and the shape of chunks."""


@dataclass(frozen=True)
class Outcomes:
    """What an operation may leave."""

    old: State | None
    """What was there before."""
    new: State | None
    """What it is to become."""
    between: np.ndarray | None = None
    """What new chunks hold before they are written."""
    may_go: bool = False
    """Whether there may be nothing at all after a failure."""


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_nothing_is_lost_whatever_is_done_and_fails(tmp_path: Path, form: str, seed: int) -> None:
    if form == "hdf5":
        pytest.importorskip("h5py")
    chance = random.Random(seed)  # noqa: S311
    world = World(str(tmp_path / NAMES[form]), form, chance)
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of writes that have not ended
        for _ in range(OPERATIONS):
            world.step()
        world.end()
