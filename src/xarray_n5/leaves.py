"""What lives in packages next to the core, or above the accessors, and is imported on first use.

The core imports no leaf: it knows their public names, and the files of scenes that they open, by
the tables here alone. So do accessors for functions of higher ranks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from xarray_n5.model.options import suggest_keywords

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import numpy as np
    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.bdv.api import to_bdv
    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.formats.containers import Container
    from xarray_n5.hangar.api import HangarWriter, from_hangar, hangar_records, to_hangar
    from xarray_n5.integrity.chunk_map import chunk_map
    from xarray_n5.integrity.diagnosis.finding import Finding
    from xarray_n5.integrity.diagnosis.survey import Survey
    from xarray_n5.integrity.digest import digest
    from xarray_n5.integrity.repair import repair
    from xarray_n5.integrity.verify import verify
    from xarray_n5.model.image import Image
    from xarray_n5.model.scene import SceneContent
    from xarray_n5.sampling.api import interp, interp_like, level_for
    from xarray_n5.sampling.crop import Bounds, crop, pair_of
    from xarray_n5.sampling.map_overlap import map_overlap
    from xarray_n5.sampling.placement import Targets
    from xarray_n5.sampling.world_grid import world_grid
    from xarray_n5.scenes.datasets import write_datasets
    from xarray_n5.scenes.write import write_scene
    from xarray_n5.stores import Store
    from xarray_n5.viewing.api import View, view

__all__ = [
    "Bounds",
    "HangarWriter",
    "Targets",
    "View",
    "chunk_map",
    "crop",
    "digest",
    "from_hangar",
    "hangar_records",
    "interp",
    "interp_like",
    "level_for",
    "map_overlap",
    "pair_of",
    "register_scene",
    "repair",
    "to_bdv",
    "to_hangar",
    "verify",
    "view",
    "world_grid",
    "write_datasets",
    "write_scene",
]

LEAVES = {
    **dict.fromkeys(
        ("HangarWriter", "from_hangar", "hangar_records", "to_hangar"), "xarray_n5.hangar.api"
    ),
    **dict.fromkeys(("Bounds", "crop", "pair_of"), "xarray_n5.sampling.crop"),
    "Targets": "xarray_n5.sampling.placement",
    **dict.fromkeys(("interp", "interp_like", "level_for"), "xarray_n5.sampling.api"),
    **{name: f"xarray_n5.integrity.{name}" for name in ("chunk_map", "digest", "repair", "verify")},
    "map_overlap": "xarray_n5.sampling.map_overlap",
    "to_bdv": "xarray_n5.bdv.api",
    **dict.fromkeys(("View", "view"), "xarray_n5.viewing.api"),
    "world_grid": "xarray_n5.sampling.world_grid",
    "write_datasets": "xarray_n5.scenes.datasets",
    "write_scene": "xarray_n5.scenes.write",
}
"""Names, and the modules that define them."""


def __getattr__(name: str) -> Any:
    """Import the module of a name on first use."""
    if name not in LEAVES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LEAVES[name]), name)


SCENES: dict[bytes, str | SceneReader] = {b"<SpimData": "xarray_n5.bdv.scene"}
"""Bytes at the beginning of files that describe a scene, and what reads them, or its module."""

SCENE_GROUPS: dict[str, str | GroupReader] = {
    "ome/scene": "xarray_n5.scenes.scene",
    "ImarisDataSet": "xarray_n5.imaris.scene",
}
"""Attributes of a group that describe a scene, or keys in one, and what reads it, or its module."""

LOOK = 4096
"""The number of bytes at a file's start that show whether it describes a scene."""


def scene_reader(document: bytes) -> SceneReader | None:
    """Return the reader of a file which begins like `document`; None if there is none.

    A module is only imported for a file that has its mark, whatever the file's encoding.
    """
    head = document[:LOOK]
    plain = head.replace(b"\0", b"")
    marked = (reader for mark, reader in SCENES.items() if mark in plain)
    readers: Iterator[Any] = (import_module(r) if isinstance(r, str) else r for r in marked)
    return next((reader for reader in readers if reader.recognizes(head)), None)


def scene_in(node: object) -> Scene | None:
    """Return the scene that the attributes of a group describe; None for other nodes.

    No request is made, and a module is only imported for a group that has its key.
    """
    attributes = getattr(node, "attrs", {})
    ome = attributes.get("ome")
    keys = {*attributes} | {f"ome/{key}" for key in (ome if isinstance(ome, dict) else ())}
    for reader in (SCENE_GROUPS[key] for key in SCENE_GROUPS.keys() & keys):
        found: Any = import_module(reader) if isinstance(reader, str) else reader
        if (scene := found.scene_of(node)) is not None:
            return scene  # type: ignore[no-any-return]
    return None


