"""A model of the write protocol, small enough to walk through every interleaving and every kill.

The store is a dictionary; its keys are tuples such as ``("open", token, attempt)``. A process is a
generator that yields its steps, each an atomic operation of the store, and gets their results.
:func:`explore` runs all orders of the steps of several processes, and kills them at any of them.
The data of a call are its token, so that mixtures of two calls can be seen.

A process that looks at its own record and then stores something does both in one step: a task that
has passed its look may still store one chunk, which the protocol does not promise to prevent.

Each of :data:`RULES` can be left out, to see which promise it keeps.
"""

# ruff: noqa: C901, PLR0911, PLR0912 - a process is one sequence of steps
from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    Store: TypeAlias = "dict[tuple[Any, ...], Any]"
    Process: TypeAlias = "Generator[Step, Any, str]"
    Check: TypeAlias = "Callable[[Store, Sequence[str | None]], str | None]"

RULES = {
    "one writer": "the name of a record has the attempt; who takes over deletes the other one",
    "replaced": "mode w deletes the records of writes that it replaces, before anything else",
    "second look": "after its record is stored, a write withdraws unless all is as it was planned",
    "clears": "while an array is replaced, a name says so, and no chunk counts",
    "alone": "a row is believed only if no record and no other row meets its box",
    "began": "notes belong to a beginning, not to a call",
    "unmixed": "chunks of a new array are its own only while no other record or row meets them",
    "late": "who writes the end of an array looks for appends after its own record is stored",
    "ends": "an append changes nothing unless all arrays end where it began",
    "final": "an append stops when it sees another record of its token that its plan did not see",
    "documents first": "readers read documents, then records, and again if lengths differ",
}

BOTH = (0, 1)
"""The chunks of the model's arrays."""


class Step(NamedTuple):
    """An atomic operation of the store."""

    name: str
    apply: Callable[[Store], Any]


def put(key: tuple[Any, ...], value: object) -> Step:
    return Step(f"put {key[0]}", lambda store: store.__setitem__(key, value))


def delete(key: tuple[Any, ...]) -> Step:
    return Step(f"delete {key[0]}", lambda store: store.pop(key, None) and None)


def get(key: tuple[Any, ...]) -> Step:
    return Step(f"get {key[0]}", lambda store: store.get(key))


def listed(*kinds: str) -> Step:
    """List all names of some kinds, with what is in them."""
    return Step(
        "list", lambda store: {k: store[k] for k in sorted(store, key=repr) if k[0] in kinds}
    )


def guarded(holds: Callable[[Store], bool], step: Step) -> Step:
    """Do a step if a record is there; return whether it was."""
    return Step(
        f"look+{step.name}", lambda store: bool(holds(store)) and (step.apply(store), True)[1]
    )


@dataclass(frozen=True)
class Scenario:
    """Processes that begin together on a store, and what is wrong when it has come to an end."""

    start: Store
    processes: Callable[[frozenset[str]], Sequence[Callable[[], Process]]]
    check: Callable[[frozenset[str]], Check]
    quick: int = 1
    """The number of kills in the quick suite."""
    kills: int = 2


def explore(
    scenario: Scenario, kills: int, rules: frozenset[str] = frozenset(RULES)
) -> tuple[str, list[str]] | None:
    """Return a broken promise and the shortest sequence of steps to it, or None."""
    processes, check = scenario.processes(rules), scenario.check(rules)
    traces, seen = deque[tuple[tuple[int, bool], ...]]([()]), set[int]()
    while traces:
        trace = traces.popleft()
        store, running = dict(scenario.start), [process() for process in processes]
        steps: list[Step] = [next(process) for process in running]
        ended: list[str | None] = [None] * len(running)
        told: list[list[str]] = [[] for _ in running]
        names = []
        for number, is_killed in trace:
            names.append(f"{number}: {'killed' if is_killed else steps[number].name}")
            if is_killed:
                ended[number] = "killed"
                continue
            result = steps[number].apply(store)
            told[number].append(repr(result))
            try:
                steps[number] = running[number].send(result)
            except StopIteration as stop:
                ended[number] = stop.value
        state = hash(repr((sorted(store.items(), key=repr), told, ended)))
        if state in seen:
            continue
        seen.add(state)
        if broken := check(store, ended):
            return broken, names
        for number, end in enumerate(ended):
            if end is None:
                traces.append((*trace, (number, False)))
                if sum(is_killed for _, is_killed in trace) < kills:
                    traces.append((*trace, (number, True)))
    return None


