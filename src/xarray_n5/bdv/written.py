"""The layouts in which views are written: BigDataViewer's N5, and BigStitcher's OME-Zarr.

Source: N5ApiTools (setupBdvDatasetsN5, setupBdvDatasetsOMEZARR) and XmlIoAllenOMEZarrLoader of
multiview-reconstruction; MoBIE's loader for ``bdv.ome.zarr`` has no code that reads an XML, and
BigStitcher does not know it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from xarray_n5.arrays.group import create_group
from xarray_n5.bdv.layouts import MOST_LEVELS, factors_listed
from xarray_n5.bdv.loaders import Loader, View, ZarrView
from xarray_n5.codecs import to_json
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.level_names import (
    numbered,
    setup_name,
    view_path,
    zarr_view_in,
    zarr_view_path,
)
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xarray_n5.bdv.loaders import XmlPath
    from xarray_n5.bdv.project import Project, ViewSetup
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.metadata import Attributes

_RESOLUTION = (1.0, 1.0, 1.0)

_AXES = ("z", "y", "x")

_MOST_IN_SHARD = 16
"""The number of chunks in a shard along y and x: BigStitcher-Spark's ``blockScale``."""

_SHARD_BYTES = 1 << 28
"""The maximum size of a shard: a task holds one in memory."""


class WrittenLayout(Protocol):
    """Where and how views are written."""

    axes: ClassVar[tuple[str, ...]]
    """The axes of an array, with those of size 1."""
    compression: ClassVar[str]
    """The compression of arrays whose source has none."""

    @property
    def in_shards(self) -> bool:
        """Whether arrays can be stored in shards, which is then the default."""

    def path(self, view: View, level: int | None = None) -> str:
        """Return the path of a view, or of one of its levels."""

    def level_attributes(self, factors: Sequence[int]) -> dict[str, Any]:
        """Return the attributes of a level's array, for its factors along z, y, x."""

    def create_groups(
        self,
        container: Container,
        setup: ViewSetup,
        views: Sequence[View],
        factors: Sequence[tuple[int, ...]],
        base: ArrayMetadata,
    ) -> None:
        """Create the groups of a setup and its views, with the attributes that programs read."""

    def loader(self, place: XmlPath, views: Iterable[View]) -> Loader:
        """Return the loader of a project with these views."""

    def timepoints(
        self, container: Container, names: Collection[str], setups: Collection[int]
    ) -> dict[int, frozenset[int]]:
        """Return the stored time points of some setups; `names` are the nodes in the root."""

    def described(
        self, container: Container, stored: Mapping[int, frozenset[int]]
    ) -> dict[int, Attributes]:
        """Return ``dataType`` and ``downsamplingFactors`` of setups, as in N5, if known."""

    def level_names(self, container: Container, view: View) -> dict[int, str]:
        """Return the names of a view's stored levels by number."""


