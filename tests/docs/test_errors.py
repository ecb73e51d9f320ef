"""The page of errors and warnings: it names them all, and shows what they really say."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
import struct
import sys
import warnings
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import xarray as xr

import xarray_n5
import xarray_n5.bdv
from tests.dialects.test_layouts_of_programs import FUSED, fusion_in_zarr
from tests.dialects.test_ngff_05 import edge, image_06, store_06
from tests.docs.test_pages import ROOT, SAMPLES
from tests.support import scenes
from tests.support.containers import write_document
from tests.support.imaris import INFO, remove, write_ims
from tests.support.projects import FACTORS, Setup, diagonal, project_xml, write_n5, write_project
from xarray_n5 import copy, errors
from xarray_n5.arrays.claims import claim_of, new_attempt
from xarray_n5.arrays.records import Record
from xarray_n5.formats.containers import find_scene
from xarray_n5.napari.layers import read_layers
from xarray_n5.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAGE = ROOT / "docs" / "errors.md"

SOURCE = Path(xarray_n5.__file__).parent

ONES = da.ones((20, 20), chunks=10, dtype="uint8")

PLAIN = {"dimensions": [4, 3, 2], "blockSize": [4, 3, 2], "dataType": "uint8"}


def array(path: str, **members: Any) -> str:
    """Write the document of a small array of N5 by hand."""
    return str(write_document(path, **{**PLAIN, "compression": {"type": "raw"}, **members}))


def chunk(path: str, mode: int, *numbers: int, data: bytes) -> None:
    """Write a chunk file by hand: its mode, its sizes, and what may follow them."""
    ndim = len(numbers) - mode
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(struct.pack(f">HH{len(numbers)}I", mode, ndim, *numbers) + data)


# Errors


def nothing_is_there() -> None:
    xarray_n5.open_array("cells.n5", "rwa")


def something_is_there() -> None:
    xarray_n5.to_n5(ONES, "cells.n5", "raw")


def another_write_has_ended() -> None:
    for values in (ONES, ONES + 1):
        xarray_n5.to_n5(values, "new.n5", "a", resume=True)


def a_worker_sees_nothing() -> None:
    record = Record("0123456789abcdef", new_attempt(), (range(2), range(2)))
    claim_of(MemoryStore(), "a", record).check()


def a_path_leaves() -> None:
    xarray_n5.open_array("cells.n5", "../raw")


def a_type_cannot_be_held() -> None:
    xarray_n5.to_n5(ONES.astype("float16"), "new.n5", "a")


def metadata_are_damaged() -> None:
    xarray_n5.open_array(array("new.n5/a", dimensions=[4, 3, "2"]))


def json_is_damaged() -> None:
    Path("new.n5/a").mkdir(parents=True)
    Path("new.n5/a/attributes.json").write_text('{"dimensions": [4, 3]\n"dataType": "uint8"}')
    xarray_n5.open_array("new.n5/a")


def a_file_is_cut_off() -> None:
    xarray_n5.create_array("new.h5", "a", shape=(4,), dtype="uint8")[...] = 1
    with Path("new.h5").open("r+b") as file:
        file.truncate(3000)
    xarray_n5.open_array("new.h5", "a")


def a_compression_is_unknown() -> None:
    xarray_n5.open_array(array("new.n5/a", compression={"type": "jpeg"}))


def blocks_cut_chunks() -> None:
    xarray_n5.to_n5(ONES, "new.n5", "a", chunks=(20, 8), align_chunks=False)


def a_region_cuts_chunks() -> None:
    xarray_n5.to_n5(ONES, "new.n5", "a", chunks=8)
    xarray_n5.to_n5(ONES[:12], "new.n5", "a", region=slice(4, 16))


def a_block_is_not_what_dask_says() -> None:
    rows: Any = ONES.map_blocks(lambda block: block[:1], dtype="uint8")
    with dask.config.set(scheduler="sync"):
        xarray_n5.to_n5(rows, "new.n5", "a")


def fail(block: np.ndarray) -> np.ndarray:
    raise ZeroDivisionError(block)


def stopped(values: da.Array, factor: int = 1) -> Any:
    """Return blocks that cannot be computed; a factor gives them other names."""
    return (values * factor).map_blocks(fail, dtype=values.dtype, meta=np.empty((0,) * values.ndim))


def stop(write: Callable[[], object]) -> None:
    """Call a function that begins a write, whose first block fails."""
    with pytest.raises(ZeroDivisionError), dask.config.set(scheduler="sync"):
        write()


def another_process_has_taken_over() -> None:
    saved = xarray_n5.to_n5(stopped(ONES), "new.n5", "a", compute=False).save("a.write")
    stop(lambda: xarray_n5.to_n5(stopped(ONES), "new.n5", "a", resume=True))
    saved.run()


def an_append_is_unfinished() -> None:
    xr.Dataset({"v": ("x", np.ones(4))}).n5.to_n5("new.n5")
    more = xr.Dataset({"v": ("x", stopped(da.ones(4, chunks=2)))})
    stop(lambda: more.n5.to_n5("new.n5", append_dim="x"))
    xr.Dataset({"v": ("x", np.ones(2))}).n5.to_n5("new.n5", append_dim="x")


def an_append_has_ended() -> None:
    xr.Dataset({"v": ("x", np.ones(4))}).n5.to_n5("new.n5")
    for _ in range(2):
        more = xr.Dataset({"v": ("x", da.ones(2, chunks=2))})
        more.n5.to_n5("new.n5", append_dim="x", resume=True)


def another_write_has_begun() -> None:
    xarray_n5.to_n5(ONES, "new.n5", "a", compute=False).save("a.write")
    xarray_n5.to_n5(ONES + 1, "new.n5", "a", resume=True)


def a_function_has_changed() -> None:
    for result in ("block", "2 * block"):
        Path("steps.py").write_text(f"def work(block):\n    return {result}\n", encoding="utf-8")
        importlib.invalidate_caches()
        sys.modules.pop("steps", None)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend("")
            work = importlib.import_module("steps").work
        again = da.ones(4, chunks=2).map_blocks(work, name="worked")
        xarray_n5.to_n5(again, "new.n5", "a", compute=False, resume=True).save("a.write")


def a_handle_only_reads() -> None:
    xarray_n5.open_array("cells.n5", "raw")[0] = 1


def write_archive() -> None:
    with zipfile.ZipFile("cells.ozx", "w") as archive:
        for note in "ab":
            members = {"zarr_format": 3, "node_type": "group", "attributes": {"note": note}}
            archive.writestr("zarr.json", json.dumps(members))


def an_archive_is_not_changed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_archive()
        xarray_n5.to_n5(ONES, "cells.ozx", "raw")


def several_processes_write_hdf5() -> None:
    pytest.importorskip("h5py")
    with dask.config.set(scheduler="processes"):
        xarray_n5.to_n5(ONES, "new.h5", "a")


def asked_of_memory(error: Exception) -> None:
    """Open an array in a filesystem that answers with an error."""

    def fail(*_: object, **__: object) -> None:
        raise error

    with mock.patch("fsspec.implementations.memory.MemoryFileSystem.cat_file", fail):
        xarray_n5.open_array("memory://cells.n5", "raw")


def a_request_fails() -> None:
    asked_of_memory(OSError("the server says nothing that it should"))


def a_request_is_refused() -> None:
    asked_of_memory(PermissionError("Forbidden"))


def a_package_is_absent() -> None:
    class Absent:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "h5py":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    with pytest.MonkeyPatch.context() as patch:
        for name in [each for each in sys.modules if each.partition(".")[0] == "h5py"]:
            patch.delitem(sys.modules, name)
        patch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
        xarray_n5.create_array("new.h5", "a", shape=(2,), dtype="uint8")


def a_copy_differs() -> None:
    copy("cells.n5", "copy.zarr", source_path="raw", path="raw")
    xarray_n5.open_array("copy.zarr", "raw", mode="r+")[0, 0, 0] += 1
    copy("cells.n5", "copy.zarr", source_path="raw", path="raw", resume=True, verify=True)


def a_chunk_is_truncated() -> None:
    with Path("cells.n5/raw/0/0/0").open("r+b") as file:
        file.truncate(5000)
    xarray_n5.open_array("cells.n5", "raw")[0, 0, 0]


def a_chunk_is_too_short() -> None:
    members = {"dimensions": [8, 3, 2], "blockSize": [4, 3, 2], "dataType": "uint8"}
    write_document("new.n5/new", **members, compression={"type": "raw"})
    chunk("new.n5/new/0/0/0", 0, 2, 3, 2, data=bytes(12))
    chunk("new.n5/new/1/0/0", 0, 4, 3, 2, data=bytes(24))
    xarray_n5.open_array("new.n5", "new")[...]


def a_chunk_is_missing() -> None:
    xarray_n5.open_array("java-2.5.1.n5", "missing2d", missing="error")[...]


def a_chunk_holds_a_list() -> None:
    array("new.n5/a")
    chunk("new.n5/a/0/0/0", 1, 4, 3, 2, 5, data=bytes(5))
    xarray_n5.open_array("new.n5", "a")[...]


def a_link_leaves() -> None:
    xarray_n5.to_n5(ONES, "secret")
    chunk_file = Path("cells.n5/raw/0/0/0")
    chunk_file.unlink()
    chunk_file.symlink_to(Path("secret").absolute())
    xarray_n5.open_array("cells.n5", "raw")[...]


def a_link_leads_nowhere() -> None:
    shutil.rmtree("cells.n5/raw")
    Path("cells.n5/raw").symlink_to("../gone")
    xarray_n5.open_array("cells.n5", "raw", storage_options={"follow_links": True})


def project_image(**coords: Any) -> xr.DataArray:
    """A stack that is stored as a project."""
    stack = xr.DataArray(np.zeros((4, 6, 8), "u1"), dims=("z", "y", "x"), name="image")
    return stack.assign_coords(coords)


def a_project_exists() -> None:
    for _ in range(2):
        project_image().n5.to_bdv("image.xml", "image.n5")


def a_setup_is_another() -> None:
    project_image().n5.to_bdv("image.xml", "image.n5")
    project_image()[..., :4].n5.to_bdv("image.xml", "image.n5", mode="a")


ERRORS: dict[str, list[Callable[[], None]]] = {
    "N5Error": [],
    "NodeNotFoundError": [nothing_is_there],
    "NodeExistsError": [
        something_is_there,
        another_write_has_ended,
        a_project_exists,
        a_setup_is_another,
    ],
    "FinishedAppendError": [an_append_has_ended],
    "ContainerNotVisibleError": [a_worker_sees_nothing],
    "PathError": [a_path_leaves],
    "UnsafePathError": [a_link_leaves, a_link_leads_nowhere],
    "MetadataError": [
        a_type_cannot_be_held,
        metadata_are_damaged,
        json_is_damaged,
        a_file_is_cut_off,
    ],
    "UnknownCompressionError": [a_compression_is_unknown],
    "AlignmentError": [blocks_cut_chunks, a_region_cuts_chunks],
    "BlockError": [a_block_is_not_what_dask_says],
    "StaleTaskError": [another_process_has_taken_over],
    "ResumeError": [another_write_has_begun, a_function_has_changed, an_append_is_unfinished],
    "ReadOnlyError": [a_handle_only_reads, an_archive_is_not_changed],
    "OneWriterError": [several_processes_write_hdf5],
    "RequestError": [a_request_fails],
    "RefusedError": [a_request_is_refused],
    "MissingPackageError": [a_package_is_absent],
    "DifferenceError": [a_copy_differs],
    "ChunkError": [a_chunk_is_truncated, a_chunk_is_too_short],
    "MissingChunkError": [a_chunk_is_missing],
    "VarlengthChunkError": [a_chunk_holds_a_list],
}


# Warnings


def dialects_disagree() -> None:
    told = {"units": ["um", "um", "um"], "scale": [2, 0.5, 1], "translate": [0, 0, 0]}
    cosem = {"transform": {"axes": ["z", "y", "x"], **told}}
    lists = {"axes": ["x", "y", "z"], "units": ["um", "um", "um"], "resolution": [0.5, 0.5, 2]}
    xarray_n5.open_array(array("new.n5/a", **cosem, **lists)).axes  # noqa: B018


def an_offset_is_ignored() -> None:
    lists = {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]}
    xarray_n5.open_array(array("new.n5/a", **lists, offset=[100, 200, 300])).axes  # noqa: B018


def a_dimension_scale_is_elsewhere() -> None:
    with h5py.File("new.h5", "w") as file:
        file["x"] = [0.0, 4.0, 8.0]
        file["x"].make_scale("x")
        file["a"] = np.ones((3, 3, 3), "u1")
        file["a"].attrs.update(resolution=[1.0, 1.0, 4.0], offset=[0.0, 0.0, 200.0])
        file["a"].dims[2].attach_scale(file["x"])
    xr.open_dataset("new.h5", engine="n5").close()


def a_dialect_makes_no_sense() -> None:
    xarray_n5.open_array(array("new.n5/a", resolution=[1, 2], units=["nm"] * 3)).axes  # noqa: B018


def a_dialect_is_silent() -> None:
    xr.open_dataset("cells.n5", engine="n5", group="raw", dialect="cosem")


def a_transform_begins_with_x() -> None:
    lists = {"units": ["nm"] * 3, "scale": [4, 4, 40], "translate": [0, 0, 0]}
    xarray_n5.open_array(array("new.n5/a", transform={"axes": ["x", "y", "z"], **lists})).axes  # noqa: B018


def a_transform_is_the_base_levels() -> None:
    transform = {"axes": ["z", "y", "x"], "units": ["nm"] * 3, "scale": [40, 4, 4]}
    write_document("new.n5/em", scales=[[1, 1, 1], [2, 2, 1]])
    for level in ("s0", "s1"):
        array(f"new.n5/em/{level}", transform=transform)
    _ = xarray_n5.open_array("new.n5", "em/s1").axes


def a_level_has_no_factors() -> None:
    write_document("new.n5/em", resolution=[4, 4, 40])
    array("new.n5/em/s0")
    xarray_n5.open_array(array("new.n5/em/s1")).axes  # noqa: B018


def axes_of_an_image_have_no_order() -> None:
    scale = {"type": "scale", "scale": [1, 2]}
    axes = [{"name": name, "type": "space", "unit": "nanometer"} for name in "zy"]
    levels = [{"path": "s0", "coordinateTransformations": [scale]}]
    write_document("new.n5/em", multiscales=[{"version": "0.4", "axes": axes, "datasets": levels}])
    array("new.n5/em/s0", dimensions=[4, 3], blockSize=[4, 3])
    xarray_n5.open_array("new.n5", "em/s0").axes  # noqa: B018


def imagej_has_origins() -> None:
    said = {"pixelWidth": 2, "pixelHeight": 2, "pixelDepth": 5, "pixelUnit": "um"}
    said |= {"xOrigin": 10, "yOrigin": 0, "zOrigin": 0}
    counts = {"numChannels": 1, "numSlices": 2, "numFrames": 1}
    xarray_n5.open_array(array("new.n5/a", **said, **counts)).axes  # noqa: B018


def units_of_an_image_differ() -> None:
    axes = [{"type": "space", "name": name, "unit": "um"} for name in "xyz"]
    scale = {"type": "scale", "scale": [4, 4, 40]}
    said = {"transform": scale, "axes": axes, "unit": "nm"}
    xarray_n5.open_array(array("new.n5/a", spatialTransform=said)).axes  # noqa: B018


def the_xml_is_damaged() -> None:
    array("new.n5/setup0/timepoint0/s0")
    Path("new.xml").write_text("<SpimData>")
    xarray_n5.open_array("new.n5", "setup0/timepoint0/s0").axes  # noqa: B018


class Closed(LocalStore):
    """A directory of which some files may not be read, and nothing around it."""

    def get(self, key: str) -> bytes | None:
        if key.endswith(".xml"):
            raise PermissionError(f"[Errno 13] Permission denied: {key!r}")
        return super().get(key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        raise PermissionError(f"[Errno 13] Permission denied: {keys[0]!r}")

    def parent(self) -> Closed:
        return Closed(str(Path(self.root).parent))


def what_is_around_is_closed() -> None:
    array("new.n5/setup0/timepoint0/s0")
    xarray_n5.open_array(Closed(str(Path("new.n5").resolve())), "setup0/timepoint0/s0").axes  # noqa: B018


def a_name_hides_a_command() -> None:
    names = ["x\x1b[2J", "y", "z"]
    xarray_n5.open_array(array("new.n5/a", axes=names, resolution=[1, 1, 1])).geometry()


def a_name_is_a_path() -> None:
    array("new.n5/a", axes=["x/y", "y", "z"], resolution=[1, 1, 1])
    xr.open_datatree("new.n5", engine="n5")


def a_note_is_odd() -> None:
    note = {"attributes": {"b": {"$": "junk", "value": [1]}}}
    xr.open_dataset(array("new.n5/a", _XARRAY=note), engine="n5")


def digests_are_damaged() -> None:
    xarray_n5.to_n5(ONES, "new.n5", "a", checksums=True)
    Path("new.n5/a/.xn5/digests.npz").write_bytes(b"nothing")
    xarray_n5.verify("new.n5", "a")


def an_axis_is_long() -> None:
    more = {"dimensions": [1 << 28], "blockSize": [1 << 20], "resolution": [4], "units": ["nm"]}
    array("new.n5/a", **more, axes=["x"])
    xr.open_dataset("new.n5", engine="n5", group="a")


def an_axis_ends_nowhere() -> None:
    more = {"resolution": [1e308, 1, 1], "units": ["nm"] * 3, "axes": ["x", "y", "z"]}
    array("new.n5/a", **more)
    xr.open_dataset("new.n5", engine="n5", group="a")


def a_unit_is_misspelt() -> None:
    axes = [xarray_n5.Axis(name="x", unit="micormeter", scale=2.0)]
    xarray_n5.create_array("new.n5", "a", shape=(4,), dtype="uint8", axes=axes)


def places_are_uneven() -> None:
    uneven = xr.DataArray(ONES, dims=["y", "x"], coords={"y": np.arange(20.0) ** 2})
    xarray_n5.to_n5(uneven, "new.n5", "a")


def small_blocks_have_a_large_depth() -> None:
    raw = xr.open_dataset("cells.n5", engine="n5", group="raw")["raw"]
    raw.n5.map_overlap(np.negative, depth=8, chunks=(8, 16, 16))


def a_graph_is_not_divisible() -> None:
    rechunked = da.ones((40, 40), chunks=(2, 40)).rechunk((40, 1)).rechunk(2)
    xarray_n5.to_n5(rechunked, "new.n5", "a", batch_size=100)


def times_cannot_be_decoded() -> None:
    array("new.n5/a", units="days since never", _ARRAY_DIMENSIONS=["z", "y", "x"])
    write_document("new.n5", _ARRAY_DIMENSIONS=[])
    xr.open_dataset("new.n5", engine="n5")


def blocks_of_dask_cut_chunks() -> None:
    xarray_n5.from_n5("cells.n5", "raw", chunks=(48, 100, 200))


def there_are_many_small_tasks() -> None:
    xarray_n5.create_array("new.n5", "a", shape=(1200, 64), dtype="uint8", chunks=(1, 64))
    xarray_n5.from_n5("new.n5", "a")


def there_are_too_many_blocks() -> None:
    shape, chunks = (1 << 14, 1 << 34), (1, 1 << 20)
    xarray_n5.create_array("new.n5", "a", shape=shape, chunks=chunks, dtype="uint8")
    xarray_n5.from_n5("new.n5", "a", skip_missing=True)


def a_variable_cannot_be_seen() -> None:
    raw, when = (xr.Variable(("y", "x"), np.zeros((4, 6), kind)) for kind in ("u1", "M8[ns]"))
    see(xr.Dataset({"raw": raw, "when": when}))


def a_view_has_lost_its_registration() -> None:
    turn = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0]])
    steps: Any = {(t, 0): [("", turn), ("calibration", diagonal((4, 1, 1)))] for t in (0, 1)}
    path = write_project(Path(), [Setup(id=0)], project_xml([Setup(id=0)], steps))
    see(xr.open_dataset(path, engine="n5", level=0)["project"])


def see(shown: xr.Dataset | xr.DataArray) -> None:
    """Show something, if Neuroglancer is installed; it warns before."""
    with suppress(errors.MissingPackageError), shown.n5.view():
        pass


def a_block_is_larger_than_the_chunks() -> None:
    array("new.n5/a")
    chunk("new.n5/a/0/0/0", 0, 4, 3, 3, data=bytes(36))
    xarray_n5.open_array("new.n5", "a")[...]


def a_container_is_newer() -> None:
    write_document("new.n5", n5="9.0.0")
    array("new.n5/a")
    xarray_n5.open_array("new.n5", "a")


def a_type_is_not_n5s() -> None:
    xarray_n5.open_array(array("new.n5/a", dataType="bool"))


def a_node_is_damaged() -> None:
    array("new.n5/good")
    array("new.n5/bad", dataType="uint7")
    xr.open_dataset("new.n5", engine="n5")


def an_array_holds_nodes() -> None:
    xarray_n5.create_array("new.n5", "a", shape=(2,), dtype="uint8")[...] = 1
    array("new.n5/a/mask")
    xarray_n5.open_array("new.n5", "a")


def an_archive_has_a_file_twice() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile
        write_archive()
    xarray_n5.open_group("cells.ozx")


def write_summary(text: str) -> None:
    xarray_n5.create_array("new.zarr", "a", shape=(2,), dtype="uint8", format="zarr2")
    Path("new.zarr/.zmetadata").write_text(text)


class Unlisted(LocalStore):
    """A directory that lists nothing, as many a web server."""

    def list(self, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:  # noqa: ARG002
        return (), ()


def a_summary_is_damaged() -> None:
    write_summary("{")
    list(xarray_n5.open_group(Unlisted(str(Path("new.zarr").resolve())), format="zarr2"))


def a_summary_is_newer() -> None:
    write_summary('{"metadata": {}, "zarr_consolidated_format": 2}')
    list(xarray_n5.open_group(Unlisted(str(Path("new.zarr").resolve())), format="zarr2"))


def a_summary_cannot_be_kept_true() -> None:
    write_summary("{")
    xarray_n5.create_array("new.zarr", "b", shape=(2,), dtype="uint8", format="zarr2")


def a_summary_in_a_group_is_damaged() -> None:
    xarray_n5.create_array("new.zarr", "a", shape=(2,), dtype="uint8", format="zarr3")
    members = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": 1}
    Path("new.zarr/zarr.json").write_text(json.dumps(members))
    list(xarray_n5.open_group(Unlisted(str(Path("new.zarr").resolve())), format="zarr3"))


def views_of_a_project_are_missing() -> None:
    setups = [Setup(id=0), Setup(id=1)]
    write_project(Path(), setups, project_xml(setups, missing=[(1, 0)]), without=[(1, 0), (0, 1)])
    xr.open_datatree("project.xml", engine="n5")


def several_projects_point_at_a_container() -> None:
    write_project(Path(), [Setup(id=0)], project_xml([Setup(id=0)]))
    Path("project.xml").rename("a.xml")
    shutil.copy("a.xml", "b.xml")
    xarray_n5.open_array("x.n5/setup0/timepoint0/s0").geometry()


def views_of_a_project_lack_a_level() -> None:
    setups = [Setup(id=0), Setup(id=1)]
    write_project(Path(), setups[:1], project_xml(setups))
    write_n5("x.n5", setups[1:], factors=FACTORS[:2])
    xr.open_datatree("project.xml", engine="n5")


def a_level_of_a_project_has_odd_factors() -> None:
    write_project(Path(), [Setup(id=0)], project_xml([Setup(id=0)]), timepoints=(0,))
    Path("x.n5/setup0/attributes.json").write_text("{}")
    array("x.n5/setup0/timepoint0/s1", dimensions=[8, 6, 6], downsamplingFactors=[0, 2, 1])
    times = '<Timepoints type="pattern"><integerpattern>0</integerpattern></Timepoints>'
    Path("project.xml").write_text(project_xml([Setup(id=0)], timepoints=times))
    xr.open_dataset("project.xml", engine="n5", level=1)


def a_fusion_lists_factors_in_another_order() -> None:
    fusion_in_zarr(Path("fused.zarr"), voxel=(1.0, 1.0, 1.0), reverse=True)
    xarray_n5.open_array("fused.zarr", "1").geometry()


def a_fusion_has_another_depth() -> None:
    fusion_in_zarr(Path("fused.zarr"), voxel=(4.0, 1.0, 1.0))
    xarray_n5.open_array("fused.zarr", "0").geometry()


def a_fusion_with_a_project_has_invalid_settings() -> None:
    write_project(Path(), [Setup(id=0)], project_xml([Setup(id=0)]), timepoints=(0, 1))
    settings = {**FUSED, "PreserveAnisotropy": "yes"}
    xarray_n5.open_group("x.n5", mode="r+").attrs["Bigstitcher-Spark"] = settings
    xr.open_dataset("project.xml", engine="n5", level=0)


def a_view_of_a_project_is_damaged() -> None:
    write_project(Path(), [Setup(id=0)], project_xml([Setup(id=0)]))
    Path("x.n5/setup0/timepoint1/s0/attributes.json").write_text("{")
    xr.open_dataset("project.xml", engine="n5", level=0)


NAMES = [name for name in errors.__all__ if issubclass(getattr(errors, name), errors.N5Error)]
"""What the errors are called."""


def a_write_is_unfinished() -> None:
    xarray_n5.to_n5(ONES, "new.n5", "a", compute=False).save("a.write")
    xarray_n5.open_array("new.n5", "a")


def writes_are_unfinished() -> None:
    for path in "ab":
        xarray_n5.to_n5(ONES, "new.n5", path, compute=False).save("a.write")
    xr.open_dataset("new.n5", engine="n5")


def an_unfinished_write_is_replaced() -> None:
    xarray_n5.to_n5(ONES, "new.n5", "a", compute=False).save("a.write")
    xarray_n5.to_n5(ONES + 1, "new.n5", "a", mode="w")


def an_unfinished_group_is_replaced() -> None:
    stop(lambda: xr.Dataset({"v": ("x", stopped(da.ones(4, chunks=2)))}).n5.to_n5("new.n5"))
    shutil.rmtree("new.n5/v")
    xr.Dataset({"v": ("x", np.ones(2))}).n5.to_n5("new.n5", mode="w")


def a_tree_is_replaced_by_one_of_other_groups() -> None:
    days = {name: xr.Dataset({"v": ("x", np.ones(2))}) for name in ("day1", "day2")}
    xr.DataTree.from_dict(days).n5.to_n5("days.n5")
    xr.DataTree.from_dict({"/": xr.Dataset(), "day1": days["day1"]}).n5.to_n5("days.n5", mode="w")


def two_images_disagree() -> None:
    axes = [xarray_n5.Axis(name=name, scale=2.0) for name in "yx"]
    xarray_n5.pyramid(
        np.ones((4, 4)), "a.zarr", "p", axes=axes, factors=2, levels=1, format="zarr3"
    )
    group = xarray_n5.open_group("a.zarr", "p", mode="r+")
    (image,) = json.loads(json.dumps(group.attrs["ome"]["multiscales"]))
    image["datasets"][0]["coordinateTransformations"] = [{"type": "scale", "scale": [3.0, 3.0]}]
    group.attrs["multiscales"] = [{**image, "version": "0.4"}]
    xr.open_dataset("a.zarr", engine="n5", group="p/s0")


def times_of_a_project_are_no_ids() -> None:
    times = xr.concat([project_image()] * 2, xr.Variable("t", [0.5, 1.5]))
    times.n5.to_bdv("image.xml", "image.n5")


def a_server_is_named_by_a_project_alone() -> None:
    loader = '<ImageLoader format="bdv.n5"><n5>https://example.org/x.n5</n5></ImageLoader>'
    Path("web.xml").write_text(project_xml([Setup(id=0)], loader=loader), "utf-8")
    file = find_scene("web.xml")
    assert file is not None
    file.container({"headers": {"Authorization": "Bearer word"}})


def napari_shows_a_part() -> None:
    for number in range(34):
        array(f"many.n5/a{number:02}")
    read_layers(str(Path("many.n5").resolve()))


def a_level_of_a_project_lies_elsewhere() -> None:
    whole = project_image(x=np.arange(8.0))
    levels = {"s0": whole, "s1": whole[..., ::2]}
    tree = xr.DataTree.from_dict({name: level.to_dataset() for name, level in levels.items()})
    tree.n5.to_bdv("image.xml", "image.n5")


def the_path_of_a_container_is_a_uri() -> None:
    project_image().n5.to_bdv("image.xml", "my image.n5")


def views_are_apart() -> None:
    setups = [Setup(id=n, attributes={"tile": n}) for n in range(2)]
    steps = {(0, n): [("place", diagonal((2, 0.5, 0.5), (0, 0, 8 * n)))] for n in range(2)}
    once = '<Timepoints type="range"><first>0</first><last>0</last></Timepoints>'
    write_project(Path(), setups, project_xml(setups, steps, timepoints=once))
    (xml,) = Path().glob("*.xml")
    xr.open_dataset(xml, engine="bdv", level=0).n5.crop(x=(2, 4))


def nothing_is_in_the_box() -> None:
    xarray_n5.tutorial.open_dataset("cells")["raw"].n5.crop(x=(300, 400))


def levels_have_no_such_coordinate() -> None:
    image = xr.DataArray(np.ones((2, 8, 8)), {"wavelength": ("c", [405, 488])}, ("c", "y", "x"))
    xarray_n5.pyramid(image, "new.n5", "em", levels=1)


def a_directory_is_of_another_format() -> None:
    xarray_n5.to_n5(np.ones((4, 4)), "new.n5", "a")
    xarray_n5.to_n5(np.ones((4, 4)), "more.zarr")
    Path("more.zarr").rename("new.n5/more")
    copy("new.n5", "b.n5")


def ome_zarr_has_no_such_axes() -> None:
    tiles = xr.DataArray(np.ones((2, 8, 8)), dims=("tile", "y", "x"))
    xarray_n5.pyramid(tiles, "new.zarr", "em", levels=1)


def another_system_of_ome_zarr_is_unknown() -> None:
    edges = [edge("displacements", path="field")]
    store_06(Path("new.zarr"), image_06(*edges), path="em")
    xarray_n5.open_array("new.zarr", "em/s0").geometry()


def another_system_of_ome_zarr_is_lost() -> None:
    store_06(Path("new.zarr"), image_06(edge("affine", affine=[[1, 0, 9], [0, 3, 1]])))
    copy("new.zarr", "old.zarr", dialect="ngff", format="zarr3")


def a_section_has_no_coordinate() -> None:
    store_06(Path("new.zarr"), image_06(edge("affine", affine=[[1, 0, 9], [0, 3, 1]])))
    level = xr.open_dataset("new.zarr", engine="n5", level=0).isel(y=2).drop_vars("y")
    level.n5.to_n5("line.n5")


def a_project_with_points(folder: str) -> Path:
    """A project whose XML names interest points."""
    points = (
        '<ViewInterestPointsFile timepoint="0" setup="0" label="beads">b</ViewInterestPointsFile>'
    )
    more = f"<ViewInterestPoints>{points}</ViewInterestPoints>"
    setups = [Setup(id=0, attributes={"channel": 0})]
    steps = {(time, 0): [("calibration", diagonal((4, 1, 1)))] for time in range(2)}
    return write_project(Path(folder), setups, project_xml(setups, steps, more=more))


def points_of_a_project_are_not_in_a_scene() -> None:
    copy(a_project_with_points("."), "scene.zarr", dialect="ngff-0.6")


def points_of_a_project_are_not_in_another_one() -> None:
    xarray_n5.bdv.copy(a_project_with_points("."), "new.xml", "new.n5")


def a_section_of_a_scene_has_no_matrix() -> None:
    a_scene(from_tile(0, "translation", translation=[0, 0, 100]))
    see(xr.open_dataset("scene.zarr", engine="n5").isel(z=0).rename(scene="raw"))


def a_world_has_no_unit() -> None:
    a_scene(from_tile(0, "identity"))
    scenes.write_scene(
        Path("scene.zarr"), [from_tile(0, "identity")], [scenes.system("world", "zyx", None)]
    )
    xarray_n5.bdv.copy("scene.zarr", "dataset.xml", "dataset.n5")


def images_of_a_scene_have_no_unit() -> None:
    a_scene(from_tile(0, "identity"))
    group = xarray_n5.open_group("scene.zarr", "tile_0", mode="r+")
    (image,) = group.attrs["ome"]["multiscales"]
    image["coordinateSystems"] = [scenes.system("physical", "zyx", None)]
    group.attrs["ome"] = {"version": "0.6", "multiscales": [image]}
    xarray_n5.bdv.copy("scene.zarr", "dataset.xml", "dataset.n5")


def a_project_has_no_such_system() -> None:
    a_scene(from_tile(0, "identity"))
    both = [scenes.system(name, "zyx") for name in ("world", "stage")]
    scenes.write_scene(Path("scene.zarr"), [from_tile(0, "identity")], both)
    xarray_n5.bdv.copy("scene.zarr", "dataset.xml", "dataset.n5")


def a_scene_of_ome_zarr_is_not_applied() -> None:
    moved = edge("translation", {"path": "tile_0"}, "world", translation=[0, 100])
    store_06(Path("new.zarr"), image_06(), path="tile_0")
    scene = {"coordinateTransformations": [moved]}
    group = xarray_n5.open_group("new.zarr", mode="r+")
    group.attrs["ome"] = {"version": "0.6", "scene": scene}
    xarray_n5.open_array("new.zarr", "tile_0/s0").geometry()


def an_image_is_copied_out_of_a_scene() -> None:
    a_scene(from_tile(0, "translation", translation=[0, 0, 100]))
    copy("scene.zarr", "alone.zarr", source_path="tile_0", format="zarr3")


def a_scene(*edges: Any, axes: str = "zyx", levels: int = 1, **images: Any) -> None:
    """Open a scene at ``scene.zarr`` of an image called ``tile_0`` and more."""
    scenes.write_scene(Path("scene.zarr"), edges, [scenes.system("world", axes)])
    for path in ("tile_0", *images):
        image = scenes.image_attributes("zyx"[-len(axes) :], [1.0] * len(axes), levels=levels)
        scenes.write_image(Path("scene.zarr"), path, (4,) * len(axes), image)


def from_tile(number: int, kind: str, **members: Any) -> dict[str, Any]:
    start = {"path": f"tile_{number}", "name": "physical"}
    return {"type": kind, "input": start, "output": {"name": "world"}, **members}


def an_image_of_a_scene_has_no_position() -> None:
    a_scene(from_tile(0, "identity"), from_tile(1, "displacements", path="field"), tile_1=True)
    xr.open_dataset("scene.zarr", engine="n5")


def an_image_of_a_scene_is_not_there() -> None:
    gone = {"path": "gone", "name": "physical"}
    a_scene(
        from_tile(0, "identity"), {"type": "identity", "input": gone, "output": {"name": "world"}}
    )
    xr.open_dataset("scene.zarr", engine="n5")


def a_level_of_a_scene_is_not_there() -> None:
    a_scene(from_tile(0, "identity"), levels=2)
    shutil.rmtree("scene.zarr/tile_0/s1")
    xr.open_dataset("scene.zarr", engine="n5")


def a_scene_exchanges_names() -> None:
    a_scene(from_tile(0, "translation", translation=[0, 100]), axes="xy")
    xr.open_dataset("scene.zarr", engine="n5")


def tile_1(axes: str, edge: dict[str, Any], *more: Any, **members: Any) -> None:
    """Write a scene of an image called ``tile_1``, with the axes of the world."""
    others = [scenes.system("stage", axes)] if more else []
    url = Path("scene.zarr")
    scenes.write_scene(url, [edge, *more], [scenes.system("world", axes), *others])
    image = scenes.image_attributes(axes, [1.0] * len(axes))
    image["ome"] |= members
    scenes.write_image(url, "tile_1", (2,) * len(axes), image)


def a_time_of_a_scene_depends_on_x() -> None:
    rows = np.eye(4, 5)
    rows[0, 3] = 2
    tile_1("tzyx", from_tile(1, "affine", affine=rows.tolist(), name="drift"))
    xr.open_dataset("scene.zarr", engine="n5")


def channels_of_a_scene_have_names() -> None:
    channels = {"channels": [{"label": "DAPI"}, {"label": "GFP"}]}
    tile_1("czyx", from_tile(1, "translation", translation=[2, 0, 0, 0]), omero=channels)
    xr.open_dataset("scene.zarr", engine="n5")


def a_scene_has_two_times() -> None:
    later: dict[str, Any] = {"type": "translation", "translation": [3, 0, 0, 0]}
    later |= {"input": {"name": "world"}, "output": {"name": "stage"}}
    tile_1("tzyx", from_tile(1, "identity"), later)
    xr.open_dataset("scene.zarr", engine="n5")


def a_project_has_no_times() -> None:
    steps: list[Any] = [{"type": "scale", "scale": [3, 1, 1, 1]}]
    steps += [{"type": "translation", "translation": [7, 0, 0, 0]}]
    tile_1("tzyx", from_tile(1, "sequence", transformations=steps))
    xarray_n5.bdv.copy("scene.zarr", "dataset.xml", "dataset.n5")


def with_stages(*units: str, more: Sequence[Any] = ()) -> None:
    """Open a scene of images with systems of one name, the last of them called ``tile_1``."""
    url, named = Path("scene.zarr"), range(2 - len(units), 2)
    edges = [from_tile(number, "identity") for number in named]
    to_world = {"type": "identity", "input": {"name": "world"}, "output": {"name": "stage"}}
    edges += [to_world] * len(more)
    scenes.write_scene(url, edges, [scenes.system("world", "zyx"), *more])
    own = {"type": "identity", "input": {"name": "physical"}, "output": {"name": "stage"}}
    for number, unit in zip(named, units, strict=True):
        systems = [scenes.system("stage", "zyx", unit)]
        image = scenes.image_attributes("zyx", [1, 1, 1], systems=systems, edges=[own])
        scenes.write_image(url, f"tile_{number}", (2, 2, 2), image)
    xr.open_dataset(url, engine="n5")


def a_system_of_an_image_is_hidden() -> None:
    with_stages("micrometer", more=[scenes.system("stage", "zyx")])


def systems_of_images_differ() -> None:
    with_stages("micrometer", "nanometer")


def channels_are_copied_to_another_dialect() -> None:
    image = scenes.image_attributes("zyx", [1, 1, 1], levels=2)
    image["ome"]["omero"] = {"channels": [{"label": "DAPI"}]}
    scenes.write_image(Path("a.zarr"), "em", (4, 4, 4), image)
    copy("a.zarr", "b.zarr", format="zarr3", dialect="cosem")


def a_level_with_channels_is_copied() -> None:
    channels = {"c": [f"ch{n}" for n in range(4)]}
    values = xr.DataArray(np.ones((4, 6, 6), "u1"), channels, ("c", "y", "x"))
    xarray_n5.pyramid(values, "a.zarr", levels=1)
    copy("a.zarr", "b.zarr", level=0)


def an_image_has_axes_that_cannot_be_described() -> None:
    for level in "01":
        xarray_n5.create_array("a.zarr", level, shape=(4, 4), dtype="u1", format="zarr2")
    image = {"axes": [{"name": "x"}], "datasets": [{"path": level} for level in "01"]}
    group = xarray_n5.open_group("a.zarr", mode="r+")
    group.attrs["multiscales"] = [{"version": "0.4", **image}]
    copy("a.zarr", "b.zarr", format="zarr3")


def an_array_of_a_fusion_has_an_invalid_offset() -> None:
    setups = [Setup(id=0, voxel=(1.0, 1.0, 1.0), unit="px")]
    steps: Any = {(t, 0): [("", np.eye(3, 4))] for t in (0, 1)}
    write_project(Path(), setups, project_xml(setups, steps), timepoints=(0, 1))
    Path("x.n5").rename("fused.n5")
    text = Path("project.xml").read_text("utf-8").replace("x.n5", "fused.n5")
    Path("project.xml").write_text(text, "utf-8")
    xarray_n5.open_array("fused.n5", "setup0/timepoint0/s0", mode="r+").attrs["offset"] = [1, 2]
    xr.open_dataset("project.xml", engine="n5", level=0)


def placed(**coords: Any) -> xr.Dataset:
    """An image with a matrix."""
    affine = (("image", "axis", "column"), np.eye(3, 4)[np.newaxis])
    data = {"raw": (("image", "z", "y", "x"), np.ones((1, 2, 2, 2)))}
    return xr.Dataset(data, {"affine": affine, **coords})


def a_scene_has_no_such_coordinate() -> None:
    placed(colour=("image", ["red"])).n5.to_n5("scene.zarr", dialect="ngff-0.6")


def a_scene_has_no_such_attribute() -> None:
    placed().assign_attrs(author="me").n5.to_n5("scene.zarr", dialect="ngff-0.6")


def an_array_is_outside_of_a_box() -> None:
    for path, first in (("raw", 0.0), ("coarse/s2", 80.0), ("other", 90.0)):
        axes = [xarray_n5.Axis(name="x", scale=1.0, offset=first)]
        xarray_n5.create_array("boxes.n5", path, shape=(9,), dtype="u1", axes=axes)
    xarray_n5.copy("boxes.n5", "part.n5", bounds={"x": (2, 6)})


def a_file_of_imaris_has_no_size() -> None:
    write_ims(Path("a.ims"), levels=1)
    remove(Path("a.ims"), "DataSet/ResolutionLevel 0/TimePoint 0/Channel 0", "ImageSizeX")
    xr.open_dataset("a.ims", engine="n5")


def a_file_of_imaris_has_no_extent() -> None:
    image = {**INFO["Image"], "ExtMax0": "wide"}
    write_ims(Path("a.ims"), {"Image": image})
    xr.open_dataset("a.ims", engine="n5")


def a_file_of_imaris_has_several_data_sets() -> None:
    with h5py.File(write_ims(Path("a.ims")), "a") as file:
        file.attrs["NumberOfDataSets"] = np.array([2], "u4")
    xr.open_dataset("a.ims", engine="n5")


def a_file_of_imaris_lacks_a_level() -> None:
    write_ims(Path("a.ims"))
    remove(Path("a.ims"), "DataSet/ResolutionLevel 1/TimePoint 0/Channel 0", "Data")
    xr.open_dataset("a.ims", engine="n5")


WARNINGS: list[Callable[[], None]] = [
    a_file_of_imaris_has_no_size,
    a_file_of_imaris_has_no_extent,
    a_file_of_imaris_lacks_a_level,
    a_file_of_imaris_has_several_data_sets,
    an_array_is_outside_of_a_box,
    views_are_apart,
    nothing_is_in_the_box,
    levels_have_no_such_coordinate,
    ome_zarr_has_no_such_axes,
    a_directory_is_of_another_format,
    another_system_of_ome_zarr_is_unknown,
    another_system_of_ome_zarr_is_lost,
    a_section_has_no_coordinate,
    a_section_of_a_scene_has_no_matrix,
    a_world_has_no_unit,
    points_of_a_project_are_not_in_a_scene,
    points_of_a_project_are_not_in_another_one,
    images_of_a_scene_have_no_unit,
    a_project_has_no_such_system,
    a_scene_of_ome_zarr_is_not_applied,
    an_image_is_copied_out_of_a_scene,
    an_image_of_a_scene_has_no_position,
    an_image_of_a_scene_is_not_there,
    a_level_of_a_scene_is_not_there,
    a_scene_exchanges_names,
    a_scene_has_no_such_coordinate,
    a_scene_has_no_such_attribute,
    a_write_is_unfinished,
    writes_are_unfinished,
    an_unfinished_write_is_replaced,
    an_unfinished_group_is_replaced,
    a_tree_is_replaced_by_one_of_other_groups,
    two_images_disagree,
    dialects_disagree,
    an_offset_is_ignored,
    a_dimension_scale_is_elsewhere,
    a_dialect_makes_no_sense,
    a_dialect_is_silent,
    a_transform_begins_with_x,
    a_transform_is_the_base_levels,
    a_level_has_no_factors,
    axes_of_an_image_have_no_order,
    imagej_has_origins,
    units_of_an_image_differ,
    the_xml_is_damaged,
    what_is_around_is_closed,
    a_name_hides_a_command,
    a_name_is_a_path,
    a_note_is_odd,
    digests_are_damaged,
    an_axis_is_long,
    an_axis_ends_nowhere,
    a_unit_is_misspelt,
    places_are_uneven,
    small_blocks_have_a_large_depth,
    a_graph_is_not_divisible,
    times_cannot_be_decoded,
    blocks_of_dask_cut_chunks,
    there_are_many_small_tasks,
    there_are_too_many_blocks,
    a_variable_cannot_be_seen,
    a_view_has_lost_its_registration,
    a_block_is_larger_than_the_chunks,
    a_container_is_newer,
    a_type_is_not_n5s,
    a_node_is_damaged,
    an_array_holds_nodes,
    an_archive_has_a_file_twice,
    a_summary_is_damaged,
    a_summary_in_a_group_is_damaged,
    a_summary_is_newer,
    a_summary_cannot_be_kept_true,
    views_of_a_project_are_missing,
    several_projects_point_at_a_container,
    views_of_a_project_lack_a_level,
    a_level_of_a_project_has_odd_factors,
    a_fusion_lists_factors_in_another_order,
    a_fusion_has_another_depth,
    a_fusion_with_a_project_has_invalid_settings,
    a_view_of_a_project_is_damaged,
    times_of_a_project_are_no_ids,
    a_server_is_named_by_a_project_alone,
    a_level_of_a_project_lies_elsewhere,
    a_time_of_a_scene_depends_on_x,
    channels_of_a_scene_have_names,
    a_scene_has_two_times,
    a_project_has_no_times,
    a_system_of_an_image_is_hidden,
    systems_of_images_differ,
    channels_are_copied_to_another_dialect,
    a_level_with_channels_is_copied,
    an_image_has_axes_that_cannot_be_described,
    an_array_of_a_fusion_has_an_invalid_offset,
    the_path_of_a_container_is_a_uri,
    napari_shows_a_part,
]


def shown(part: str) -> list[str]:
    """The messages in a part of the page, each in one line."""
    found = re.findall(r"^```text\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    return [" ".join(text.split()) for text in found]


def parts() -> dict[str, str]:
    """The page's parts by their headings."""
    first, *others = re.split(r"^###? ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = (part.partition("\n") for part in others)
    return {"": first, **{title.strip("`"): text for title, _, text in named}}


def is_shown(message: object, folder: Path, texts: list[str]) -> bool:
    """Whether a message that was given in a folder is one of those on the page."""
    given = " ".join(str(message).replace(str(folder), "/data").split())
    patterns = (re.escape(text).replace("…", ".+?") for text in texts)
    return any(re.fullmatch(pattern, given) for pattern in patterns)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cases run: a folder with the containers of the test data."""
    for container in SAMPLES.glob("*.n5"):
        shutil.copytree(container, tmp_path / container.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_error_has_its_heading_and_its_cases() -> None:
    assert set(ERRORS) == set(NAMES)
    for name, cases in ERRORS.items():
        assert len(shown(parts()[name])) == len(cases), name


@pytest.mark.parametrize("name", [name for name in NAMES if name != "N5Error"])
def test_every_error_tells_the_builtins_that_it_is(name: str) -> None:
    bases = (base for base in getattr(errors, name).__bases__ if base is not errors.N5Error)
    text = parts()[name].partition(".")[0]
    assert all(f"`{base.__name__}`" in text for base in bases)


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name, cases in ERRORS.items() for case in cases],
    ids=[case.__name__ for cases in ERRORS.values() for case in cases],
)
def test_errors_say_what_the_page_shows(name: str, case: Callable[[], None], folder: Path) -> None:
    with pytest.raises(errors.N5Error) as caught:
        case()
    assert type(caught.value) is getattr(errors, name)
    assert is_shown(caught.value, folder, shown(parts()[name]))


def test_warnings_say_what_the_page_shows_and_no_other_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [text for name, part in parts().items() if name not in ERRORS for text in shown(part)]
    for case in WARNINGS:
        folder = tmp_path / case.__name__
        shutil.copytree(SAMPLES / "cells.n5", folder / "cells.n5")
        monkeypatch.chdir(folder)
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            case()
        said = [text for text in left if any(is_shown(w.message, folder, [text]) for w in given)]
        assert all(is_shown(w.message, folder, said) for w in given), case.__name__
        assert said, case.__name__
        left = [text for text in left if text not in said]
    assert left == []


@cache
def templates() -> dict[str, str]:
    """Patterns of the messages that the package warns with, by where they stand."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if "warn(" in text else ():
            if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "warn"):
                continue
            message = call.args[0]
            pieces = message.values if isinstance(message, ast.JoinedStr) else [message]
            pattern = "".join(
                re.escape(piece.value)
                if isinstance(piece, ast.Constant) and isinstance(piece.value, str)
                else ".+?"
                for piece in pieces
            )
            found[f"{path.relative_to(SOURCE.parent)}:{call.lineno}"] = pattern
    return found


@pytest.mark.parametrize("where", templates())
def test_every_warning_of_the_package_is_shown(where: str) -> None:
    pattern = templates()[where]
    texts = [text for part in parts().values() for text in shown(part)]
    assert any(re.fullmatch(pattern, text) for text in texts), f"{where} has none in {PAGE.name}"