def alone(store: Store, process: Process, steps: int = 999) -> str:
    """Run a process by itself to its end, or kill it after some steps."""
    try:
        step = next(process)
        for _ in range(steps):
            step = process.send(step.apply(store))
    except StopIteration as end:
        return str(end.value)
    return "killed"


# Arrays


class Call(NamedTuple):
    """A call that writes chunks of one array, with resume=True."""

    token: str
    box: tuple[int, ...] = BOTH
    mode: str = "w-"
    """The mode; "r+" is a region."""


def meets(one: Iterable[int], other: Iterable[int]) -> bool:
    return bool({*one} & {*other})


def is_believed(store: Store, token: str, rules: frozenset[str]) -> bool:
    """Return whether a row says that a write has finished."""
    box = store.get(("row", token))
    if box is None:
        return False
    records = [k for k in store if k[0] == "open" and meets(store[k]["box"], box)]
    rows = [k for k in store if k[0] == "row" and k[1] != token and meets(store[k], box)]
    return "alone" not in rules or not (records or rows)


def write(attempt: str, call: Call, rules: frozenset[str]) -> Process:
    """Plan, store a record, look, remove, write chunks, leave a row, delete the record."""
    token, box, mode = call
    record = ("open", token, attempt if "one writer" in rules else "")
    planned: Store = yield listed("open", "clears", "doc", "row", "chunk")
    document = planned.get(("doc",))
    others = {k: v for k, v in planned.items() if k[0] == "open" and meets(v["box"], box)}
    earlier = {k: v for k, v in others.items() if k[1] == token}
    if is_believed(planned, token, rules) and ("alone" in rules or not earlier):
        return "finished before"
    cleared = any(("clears", v["attempt"]) in planned for v in earlier.values())
    rows = [k for k, v in planned.items() if k[0] == "row" and k[1] != token and meets(v, box)]
    mixed = "unmixed" in rules and mode != "r+" and (rows or others.keys() - earlier.keys())
    resumes = bool(earlier and document) and not cleared and not mixed
    creates = mode != "r+" and not resumes
    if (others.keys() - earlier.keys() and mode != "w") or (mode == "r+" and not document):
        return "refused"
    if mode == "w-" and document and not resumes:
        return "refused"

    began = next(iter(earlier.values()))["began"] if resumes else attempt
    facts = {"attempt": attempt, "box": box, "began": began}
    replaces = creates and (document or others or any(key[0] == "chunk" for key in planned))
    if replaces and "clears" in rules:
        yield put(("clears", attempt), "")
    yield put(record, facts)
    now: Store = yield listed("open", "doc", "row")
    met = {k for k in now if k[0] == "open" and k != record and meets(now[k]["box"], box)}
    changed = now.get(("doc",)) != document or bool(others.keys() - now.keys() - {record})
    if met - others.keys() or record not in now or ("second look" in rules and changed):
        for key in [record, ("clears", attempt)] if replaces else [record]:
            yield delete(key)
        return "refused"

    def holds(store: Store) -> bool:
        return record in store and store[record]["attempt"] == attempt

    for key in others:
        if key != record and ("one writer" if key[1] == token else "replaced") in rules:
            yield delete(key)
    for key in [key for key in planned if key[0] == "clears"] if creates else ():
        yield delete(key)
    removals = [
        delete(k)
        for k, v in now.items()
        if k[0] == "row" and meets(v, box) and (k[1] != token or not resumes)
    ]
    if replaces:
        removals += [delete(("doc",)), *(delete(("chunk", index)) for index in BOTH)]
        removals += [delete(("clears", attempt))] if "clears" in rules else []
    if creates:
        removals.append(put(("doc",), token))
    for step in removals:
        if not (yield guarded(holds, step)):
            return "stale"

    def note(index: int) -> tuple[Any, ...]:
        return ("note", began if "began" in rules else token, index)

    stored: Store = (yield listed("chunk", "note")) if resumes else {}
    for index in box:
        if (note(index) if mode == "r+" else ("chunk", index)) in stored:
            continue
        if not (yield guarded(holds, put(("chunk", index), token))):
            return "stale"
        if mode == "r+":
            yield put(note(index), "")
    if not (yield guarded(holds, put(("row", token), box))):
        return "stale"
    yield delete(record)
    if mode == "r+":
        for index in box:
            yield delete(note(index))
    return "done"