@dataclass(frozen=True, slots=True)
class N5Views:
    """``setup0/timepoint0/s0``, with three axes."""

    axes: ClassVar[tuple[str, ...]] = _AXES
    compression: ClassVar[str] = "gzip"
    in_shards: ClassVar[bool] = False

    def path(self, view: View, level: int | None = None) -> str:
        """Return the path of a view, or of one of its levels."""
        return view_path(view.setup, view.timepoint, level)

    def level_attributes(self, factors: Sequence[int]) -> dict[str, Any]:
        """Return the factors of a level, x first."""
        return {"downsamplingFactors": list(factors[::-1])}

    def create_groups(
        self,
        container: Container,
        setup: ViewSetup,
        views: Sequence[View],
        factors: Sequence[tuple[int, ...]],
        base: ArrayMetadata,
    ) -> None:
        """Create the group of a setup, which looks like an array, and those of its views."""
        facts = {
            "dataType": base.dtype.name,
            "blockSize": list(base.chunks[::-1]),
            "dimensions": list(base.shape[::-1]),
            "compression": to_json(base.compression),
            "downsamplingFactors": [list(each[::-1]) for each in factors],
        }
        path = setup_name(setup.id)
        create_group(container, path, mode="a")
        node = container.node(path)
        whole = GroupMetadata(attributes={**node.metadata.attributes, **facts})
        container.create(node, whole)
        attributes = {
            "resolution": list(_RESOLUTION),
            "saved_completely": True,
            "multiScale": True,
        }
        for view in views:
            create_group(container, self.path(view), mode="a", attributes=attributes)

    def loader(self, place: XmlPath, views: Iterable[View]) -> Loader:  # noqa: ARG002
        """Return ``bdv.n5``: version 1.0 has a plain path, and 1.1 a URI."""
        return Loader("bdv.n5", "1.1" if place.is_encoded else "1.0", "n5", place)

    def timepoints(
        self, container: Container, names: Collection[str], setups: Collection[int]
    ) -> dict[int, frozenset[int]]:
        """Return the stored time points of some setups."""
        return {
            number: frozenset(numbered(container.children(name), "timepoint"))
            for number in setups
            if (name := setup_name(number)) in names
        }

    def described(
        self, container: Container, stored: Mapping[int, frozenset[int]]
    ) -> dict[int, Attributes]:
        """Return the attributes of setups."""
        nodes = container.nodes([setup_name(number) for number in stored]) if stored else []
        found = {}
        for number, node in zip(stored, nodes, strict=True):
            if isinstance(node, N5Error):
                raise node
            found[number] = node.metadata.attributes
        return found

    def level_names(self, container: Container, view: View) -> dict[int, str]:
        """Return the names of a view's stored levels by number."""
        return numbered(container.children(self.path(view)), "level")


