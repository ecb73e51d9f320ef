"""The entry points of the engines "n5" and "bdv", outside the package so that they import fast.

xarray imports the engines of all packages as soon as anyone opens a file without naming one. The
package, and Dask with it, are only imported when a file is opened with these engines.
"""

from __future__ import annotations

import json
import os
import stat
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray.backends import BackendEntrypoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import xarray as xr

    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.dialects import DialectChoice


_DECODERS = frozenset(
    {
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "use_cftime",
        "decode_timedelta",
    }
)
"""The names of decoders in xarray's functions."""


class N5BackendEntrypoint(BackendEntrypoint):
    """Open arrays and groups of N5 containers with ``xr.open_dataset(url, engine="n5")``."""

    description: ClassVar[str] = "Open N5 arrays and groups, with coordinates from their metadata"
    url: ClassVar[str] = "https://xarray-n5.readthedocs.io"
    supports_groups: ClassVar[bool] = True
    label_multisets: ClassVar[Literal["error", "argmax"]] = "error"
    """How Paintera's label multisets are read, as by ``xarray_n5.open_array``."""

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether this is certainly N5, by its name or the content of one local file."""
        name = _name_of(filename_or_obj)
        if name is not None and name.rstrip("/\\").lower().endswith((".n5", ".ozx", ".ims")):
            return True
        return name is not None and "://" not in name and _is_n5(Path(name))

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool | None = None,
        decode_times: bool | None = None,
        concat_characters: bool | None = None,
        decode_coords: bool | None = None,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: bool | None = None,
        group: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        format: str | None = None,
        attribute_order: Literal["auto", "C", "N5"] = "auto",
        dialect: DialectChoice | None = None,
        missing: Literal["fill", "error"] = "fill",
        level: int | str | Mapping[str, float] | None = None,
        **unknown: Any,
    ) -> xr.Dataset:
        """Open an array, or the arrays directly in a group, as a lazily indexed Dataset.

        These are the options of ``xr.open_dataset(url, engine="n5", ...)``, besides xarray's own,
        such as `chunks`. ``xr.open_datatree`` and ``xr.open_groups`` have the same except `level`;
        `group` is the root of their tree.

        Parameters
        ----------
        filename_or_obj : str, os.PathLike or store
            The container, or a node in it: a path or an fsspec URL. Or the XML of a project of
            BigDataViewer or BigStitcher, for which the engine "bdv" has more options.
        mask_and_scale, decode_times, concat_characters, decode_coords : bool, optional
            As in :func:`xarray.open_dataset`; on by default only where xarray wrote the file.
        drop_variables : str or iterable of str, optional
            Names of arrays to omit.
        use_cftime, decode_timedelta : bool, optional
            As in :func:`xarray.open_dataset`.
        group : str, optional
            The path of an array or a group in the container.
        storage_options : mapping, optional
            Options of the fsspec filesystem, such as credentials.
        format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
            The format of the container; detected by default.
        attribute_order : {"auto", "C", "N5"}, default: "auto"
            The order of lists of axes in attributes, such as ``resolution``: "C" for the order of
            NumPy, "N5" for x first; "auto" for that of the programs that write the dialect. Scripts
            that use z5py often store lists in C order.
        dialect : str, Dialect or sequence of these, optional
            The metadata dialects to take coordinates from, the most trusted first; by default all
            of them, in the order of the documentation.
        missing : {"fill", "error"}, default: "fill"
            "fill" reads chunks that are not stored as zeros; "error" raises for them.
        level : int, str or mapping, optional
            The level of a pyramid to open: its number, 0 for the finest and -1 for the coarsest, or
            its name. Or the largest distance of samples along some dimensions, in the units of
            their coordinates: ``{"x": 16.0}`` opens the coarsest level within it, or the finest.
            The variable has the same name at every level: that of the group around them, or of the
            container. The Dataset has the group's attributes except those that describe levels, or
            that became coordinates.
        **unknown
            Other options are refused, with a suggestion.

        Returns
        -------
        xarray.Dataset
            The variables, with the coordinates that the metadata describe.

        Raises
        ------
        NodeNotFoundError
            If nothing exists at this path.
        MetadataError
            If the metadata of the array are invalid.
        TypeError
            If an option is unknown.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> _ = xarray_n5.pyramid(image, "cells.n5", "em", factors=2, levels=1)
        >>> xr.open_dataset("cells.n5/em/s0", engine="n5").sizes["x"]
        3
        >>> xr.open_dataset("cells.n5", engine="n5", group="em", level=-1).em.dims
        ('y', 'x')
        """
        from xarray_n5.datasets.engine import open_dataset

        options = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
            "attribute_order": attribute_order,
            "dialect": dialect,
            "missing": missing,
            "level": level,
            **unknown,
        }
        options |= {"format": format, "storage_options": storage_options}
        how = _options("n5", drop_variables, options, label_multisets=self.label_multisets)
        return open_dataset(filename_or_obj, group or "", how)

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        **options: Any,
    ) -> dict[str, xr.Dataset]:
        """Return every array below a node as a Dataset of its own, by path.

        Parameters are those of :meth:`open_dataset`; `group` is where to begin.
        """
        from xarray_n5.datasets.engine import open_groups

        how = _options("n5", drop_variables, options, label_multisets=self.label_multisets)
        return open_groups(filename_or_obj, group or "", how)

    def open_datatree(self, filename_or_obj: Any, **kwargs: Any) -> xr.DataTree:
        """Return the tree of arrays below a node, each a node of its own.

        Parameters are those of :meth:`open_groups_as_dict`.
        """
        from xarray import DataTree

        from xarray_n5.datasets.engine import align_tree

        return DataTree.from_dict(align_tree(self.open_groups_as_dict(filename_or_obj, **kwargs)))


class BdvBackendEntrypoint(BackendEntrypoint):
    """Open projects of BigDataViewer and BigStitcher: ``xr.open_dataset("dataset.xml")``."""

    description: ClassVar[str] = "Open projects of BigDataViewer and BigStitcher by their XML"
    url: ClassVar[str] = "https://xarray-n5.readthedocs.io"
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether this is a local file that begins like the XML of a project."""
        name = _name_of(filename_or_obj)
        return name is not None and "://" not in name and _is_project(Path(name))

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool | None = None,
        decode_times: bool | None = None,
        concat_characters: bool | None = None,
        decode_coords: bool | None = None,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: bool | None = None,
        group: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        missing: Literal["fill", "error"] = "fill",
        level: int | str | Mapping[str, float] | None = None,
        setup: int | None = None,
        timepoint: int | None = None,
        setups: Literal["grid", "flat"] | None = None,
        **unknown: Any,
    ) -> xr.Dataset:
        """Open one level of a project as a lazily indexed Dataset.

        ``xr.open_datatree`` and ``xr.open_groups`` have the same options except `level`.

        Parameters
        ----------
        filename_or_obj : str or os.PathLike
            The XML: a path or an fsspec URL.
        mask_and_scale, decode_times, concat_characters, decode_coords : bool, optional
            As of :func:`xarray.open_dataset`.
        drop_variables : str or iterable of str, optional
            Names of variables to omit.
        use_cftime, decode_timedelta : bool, optional
            As of :func:`xarray.open_dataset`.
        group : str, optional
            A path such as ``setup0/timepoint0/s0``, or the beginning or the end of one.
        storage_options : mapping, optional
            Options of the fsspec filesystem: of the container's if the XML is a local file,
            otherwise of the XML's.
        missing : {"fill", "error"}, default: "fill"
            "fill" reads views and chunks that are not stored as zeros; "error" raises for them.
        level : int, str or mapping, optional
            The level to open: its number, its name, or the largest distance of samples.
        setup, timepoint : int, optional
            The id of a setup, or of a time point, to open alone, without a dimension.
        setups : {"grid", "flat"}, optional
            "grid" gives each of channel, tile, angle and illumination that differs a dimension of
            its own; "flat" has one dimension of setups. By default "grid" where the setups form a
            full one.
        **unknown
            Other options are refused, with a suggestion.

        Returns
        -------
        xarray.Dataset
            The image, with the positions of its views.

        Raises
        ------
        NodeNotFoundError
            If this is not the XML of a project, or if there is no such setup, time point or level,
            or no view is stored.
        MetadataError
            If the XML is invalid.
        ValueError
            If there are several levels, or images that differ, and the options do not select one.

        Examples
        --------
        >>> tiles = xr.DataArray(np.ones((2, 4, 8, 8)), dims=("tile", "z", "y", "x"))
        >>> _ = tiles.n5.to_bdv("tiles.xml")
        >>> xr.open_dataset("tiles.xml", engine="bdv", setup=1)["tiles"].dims
        ('t', 'z', 'y', 'x')
        """
        from xarray_n5.bdv.scene import scene_at

        options = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
            "missing": missing,
            "level": level,
            "storage_options": storage_options,
            **unknown,
        }
        choice = {"setup": setup, "timepoint": timepoint, "setups": setups}
        how = _options("bdv", drop_variables, options)
        return scene_at(filename_or_obj, how.storage_options).open_dataset(group or "", how, choice)

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        setup: int | None = None,
        timepoint: int | None = None,
        setups: Literal["grid", "flat"] | None = None,
        **options: Any,
    ) -> dict[str, xr.Dataset]:
        """Return all levels of the images of a project as Datasets, by path.

        Parameters are those of :meth:`open_dataset`.
        """
        from xarray_n5.bdv.scene import scene_at

        choice = {"setup": setup, "timepoint": timepoint, "setups": setups}
        how = _options("bdv", drop_variables, options)
        return scene_at(filename_or_obj, how.storage_options).open_groups(group or "", how, choice)

    def open_datatree(self, filename_or_obj: Any, **kwargs: Any) -> xr.DataTree:
        """Return the tree of all levels of the images of a project.

        Parameters are those of :meth:`open_groups_as_dict`.
        """
        from xarray import DataTree

        return DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **kwargs))


