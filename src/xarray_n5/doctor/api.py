"""The public :func:`examine`: damage in a container, and what other programs make of its images."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
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
from xarray_n5.doctor.fix import RepairPlan, plan_repair
from xarray_n5.doctor.images import stored_images
from xarray_n5.doctor.readers import SeenAxis
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats.containers import find_scene

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.doctor.compare import Comparison
    from xarray_n5.doctor.damage import Finding
    from xarray_n5.doctor.images import StoredImage
    from xarray_n5.model.axes import Geometry


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """An image, what programs make of it, and what would make them agree."""

    image: StoredImage
    expected: Sequence[Geometry]
    comparisons: Sequence[Comparison]
    plan: RepairPlan | None
    """The changes that make programs agree; None if there are none that can."""
    obstacle: str = ""
    """Why there are none."""
    contradicted: bool = False
    """Whether a dialect contradicts the geometry."""

    @property
    def agrees(self) -> bool:
        """Whether no program reads something else, and no dialect says something else."""
        return not self.contradicted and all(program.agrees for program in self.comparisons)


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
        return not self.findings and all(image.agrees for image in self.images)


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
    >>> array.attrs["pixelResolution"] = {"dimensions": [4, 4, 4], "unit": "nm"}
    >>> read = xarray_n5.doctor.examine("em.n5", "raw", dialect="cosem")
    >>> read.reader[~read.agrees].values.tolist()
    ['neuroglancer']
    >>> fixed = xarray_n5.doctor.examine("em.n5", "raw", dialect="cosem", fix=True)
    >>> fixed.agrees.all().item(), array.refresh().attrs["resolution"]
    (True, [8, 8, 8])
    """
    diagnosis = diagnose_images(url, path, dialect=dialect, storage_options=storage_options)
    plans = {image.image.path: image.plan for image in diagnosis.images}
    if fix and not dry_run:
        diagnosis = apply_fixes(diagnosis, url, path, storage_options)
    datasets = {
        image.image.path: _dataset(image, plans.get(image.image.path)) for image in diagnosis.images
    }
    findings = [asdict(finding) for finding in diagnosis.findings]
    if list(datasets) == [diagnosis.path]:
        return datasets[diagnosis.path].assign_attrs(findings=findings)
    nodes = {_node(image, datasets): dataset for image, dataset in datasets.items()}
    tree = xr.DataTree.from_dict(nodes)
    tree.attrs |= {"container": diagnosis.url, "findings": findings}
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
        images = tuple(
            _examined(image, dialect, survey.root) for image in stored_images(survey, xml)
        )
    where = survey.container.url
    if not images and not findings:
        why = "no arrays found; check the URL and the path"
        raise NodeNotFoundError(where, path, "array", why)
    if dialect is not None and not any(describes(image.image, dialect) for image in images):
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
    comparisons, against = compare(image, expected), conflicts(image, expected)
    plan, obstacle = None, ""
    if image.grouped and len(image.path) < len(root):
        obstacle = f"it is a part of the image {image.path or '/'!r}; examine that to change it"
    else:
        try:
            plan = plan_repair(image, expected, comparisons, against, chosen)
        except ValueError as error:
            obstacle = str(error)
    return Examined(
        image=image,
        expected=expected,
        comparisons=comparisons,
        plan=plan,
        obstacle=obstacle,
        contradicted=bool(against),
    )


def apply_fixes(
    diagnosis: Diagnosis, url: object, path: str, storage_options: Mapping[str, Any] | None
) -> Diagnosis:
    """Write the changes of attributes that make programs agree, and return what they read then."""
    for image in diagnosis.images:
        for change in image.plan.changes if image.plan else ():
            open_node = open_group if change.is_group else open_array
            node = open_node(
                diagnosis.source, change.path, mode="r+", storage_options=storage_options
            )
            node.attrs.change(change.after, change.gone)
    return diagnose_images(url, path, storage_options=storage_options)


def _node(path: str, images: Iterable[str]) -> str:
    """Return the node of an image: nodes of a tree must have the dimensions of those above.

    >>> _node("", ["", "labels/cells"]), _node("labels/cells", ["", "labels/cells"])
    ('image', 'labels/cells')
    """
    inner = f"{path}/" if path else ""
    above = any(other != path and other.startswith(inner) for other in images)
    return f"{inner}image" if above else path or "/"


def _dataset(examined: Examined, plan: RepairPlan | None) -> xr.Dataset:
    programs, image = examined.comparisons, examined.image
    expected, changes = examined.expected[0].with_names(), plan.changes if plan else ()
    readings = [program.readings for program in programs]
    none = (SeenAxis(),) * expected.ndim
    axes = [[level.axes or none for level in row] for row in readings]
    by_level, by_axis = ("reader", "level"), ("reader", "level", "axis")
    variables: dict[str, Any] = {
        "opens": (by_level, [[level.opens for level in row] for row in readings]),
        "attribute": (by_level, _strings([[level.attribute for level in row] for row in readings])),
        "verdict": ("reader", _strings([program.verdict for program in programs])),
        "agrees": ("reader", [program.agrees for program in programs]),
        "reason": ("reader", _strings([program.reason for program in programs])),
    }
    for key, missing in {"name": "", "scale": np.nan, "offset": np.nan, "unit": ""}.items():
        facts = [[[getattr(axis, key) for axis in level] for level in row] for row in axes]
        known = [[[missing if v is None else v for v in level] for level in row] for row in facts]
        variables[key] = (by_axis, _strings(known) if missing == "" else known)
    coords = {
        "reader": [*READERS],
        "level": list(image.names),
        "array": ("level", [level.path for level in image.levels]),
        "axis": [str(axis.name) for axis in expected.axes],
        "source": ("reader", [reader.source for reader in READERS.values()]),
    }
    attrs = {
        "path": image.path,
        "dialect": leading(examined.expected[0]),
        "changes": {
            change.path: {**dict.fromkeys(change.gone), **change.after} for change in changes
        },
        "replaced": {change.path: dict(change.before) for change in changes if change.before},
        "gained": list(plan.gained) if plan else [],
        "obstacle": examined.obstacle,
    }
    return xr.Dataset(variables, coords, attrs)


def _strings(values: list[Any]) -> np.ndarray:
    return np.array(values, object)
