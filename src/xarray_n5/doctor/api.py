"""The public :func:`examine`: damage in a container, and what other programs make of its images."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.open import open_array, open_group
from xarray_n5.dialects import DIALECTS
from xarray_n5.doctor.diagnose import survey_at
from xarray_n5.doctor.find import stored_images
from xarray_n5.doctor.readers import READERS
from xarray_n5.doctor.readers.compare import compare, reason_of
from xarray_n5.doctor.readers.expected import describes, expected_geometry, leading
from xarray_n5.doctor.readers.fix import AmbiguousError, RepairPlan, plan_repair
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats.containers import find_scene

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.doctor.finding import Finding
    from xarray_n5.doctor.readers.compare import Comparison
    from xarray_n5.doctor.readers.fix import Change
    from xarray_n5.doctor.readers.protocol import StoredImage
    from xarray_n5.model.axes import Geometry


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """An image, what programs make of it, and what would make them agree."""

    image: StoredImage
    expected: tuple[Geometry, ...]
    comparisons: tuple[Comparison, ...]
    plan: RepairPlan | None
    """The changes that make programs agree; None if there are none that can."""
    obstacle: str = ""
    """Why there are none."""
    ambiguous: bool = False
    """Whether dialects contradict each other, and none was chosen."""

    @property
    def agrees(self) -> bool:
        """Whether no program reads something else, and no dialect says something else."""
        return not self.ambiguous and all(each.agrees for each in self.comparisons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The images of a container, and what is damaged in it."""

    url: str
    """The location of the container, which a project names."""
    source: object
    """The container as the user named it, or its location if it was named by a project."""
    path: str
    images: tuple[Examined, ...]
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is damaged, and all programs agree."""
        return not self.findings and all(each.agrees for each in self.images)


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

    The programs are Neuroglancer, TensorStore, n5-viewer with Fiji, BigDataViewer, Paintera,
    fibsem-tools (COSEM), readers of OME-NGFF, napari-ome-zarr, zarr-python 2 and xarray's engine
    for Zarr. None of them is run: each is a class with the rules of its source. They are compared
    with xarray-n5, which reads all dialects. A wrong name, scale, offset or unit is a
    disagreement, and so is an array that is not opened because of an attribute. What a program
    does not read at all, such as units in Paintera, is not, and neither is its default where
    nothing is stored. Neuroglancer has no offsets in N5, and napari-ome-zarr none at all: they
    agree about an image that begins at 0 there and is otherwise the same, and ``reason`` says so.

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
        Write the attributes that make the programs agree. An attribute that is not of a dialect
        never changes, and one of a dialect only if a program needs it.
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

        Attributes of the Dataset: ``dialect``, which xarray-n5 uses; ``changes`` and ``replaced``,
        the new and the stored values of attributes that change, by path; ``gained``, the programs
        that the changes make agree; ``obstacle``, why there are none. With `fix`, the variables are
        what the programs read afterwards. The attribute ``findings``, which a tree has at its root,
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
    >>> array.attrs.update(axes=["x", "y", "z"], units=["nm"] * 3, resolution=[4, 4, 4])
    >>> found = xarray_n5.doctor.examine("em.n5", "raw", dialect="cosem")
    >>> found.reader[~found.agrees].values.tolist()
    ['tensorstore']
    >>> fixed = xarray_n5.doctor.examine("em.n5", "raw", dialect="cosem", fix=True)
    >>> fixed.agrees.all().item(), array.refresh().attrs["resolution"]
    (True, [8, 8, 8])
    """
    found = diagnose_images(url, path, dialect=dialect, storage_options=storage_options)
    plans = {each.image.path: each.plan for each in found.images}
    if fix and not dry_run:
        for each in found.images:
            write(found.source, each, storage_options)
        found = diagnose_images(url, path, storage_options=storage_options)
    result = {each.image.path: _dataset(each, plans.get(each.image.path)) for each in found.images}
    findings = [asdict(each) for each in found.findings]
    if list(result) == [found.path]:
        return result[found.path].assign_attrs(findings=findings)
    tree = xr.DataTree.from_dict({_node(each, result): dataset for each, dataset in result.items()})
    tree.attrs |= {"container": found.url, "findings": findings}
    return tree