# xarray would find these itself, but options with unknown names are rejected here.
for _engine in (N5BackendEntrypoint, BdvBackendEntrypoint):
    _engine.open_dataset_parameters = tuple(signature(_engine.open_dataset).parameters)[1:-1]


def _options(
    engine: str, drop: str | Iterable[str] | None, options: dict[str, Any], **more: Any
) -> DatasetOptions:
    """Return the options of an engine; this imports dask.array.from_n5, too."""
    import xarray_n5  # noqa: F401
    from xarray_n5.datasets.build import DatasetOptions

    decoders = {name: options.pop(name) for name in _DECODERS & options.keys()}
    kind = N5BackendEntrypoint if engine == "n5" else BdvBackendEntrypoint
    _, *parameters = kind.open_dataset_parameters or ()
    unknown = [name for name in options if name not in parameters]
    if engine == "n5" and (of_projects := _OF_PROJECTS & {*unknown}):
        raise TypeError(
            f"the engine 'n5' has no parameter {min(of_projects)!r}, which is for projects: open "
            "their XML with engine='bdv'; in a container, select with .sel or group="
        )
    if unknown:
        raise TypeError(
            f"the engine {engine!r} has no parameter {unknown[0]!r}; its parameters are "
            f"{', '.join(parameters)}"
        )
    dropped = frozenset([drop] if isinstance(drop, str) else drop or ())
    return DatasetOptions(drop=dropped, decoders=decoders, **options, **more)


