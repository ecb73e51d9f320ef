"""Damaged and half-written containers are diagnosed; healthy ones have no findings."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.support.containers import NAMES, write_document
from tests.support.counting import CountingFileSystem
from tests.support.killing import begin
from tests.support.projects import Setup, project_xml, write_n5, write_project
from xarray_n5 import (
    NodeNotFoundError,
    create_array,
    create_group,
    open_array,
    pyramid,
    repair,
    to_n5,
)
from xarray_n5.cli import main
from xarray_n5.doctor.damage import survey_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from xarray_n5.doctor.damage import Finding

    Break = Callable[[Path], object]

STEPS = {"z": 4.0, "y": 0.5, "x": 0.5}


def image(shape: tuple[int, ...] = (12, 20, 24)) -> xr.DataArray:
    coords = {
        dim: (dim, np.arange(size) * step, {"units": "nm"})
        for (dim, step), size in zip(STEPS.items(), shape, strict=True)
    }
    numbers = 1 + da.arange(np.prod(shape), chunks=-1, dtype="u2").reshape(shape)
    return xr.DataArray(numbers, coords, tuple(STEPS), name="cells")


def write_pyramid(folder: Path, form: Any = "n5") -> Path:
    """A healthy pyramid of three levels, in the group "em"."""
    place = folder / NAMES[form]
    pyramid(image(), place, "em", levels=2, chunks=(4, 8, 8), format=form)
    return place


def diagnose(url: object, path: str = "", xml: bytes | None = None) -> list[Finding]:
    return survey_at(url, path, None, xml)[1]


def kinds(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.kind, finding.path) for finding in findings]


def edit(path: Path, **members: Any) -> None:
    """Change members of a JSON document; None removes one."""
    document = {**json.loads(path.read_text()), **members}
    kept = {key: value for key, value in document.items() if value is not None}
    path.write_text(json.dumps(kept))


# Healthy containers


@pytest.mark.parametrize("form", NAMES)
def test_a_healthy_pyramid_has_no_findings(tmp_path: Path, form: str) -> None:
    place = write_pyramid(tmp_path, form)
    assert diagnose(place) == diagnose(place, "em") == diagnose(place, "em/s1") == []


@pytest.mark.parametrize("form", NAMES)
def test_a_healthy_dataset_has_no_findings(tmp_path: Path, form: str) -> None:
    image().to_dataset().n5.to_n5(tmp_path / NAMES[form], consolidated=form.startswith("zarr"))
    assert diagnose(tmp_path / NAMES[form]) == []


def test_a_healthy_project_has_no_findings(tmp_path: Path) -> None:
    setups = [Setup(id=0), Setup(id=1)]
    missing = [(1, 1)]
    text = project_xml(setups, missing=missing)
    write_project(tmp_path, setups, text, without=missing, look_like_arrays=False)
    assert diagnose(tmp_path / "x.n5") == []


def test_an_array_that_was_never_written_has_no_findings(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "a", shape=(9, 9), dtype="u1", chunks=4)
    assert diagnose(tmp_path / "a.n5") == []


@pytest.mark.parametrize(
    ("size", "rule"), [(20, np.floor), (21, np.floor), (21, np.ceil), (23, np.ceil), (23, np.round)]
)
def test_sizes_may_be_rounded_by_any_rule(tmp_path: Path, size: int, rule: Any) -> None:
    place = tmp_path / "a.n5"
    create_group(place, "", attributes={"downsamplingFactors": [[1, 1], [2, 2], [4, 4], [64, 1]]})
    for level, factor in enumerate((1, 2, 4)):
        create_array(
            place, f"s{level}", shape=(int(rule(size / factor)),) * 2, dtype="u1", chunks=8
        )
    create_array(place, "s3", shape=(size, 1), dtype="u1", chunks=8)
    for level in range(4):
        open_array(place, f"s{level}", mode="r+")[...] = 1
    assert diagnose(place) == []


# Broken containers


def an_unreadable_array(place: Path) -> None:
    (place / "em/s1/attributes.json").write_text('{"dimensions": [12')


def an_array_without_its_document(place: Path) -> None:
    (place / "em/s2/attributes.json").unlink()


def an_unfinished_write(place: Path) -> None:
    to_n5(da.ones(9, chunks=3), place, "em/new", compute=False)
    begin(place, "em/new")


def a_repair_without_a_second_write(place: Path) -> None:
    (place / "em/s0/0/0/0").write_bytes(b"")
    repair(place, "em/s0")


def a_lost_level(place: Path) -> None:
    shutil.rmtree(place / "em/s2")


def a_gap(place: Path) -> None:
    edit(place / "em/attributes.json", multiscales=None, scales=None, downsamplingFactors=None)
    shutil.rmtree(place / "em/s1")


def no_base_level(place: Path) -> None:
    shutil.rmtree(place / "em/s0")


def a_level_of_another_size(place: Path) -> None:
    edit(place / "em/s1/attributes.json", dimensions=[12, 10, 9])


def a_level_of_another_type(place: Path) -> None:
    edit(place / "em/s2/attributes.json", dataType="int16")


def a_level_without_chunks(place: Path) -> None:
    shutil.rmtree(place / "em/s1/0")
    shutil.rmtree(place / "em/s1/1")


def a_pyramid_without_chunks(place: Path) -> None:
    for chunk in place.rglob("*"):
        if chunk.is_dir() and chunk.name.isdigit():
            shutil.rmtree(chunk, ignore_errors=True)


BROKEN: dict[str, tuple[Break, str, str, str]] = {
    "JSON that is cut off": (an_unreadable_array, "unreadable", "em/s1", ""),
    "chunks without a document": (an_array_without_its_document, "unreadable", "em/s2", ""),
    "unfinished": (an_unfinished_write, "unfinished", "em/new", ""),
    "repaired": (a_repair_without_a_second_write, "unfinished", "em/s0", ""),
    "lost level": (a_lost_level, "missing-level", "em", "s2"),
    "gap": (a_gap, "missing-level", "em", "s1"),
    "no base": (no_base_level, "missing-level", "em", "s0"),
    "size": (a_level_of_another_size, "level-size", "em/s1", "(9, 10, 12)"),
    "type": (a_level_of_another_type, "level-type", "em/s2", "int16"),
    "empty level": (a_level_without_chunks, "empty-level", "em", "s1"),
    "empty": (a_pyramid_without_chunks, "empty-level", "em", "s0, s1, s2"),
}


@pytest.mark.matrix(6)
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_container_has_its_finding(tmp_path: Path, case: str) -> None:
    place = write_pyramid(tmp_path)
    damage, kind, path, facts = BROKEN[case]
    damage(place)
    findings = diagnose(place)
    assert {finding.kind for finding in findings} == {kind}
    assert {finding.path for finding in findings} == {path}
    assert facts in findings[0].message
    assert findings[0].remedy


def a_changed_attribute(place: Path) -> None:
    edit(place / "a/.zattrs", more=1)


def a_removed_array(place: Path) -> None:
    shutil.rmtree(place / "b")


def a_new_array(place: Path) -> None:
    shutil.copytree(place / "a", place / "c")


def a_damaged_summary(place: Path) -> None:
    (place / ".zmetadata").write_text("{")


def a_damaged_member(place: Path) -> None:
    edit(place / "zarr.json", consolidated_metadata=[])


def a_changed_shape(place: Path) -> None:
    edit(place / "a/zarr.json", shape=[3, 6])


CONTRADICTED: dict[str, tuple[str, Break, str]] = {
    "attribute": ("zarr2", a_changed_attribute, "a/.zattrs"),
    "removed": ("zarr2", a_removed_array, "b/.zarray, b/.zattrs"),
    "added": ("zarr2", a_new_array, "c/.zarray, c/.zattrs"),
    "corrupt": ("zarr2", a_damaged_summary, ".zmetadata is corrupt"),
    "removed in v3": ("zarr3", a_removed_array, ": b"),
    "added in v3": ("zarr3", a_new_array, ": c"),
    "corrupt in v3": ("zarr3", a_damaged_member, "consolidated_metadata is corrupt"),
    "shape in v3": ("zarr3", a_changed_shape, ": a"),
}


@pytest.mark.parametrize("case", CONTRADICTED)
def test_consolidated_metadata_that_contradict_documents_are_found(
    tmp_path: Path, case: str
) -> None:
    form, damage, names = CONTRADICTED[case]
    place = tmp_path / "a.zarr"
    several = xr.Dataset({name: (("y", "x"), np.ones((4, 6), "u1")) for name in "ab"})
    several.n5.to_n5(place, format=form, consolidated=True)
    assert diagnose(place) == []
    damage(place)
    (finding,) = diagnose(place)
    assert (finding.kind, finding.path) == ("consolidated", "")
    assert names in finding.message


# Projects of BigDataViewer


def test_levels_that_a_setup_lists_are_looked_for_at_all_time_points(tmp_path: Path) -> None:
    write_n5(tmp_path / "x.n5", [Setup(id=0)], look_like_arrays=False)
    shutil.rmtree(tmp_path / "x.n5/setup0/timepoint1/s2")
    (finding,) = diagnose(tmp_path / "x.n5")
    assert (finding.kind, finding.path) == ("missing-level", "setup0/timepoint1")
    assert "3 levels by 'downsamplingFactors', of which s2" in finding.message


# Zarr and HDF5


def test_levels_of_ome_zarr_are_looked_for(tmp_path: Path) -> None:
    for form in ("zarr2", "zarr3"):
        place = write_pyramid(tmp_path, form)
        shutil.rmtree(place / "em/s1")
        (missing,) = (found for found in diagnose(place) if found.kind != "consolidated")
        assert (missing.kind, missing.path) == ("missing-level", "em")
        assert "3 levels by 'multiscales', of which s1" in missing.message


# What a diagnosis costs, and what it never does


def test_nothing_at_a_location_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFoundError):
        diagnose(tmp_path / "none.n5")


def test_requests_do_not_grow_with_the_chunks() -> None:
    requests = []
    for size in (64, 256):
        fs = CountingFileSystem()
        create_array((fs, "a.n5"), "a", shape=(size, size), dtype="u1", chunks=8)[...] = 1
        fs.requests = 0
        assert diagnose((fs, "a.n5")) == []
        requests.append(fs.requests)
    assert requests[0] == requests[1] < 64


def test_a_remedy_makes_the_missing_level_again(tmp_path: Path) -> None:
    for damage in (a_lost_level, a_level_without_chunks):
        place = write_pyramid(tmp_path)
        damage(place)
        (finding,) = diagnose(place)
        command = finding.remedy.partition("xarray-n5 ")[2].partition(", or")[0]
        result = CliRunner().invoke(main, command.split())
        assert result.exit_code == 0, result.output
        assert diagnose(place) == []
        shutil.rmtree(place)


@pytest.mark.parametrize(
    "value", [None, 7, "text", [], [[]], [None], [[1], "a"], {"a": 1}, [{"datasets": [{}]}]]
)
@pytest.mark.parametrize(
    "key", ["multiscales", "scales", "downsamplingFactors", "Bigstitcher-Spark", "ome"]
)
def test_odd_attributes_never_raise(tmp_path: Path, key: str, value: Any) -> None:
    place = tmp_path / "a.n5"
    create_array(place, "g/s0", shape=(4,), dtype="u1", chunks=4)[...] = 1
    write_document(place / "g", **{key: value})
    assert "not-checked" not in {finding.kind for finding in diagnose(place)}


# The corpus

KNOWN = {
    # Metadata alone, without the arrays or the chunks that they are about.
    ("n5_viewer_multiscale_deprecated", "empty-level", ""),
    ("n5_viewer_multiscale_modern", "empty-level", ""),
    ("root_dataset.n5", "empty-level", ""),
    ("test.n5", "empty-level", "c0"),
    ("test.n5", "empty-level", "cosem_ms"),
    ("canonical.n5", "missing-level", "multiscaleAffine"),
    ("ngff.n5", "missing-level", "ngff_grpAttributes"),
    # Objects as JSON are not read.
    ("data.zarr", "unreadable", "1d.contiguous.json2.O"),
    # 260 slices halved to 129.
    ("root_dataset.n5", "level-size", "s1"),
    ("test.n5", "level-size", "cosem_ms/s1"),
}
"""What is to be found in the corpus, and nothing else."""

DOCUMENTS = ("attributes.json", ".zgroup", ".zarray", "zarr.json")


def containers_in(folder: Path) -> Iterator[Path]:
    """The containers in a folder; arrays and groups in one are not containers of their own."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix == ".h5":
            yield path
        if path.is_dir() and not path.name.startswith("."):
            named = path.suffix in {".n5", ".zarr"}
            if named or any((path / name).exists() for name in DOCUMENTS):
                yield path
            else:
                yield from containers_in(path)


@pytest.mark.matrix(2)
@pytest.mark.parametrize("name", ["fetched", "java", "peers", "vectors"])
def test_containers_of_others_have_no_findings_but_known_ones(corpus: Path, name: str) -> None:
    places = list(containers_in(corpus / name))
    findings = {(at.name, *kind) for at in places for kind in kinds(diagnose(at))}
    assert findings <= KNOWN
    assert len(places) > 8