def check_arrays(calls: Sequence[Call]) -> Callable[[frozenset[str]], Check]:
    """Rows are true; a call that has finished has its chunks, now or after it is repeated."""

    def by_rules(rules: frozenset[str]) -> Check:
        def is_false(store: Store, call: Call) -> bool:
            ended = alone(store, write("again", call, rules))
            wrong = any(store.get(("chunk", index)) != call.token for index in call.box)
            return ended in ("done", "finished before") and wrong

        def check(store: Store, ended: Sequence[str | None]) -> str | None:
            if None in ended:
                return None
            if "killed" not in ended and any(key[0] in ("open", "clears") for key in store):
                return "a record is left though nobody was killed"
            tokens = {call.token for call in calls}
            if [*ended].count("done") == len(tokens) > 1 and {c.mode for c in calls} == {"w-"}:
                return "two calls have created one array"
            for key in [key for key in store if key[0] == "row"]:
                wrong = any(store.get(("chunk", index)) != key[1] for index in store[key])
                if wrong and is_believed(store, key[1], rules):
                    return "a row is believed that is not true"
            for call in calls:
                if is_false(dict(store), call):
                    return "a resumed call says that it has finished, over other data"
                for steps in range(14) if call.mode == "r+" and "done" in ended else ():
                    later = dict(store)  # another region, then this one again, killed
                    alone(later, write("over", Call("X", call.box, "r+"), rules))
                    alone(later, write("n", call, rules), steps)
                    if is_false(later, call):
                        return "a note of an earlier beginning counts"
            return None

        return check

    return by_rules


# Appends: two samples to two arrays, t and x. Chunk 0 has samples 0 and 1: it is cut.


def append(attempt: str, token: str, rules: frozenset[str], *, discards: bool = False) -> Process:
    """Append with resume=True: record, look, end, data, cut chunk, commit, documents, row."""
    planned: Store = yield listed("append", "append row")
    if ("append row", token) in planned:
        return "finished before"
    records = {k: v for k, v in planned.items() if k[0] == "append"}
    ranked = sorted(records, key=lambda key: (records[key]["commit"], "old" in records[key]))
    record, facts = ("append", attempt), {"token": token, "commit": False}
    for key in ranked:
        if discards and not records[key]["commit"]:
            ends = set((yield listed("length")).values())
            if "ends" not in rules and "old" in records[key] and ends:
                old = records[key]["old"]  # as if chunks beyond the end were removed
                for index in (old, old + 1):
                    yield delete(("sample", index))
            yield delete(key)
            return "discarded"
        if not (records[key]["commit"] or records[key]["token"] == token):
            return "refused"
        facts = {**records[key]}
        record = record if "one writer" in rules else key

    def is_alone(store: Store) -> bool:
        same = [k for k in store if k[0] == "append" and store[k]["token"] == facts["token"]]
        return "final" not in rules or not {*same} - {record} - records.keys()

    def holds(store: Store) -> bool:
        return store.get(record, {}).get("attempt") == attempt and is_alone(store)

    facts["attempt"] = attempt
    yield put(record, dict(facts))
    now: Store = yield listed("append", "append row")
    new = {k for k in now if k[0] == "append"} - records.keys() - {record}
    gone = bool(records.keys() - now.keys())
    gone |= ("append row", facts["token"]) in now and not facts["commit"]
    if new or ("second look" in rules and gone) or (yield listed("region")):
        yield guarded(lambda store: store.get(record, {}).get("attempt") == attempt, delete(record))
        return "refused"
    if "final" in rules:
        for key in [key for key in ranked if key != record]:
            facts = {**now[key], "attempt": attempt}
            if not (yield guarded(holds, put(record, dict(facts)))):
                yield delete(record)
                return "stale"
    for key in records:
        if key != record:
            yield delete(key)
    if not facts["commit"]:
        ended = yield from store_samples(record, facts, holds, rules)
        if ended:
            return ended
    for name in ("t", "x"):
        length: Any = yield get(("length", name))
        former: Any = facts["old"]
        if length not in (former, former + 2):
            return "grown since"
        grows = put(("length", name), length + 2)
        if length == former and not (yield guarded(holds, grows)):
            return "stale"
    yield put(("append row", facts["token"]), "")
    yield guarded(lambda store: store.get(record, {}).get("attempt") == attempt, delete(record))
    if facts["token"] == token:
        return "done"
    return "helped" if "+" in attempt else (yield from append(attempt + "+", token, rules))