@dataclass(frozen=True, slots=True)
class ZarrViews:
    """``s0-t0.zarr/0``: an OME-Zarr image for each view, with axes t and c of size 1."""

    axes: ClassVar[tuple[str, ...]] = ("t", "c", *_AXES)
    compression: ClassVar[str] = "zstd"
    in_shards: bool
    known: Mapping[View, ZarrView] = field(default_factory=dict)
    """The existing views of the project, which keep their paths."""

    def path(self, view: View, level: int | None = None) -> str:
        """Return the path of a view's image, or of one of its levels."""
        entry = self.known.get(view)
        if entry is None:
            return zarr_view_path(view.setup, view.timepoint, level)
        path = entry.path.strip("/")
        return path if level is None else join(path, str(level))

    def level_attributes(self, factors: Sequence[int]) -> dict[str, Any]:
        """Return the factors of a coarser level, x first, with those of channels and time."""
        if max(factors) == 1:
            return {}
        return {"downsamplingFactors": [*factors[::-1], 1, 1]}

    def create_groups(
        self,
        container: Container,
        setup: ViewSetup,
        views: Sequence[View],
        factors: Sequence[tuple[int, ...]],
        base: ArrayMetadata,
    ) -> None:
        """Create the groups of views with their ``multiscales``: the voxel size is that of the XML.

        Axes before z get no unit: an image has one time point only.
        """
        size = setup.voxel_size or (1.0,) * len(_AXES)
        before = (Axis(name="t", kind="time"), Axis(name="c", kind="channel"))
        levels = []
        for level, own in enumerate(factors):
            spatial = (
                Axis(name=name, unit=setup.unit, scale=s * f, offset=s * (f - 1) / 2, kind="space")
                for name, s, f in zip(_AXES, size, own, strict=True)
            )
            node = ArrayContext(
                shape=base.shape,
                dtype=base.dtype,
                path=str(level),
                lists_x_first=False,
                ngff=container.format.ngff_version,
            )
            levels.append((node, Geometry((*before, *spatial))))
        attributes = Ngff().write_group(levels)
        for view in views:
            create_group(container, self.path(view), mode="a", attributes=attributes)

    def loader(self, place: XmlPath, views: Iterable[View]) -> Loader:
        """Return ``bdv.multimg.zarr``, which BigStitcher writes for both versions of Zarr.

        Raises
        ------
        MetadataError
            If a view is stored in an array that other views share.
        """
        listed = {view: self.known.get(view, ZarrView(self.path(view), (0, 0))) for view in views}
        shared = Counter(entry.path.strip("/") for entry in {**self.known, **listed}.values())
        for view, entry in listed.items():
            if shared[entry.path.strip("/")] > 1 or any(entry.indices or ()):
                raise MetadataError(
                    f"timepoint {view.timepoint} of setup {view.setup} is a part of the image "
                    f"{entry.path!r}, which has other views, too, so that it cannot be replaced; "
                    "write another project"
                )
        return Loader("bdv.multimg.zarr", "3.0", "zarr", place, listed)

    def timepoints(
        self,
        container: Container,  # noqa: ARG002
        names: Collection[str],
        setups: Collection[int],
    ) -> dict[int, frozenset[int]]:
        """Return the stored time points of some setups, whether or not the XML lists them."""
        views = {View(time, setup) for setup, time in filter(None, map(zarr_view_in, names))}
        views |= {
            view for view, each in self.known.items() if each.path.strip("/").split("/")[0] in names
        }
        found: dict[int, set[int]] = {}
        for view in views:
            if view.setup in setups:
                found.setdefault(view.setup, set()).add(view.timepoint)
        return {setup: frozenset(times) for setup, times in sorted(found.items())}

    def described(
        self, container: Container, stored: Mapping[int, frozenset[int]]
    ) -> dict[int, Attributes]:
        """Return the type and the factors of the first view of each setup."""
        views = [View(min(times), setup) for setup, times in stored.items() if times]
        paths = [path for view in views for path in (self.path(view), self.path(view, 0))]
        nodes = container.nodes(paths, verify=False) if paths else []
        found: dict[int, Attributes] = {}
        for view, group, base in zip(views, nodes[::2], nodes[1::2], strict=True):
            facts: dict[str, Any] = {}
            if not isinstance(group, N5Error):
                attributes = group.metadata.attributes
                listed = [factors_listed(attributes, level) for level in range(MOST_LEVELS)]
                factors = [list(each[::-1]) for each in listed if each is not None]
                facts["downsamplingFactors"] = factors
            if not isinstance(base, N5Error) and isinstance(base.metadata, ArrayMetadata):
                facts["dataType"] = base.metadata.dtype.name
            found[view.setup] = facts
        return found

    def level_names(self, container: Container, view: View) -> dict[int, str]:
        """Return the names of a view's stored levels by number."""
        return numbered(container.children(self.path(view)), "number")


def layout_to_write(form: Format, before: Project | None) -> WrittenLayout:
    """Return the layout of views in a container, which keeps the paths of an existing project."""
    if form.name == "n5":
        return N5Views()
    known = before.loader.views if before is not None and before.loader is not None else {}
    return ZarrViews(in_shards=form.holds_shards, known=known)


def shards_over(
    chunks: Sequence[int], shape: Sequence[int], itemsize: int
) -> tuple[int, ...] | None:
    """Return the shape of shards along z, y, x; None if a chunk holds the array.

    They have up to 16 x 16 chunks along y and x, as BigStitcher-Spark's, and at most 256 MiB.

    >>> shards_over((64, 128, 128), (300, 1000, 5000), 2), shards_over((8, 8, 8), (8, 8, 8), 1)
    ((64, 1024, 2048), None)
    """
    counts = [1, *(-(-size // side) for size, side in zip(shape[1:], chunks[1:], strict=True))]
    most = _MOST_IN_SHARD
    while True:
        several = [min(count, most) for count in counts]
        found = tuple(side * n for side, n in zip(chunks, several, strict=True))
        elements = found[0] * found[1] * found[2]
        if most == 1 or elements * itemsize <= _SHARD_BYTES:
            return found if max(several) > 1 else None
        most //= 2
