"""The public :func:`examine`: damage in a container, and what other programs make of its images."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.open import open_array, open_group
from xarray_n5.dialects import DIALECTS
from xarray_n5.doctor.compare import (
    READERS,
    compare,
    conflicts,
    describes,
    expected_geometry,
    leading,
)
from xarray_n5.doctor.damage import survey_at
from xarray_n5.doctor.fix import plan_fix
from xarray_n5.doctor.images import stored_images
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats.containers import find_scene

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.doctor.compare import Comparison
    from xarray_n5.doctor.damage import Finding, Survey
    from xarray_n5.doctor.images import StoredImage
    from xarray_n5.doctor.readers import Reading
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes


def examine(
    url: object,
    path: str = "",
    *,
    dialect: str | None = None,
    fix: bool = False,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> xr.Dataset | xr.DataTree:
    """Find out what other programs make of the images in a container, and make them agree.

    The programs are Neuroglancer, those of n5-universe (n5-viewer, Fiji) and readers of OME-NGFF.
    None of them is run: each is a class with the rules of its source. They are compared with
    xarray-n5, which reads all dialects. A wrong name, scale, offset or unit is a disagreement, and
    so is an array that is not opened because of an attribute. What a program does not read at all
    is not, and neither is its default where nothing is stored. Neuroglancer has no offsets in N5:
    it agrees about an image that begins at 0 there and is otherwise the same, and ``reason`` says
    so.

    Damaged and half-written nodes are found, too: by the metadata of all, and by a few chunks of
    each array. :func:`verify` checks all chunks. Of BigDataViewer's time series, the images of the
    first time point are compared.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store. Or the XML of a project of BigDataViewer.
    path : str, default: ""
        The path of an array or a group in the container; by default the container itself.
    dialect : str, optional
        The dialect that is right where several contradict each other, such as "cosem".
    fix : bool, default: False
        Write the attributes of the default dialects, and remove those of dialects that contradict
        them. An attribute that is not of a dialect never changes, and nothing is written that
        makes no program agree.
    dry_run : bool, default: False
        Write nothing; the attribute ``changes`` of the result has what `fix` would write.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        For an image at `path`, a Dataset; otherwise a tree with one for each image, at its path, or
        in a node ``image`` below it if there are images below it, too. Dimensions are ``reader``,
        ``level`` and ``axis`` (in C order); the coordinate ``array`` has the path of each level.
        Variables are:

        - ``opens`` (reader, level): whether the program opens the array;
        - ``attribute`` (reader, level): the attributes that it reads;
        - ``name``, ``scale``, ``offset``, ``unit`` (reader, level, axis): the axes as it sees them;
          `offset` is the position of the centre of sample 0. NaN or "" if it does not read one;
        - ``verdict`` (reader): "agrees"; "silent" if it opens the image without any axes;
          "differs"; "refuses" because of an attribute; "unread" if it does not know the format, the
          layout or the codec;
        - ``agrees`` (reader), False for "differs" and "refuses", and ``reason`` (reader).

        Attributes of the Dataset: the image's ``path``, ``format`` and ``shape``; ``dialect``,
        which xarray-n5 uses; ``contradictions``, the dialects that contradict it; ``changes`` and
        ``replaced``, the new values (None if it is removed) and the stored values of attributes
        that change, by path; ``obstacle``, why none can. With `fix`, the variables are what the
        programs read afterwards. The attribute ``findings``, which a tree has at its root,
        is a list with the ``kind``, ``path``, ``message`` and ``remedy`` of all damage.

    Raises
    ------
    NodeNotFoundError
        If there is no node, or no array in the group.
    ValueError
        If `dialect` is unknown, or describes none of the images.

    Examples
    --------
    >>> axes = [xarray_n5.Axis(name=name, unit="nm", scale=8.0) for name in "zyx"]
    >>> array = xarray_n5.create_array(
    ...     "em.n5", "raw", shape=(4, 8, 8), dtype="uint8", axes=axes, dialect="cosem"
    ... )
    >>> array.attrs["pixelResolution"] = {"dimensions": [4, 4, 4], "unit": "nm"}
    >>> read = xarray_n5.doctor.examine("em.n5", "raw", dialect="cosem")
    >>> read.reader[~read.agrees].values.tolist()
    ['neuroglancer']
    >>> fixed = xarray_n5.doctor.examine("em.n5", "raw", dialect="cosem", fix=True)
    >>> fixed.agrees.all().item(), array.refresh().attrs["resolution"]
    (True, [8, 8, 8])
    """
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}; expected one of {', '.join(DIALECTS)}")
    scene = find_scene(url, storage_options)
    source = url if scene is None else scene.container(storage_options)
    xml = None if scene is None else scene.document
    survey, findings = survey_at(source, path, storage_options, xml)
    if survey is None:
        return _tree({}, str(url), findings)
    where = survey.container.url
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report says it
        images = stored_images(survey)
        datasets = {image.path: _examined(image, dialect, survey.root) for image in images}
    if not images and not findings:
        why = "no arrays found; check the URL and the path"
        raise NodeNotFoundError(where, path, "array", why)
    if dialect is not None and not any(describes(image, dialect) for image in images):
        raise ValueError(f"no image in {where!r} has {dialect} metadata")
    changed = {at: ds.attrs for at, ds in datasets.items() if ds.attrs["changes"]}
    if changed and fix and not dry_run:
        container = url if scene is None else where
        for attrs in changed.values():
            _write(container, attrs["changes"], survey, storage_options)
        again = examine(url, path, storage_options=storage_options)
        for attrs in changed.values():
            node = again if isinstance(again, xr.Dataset) else again[_node(attrs["path"], datasets)]
            node.attrs |= {key: attrs[key] for key in ("changes", "replaced")}
        return again
    return _tree(datasets, where, findings, survey.root)


def _tree(
    datasets: Mapping[str, xr.Dataset], url: str, found: Sequence[Finding], root: str = ""
) -> xr.Dataset | xr.DataTree:
    """Return the Dataset of the image at the root, or all of them as a tree, with findings."""
    findings = [asdict(finding) for finding in found]
    if list(datasets) == [root]:
        return datasets[root].assign_attrs(findings=findings)
    nodes = {_node(image, datasets): dataset for image, dataset in datasets.items()}
    tree = xr.DataTree.from_dict(nodes)
    tree.attrs |= {"container": url, "findings": findings}
    return tree


def _node(path: str, images: Iterable[str]) -> str:
    """Return the node of an image: nodes of a tree must have the dimensions of those above.

    >>> _node("", ["", "labels/cells"]), _node("labels/cells", ["", "labels/cells"])
    ('image', 'labels/cells')
    """
    inner = f"{path}/" if path else ""
    above = any(other != path and other.startswith(inner) for other in images)
    return f"{inner}image" if above else path or "/"


def _write(
    source: object,
    changes: Mapping[str, Mapping[str, Any]],
    survey: Survey,
    storage_options: Mapping[str, Any] | None,
) -> None:
    """Write changes of attributes of nodes; None removes one."""
    for path, values in changes.items():
        open_node = open_array if path in survey.arrays else open_group
        node = open_node(source, path, mode="r+", storage_options=storage_options)
        gone = [key for key, value in values.items() if value is None]
        node.attrs.change({k: v for k, v in values.items() if v is not None}, gone)


def _examined(image: StoredImage, dialect: str | None, root: str) -> xr.Dataset:
    """Return what programs read of an image, and what would make them agree."""
    chosen = dialect if dialect is not None and describes(image, dialect) else None
    expected = expected_geometry(image, chosen)
    comparisons, contradictions = compare(image, expected), conflicts(image, expected)
    stored, obstacle = image.nodes, ""
    nodes: Mapping[str, Attributes] = stored
    if image.grouped and len(image.path) < len(root):
        obstacle = f"it is a part of the image {image.path or '/'!r}; examine that to change it"
    else:
        try:
            nodes = plan_fix(image, expected, comparisons, contradictions, chosen)
        except ValueError as error:
            obstacle = str(error)
    changes, replaced = {}, {}
    for path, old in stored.items():
        differ = [key for key in {**old, **nodes[path]} if old.get(key) != nodes[path].get(key)]
        if differ:
            changes[path] = {key: nodes[path].get(key) for key in differ}
            replaced[path] = {key: old[key] for key in differ if key in old}
    attrs = {
        "path": image.path,
        "format": image.format,
        "shape": image.levels[0].context.shape,
        "dialect": leading(expected[0]),
        "contradictions": list(contradictions),
        "changes": changes,
        "replaced": replaced,
        "obstacle": obstacle,
    }
    return _table(image, expected[0], comparisons).assign_attrs(attrs)


def _table(image: StoredImage, expected: Geometry, comparisons: Sequence[Comparison]) -> xr.Dataset:
    """Return what programs read, as variables."""
    readings = [program.readings for program in comparisons]
    variables: dict[str, Any] = {}
    for key in ("verdict", "agrees", "reason"):
        variables[key] = ("reader", [getattr(program, key) for program in comparisons])
    for key in ("opens", "attribute"):
        table = [[getattr(level, key) for level in row] for row in readings]
        variables[key] = (("reader", "level"), table)
    axes = [[_facts(level, expected.ndim) for level in row] for row in readings]
    for at, key in enumerate(("name", "scale", "offset", "unit")):
        column = [[[axis[at] for axis in level] for level in row] for row in axes]
        variables[key] = (("reader", "level", "axis"), column)
    coords = {
        "reader": [*READERS],
        "title": ("reader", [reader.title for reader in READERS.values()]),
        "level": list(image.names),
        "array": ("level", [level.path for level in image.levels]),
        "axis": [str(axis.name) for axis in expected.with_names().axes],
    }
    return xr.Dataset(variables, coords)


def _facts(reading: Reading, ndim: int) -> list[tuple[str, float, float, str]]:
    """Return the name, scale, offset and unit of each axis; "" or NaN if it is not read."""
    if reading.axes is None:
        return [("", np.nan, np.nan, "")] * ndim
    facts = []
    for axis in reading.axes:
        sized = axis.scale is not None and axis.labels is None
        offset = axis.offset if sized and reading.offsets != "ignored" else np.nan
        scale, unit = (axis.step, axis.unit or "") if sized else (np.nan, "")
        facts.append((axis.name or "", scale, offset, unit))
    return facts
