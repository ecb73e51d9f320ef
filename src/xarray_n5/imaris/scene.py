"""What the core asks about Imaris files.

The function is that of `GroupReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.arrays.group import Group
from xarray_n5.datasets.placed import GroupScene
from xarray_n5.images.select import pick_level
from xarray_n5.imaris.images import read_image
from xarray_n5.model.paths import stem_of

if TYPE_CHECKING:
    import xarray as xr

    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.datasets.placed import PlacedImage


def scene_of(group: object) -> ImarisImage | None:
    """Return the image of a file by the group at its root; None for other nodes."""
    if isinstance(group, Group) and group.format == "hdf5" and not group.path:
        return ImarisImage(group)
    return None


class ImarisImage(GroupScene):
    """A file by the group at its root."""

    kind = "imaris"

    def open_dataset(self, group: str, options: DatasetOptions) -> xr.Dataset:
        """Open one level, by default the finest."""
        placed = self.at(group, options)[""]
        levels, level = placed.image.levels, 0 if options.level is None else options.level
        level = pick_level([*levels], level, lambda: levels, self.url)
        return placed.dataset(level, self.name, self.url, options)

    @property
    def name(self) -> str:
        """The name of variables: that of the file."""
        return stem_of(self.group.container.name, [".ims", ".IMS"])

    def placed(self, options: DatasetOptions) -> dict[str, PlacedImage]:  # noqa: ARG002
        """Return the image."""
        return {"": read_image(self.group)}
