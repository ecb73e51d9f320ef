"""How files and groups that describe scenes are recognised, and which module reads them.

The core imports none of these modules itself: they are above it, and few users need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.image import Image
    from xarray_n5.stores import Store

SCENES = {b"<SpimData": "xarray_n5.bdv.scene"}
"""Bytes at the beginning of files that describe a scene, and the module that reads them."""

SCENE_GROUPS = {
    "ome/scene": "xarray_n5.scenes.scene",
    "ImarisDataSet": "xarray_n5.imaris.scene",
}
"""Attributes of a group that describe a scene, or keys in one, and the module that reads it."""

LOOK = 4096
"""The number of bytes at a file's start that show whether it describes a scene."""


def scene_reader(document: bytes) -> SceneReader | None:
    """Return the reader of a file which begins like `document`; None if there is none.

    A module is only imported for a file that has its mark, whatever the file's encoding.
    """
    head = document[:LOOK]
    plain = head.replace(b"\0", b"")
    readers: Iterator[Any] = (import_module(SCENES[mark]) for mark in SCENES if mark in plain)
    return next((reader for reader in readers if reader.recognizes(head)), None)


def scene_in(node: object) -> Scene | None:
    """Return the scene that the attributes of a group describe; None for other nodes.

    No request is made, and a module is only imported for a group that has its key.
    """
    attributes = getattr(node, "attrs", {})
    ome = attributes.get("ome")
    keys = {*attributes} | {f"ome/{key}" for key in (ome if isinstance(ome, dict) else ())}
    readers: Iterator[Any] = (import_module(SCENE_GROUPS[k]) for k in SCENE_GROUPS.keys() & keys)
    scenes = (reader.scene_of(node) for reader in readers)
    return next((scene for scene in scenes if scene is not None), None)


class SceneReader(Protocol):
    """What a module does with files that describe scenes: images, and their places."""

    def recognizes(self, head: bytes) -> bool:
        """Return whether a file that begins with `head` is one of these."""

    def open_scene(self, store: Store, document: bytes, source: object) -> Scene:
        """Return the scene in a file, which is the root of `store`; the user named it `source`.

        Raises MetadataError if it is invalid.
        """

    def hint(self, document: bytes) -> str:
        """Return how to open a file that was opened as a container."""

    def refers_to(self, document: bytes, container: Container) -> bool:
        """Return whether a file refers to a container in its directory.

        Raises ValueError if it is invalid.
        """

    def placement(
        self, document: bytes, timepoint: int, setup: int
    ) -> tuple[np.ndarray, str | None, str] | None:
        """Return the matrix of a view's samples in the order x, y, z, its unit, and its source.

        Returns None if the file has none. Raises ValueError if it is invalid.
        """


class GroupReader(Protocol):
    """What a module does with groups that describe scenes."""

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

    def container(self, storage_options: Mapping[str, Any] | None) -> Container:
        """Return the container of the images."""

    def open_dataset(self, group: str, options: DatasetOptions) -> xr.Dataset:
        """Open an image at one level."""

    def open_groups(self, group: str, options: DatasetOptions) -> dict[str, xr.Dataset]:
        """Open all images at all levels, by path."""

    def images(
        self, group: str, storage_options: Mapping[str, Any] | None
    ) -> Mapping[str, Image[Any]]:
        """Return the images, or those at a path, by name; "" if there is only one."""


if TYPE_CHECKING:
    from xarray_n5.bdv import scene
    from xarray_n5.imaris import scene as imaris_files
    from xarray_n5.scenes import scene as scene_groups

    _READERS: list[SceneReader] = [scene]
    _GROUP_READERS: list[GroupReader] = [scene_groups, imaris_files]
