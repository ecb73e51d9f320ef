"""Writers that begin at the same time, with locks and without: nothing is lost, mixed or left."""

from __future__ import annotations

import errno
import fcntl
import random
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.containers import NAMES
from tests.support.exhaustive import cases
from tests.support.processes import Python
from tests.writing.test_promises import (
    append,
    begin_series,
    check_series,
    kill,
    unfinished,
)
from xarray_n5 import N5Error, ResumeError, open_array, repair, to_n5
from xarray_n5.errors import FinishedAppendError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")

FORMS: tuple[str, ...] = ("n5", "zarr2", "zarr3")

ROUNDS = cases(10, 200)


@pytest.fixture(params=[True, False], ids=["locks", "no locks"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Let flock work, or refuse as some network mounts do; switch often between threads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    if not request.param:

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOTSUP, "no locks available")

        monkeypatch.setattr(fcntl, "flock", refuse)
    with dask.config.set(scheduler="sync"):
        yield request.param
    sys.setswitchinterval(before)


def at_once(*calls: Callable[[], object]) -> list[BaseException | None]:
    """Start calls at the same time; return what each has raised."""
    barrier = threading.Barrier(len(calls))
    outcomes: list[BaseException | None] = [None for _ in calls]

    def run(number: int) -> None:
        barrier.wait()
        try:
            calls[number]()
        except BaseException as error:  # noqa: BLE001 - it is looked at
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@dataclass(frozen=True)
class Race:
    """Calls that begin together, what they need, and what must be true when all have ended."""

    prepare: Callable[[Path, str], object]
    calls: Sequence[Callable[[Path, str], object]]
    check: Callable[[Path, str], object]
    forms: Sequence[str] = FORMS


def appends(first: int, count: int, **options: Any) -> Callable[[Path, str], object]:
    return lambda place, _: append(place, first, count, **options)


def zeros(place: Path, form: Any) -> None:
    to_n5(np.zeros(24, "i4"), place, "a", chunks=3, format=form)


def region(value: int, start: int, stop: int) -> Callable[[Path, str], object]:
    source = da.full(stop - start, value, chunks=3, dtype="i4")
    where = slice(start, stop)
    return lambda place, _: to_n5(source, place, "a", region=where, resume=True)


def region_of_series(place: Path, _: str) -> None:
    """Write frame 3, which an append merges into a chunk, as it is."""
    part = xr.Dataset({"v": (("t", "x"), np.full((1, 4), 4, "i4")), "w": ("t", [1.5])})
    part.n5.to_n5(place, region={"t": slice(3, 4)}, safe_chunks=False, resume=True)


def new_array(place: Path, form: Any) -> None:
    source = da.arange(1, 25, chunks=6, dtype="i4")
    to_n5(source, place, "a", chunks=3, format=form, resume=True)


def dead_commit(place: Path, form: Any) -> None:
    """Begin a series, and kill an append when all its data are stored."""
    begin_series(place, form)
    from xarray_n5.datasets.append import Commit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Commit, "finish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            append(place, 4, 3)


def check_overlap(place: Path, _: str) -> None:
    """Every region has written whole chunks, and what the last one wrote is all there."""
    stored = open_array(place, "a")[...]
    assert set(stored[:6]) == {1}
    assert set(stored[18:]) == {2}
    assert all(len(set(stored[at : at + 3])) == 1 for at in range(0, 24, 3))
    assert set(stored) == {1, 2}


RACES: dict[str, Race] = {
    "appends": Race(
        begin_series,
        [appends(10, 5), appends(20, 4)],
        lambda place, _: check_series(place, *range(4), *range(10, 15), *range(20, 24)),
        (*FORMS, "hdf5"),
    ),
    "the same append": Race(
        begin_series,
        [appends(4, 5, resume=True)] * 2,
        lambda place, _: check_series(place, *range(9)),
        ("hdf5", *FORMS),
    ),
    "overlapping regions": Race(zeros, [region(1, 0, 15), region(2, 9, 24)], check_overlap),
    "the same array": Race(
        lambda *_: None,
        [new_array] * 2,
        lambda place, _: np.testing.assert_array_equal(
            open_array(place, "a")[...], np.arange(1, 25)
        ),
    ),
    "an append and a region": Race(
        begin_series,
        [appends(10, 5), region_of_series],
        lambda place, _: check_series(place, *range(4), *range(10, 15)),
    ),
    "a dead append, its owner, a helper": Race(
        dead_commit,
        [appends(4, 3, resume=True), appends(20, 2)],
        lambda place, _: check_series(place, *range(7), 20, 21),
    ),
}


@pytest.mark.more
@pytest.mark.usefixtures("locks")
@pytest.mark.parametrize("name", RACES)
def test_nothing_is_lost_when_writers_begin_together(tmp_path: Path, name: str) -> None:
    race, chance = RACES[name], random.Random(name)  # noqa: S311
    rounds = max(2, ROUNDS // len(RACES))
    winners = 0
    for number in range(rounds):
        form = race.forms[number % len(race.forms)]
        place = tmp_path / str(number) / NAMES[form]
        race.prepare(place, form)
        calls = [*race.calls]
        chance.shuffle(calls)
        outcomes = at_once(*[partial(call, place, form) for call in calls])
        assert all(error is None or isinstance(error, N5Error) for error in outcomes), outcomes
        winners += any(error is None for error in outcomes)
        for call, error in zip(calls, outcomes, strict=True):
            if error is not None and not isinstance(error, FinishedAppendError):
                again(call, place, form)
        race.check(place, form)
        assert unfinished(place) == []
    assert winners >= 0.75 * rounds - 1  # of two rounds, one may have none


def again(call: Callable[[Path, str], object], place: Path, form: Any) -> None:
    """Repeat a refused call, which must succeed, or be known to have finished."""
    try:
        call(place, form)
    except FinishedAppendError:
        return


@pytest.mark.usefixtures("locks")
@pytest.mark.parametrize("form", FORMS)
def test_disjoint_regions_that_begin_together_are_not_refused(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    to_n5(np.zeros(24, "i4"), place, "a", chunks=1, format=form)

    def write(number: int) -> None:
        source = da.full(1, number + 1, chunks=1, dtype="i4")
        to_n5(source, place, "a", region=slice(number, number + 1))

    assert at_once(*[partial(write, number) for number in range(24)]) == [None] * 24
    assert open_array(place, "a")[...].tolist() == list(range(1, 25))
    assert unfinished(place) == []


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
@pytest.mark.parametrize("names", [("v", "w", "t"), ("w",)])
def test_growth_by_zarr_between_kill_and_resume_is_not_overwritten(
    tmp_path: Path, form: Any, names: Sequence[str]
) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    place = tmp_path / NAMES[form]
    begin_series(place, form)
    kill(lambda: append(place, 4, 5), (1, 0))
    for name in names:
        array = zarr.open_array(place / name, mode="r+")
        array.resize((6, *array.shape[1:]))
        array[4:] = 77
    with pytest.raises((N5Error, ValueError), match=r"w|time|t"):
        append(place, 4, 5, resume=True)
    for name in names:
        assert (zarr.open_array(place / name, mode="r")[4:] == 77).all()


PROCESS = """
import sys, time
from pathlib import Path
import dask
from tests.writing import test_races
from xarray_n5 import N5Error
dask.config.set(scheduler="sync")
if sys.argv[4] == "no locks":
    import errno, fcntl
    def refuse(*_): raise OSError(errno.ENOTSUP, "no locks")
    fcntl.flock = refuse
place, form = Path(sys.argv[3]), sys.argv[5]
call = test_races.RACES[sys.argv[1]].calls[int(sys.argv[2])]
print("ready", flush=True)
sys.stdin.readline()
try:
    call(place, form)
except N5Error as error:
    print(type(error).__name__)
"""


@pytest.mark.more
@pytest.mark.parametrize("locking", ["locks", "no locks"])
@pytest.mark.parametrize("name", ["appends", "overlapping regions", "the same array"])
def test_processes_that_begin_together_lose_nothing(
    tmp_path: Path, name: str, locking: str
) -> None:
    from subprocess import PIPE

    race, root = RACES[name], Path(__file__).parents[2]
    for number in range(cases(1, 10)):
        form = FORMS[number % len(FORMS)]
        place = tmp_path / str(number) / NAMES[form]
        race.prepare(place, form)
        with ExitStack() as stack:
            words = (place, locking, form)
            writers = [
                stack.enter_context(
                    Python("-c", PROCESS, name, at, *words, stdin=PIPE, stdout=PIPE, cwd=root)
                )
                for at in range(len(race.calls))
            ]
            for writer in writers:
                assert writer.stdout.readline() == "ready\n"
            for writer in writers:
                writer.stdin.write("go\n")
                writer.stdin.flush()
            said = [writer.stdout.read().strip() for writer in writers]
        assert [writer.wait(60) for writer in writers] == [0, 0]
        for call, error in zip(race.calls, said, strict=True):
            if error and error != "FinishedAppendError":
                again(call, place, form)
        race.check(place, form)
        assert unfinished(place) == []


def test_repair_finishes_an_append_whose_data_are_stored(tmp_path: Path) -> None:
    dead_commit(tmp_path / "a.n5", "n5")
    repair(tmp_path / "a.n5", "v")
    check_series(tmp_path / "a.n5", *range(7))


@pytest.mark.parametrize("form", FORMS)
def test_regions_of_which_one_is_refused_leave_no_records(tmp_path: Path, form: str) -> None:
    place, zeros = tmp_path / NAMES[form], da.zeros(8, chunks=2)
    xr.Dataset(dict.fromkeys("abc", ("x", zeros))).n5.to_n5(place, group="g", format=form)
    part = xr.Dataset(dict.fromkeys("abc", ("x", zeros[4:] + 1)))
    lazily = part.n5.to_n5(place, group="g", region={"x": slice(4, 8)}, compute=False)
    other = place / "g/b/.xn5/open-0123456789abcdef-01234567@2-2.json"
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(b"{}")
    with pytest.raises(ResumeError):
        lazily.save(tmp_path / "plan")
    assert [*place.rglob("open-*")] == [other]
    other.unlink()
    lazily.save(tmp_path / "plan").run()
    np.testing.assert_array_equal(open_array(place, "g/c")[...], [0] * 4 + [1] * 4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ended", [False, True], ids=["still growing", "ended"])
def test_an_append_that_reads_some_grown_arrays_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, *, ended: bool
) -> None:
    """Its look finds no record, then another append has grown only "v": both are done."""
    from xarray_n5.arrays.records import read_appends
    from xarray_n5.datasets.append import complete
    from xarray_n5.datasets.update import plan_update

    place, seen = tmp_path / NAMES[form], list[str]()
    dead_commit(place, form)

    def none_first(*of: Any) -> dict[str, dict[str, Any]]:
        return read_appends(*of) if seen else {}

    def grow_one(how: Any, *of: Any) -> bool:
        if seen:
            return complete(how, *of)
        seen.append("torn")
        how.container.resize("v", (7, 4))
        return False

    def plan_then(dataset: Any, existing: Any, *of: Any, **options: Any) -> Any:
        if seen == ["torn"]:
            assert {name: array.shape[0] for name, array in existing.arrays.items()} == {
                "t": 4,
                "v": 7,
                "w": 4,
            }
            seen.append("planned")
            if ended:
                repair(place, "v")
        return plan_update(dataset, existing, *of, **options)

    monkeypatch.setattr("xarray_n5.datasets.append.read_appends", none_first)
    monkeypatch.setattr("xarray_n5.datasets.append.complete", grow_one)
    monkeypatch.setattr("xarray_n5.datasets.append.plan_update", plan_then)
    append(place, 20, 2)
    assert seen == ["torn", "planned"]
    check_series(place, *range(7), 20, 21)
