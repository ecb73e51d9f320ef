"""The entry point of the engine of projects, outside the package so that its import is cheap."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray.backends import BackendEntrypoint

from xarray_n5_engine import DECODERS, name_of, settings_of, start_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import xarray as xr


class BdvBackendEntrypoint(BackendEntrypoint):
    """Open projects of BigDataViewer and BigStitcher: ``xr.open_dataset("dataset.xml")``."""

    description: ClassVar[str] = "Open projects of BigDataViewer and BigStitcher by their XML"
    url: ClassVar[str] = "https://xarray-n5.readthedocs.io"
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether this is a local file that begins like the XML of a project."""
        name = name_of(filename_or_obj)
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
        axis_order: Literal["C", "F"] = "C",
        origin: Literal["center", "corner"] = "center",
        missing: Literal["fill", "error"] = "fill",
        level: int | str | Mapping[str, float] | None = None,
        dims: Sequence[str] | None = None,
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
        axis_order : {"C", "F"}, default: "C"
            "F" reverses the order of dimensions.
        origin : {"center", "corner"}, default: "center"
            The position of coordinate 0 in the first voxel.
        missing : {"fill", "error"}, default: "fill"
            "fill" reads views and chunks that are not stored as zeros; "error" raises for them.
        level : int, str or mapping, optional
            The level to open: its number, its name, or the largest distance of samples.
        dims : sequence of str, optional
            Names of the dimensions, instead of the default ones.
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
        from xarray_n5.bdv.scene import open_dataset

        decoders = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        options = {
            "axis_order": axis_order,
            "origin": origin,
            "missing": missing,
            "level": level,
            "dims": dims,
            **unknown,
        }
        choice = {"setup": setup, "timepoint": timepoint, "setups": setups}
        given = (group, drop_variables, storage_options, decoders, options)
        settings = settings_of(*given, self.open_dataset_parameters or (), "bdv")
        return open_dataset(filename_or_obj, choice=choice, **settings)

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        setup: int | None = None,
        timepoint: int | None = None,
        setups: Literal["grid", "flat"] | None = None,
        **options: Any,
    ) -> dict[str, xr.Dataset]:
        """Return all levels of the images of a project as Datasets, by path.

        Parameters are those of :meth:`open_dataset`.
        """
        from xarray_n5.bdv.scene import open_groups

        decoders = {name: options.pop(name) for name in DECODERS & options.keys()}
        choice = {"setup": setup, "timepoint": timepoint, "setups": setups}
        given = (group, drop_variables, storage_options, decoders, options)
        settings = settings_of(*given, self.open_dataset_parameters or (), "bdv")
        return open_groups(filename_or_obj, choice=choice, **settings)

    def open_datatree(self, filename_or_obj: Any, **kwargs: Any) -> xr.DataTree:
        """Return the tree of all levels of the images of a project.

        Parameters are those of :meth:`open_groups_as_dict`.
        """
        from xarray import DataTree

        return DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **kwargs))


BdvBackendEntrypoint.open_dataset_parameters = tuple(
    signature(BdvBackendEntrypoint.open_dataset).parameters
)[1:-1]


def _is_project(file: Path) -> bool:
    """Return whether a local file is a project of BigDataViewer.

    Its beginning is parsed by the package, which is not imported for other files.
    """
    try:
        start = start_of(file, 1 << 12)
    except OSError:
        return False
    if b"<SpimData" not in start.replace(b"\0", b""):
        return False
    from xarray_n5.bdv.xml import looks_like_project

    return looks_like_project(start)
