"""What the core asks about groups that describe scenes.

The function is that of `GroupReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.group import Group
from xarray_n5.datasets.build import DatasetOptions
from xarray_n5.datasets.placed import GroupScene, chosen_level
from xarray_n5.errors import MetadataError, NodeNotFoundError, printable
from xarray_n5.model.alerts import warn
from xarray_n5.model.scene import SceneContent, ScenePart
from xarray_n5.model.units import shown_unit
from xarray_n5.scenes.images import find_images
from xarray_n5.scenes.metadata import read_metadata
from xarray_n5.scenes.placing import World
from xarray_n5.scenes.stacking import images_of
from xarray_n5.scenes.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.placed import PlacedImage
    from xarray_n5.model.systems import Reference

FACTS = "bigstitcher"
"""The attribute with the facts of a project."""

_SHOWN = 8
"""The maximum number of names that are listed."""


def scene_of(group: object) -> NgffScene | None:
    """Return the scene that a group's attributes describe; None for other nodes."""
    return NgffScene(group) if isinstance(group, Group) else None


class NgffScene(GroupScene):
    """A scene by its group."""

    kind = "scene"

    def world(self, options: DatasetOptions | None = None) -> World:
        """Return the systems of the scene and its images.

        Raises
        ------
        MetadataError
            If the scene is invalid.
        NodeNotFoundError
            If it has no images.
        """
        dialect = (options or DatasetOptions()).dialect
        metadata = read_metadata(self.group.attrs["ome"], self.url)
        images = find_images(self.group, metadata.paths, dialect)
        if not images:
            named = ", ".join(metadata.paths[:_SHOWN]) or "none"
            raise NodeNotFoundError(self.url, "", "image", f"the scene names the images {named}")
        return World(self.group, metadata, images)

    def open_dataset(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,  # noqa: ARG002
        options: DatasetOptions,
        **how: Any,
    ) -> xr.Dataset:
        """Open one level of all images, if they are alike."""
        placed = self.at(group, options)
        if "" not in placed:
            shown = ", ".join([*list(placed)[:_SHOWN], *["..."] * (len(placed) > _SHOWN)])
            raise ValueError(
                f"the images of {self.url!r} differ in shape, type, levels or axes "
                f"({printable(shown)}); open one with group=, or all of them with "
                "xarray.open_datatree"
            )
        level = chosen_level(placed[""].image, options, self.url)
        return placed[""].dataset(level, self.name, self.url, options, **how)

    @property
    def name(self) -> str:
        """The name of variables: that of the scene."""
        from xarray_n5.images.find import name_of_group

        return name_of_group(self.group)

    def placed(self, options: DatasetOptions) -> dict[str, PlacedImage]:
        """Return the images by name; "" if they are alike."""
        return images_of(self.world(options))

    def first_image(self, group: str, storage_options: Mapping[str, Any] | None) -> list[Array]:
        """Return the levels of the first image."""
        del group, storage_options
        return [level.first for level in self.world().images[0].image.levels.values()]

    @property
    def summary(self) -> str:
        """What the scene is, in one line."""
        count = len(read_metadata(self.group.attrs["ome"], self.url).paths)
        return f"a scene of {count} image{'s' if count != 1 else ''}"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The content of the scene for people, as names and values."""
        metadata = read_metadata(self.group.attrs["ome"], self.url)
        paths = metadata.paths
        named = ", ".join([*paths[:_SHOWN], *["..."] * (len(paths) > _SHOWN)])
        rows = [("images", f"{len(paths)}: {named}")]
        for system in metadata.systems:
            axes = (f"{axis.name} ({shown_unit(axis.unit)})" for axis in system.axes)
            rows.append(("system", f"{system.name}: {', '.join(axes)}"))
        return rows

    def facts(self, group: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the description of the scene, for programs."""
        del group, storage_options
        world = self.world()
        default = world.default
        paths = [each.path for each in world.images]
        known = None if default is None else world.positions(dict.fromkeys(paths, default))
        placed = {} if known is None else known.matrices
        return {
            "url": self.url,
            "kind": self.kind,
            "container": self.group.container.url,
            "world": None if default is None else str(default).strip("'"),
            "systems": [each.to_json() for each in world.metadata.systems],
            "unplaced": [path for path in paths if path not in placed],
            "images": [
                {
                    "path": each.path,
                    "dims": [str(axis.name) for axis in level.named().axes],
                    "level": name,
                    "shape": level.shape,
                    "dtype": str(level.first.dtype),
                    "affine": placed[each.path].tolist() if each.path in placed else None,
                }
                for each in world.images
                for name, level in each.image.levels.items()
            ],
        }

    def content(self, storage_options: Mapping[str, Any] | None) -> SceneContent[Array]:
        """Return all images and their transformations.

        A warning names what else the scene has.

        Raises
        ------
        MetadataError
            If an image has no position.
        """
        del storage_options
        world = self.world()
        default = world.default
        if default is None:
            raise MetadataError(f"{self.url}: the scene has no coordinate system of its images")
        routes, parts = world.graph.routes(default), []
        for image in world.images:
            try:
                rows = routes.matrix(image.intrinsic)
            except MetadataError as error:
                raise MetadataError(
                    f"{self.url}: {image.path!r} has no position: {error}"
                ) from error
            steps = steps_of(routes, image.intrinsic)
            parts.append(ScenePart(path=image.path, image=image.image, steps=steps, matrix=rows))
        more = {key: value for key, value in self.group.attrs.items() if key != "ome"}
        self._warn_lost(world, default, {*self.group.attrs["ome"], *more})
        return SceneContent(parts=tuple(parts), world=world.graph.systems[default], attributes=more)

    def _warn_lost(self, world: World, default: Reference, members: AbstractSet[str]) -> None:
        """Warn about systems and attributes that are not in the content."""
        own = {default, *(image.intrinsic for image in world.images)}
        systems = [str(each) for each in world.graph.systems if each not in own]
        names = {*members, *(name for image in world.images for name in image.others)}
        names -= {"version", "scene", FACTS}
        lost = {"coordinate systems": systems, "attributes": sorted(map(repr, names))}
        shown = " and ".join(
            f"the {kind} {', '.join([*each[:_SHOWN], *['...'] * (len(each) > _SHOWN)])}"
            for kind, each in lost.items()
            if each
        )
        if shown:
            warn(f"{self.url}: {shown} are only in the scene: a project does not have them")
