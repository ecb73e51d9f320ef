"""Draw a section through an image with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MissingPackageError, printable
from xarray_n5.viewing.api import open_tree
from xarray_n5.viewing.layers import images_to_show, is_labels

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import xarray as xr

    from xarray_n5.images.tree import Variable
    from xarray_n5.model.image import Image

_DPI = 100

_MOST = 1 << 28
"""The maximum number of samples of a section that is read."""


def draw(
    url: str,
    path: str,
    output: Path,
    *,
    axis: str | None = None,
    at: float | None = None,
    pixels: int = 800,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Draw a section through the first image at a location, and return its title.

    Parameters
    ----------
    url, path
        The container, and the path of a node in it.
    output
        The file of the picture.
    axis
        The axis to cut across; by default the third from last.
    at
        Where to cut, as a coordinate of `axis`; by default in the middle.
    pixels
        The length of the longer side of the picture.
    storage_options
        Options of the fsspec filesystem.

    Raises
    ------
    ValueError
        If there is no such section, or it is too large.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("pictures", "plot", error) from error
    options = {"storage_options": storage_options} if storage_options else {}
    with open_tree(url, path or None, options) as tree:
        image = images_to_show(tree)[0]
        array = _level(image, pixels)
        plane, title = _section(array, axis, at)
        tall, wide = (plane.sizes[dim] * _step(plane, dim) for dim in plane.dims)
        longest = max(wide, tall) * _DPI / pixels
        figure = Figure((wide / longest + 1, tall / longest + 1), _DPI, layout="constrained")
        colours = "nipy_spectral" if is_labels(image, None) else "gray"
        kept: dict[str, Any] = {"robust": colours == "gray", "yincrease": False}
        axes = figure.subplots()
        plane.plot.imshow(ax=axes, cmap=colours, add_colorbar=False, **kept)
        axes.set(title=title, aspect="equal")
        figure.savefig(output)
    return title


def _level(image: Image[Variable], pixels: int) -> xr.DataArray:
    """Return the coarsest level that has as many samples as a picture has pixels."""
    levels = [level.first.array for level in image.levels.values()]
    fine = [array for array in levels if max(array.shape[-2:]) >= pixels]
    return fine[-1] if fine else levels[0]


def _section(array: xr.DataArray, axis: str | None, at: float | None) -> tuple[xr.DataArray, str]:
    """Return a plane of an array, and its title."""
    name = printable(str(array.name))
    if axis is None and array.ndim > 2:  # noqa: PLR2004
        axis = str(array.dims[-3])
    if axis is not None and axis not in array.dims:
        raise ValueError(
            f"cannot cut across {axis!r}; expected one of {', '.join(map(str, array.dims))}"
        )
    rest = [dim for dim in array.dims if dim != axis]
    plane = array.isel(dict.fromkeys(rest[:-2], 0))
    if plane.size // (plane.sizes[axis] if axis else 1) > _MOST:
        raise ValueError(f"{name}: the section has more than {_MOST} samples; make a pyramid first")
    if axis is None:
        return plane, name
    if at is None:
        plane = plane.isel({axis: plane.sizes[axis] // 2})
    elif axis not in plane.coords:
        raise ValueError(f"{axis!r} has no coordinates")
    elif not plane[axis].min() <= at <= plane[axis].max():
        raise ValueError(f"{axis} = {at} is outside of the image")
    else:
        plane = plane.sel({axis: at}, method="nearest")
    unit = array[axis].attrs.get("units", "") if axis in array.coords else ""
    where = f"{float(plane[axis]):g} {unit}".strip() if axis in plane.coords else "middle"
    return plane, f"{name}, {axis} = {where}"


def _step(plane: xr.DataArray, dim: Any) -> float:
    """Return the distance of samples, 1 if they have no positions."""
    if dim not in plane.coords or plane.sizes[dim] < 2:  # noqa: PLR2004
        return 1.0
    first, second = plane[dim][:2].values
    return abs(float(second - first)) or 1.0
