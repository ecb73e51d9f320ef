"""Projects of BigStitcher for tests: an XML, and the container that it points at.

By the facts of the programs that write them, element by element; nothing of the package's own
values is used to build them.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import numpy as np

from xarray_n5 import create_array, create_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from xarray_n5.formats import FormatName

View = tuple[int, int]
"""A time point and a setup."""

FACTORS = ((1, 1, 1), (1, 2, 2), (2, 4, 4))
"""The factors of levels along z, y, x."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A setup, in C order."""

    id: int
    attributes: Mapping[str, int] = field(default_factory=dict)
    shape: tuple[int, ...] = (6, 12, 16)
    voxel: tuple[float, ...] | None = (2.0, 0.5, 0.5)
    unit: str = "um"
    dtype: str = "u2"


def line(matrix: Any) -> str:
    """A matrix for z, y, x of three rows and four columns, as the twelve numbers of the XML."""
    rows = np.asarray(matrix, float)
    rows = np.concatenate([rows[::-1, -2::-1], rows[::-1, -1:]], axis=1)
    return " ".join(map(repr, rows.ravel().tolist()))


def diagonal(scale: Sequence[float], offset: Sequence[float] = (0, 0, 0)) -> np.ndarray:
    """A matrix for z, y, x that scales, then moves."""
    return np.concatenate([np.diag(scale), np.reshape(offset, (3, 1))], axis=1).astype(float)


def project_xml(
    setups: Iterable[Setup],
    registrations: Mapping[View, Sequence[tuple[str, Any]]] | None = None,
    *,
    loader: str = '<ImageLoader format="bdv.n5" version="1.0"><n5 type="relative">x.n5</n5>'
    "</ImageLoader>",
    timepoints: str = '<Timepoints type="range"><first>0</first><last>1</last></Timepoints>',
    missing: Iterable[View] = (),
    names: Mapping[str, Mapping[int, str]] | None = None,
    more: str = "",
    base: str = '<BasePath type="relative">.</BasePath>',
) -> str:
    """The XML of a project.

    `registrations` are the named transforms of views for z, y, x, in the order in which they are
    listed; `names` are the names of entities by attribute and id.
    """
    setups = list(setups)
    entities = ""
    for kind in sorted({kind for setup in setups for kind in setup.attributes}):
        title = kind.capitalize()
        ids = sorted({s.attributes[kind] for s in setups if kind in s.attributes})
        called = (names or {}).get(kind, {})
        entities += f'<Attributes name="{kind}">' + "".join(
            f"<{title}><id>{i}</id><name>{called.get(i, i)}</name></{title}>" for i in ids
        )
        entities += "</Attributes>"
    absent = "".join(f'<MissingView timepoint="{t}" setup="{s}" />' for t, s in missing)
    registered = "".join(
        f'<ViewRegistration timepoint="{t}" setup="{s}">'
        + "".join(
            f'<ViewTransform type="affine"><Name>{name}</Name><affine>{line(matrix)}</affine>'
            "</ViewTransform>"
            for name, matrix in steps
        )
        + "</ViewRegistration>"
        for (t, s), steps in (registrations or {}).items()
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<SpimData version="0.2">{base}'
        f"<SequenceDescription>{loader}<ViewSetups>"
        + "".join(map(_setup_xml, setups))
        + f"{entities}</ViewSetups>{timepoints}"
        + (f"<MissingViews>{absent}</MissingViews>" if absent else "<MissingViews />")
        + f"</SequenceDescription><ViewRegistrations>{registered}</ViewRegistrations>{more}"
        "</SpimData>"
    )


def _setup_xml(setup: Setup) -> str:
    voxel = ""
    if setup.voxel is not None:
        size = " ".join(map(str, setup.voxel[::-1]))
        voxel = f"<voxelSize><unit>{setup.unit}</unit><size>{size}</size></voxelSize>"
    listed = "".join(f"<{kind}>{number}</{kind}>" for kind, number in setup.attributes.items())
    size = " ".join(map(str, setup.shape[::-1]))
    return (
        f"<ViewSetup><id>{setup.id}</id><name>setup {setup.id}</name><size>{size}</size>{voxel}"
        f"<attributes>{listed}</attributes></ViewSetup>"
    )