def store_samples(
    record: tuple[Any, ...],
    facts: dict[str, Any],
    holds: Callable[[Store], bool],
    rules: frozenset[str],
) -> Generator[Step, Any, str]:
    """Store the samples of an append beyond the end, and commit; return how it fails, or ""."""
    if "old" not in facts:
        facts["old"] = yield get(("length", "x"))
        if not (yield guarded(holds, put(record, dict(facts)))):
            return "stale"
    old, token = facts["old"], facts["token"]
    if "ends" in rules and {*(yield listed("length")).values()} != {old}:
        return "grown since"
    if not (yield guarded(holds, put(("sample", old + 1), token))):
        return "stale"
    kept = yield get(("sample", old - 1))
    cut = {("sample", old): token, ("sample", old - 1): kept}
    if not (yield guarded(holds, Step("put cut chunk", lambda store: store.update(cut)))):
        return "stale"
    if {*(yield listed("length")).values()} != {old}:
        return "grown since"
    facts["commit"] = True
    return "" if (yield guarded(holds, put(record, dict(facts)))) else "stale"


def region(rules: frozenset[str]) -> Process:
    """Write sample 0, and with it the cut chunk as long as the array is."""
    if "late" not in rules and (yield listed("append")):
        return "refused"
    yield put(("region",), "")
    if "late" in rules and (yield listed("append")):
        yield delete(("region",))
        return "refused"
    length = yield get(("length", "x"))

    def merge(store: Store) -> None:
        store["sample", 0] = "region"
        if length == 1:
            store.pop(("sample", 1), None)

    yield Step("put cut chunk", merge)
    yield delete(("region",))
    return "done"


def read(rules: frozenset[str]) -> Process:
    """Read the lengths of two arrays."""
    while True:
        records = {} if "documents first" in rules else (yield listed("append"))
        lengths = [(yield get(("length", "t"))), (yield get(("length", "x")))]
        if "documents first" in rules:
            records = yield listed("append")
        olds = [facts["old"] for facts in records.values() if facts["commit"]]
        lengths = [min([length, *olds]) for length in lengths]
        if lengths[0] == lengths[1]:
            return "read"
        if "documents first" not in rules:
            return "read two lengths"


def check_series(calls: Sequence[str]) -> Callable[[frozenset[str]], Check]:
    """No sample is lost, stored twice or hidden, and the series can be continued."""

    def by_rules(rules: frozenset[str]) -> Check:
        def check(store: Store, ended: Sequence[str | None]) -> str | None:
            if "read two lengths" in ended:
                return "a reader has seen two lengths"
            committed = [k for k, v in store.items() if k[0] == "append" and v["commit"]]
            if not committed and store["length", "t"] != store["length", "x"]:
                return "readers see two lengths"
            if None in ended:
                return None
            left = any(key[0] == "append" for key in store)
            if left and "killed" not in ended and "done" in ended:
                return "a record is left though nobody was killed"
            for token in (None, *(call for call in calls if call in "ABC")):
                if broken := _broken(dict(store), token, calls, ended, rules):
                    return broken
            return None

        return check

    return by_rules


def _broken(
    store: Store,
    token: str | None,
    calls: Sequence[str],
    ended: Sequence[str | None],
    rules: frozenset[str],
) -> str | None:
    """Repeat a call; return what is wrong with the series then."""
    told = [end for call, end in zip(calls, ended, strict=True) if call == token]
    if token is not None:
        told.append(alone(store, append("z", token, rules)))
        if told[-1] == "grown since":
            alone(store, append("y", "D", rules, discards=True))
    samples = [store.get(("sample", index)) for index in range(store["length", "x"])]
    if None in samples:
        return "fill values are in the series"
    if any(samples.count(call) not in (0, 2) for call in ("A", "B", "C", "foreign")):
        return "samples are lost or stored twice"
    if {"done", "finished before"} & {*told} and token not in samples:
        return "a finished append is not in the series"
    if "region" in calls and ended[[*calls].index("region")] == "done" and "region" not in samples:
        return "the sample of a region is lost"
    return None


# Shares of one write, which has begun: they join it with its attempt


def share(index: int) -> Process:
    """Compute one chunk; never store or delete the record."""
    if (yield guarded(_is_open, put(("chunk", index), "S"))):
        return "done"
    return "finished" if (yield get(("row", "S"))) else "refused"


