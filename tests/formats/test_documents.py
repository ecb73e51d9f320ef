"""Documents of nodes: groups on the way have them, and changes made at once all stay."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.exhaustive import cases, some
from tests.support.memory_store import MemoryStore
from tests.support.processes import Python
from tests.whole.test_interop import python_with_zarr2
from xarray_n5 import create_array, create_group, open_array, open_group, pyramid, to_n5
from xarray_n5.formats.containers import open_container
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.formats.structure import prefetch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from xarray_n5.formats.containers import Container

SMALL: dict[str, Any] = {"shape": (4,), "dtype": "u1", "chunks": 2}

DATA = np.arange(16, dtype="u1").reshape(4, 4)


def read(file: Path) -> Any:
    return json.loads(file.read_bytes())


def dataset() -> xr.Dataset:
    return xr.Dataset({"a": ("x", np.arange(4.0))}, {"x": [1, 2, 4, 8]}, {"title": "four"})


def copied(place: Path, path: str) -> None:
    from xarray_n5.cli import main

    create_array(place.with_name("source.n5"), "in/a", **SMALL)
    main(
        ["copy", f"{place.with_name('source.n5')}", f"{place}/{path}"],
        standalone_mode=False,
    )


WAYS: dict[str, Callable[[Path, str], Any]] = {
    "create_array": lambda place, path: create_array(place, path, **SMALL),
    "create_group": create_group,
    "create_group, mode a": lambda place, path: create_group(place, path, mode="a"),
    "to_n5": lambda place, path: to_n5(da.from_array(DATA, chunks=2), place, path),
    "ds.n5.to_n5": dataset().n5.to_n5,
    "tree.n5.to_n5": xr.DataTree.from_dict({"/b/c": dataset()}).n5.to_n5,
    "pyramid": lambda place, path: pyramid(DATA, place, path, chunks=2, levels=1),
    "copy": copied,
}


@pytest.mark.parametrize("way", WAYS)
def test_groups_on_the_way_to_a_new_node_get_a_document_and_others_stay(
    tmp_path: Path, way: str
) -> None:
    place = tmp_path / "c.n5"
    (place / "one/two").mkdir(parents=True)
    (place / "one/attributes.json").write_text('{"kept": 1}')
    WAYS[way](place, "one/two/new/three")
    groups = ("", "one", "one/two", "one/two/new")
    assert [read(place / group / "attributes.json") for group in groups] == [
        {},
        {"kept": 1},
        {},
        {},
    ]
    folders = [place, *(file for file in place.rglob("*") if file.is_dir())]
    nodes = [file for file in folders if not file.name.isdigit() and ".xn5" not in file.parts]
    assert all((node / "attributes.json").exists() for node in nodes)


LISTED = """
import json, sys, warnings
warnings.simplefilter("ignore")
import zarr
names = []
zarr.open_group(zarr.N5Store(sys.argv[1]), "r").visit(names.append)
print(json.dumps(sorted(names)))
"""


@pytest.mark.exhaustive
def test_zarr_python_2_lists_all_that_was_written(tmp_path: Path) -> None:
    python = python_with_zarr2()
    create_array(tmp_path / "c.n5", "one/two/a", **SMALL)
    pyramid(DATA, tmp_path / "c.n5", "one/p", chunks=2, levels=1)
    dataset().n5.to_n5(tmp_path / "c.n5", "deep/er")
    found = subprocess.run(  # noqa: S603
        [python, "-c", LISTED, tmp_path / "c.n5"], check=True, capture_output=True, text=True
    ).stdout
    inside = ["deep", "deep/er", "deep/er/a", "deep/er/x", "one", "one/p", "one/p/s0", "one/p/s1"]
    assert json.loads(found) == [*inside, "one/two", "one/two/a"]


# At the same time


def everything(place: Any, worker: int, count: int) -> None:
    for number in range(count):
        create_array(place, f"new/a{worker}_{number}", **SMALL)
        open_group(place, mode="r+").attrs[f"k{worker}_{number}"] = number
        open_array(place, "there", mode="r+").attrs[f"k{worker}_{number}"] = number


PLACES: dict[str, Callable[[Path], Any]] = {
    "local": lambda path: path / "c",
    "memory": lambda _: MemoryStore(),
    "fsspec": lambda path: (MemoryFileSystem(), f"/documents/{path.name}"),
}


@pytest.mark.parametrize("format", ["n5", "zarr2"])
@pytest.mark.parametrize("kind", PLACES)
def test_threads_lose_nothing_of_what_each_writes(tmp_path: Path, kind: str, format: Any) -> None:
    place, workers, count = PLACES[kind](tmp_path), 4, cases(4, 20)
    create_group(place, format=format)
    create_array(place, "there", format=format, **SMALL)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(partial(everything, place, count=count), range(workers)))
    assert len(open_group(place).attrs) == len(open_array(place, "there").attrs) == workers * count
    assert len(open_group(place, "new").arrays()) == workers * count


def set_attributes(place: str) -> None:
    for number in range(cases(15, 30)):
        open_group(place, "g", mode="r+").attrs[f"k{number}"] = number
        open_array(place, "g/a", mode="r+").attrs[f"k{number}"] = number


def add_variables(place: str) -> None:
    for number in range(cases(4, 8)):
        xr.Dataset({f"v{number}": ("x", np.arange(4.0))}).n5.to_n5(place, "g", mode="a")


TWO_PROCESSES = """
import sys
from tests.formats import test_documents
print("ready", flush=True)
sys.stdin.readline()
getattr(test_documents, sys.argv[2])(sys.argv[1])
"""


@pytest.mark.more
@pytest.mark.parametrize("format", some(["zarr3", "zarr2", "n5"], 1))
def test_a_process_that_adds_variables_keeps_the_attributes_that_another_sets(
    tmp_path: Path,
    format: str,
) -> None:
    place = str(tmp_path / "c")
    dataset().n5.to_n5(place, "g", format=format)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(Python("-c", TWO_PROCESSES, place, name, stdin=PIPE, stdout=PIPE))
            for name in ("set_attributes", "add_variables")
        ]
        for each in processes:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
            assert each.stdin is not None
        for each in processes:
            each.stdin.write("go\n")  # type: ignore[union-attr]
            each.stdin.flush()  # type: ignore[union-attr]
        for each in processes:
            each.communicate()
    assert [each.returncode for each in processes] == [0, 0]
    wanted = {f"k{number}": number for number in range(cases(15, 30))}
    assert wanted.items() <= dict(open_group(place, "g").attrs).items()
    assert wanted.items() <= dict(open_array(place, "g/a").attrs).items()
    variables = {f"v{number}" for number in range(cases(4, 8))}
    assert variables <= set(xr.open_dataset(place, engine="n5", group="g").data_vars)
    if format != "n5":
        number = {"zarr2": 2, "zarr3": 3}[format]
        seen = zarr.open_consolidated(place, path="g", zarr_format=number)
        assert wanted.items() <= dict(seen.attrs).items()
        assert wanted.items() <= dict(seen["a"].attrs).items()
        assert variables <= set(seen)


CHANGES: dict[str, Callable[[Container], Any]] = {
    "consolidate": lambda container: container.consolidate("g"),
    "resize": lambda container: container.resize("g/a", (6,)),
    "delete": lambda container: container.delete("g/x"),
}


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("change", CHANGES)
def test_consolidated_metadata_never_bring_back_a_cached_document(
    tmp_path: Path,
    kind: str,
    format: str,
    change: str,
) -> None:
    place = PLACES[kind](tmp_path)
    dataset().n5.to_n5(place, "g", format=format)
    opened, _ = open_container(place)
    container = opened.cached()
    assert isinstance(container, KeyedContainer)
    prefetch(container.store, container.format, "")
    assert all(container.nodes(["g", "g/a", "g/x"]))
    container.resize("g/x", (4,))  # as it is, which reads the consolidated metadata
    # Another process has none of what is cached here:
    open_group(place, "g", mode="r+").attrs["theirs"] = 1
    create_array(place, "g/b", **SMALL)
    CHANGES[change](container)
    assert dict(open_group(place, "g").attrs) == {"title": "four", "theirs": 1}
    known = container.uncached().store.get(
        f"g/{'.zmetadata' if format == 'zarr2' else 'zarr.json'}"
    )
    assert known is not None
    members = json.loads(known)
    names = members["metadata" if format == "zarr2" else "consolidated_metadata"]
    if kind == "local" or change != "consolidate":
        assert "b" in {name.partition("/")[0] for name in names.get("metadata", names)}


class Overtaken(MemoryFileSystem):  # type: ignore[misc]
    """A file system where another process, which read before us, writes after us: once."""

    cachable = False
    others: dict[str, bytes]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value, mode, **kwargs)
        for name in [name for name in self.others if path.endswith(name)]:
            super().pipe_file(path, self.others.pop(name), mode, **kwargs)


def test_what_another_process_overwrote_where_there_are_no_locks_is_written_again(
    tmp_path: Path,
) -> None:
    system = Overtaken()
    system.others = {}
    place = (system, f"/overtaken/{tmp_path.name}")
    create_group(place, format="zarr2")
    create_array(place, "a", attributes={"kept": 1}, format="zarr2", **SMALL)
    before = json.dumps({"zarr_consolidated_format": 1, "metadata": {"theirs/.zgroup": {}}})
    system.pipe_file(f"{place[1]}/.zmetadata", before.encode())
    theirs = {"a/.zattrs": {"kept": 1, "theirs": 2}, "/.zmetadata": json.loads(before)}
    system.others = {name: json.dumps(said).encode() for name, said in theirs.items()}
    open_array(place, "a", mode="r+").attrs["ours"] = 3
    assert not system.others
    attributes = {"kept": 1, "theirs": 2, "ours": 3}
    assert dict(open_array(place, "a").attrs) == attributes
    found = json.loads(system.cat_file(f"{place[1]}/.zmetadata"))["metadata"]
    assert found == {"theirs/.zgroup": {}, "a/.zattrs": attributes}


# Consolidated metadata


def summary(place: Path) -> dict[str, Any] | None:
    file = place / ".zmetadata"
    return read(file)["metadata"] if file.exists() else None


def stored_in(place: Path) -> dict[str, Any]:
    return {
        file.relative_to(place).as_posix(): read(file)
        for name in (".zarray", ".zattrs", ".zgroup")
        for file in place.rglob(name)
    }


def test_datasets_in_zarr_are_consolidated_by_default_and_stay_so(tmp_path: Path) -> None:
    place = tmp_path / "c.zarr"
    dataset().n5.to_n5(place)
    assert summary(place) == stored_in(place)
    # Without a warning, as there would be where nothing is consolidated:
    with xr.open_zarr(place) as opened:
        xr.testing.assert_identical(opened.load(), dataset())
    dataset()[["a"]].rename(a="b").n5.to_n5(place, mode="a")
    more = dataset().assign_coords(x=[16, 32, 64, 128]).assign(b=lambda each: each.a)
    more.n5.to_n5(place, append_dim="x")
    more.drop_vars("x").n5.to_n5(place, region={"x": slice(0, 4)})
    open_group(place, mode="r+").attrs["more"] = 1
    create_array(place, "c", **SMALL)
    del open_group(place, mode="r+")["b"]
    assert summary(place) == stored_in(place)
    assert set(zarr.open_consolidated(place, zarr_format=2)) == {"a", "c", "x"}


def test_consolidation_is_at_the_group_and_can_be_declined_or_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "c.zarr"
    dataset().n5.to_n5(place, "no", consolidated=False)
    assert summary(place) is summary(place / "no") is None
    dataset().n5.to_n5(place, "no", mode="r+")
    assert summary(place / "no") is None
    dataset().n5.to_n5(place, "no", mode="r+", consolidated=True)
    assert summary(place / "no") == stored_in(place / "no")
    dataset()["a"].n5.to_n5(place, "array")
    assert summary(place / "array") == stored_in(place / "array")
    with pytest.raises(ValueError, match="consolidated=True is for Zarr"):
        dataset().n5.to_n5(tmp_path / "c.n5", consolidated=True)
    dataset().n5.to_n5(tmp_path / "c.n5", consolidated=False)


def test_trees_and_copies_in_zarr_are_consolidated_at_their_root(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"/": dataset(), "/b/c": dataset()})
    tree.n5.to_n5(tmp_path / "c.zarr")
    assert summary(tmp_path / "c.zarr") == stored_in(tmp_path / "c.zarr")
    assert summary(tmp_path / "c.zarr/b") is None
    with xr.open_datatree(tmp_path / "c.zarr", engine="zarr") as opened:
        xr.testing.assert_identical(opened.load(), tree)
    copied(tmp_path / "copy.zarr", "")
    assert summary(tmp_path / "copy.zarr") == stored_in(tmp_path / "copy.zarr")
    assert "in/a/.zarray" in stored_in(tmp_path / "copy.zarr")
