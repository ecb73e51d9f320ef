"""What lives in packages beside the core, and is imported on first use.

The core imports no leaf: it knows their public names, and the files of scenes that they open, by
the tables here alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import numpy as np
    import xarray as xr

    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.formats.protocol import Container
    from xarray_n5.integrity.diagnosis.finding import Finding
    from xarray_n5.integrity.diagnosis.survey import Survey
    from xarray_n5.stores import Store
    from xarray_n5.writing.request import WriteOptions
    from xarray_n5.writing.transaction import Transaction
    from xarray_n5_bdv.api import to_bdv
    from xarray_n5_doctor.api import doctor
    from xarray_n5_hangar.api import HangarWriter, from_hangar, hangar_records, to_hangar
    from xarray_n5_view.api import View, view

__all__ = [
    "HangarWriter",
    "View",
    "doctor",
    "from_hangar",
    "hangar_records",
    "to_bdv",
    "to_hangar",
    "view",
]

LEAVES = {
    **dict.fromkeys(
        ("HangarWriter", "from_hangar", "hangar_records", "to_hangar"), "xarray_n5_hangar.api"
    ),
    "doctor": "xarray_n5_doctor.api",
    "to_bdv": "xarray_n5_bdv.api",
    **dict.fromkeys(("View", "view"), "xarray_n5_view.api"),
}
"""Names, and the modules that define them."""


def __getattr__(name: str) -> Any:
    """Import the module of a name on first use."""
    if name not in LEAVES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LEAVES[name]), name)


SCENES = {b"<SpimData": "xarray_n5_bdv.hooks"}
"""The bytes by which files that describe a scene begin, and the modules that read them."""

LOOK = 4096
"""The number of bytes at a file's start that show whether it describes a scene."""


def scene_reader(document: bytes) -> SceneReader | None:
    """Return the module that reads a file which begins like `document`; None if there is none.

    A module is only imported for a file that has its mark, whatever the file's encoding.
    """
    head = document[:LOOK]
    plain = head.replace(b"\0", b"")
    readers: Iterator[Any] = (import_module(name) for mark, name in SCENES.items() if mark in plain)
    return next((reader for reader in readers if reader.recognizes(head)), None)


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


class Scene(Protocol):
    """A file that describes images in a container, and their places in one world."""

    @property
    def url(self) -> str:
        """The file's location."""

    @property
    def document(self) -> bytes:
        """The file's content."""

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

    def level_path(
        self, group: str, level: int | str, storage_options: Mapping[str, Any] | None
    ) -> str:
        """Return the path of a level by its name or number."""

    def plan_copy(
        self,
        group: str,
        how: WriteOptions,
        path: str,
        options: CopyOptions,
        without: Collection[str],
        storage_options: Mapping[str, Any] | None,
    ) -> Transaction | None:
        """Return the write of a copy of the images; None if the copy to resume has ended."""

    def first_image(self, group: str, storage_options: Mapping[str, Any] | None) -> list[Any]:
        """Return the levels of the first image, like arrays, for a picture."""

    def text(self, group: str, storage_options: Mapping[str, Any] | None) -> str:
        """Return a description for people."""

    def facts(self, group: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a description for programs."""

    def tree_lines(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,
        branches: tuple[str, str, str],
        *,
        depth: int | None,
        chunks: bool,
    ) -> Iterator[str]:
        """Iterate over the lines of a drawing of the images and their levels."""


if TYPE_CHECKING:
    from xarray_n5_bdv import hooks

    _READERS: list[SceneReader] = [hooks]