def level_shape(shape: Sequence[int], factors: Sequence[int]) -> tuple[int, ...]:
    """The shape of a level: as BigStitcher has it, without what does not fill a sample."""
    return tuple(size // factor for size, factor in zip(shape, factors, strict=True))


def values(view: View, level: int, shape: tuple[int, ...], dtype: str = "u2") -> np.ndarray:
    """The values of a view's level; those of two views are never alike, and never 0."""
    timepoint, setup = view
    start = 1 + 100 * setup + 17 * timepoint + 7 * level
    return (start + np.arange(np.prod(shape)).reshape(shape) % 90).astype(dtype)


def write_n5(
    where: Any,
    setups: Iterable[Setup],
    timepoints: Iterable[int] = (0, 1),
    *,
    without: Iterable[View] = (),
    factors: Sequence[Sequence[int]] = FACTORS,
    look_like_arrays: bool = True,
) -> None:
    """Write the views as BigStitcher does: groups of setups look like arrays."""
    create_group(where, "", mode="a")
    for setup in setups:
        facts: dict[str, Any] = {
            "dataType": {"u1": "uint8", "u2": "uint16", "f4": "float32"}[setup.dtype],
            "downsamplingFactors": [list(each[::-1]) for each in factors],
        }
        if look_like_arrays:
            facts["dimensions"] = list(setup.shape[::-1])
            facts["blockSize"] = [8, 8, 4]
            facts["compression"] = {"type": "gzip", "useZlib": False, "level": 1}
        group = create_group(where, f"setup{setup.id}")
        for time in timepoints:
            if (time, setup.id) in set(without):
                continue
            path = f"setup{setup.id}/timepoint{time}"
            described = {"resolution": [1.0, 1.0, 1.0], "saved_completely": True}
            create_group(where, path, attributes={**described, "multiScale": True})
            for level, each in enumerate(factors):
                shape = level_shape(setup.shape, each)
                array = create_array(
                    where,
                    f"{path}/s{level}",
                    shape=shape,
                    dtype=setup.dtype,
                    chunks=(4, 8, 8),
                    attributes={"downsamplingFactors": list(each[::-1])},
                )
                array[...] = values((time, setup.id), level, shape, setup.dtype)
        group.attrs.update({k: v for k, v in facts.items() if k == "downsamplingFactors"})
        if look_like_arrays:
            _write_document(where, f"setup{setup.id}", facts)


def _write_document(where: Any, path: str, facts: Mapping[str, Any]) -> None:
    """Write a group's attributes as they are, those of arrays included."""
    import json

    from xarray_n5.formats.containers import open_store

    open_store(where).set(f"{path}/attributes.json", json.dumps(facts).encode())


def canonical(document: str | bytes) -> str:
    """Return XML in its canonical form, with comments: equal for all ways to write the same."""
    text = document if isinstance(document, str) else document.decode("utf-8")
    return ET.canonicalize(text, with_comments=True)


def has_sections(document: bytes, sections: str) -> bool:
    """Whether XML has sections as they were."""
    inner = canonical(f"<r>{sections}</r>")[len("<r>") : -len("</r>")]
    return inner.strip() in canonical(document)


def write_project(folder: Path, setups: Sequence[Setup], text: str, **options: Any) -> Path:
    """Write a container ``x.n5`` and the XML beside it; return the path of the XML."""
    write_n5(folder / "x.n5", setups, **options)
    path = folder / "project.xml"
    path.write_text(text, encoding="utf-8")
    return path


def write_zarr(
    where: Path,
    setups: Iterable[Setup],
    timepoints: Iterable[int] = (0, 1),
    *,
    without: Iterable[View] = (),
    factors: Sequence[Sequence[int]] = FACTORS,
    form: FormatName = "zarr3",
) -> str:
    """Write the views as BigStitcher's resave does, and return the ImageLoader of its XML.

    By N5ApiTools.setupBdvDatasetsOMEZARR, OMEZarrAttibutes and XmlIoAllenOMEZarrLoader: paths of
    levels begin with a slash, sizes of levels are floored, and time is in milliseconds.
    """
    entries = ""
    create_group(where, "", mode="a", format=form)
    for setup, time in [(setup, time) for setup in setups for time in timepoints]:
        if (time, setup.id) in set(without):
            continue
        path, datasets = f"s{setup.id}-t{time}.zarr", []
        for level, each in enumerate(factors):
            array = create_array(
                where,
                f"{path}/{level}",
                shape=(1, 1, *level_shape(setup.shape, each)),
                dtype=setup.dtype,
                chunks=(1, 1, 4, 4, 4),
                shards=(1, 1, 4, 8, 8) if form == "zarr3" else None,
                layout=None if form == "zarr3" else {"dimension_separator": "/"},
                attributes={"downsamplingFactors": [*each[::-1], 1, 1]} if level else None,
            )
            array[...] = values((time, setup.id), level, array.shape, setup.dtype)
            steps = [(s * f, s * (f - 1) / 2) for s, f in zip(setup.voxel or (), each, strict=True)]
            scale = {"type": "scale", "scale": [1.0, 1.0, *(step for step, _ in steps)]}
            shift = {"type": "translation", "translation": [0.0, 0.0, *(at for _, at in steps)]}
            datasets.append({"path": f"/{level}", "coordinateTransformations": [scale, shift]})
        axes = [{"type": "time", "name": "t", "unit": "millisecond"}]
        axes += [{"type": "channel", "name": "c"}]
        axes += [{"type": "space", "name": name, "unit": "micrometer"} for name in "zyx"]
        ones = [{"type": "scale", "scale": [1.0] * 5}]
        image = {"name": "/", "axes": axes, "datasets": datasets, "coordinateTransformations": ones}
        described: Any = {"multiscales": [{**image, "version": "0.4"}]}
        if form == "zarr3":
            described = {"ome": {"multiscales": [image], "version": "0.5"}}
        create_group(where, path, attributes=described, mode="a")
        entries += f'<zgroup setup="{setup.id}" tp="{time}" path="{path}" indicies="0 0" />'
    return (
        f'<ImageLoader format="bdv.multimg.zarr" version="3.0"><zarr type="relative">{where.name}'
        f"</zarr><zgroups>{entries}</zgroups></ImageLoader>"
    )


def bigstitcher_reads(xml: Path) -> dict[View, list[tuple[tuple[float, ...], np.ndarray]]]:
    """The levels of each view that BigStitcher 3.0 reads: their factors in x, y, z, and values.

    By XmlIoAllenOMEZarrLoader, version 3.0, AllenOMEZarrLoader.extract3DVolume and
    AllenOMEZarrProperties; zarr-python reads the arrays.
    """
    import zarr

    element = ET.parse(xml).find("SequenceDescription/ImageLoader")  # noqa: S314 - our own
    assert element is not None
    assert element.attrib == {"format": "bdv.multimg.zarr", "version": "3.0"}
    place = bigdataviewer_opens(xml, "zarr")
    assert place is not None
    root = zarr.open_group(place, mode="r")
    found = {}
    for each in element.findall("zgroups/zgroup"):
        view = int(each.attrib["tp"]), int(each.attrib["setup"])
        indices = [int(number) for number in each.attrib["indicies"].split(" ")]
        group: Any = root[each.attrib["path"]]
        attributes: Any = dict(group.attrs)
        (image,) = attributes.get("ome", attributes)["multiscales"]
        levels, first = [], None
        for level, dataset in enumerate(image["datasets"]):
            scale = dataset["coordinateTransformations"][0]["scale"][::-1]
            first = first or scale
            ratios = tuple(round(scale[d] / first[d] * 10000) / 10000 for d in range(3))
            volume = np.asarray(group[str(level)])
            for number in indices[::-1]:  # the last axis in Java is the first here
                volume = volume[number]
            levels.append((ratios, volume))
        found[view] = levels
    return found


# Where other programs look for the container of an XML


def bigdataviewer_opens(xml: Path, kind: str = "n5") -> str | None:
    """The container that BigDataViewer 10.6 opens for an XML; None if it cannot.

    By the source of XmlHelpers.loadPathURI (spim_data 2.3.5) and XmlIoN5ImageLoader, with the rules
    of java.net.URI and java.io.File on Linux.
    """
    found = ET.parse(xml).find(f".//ImageLoader/{kind}")  # noqa: S314 - our own
    assert found is not None
    text = found.text or ""
    if found.get("type") == "relative":
        path = path_of_uri(text)
        return None if path is None else posixpath.normpath(f"{xml.parent}/{path}")
    if "\\" in text:
        return path_of_uri("file:///" + text.replace("\\", "/"))
    return path_of_uri(text) if re.match(r"[a-zA-Z][a-zA-Z0-9+-.]*:", text) else text


def older_programs_open(xml: Path) -> str:
    """The container that BigDataViewer opened before 10.6: XmlHelpers.loadPath."""
    found = ET.parse(xml).find(".//ImageLoader/n5")  # noqa: S314 - our own
    assert found is not None
    text = (found.text or "").strip()
    return posixpath.normpath(f"{xml.parent}/{text}" if found.get("type") == "relative" else text)


def path_of_uri(text: str) -> str | None:
    """The path that java.io.File takes from a relative URI reference, or one of the scheme file.

    None if java.net.URI or java.io.File refuse it, or if it would lead elsewhere: to another
    scheme, to a server, or from the root of the disk.
    """
    scheme, colon, rest = text.partition(":")
    if colon and not re.search(r"[/?#]", scheme):
        if scheme != "file" or not rest.startswith("/"):
            return None
        text = rest.removeprefix("//") if rest.startswith("///") else rest
    elif text.startswith("/"):
        return None
    legal = all(
        each in "/%_-!.~'()*,;:$&+=@"
        or (each.isascii() and each.isalnum())
        or (not each.isascii() and unicodedata.category(each) not in {"Cc", "Zs", "Zl", "Zp"})
        for each in text
    )
    if not legal or re.search("%(?![0-9A-Fa-f]{2})", text):
        return None
    return unquote(text)