def close() -> Process:
    """Compute what is missing, and finish the write."""
    stored: Store = yield listed("chunk")
    for index in BOTH:
        chunk = ("chunk", index)
        if chunk not in stored and not (yield guarded(_is_open, put(chunk, "S"))):
            return "finished" if (yield get(("row", "S"))) else "refused"
    if not (yield get(("open", "S"))):
        return "finished" if (yield get(("row", "S"))) else "refused"
    yield put(("row", "S"), BOTH)
    yield delete(("open", "S"))
    return "done"


def _is_open(store: Store) -> bool:
    return ("open", "S") in store


def check_shares(_: frozenset[str]) -> Check:
    def check(store: Store, ended: Sequence[str | None]) -> str | None:
        if None in ended or ("row", "S") not in store:
            return None
        missing = any(store.get(("chunk", index)) != "S" for index in BOTH)
        return "a chunk is missing" if missing else ("refused" if "refused" in ended else None)

    return check


# Scenarios


def arrays(start: Store, *calls: Call, **kills: int) -> Scenario:
    return Scenario(
        start,
        lambda rules: [
            (lambda n=n, call=call: write(f"p{n}", call, rules))  # type: ignore[misc]
            for n, call in enumerate(calls)
        ],
        check_arrays(calls),
        **kills,
    )


def appends(start: Store, *calls: str, **kills: int) -> Scenario:
    """Return a scenario of appends with the tokens A, B, C, of a region or a reader."""

    def process(number: int, call: str, rules: frozenset[str]) -> Callable[[], Process]:
        named = {"region": region, "reader": read}
        if call in named:
            return lambda: named[call](rules)
        return lambda: append(f"p{number}", call, rules)

    return Scenario(
        start,
        lambda rules: [process(n, call, rules) for n, call in enumerate(calls)],
        check_series(calls),
        **kills,
    )


_ARRAY: Store = {("doc",): "Z", ("chunk", 0): "Z", ("chunk", 1): "Z", ("row", "Z"): BOTH}
_SERIES: Store = {("sample", 0): "o", ("length", "t"): 1, ("length", "x"): 1}
_DEAD = {"attempt": "d", "token": "A", "old": 1, "commit": True}
_COMMITTED: Store = {
    **_SERIES,
    ("sample", 1): "A",
    ("sample", 2): "A",
    ("append", "d"): _DEAD,
}
_FOREIGN: Store = {
    **_SERIES,
    ("sample", 1): "foreign",
    ("sample", 2): "foreign",
    ("length", "t"): 3,
    ("length", "x"): 3,
    ("append", "d"): {**_DEAD, "commit": False},
}
_BEGUN: Store = {("doc",): "S", ("open", "S"): {"attempt": "P", "box": BOTH}}

SCENARIOS: dict[str, Scenario] = {
    "two new arrays": arrays({}, Call("A"), Call("B")),
    "a new array and its replacement": arrays({}, Call("A"), Call("B", mode="w")),
    "two new arrays by mode w": arrays({}, Call("A", mode="w"), Call("B", mode="w")),
    "two replacements": arrays(_ARRAY, Call("A", mode="w"), Call("B", mode="w"), quick=0, kills=1),
    "one new array twice": arrays({}, Call("A"), Call("A"), quick=0),
    "one replacement twice": arrays(
        _ARRAY, Call("A", mode="w"), Call("A", mode="w"), quick=0, kills=1
    ),
    "overlapping regions": arrays(_ARRAY, Call("A", mode="r+"), Call("B", (0,), "r+")),
    "disjoint regions": arrays(_ARRAY, Call("A", (0,), "r+"), Call("B", (1,), "r+"), quick=0),
    "a region and a replacement": arrays(
        _ARRAY, Call("A", (0,), "r+"), Call("B", mode="w"), quick=0
    ),
    "one region twice": arrays(_ARRAY, Call("A", (0,), "r+"), Call("A", (0,), "r+")),
    "a dead append, then growth by others": appends(_FOREIGN, "A"),
    "one append": appends(_SERIES, "A", quick=2),
    "one append twice": appends(_SERIES, "A", "A", quick=0),
    "two appends": appends(_SERIES, "A", "B"),
    "a committed append, two helpers": appends(_COMMITTED, "B", "C", quick=0, kills=1),
    "a committed append, its call, a helper": appends(_COMMITTED, "A", "B", quick=0, kills=1),
    "an append and a region": appends(_SERIES, "A", "region"),
    "an append and a reader": appends(_SERIES, "A", "reader"),
    "a committed append, a helper, a reader": appends(_COMMITTED, "B", "reader"),
    "shares and closers": Scenario(
        _BEGUN, lambda _: [lambda: share(0), close, close], check_shares, quick=1
    ),
}