@suggest_keywords
def register_scene(mark: bytes, reader: SceneReader) -> None:
    """Register a reader of files that describe images in containers, and their positions.

    Programs that import the reader open such files with the engine "n5" and :func:`copy`, and
    describe them with a command line of their own, which calls ``xarray_n5.cli.main``. The command
    ``xarray-n5`` imports no other readers. Local files are recognised by their beginning; on
    servers, :func:`copy` and commands read only files that are called ``*.xml``.

    Parameters
    ----------
    mark : bytes
        Bytes that are among the first 4096 of each such file, and of few others.
    reader : SceneReader
        An object or a module with the functions of ``SceneReader`` in ``xarray_n5/leaves.py``.

    Raises
    ------
    TypeError
        If `mark` is not bytes, or `reader` is not such an object.
    ValueError
        If `mark` is empty or contains NUL, or a reader of another type has it.

    Examples
    --------
    >>> class Stage:
    ...     def recognizes(self, head):
    ...         return head.startswith(b"# stage")
    ...
    ...     def hint(self, document):
    ...         return "it lists positions of a stage"
    >>> xarray_n5.register_scene(b"# stage", Stage())
    """
    if not isinstance(mark, bytes):
        raise TypeError(f"mark is {mark!r}; expected bytes")
    if not callable(getattr(reader, "recognizes", None)):
        raise TypeError(f"reader is {reader!r}; expected an object with the method recognizes")
    if not mark or b"\0" in mark:
        raise ValueError(f"mark is {mark!r}; expected bytes without NUL")
    if type(SCENES.get(mark, reader)) is not type(reader):
        raise ValueError(f"a reader of files with {mark!r} is already registered")
    SCENES[mark] = reader


class SceneReader(Protocol):
    """What a leaf does with files that describe scenes: images in containers, and their places."""

    def recognizes(self, head: bytes) -> bool:
        """Return whether a file that begins with `head` is one of these."""

    def open_scene(self, store: Store, document: bytes, source: object) -> Scene:
        """Return the scene in a file, which is the root of `store`; the user named it `source`.

        Raises MetadataError if it is invalid.
        """

    def hint(self, document: bytes) -> str:
        """Return how to open a file that was opened as a container."""

    def refers_to(self, document: bytes, container: Container, names: Collection[str]) -> bool:
        """Return whether a file refers to a container in its directory, which has these names.

        Raises ValueError if it is invalid.
        """

    def placement(
        self, document: bytes, timepoint: int, setup: int
    ) -> tuple[np.ndarray, str | None, str] | None:
        """Return the matrix of a view's samples in the order x, y, z, its unit, and its source.

        Returns None if the file has none. Raises ValueError if it is invalid.
        """

    def missing_parts(self, document: bytes, survey: Survey, *, named: bool) -> Iterator[Finding]:
        """Iterate over the images that a container lacks; `named` if the user opened the file."""


class GroupReader(Protocol):
    """What a leaf does with groups that describe scenes."""

    def scene_of(self, group: Group) -> Scene | None:
        """Return the scene that a group's attributes describe, or None.

        Raises MetadataError if it is invalid.
        """


class Scene(Protocol):
    """A file or a group that describes images in a container, and their places in one world."""

    @property
    def url(self) -> str:
        """The location of the file or the group."""

    @property
    def document(self) -> bytes | None:
        """The file's content; None if it is a group."""

    @property
    def kind(self) -> str:
        """What it is, in one word."""

    @property
    def summary(self) -> str:
        """What it is, in one line."""

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Its content for people, as names and values."""

    def container(self, storage_options: Mapping[str, Any] | None) -> Container:
        """Return the container of the images."""

    def open_dataset(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,
        options: DatasetOptions,
        **how: Any,
    ) -> xr.Dataset:
        """Open an image at one level."""

    def open_groups(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,
        options: DatasetOptions,
        **how: Any,
    ) -> dict[str, xr.Dataset]:
        """Open all images at all levels, by path."""

    def images(
        self, group: str, storage_options: Mapping[str, Any] | None
    ) -> Mapping[str, Image[Any]]:
        """Return the images, or those at a path, by name; "" if there is only one."""

    def first_image(self, group: str, storage_options: Mapping[str, Any] | None) -> list[Any]:
        """Return the levels of the first image, like arrays, for a picture."""

    def facts(self, group: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a description for programs."""

    def content(self, storage_options: Mapping[str, Any] | None) -> SceneContent[Any]:
        """Return all images and their transformations, to be stored as another kind of scene.

        Raises MetadataError if one cannot be read, or has no position.
        """


if TYPE_CHECKING:
    from xarray_n5.bdv import scene
    from xarray_n5.imaris import scene as imaris_files
    from xarray_n5.scenes import scene as scene_groups

    _READERS: list[SceneReader] = [scene]
    _GROUP_READERS: list[GroupReader] = [scene_groups, imaris_files]