_OF_PROJECTS = {"setup", "timepoint", "setups"}
"""The options that only the engine of projects has."""


def _name_of(filename_or_obj: Any) -> str | None:
    """Return a path or a URL as a string; None for other objects."""
    if not isinstance(filename_or_obj, (str, os.PathLike)):
        return None
    name = os.fspath(filename_or_obj)
    return name if isinstance(name, str) else None


def _is_n5(node: Path) -> bool:
    """Return whether a local directory is in a container by name, or has N5's version."""
    if not node.suffix and any(parent.suffix == ".n5" for parent in node.parents):
        return node.is_dir()
    try:
        members = json.loads(_start_of(node / "attributes.json"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(members, dict) and (
        isinstance(members.get("n5"), str)
        or {"dimensions", "blockSize", "dataType"} <= members.keys()
    )


def _is_project(file: Path) -> bool:
    """Return whether a local file is a project of BigDataViewer.

    Its beginning is parsed by the package, which is not imported for other files.
    """
    try:
        start = _start_of(file, 1 << 12)
    except OSError:
        return False
    if b"<SpimData" not in start.replace(b"\0", b""):
        return False
    from xarray_n5.bdv.xml import looks_like_project

    return looks_like_project(start)


_MOST = 1 << 24
"""The number of bytes of a file that are read to guess: larger documents are not N5."""


def _start_of(path: Path, count: int = _MOST) -> bytes:
    """Return the beginning of a regular file, without waiting for a FIFO or a device."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        return file.read(count)