def diagnose_images(
    url: object,
    path: str = "",
    *,
    dialect: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Diagnosis:
    """Compare what programs read of the images at a node and below it; see :func:`examine`."""
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}; expected one of {', '.join(DIALECTS)}")
    scene = find_scene(url, storage_options)
    source = url if scene is None else scene.container(storage_options)
    xml = None if scene is None else scene.document
    survey, findings = survey_at(source, path, storage_options, xml)
    if survey is None:
        return Diagnosis(url=str(url), source=url, path=path, images=(), findings=tuple(findings))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report says it
        found = stored_images(survey, xml)
        images = tuple(_examined(image, dialect, survey.root) for image in found)
    where = survey.container.url
    if not images and not findings:
        why = "no arrays found; check the URL and the path"
        raise NodeNotFoundError(where, path, "array", why)
    if dialect is not None and not any(describes(each, dialect) for each in found):
        raise ValueError(f"no image in {where!r} has {dialect} metadata")
    return Diagnosis(
        url=where,
        source=url if scene is None else where,
        path=survey.root,
        images=images,
        findings=tuple(findings),
    )


def _examined(image: StoredImage, dialect: str | None, root: str) -> Examined:
    chosen = dialect if dialect is not None and describes(image, dialect) else None
    expected = expected_geometry(image, chosen)
    obstacle, ambiguous, plan = "", False, None
    if image.grouped and len(image.path) < len(root):
        obstacle = f"it is a part of the image {image.path or '/'!r}; examine that to change it"
    else:
        try:
            plan = plan_repair(image, chosen)
        except ValueError as error:
            obstacle, ambiguous = str(error), isinstance(error, AmbiguousError)
    return Examined(
        image=image,
        expected=expected,
        comparisons=tuple(compare(image, expected)),
        plan=plan,
        obstacle=obstacle,
        ambiguous=ambiguous,
    )


def write(url: object, examined: Examined, storage_options: Mapping[str, Any] | None) -> None:
    """Write the changes of attributes that make programs agree."""
    for change in examined.plan.changes if examined.plan else ():
        open_node = open_group if change.is_group else open_array
        node = open_node(url, change.path, mode="r+", storage_options=storage_options)
        node.attrs.change(change.after, change.gone)


def _node(path: str, images: Iterable[str]) -> str:
    """Return the node of an image: nodes of a tree must have the dimensions of those above.

    >>> _node("", ["", "labels/cells"]), _node("labels/cells", ["", "labels/cells"])
    ('image', 'labels/cells')
    """
    inner = f"{path}/" if path else ""
    above = any(each != path and each.startswith(inner) for each in images)
    return f"{inner}image" if above else path or "/"


def _dataset(found: Examined, plan: RepairPlan | None) -> xr.Dataset:
    levels, expected = found.image.levels, found.expected[0].with_names()
    changes = plan.changes if plan else ()
    size = (len(found.comparisons), len(levels), expected.ndim)
    opens = np.zeros(size[:2], bool)
    attribute = np.full(size[:2], "", object)
    name, unit = np.full(size, "", object), np.full(size, "", object)
    scale, offset = np.full(size, np.nan), np.full(size, np.nan)
    for at, reading in _readings(found.comparisons):
        opens[at] = reading.opens
        attribute[at] = reading.attribute
        for place, axis in enumerate(reading.axes or ()):
            spot = (*at, place)
            name[spot], unit[spot] = axis.name or "", axis.unit or ""
            scale[spot] = np.nan if axis.scale is None else axis.scale
            offset[spot] = np.nan if axis.offset is None else axis.offset
    by_reader = ("reader",)
    whole = (*by_reader, "level", "axis")
    reasons = [reason_of(each, found.image, found.expected) for each in found.comparisons]
    return xr.Dataset(
        {
            "opens": (whole[:2], opens),
            "attribute": (whole[:2], attribute),
            "name": (whole, name),
            "scale": (whole, scale),
            "offset": (whole, offset),
            "unit": (whole, unit),
            "verdict": (by_reader, np.array([each.verdict for each in found.comparisons], object)),
            "agrees": (by_reader, np.array([each.agrees for each in found.comparisons])),
            "reason": (by_reader, np.array(reasons, object)),
        },
        {
            "reader": [each.reader for each in found.comparisons],
            "level": list(found.image.names),
            "array": ("level", [level.context.path for level in levels]),
            "axis": [str(axis.name) for axis in expected.axes],
            "source": (by_reader, [READERS[each.reader].source for each in found.comparisons]),
        },
        {
            "path": found.image.path,
            "dialect": leading(found.expected[0]),
            "changes": _as_attributes(changes),
            "replaced": {each.path: dict(each.before) for each in changes if each.before},
            "gained": list(plan.gained) if plan else [],
            "obstacle": found.obstacle,
        },
    )


def _readings(found: Sequence[Comparison]) -> Iterator[tuple[tuple[int, int], Any]]:
    for row, comparison in enumerate(found):
        for column, reading in enumerate(comparison.readings):
            yield (row, column), reading


def _as_attributes(changes: Sequence[Change]) -> dict[str, dict[str, Any]]:
    """Return the new attributes by path; None for those that are removed."""
    return {each.path: {**dict.fromkeys(each.gone), **each.after} for each in changes}
