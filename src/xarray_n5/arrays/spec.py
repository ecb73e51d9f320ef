"""What is to be stored as one array, and the checks of what users say about it."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from xarray_n5.codecs import resolve
from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.model.axes import Axis, Geometry, axes_apart
from xarray_n5.model.chunking import auto_chunks, chunks_in_shards, shard_shape
from xarray_n5.model.json import as_json, check_option
from xarray_n5.model.metadata import ArrayMetadata, check_factors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.metadata import Compression

Mode: TypeAlias = Literal["w-", "w", "a", "r+"]

Sides: TypeAlias = "Sequence[int] | int | Literal['auto'] | None"
"""The shape of chunks or shards as users give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySpec:
    """What is to be stored as one array, but for its shape and type, which the data has.

    It is made once, by whoever knows what the user wants, and is passed down to the array.
    """

    path: str
    """The path in the container."""
    mode: Mode = "w-"
    chunks: Sides = None
    """The shape of chunks; None for that of the blocks to write, or of an existing array."""
    shards: Sides = None
    compression: str | Mapping[str, Any] | Compression | None = "gzip"
    axes: Iterable[Axis | str | None] | Geometry | None = None
    dialect: str | Iterable[str] | None = None
    """The dialects to write the axes in."""
    attributes: Mapping[str, Any] | None = None
    layout: Mapping[str, Any] | None = None
    """How the format stores elements, in its own terms."""
    chunk_elements: int = 1 << 20
    """The number of elements of chunks that are "auto"."""
    chunk_aspect_ratio: Sequence[float] | None = None
    apart: Sequence[int] = ()
    """The axes along which chunks have one sample if they are "auto" or one number."""

    def __post_init__(self) -> None:
        check_option("mode", self.mode, "w-", "w", "a", "r+")
        if self.axes is not None and not isinstance(self.axes, Geometry):
            object.__setattr__(self, "axes", tuple(self.axes))
        if self.axes and not self.apart:
            listed = self.axes.axes if isinstance(self.axes, Geometry) else self.axes
            axes = [a if isinstance(a, Axis) else Axis(name=a) for a in listed]
            object.__setattr__(self, "apart", axes_apart(axes))

    def metadata(self, shape: Sequence[int], dtype: Any, where: str) -> ArrayMetadata:
        """Return the array's metadata, without axes and layout; errors name it as `where`."""
        sizes, kind = as_sizes("shape", shape), as_dtype(dtype, where)
        chunks, shards = resolve_chunks(
            self.chunks,
            self.shards,
            sizes,
            kind,
            self.apart,
            elements=self.chunk_elements,
            aspect_ratio=self.chunk_aspect_ratio,
        )
        return ArrayMetadata(
            shape=sizes,
            chunks=shards or chunks,
            inner=chunks if shards else None,
            dtype=kind,
            compression=resolve(self.compression),
            attributes=as_json(self.attributes or {}, where),
        )


def resolve_chunks(
    chunks: Sides,
    shards: Sides,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    apart: Collection[int] = (),
    *,
    elements: int = 1 << 20,
    aspect_ratio: Sequence[float] | None = None,
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the shape of chunks that the user selects, and that of shards, if there are any.

    Each is a shape, one side or "auto"; chunks of None are "auto". One side, or "auto", is for all
    axes but those `apart`: along these a chunk has one sample, and a shard one chunk. Chunks that
    are "auto" are adapted to shards that are not a multiple of them.
    """
    ndim, automatic = len(shape), chunks is None or isinstance(chunks, str)
    if chunks is None or isinstance(chunks, str):
        if chunks not in {None, "auto"}:
            raise MetadataError(f"chunks is {chunks!r}; expected a shape, one number or 'auto'")
        cubes = aspect_ratio is None
        near = [1 if cubes and axis in apart else size for axis, size in enumerate(shape)]
        sides = auto_chunks(near, elements=elements, aspect_ratio=aspect_ratio)
    else:
        sides = as_sizes("chunks", chunks, ndim)
        if np.ndim(chunks) == 0:
            sides = tuple(1 if axis in apart else side for axis, side in enumerate(sides))
        if len(sides) != ndim or min(sides, default=1) < 1:
            raise MetadataError(
                f"chunks is {sides}; expected {ndim} numbers of at least 1 for shape {tuple(shape)}"
            )
    if shards is None:
        return sides, None
    if isinstance(shards, str):
        return sides, shard_shape(shards, sides, shape, dtype.itemsize)
    files = as_sizes("shards", shards, ndim)
    if np.ndim(shards) == 0:
        files = tuple(sides[axis] if axis in apart else side for axis, side in enumerate(files))
    if automatic and len(files) == ndim and all(0 < side < 1 << 31 for side in files):
        sides = chunks_in_shards(sides, files)
    return sides, shard_shape(files, sides, shape, dtype.itemsize)


def as_sizes(name: str, value: object, times: int = 1) -> tuple[int, ...]:
    """Return whole numbers; a single one is repeated `times` times."""
    try:
        if np.ndim(value) == 0:  # type: ignore[arg-type]
            return (operator.index(value),) * times  # type: ignore[arg-type]
        return tuple(map(operator.index, value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise MetadataError(f"{name} is {value!r}; expected whole numbers") from None


def as_dtype(dtype: Any, where: str) -> np.dtype[Any]:
    """Return the type for a user's `dtype`, in native byte order."""
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise MetadataError(
            f"{where}: {error}; expected a type such as 'uint8' or 'float32'"
        ) from error
    if kind.names:
        from numpy.lib.recfunctions import repack_fields

        kind = repack_fields(kind)
    return kind.newbyteorder("=")


def completed(
    form: Format,
    metadata: ArrayMetadata,
    layout: Mapping[str, Any] | None,
    where: str,
    there: ArrayMetadata | None = None,
) -> ArrayMetadata:
    """Return an array's metadata with a layout; errors name the array.

    The default layout depends on the attributes, and on those of the existing array `there`.
    """
    before = there.attributes if there else {}
    whole = replace(metadata, attributes={**before, **metadata.attributes})
    try:
        return replace(form.complete(whole, layout), attributes=metadata.attributes)
    except UnknownCompressionError as error:
        raise UnknownCompressionError(error.name, error.known, where) from error
    except MetadataError as error:
        raise MetadataError(f"{where}: {error}") from error


def check_storable(metadata: ArrayMetadata, form: Format, where: str) -> None:
    """Raise if the format or the compression cannot store the array."""
    try:
        grid = metadata.grid
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    if any(size >= 1 << 63 for size in grid.shape) or any(side >= 1 << 31 for side in grid.chunks):
        raise MetadataError(f"{where}: expected sizes below 2**63 and chunk sides below 2**31")
    if metadata.inner is not None and not form.holds_shards:
        raise MetadataError(
            f"{where}: {form.name} does not support shards, which are a feature of Zarr v3; use "
            "format='zarr3', or omit shards"
        )
    check_factors(metadata.attributes, where)
    form.check(metadata, where)
    probe = replace(metadata, chunks=metadata.inner or (1,) * len(grid.shape))
    try:
        data = form.encode(probe, np.full(probe.chunks, metadata.fill_value, metadata.dtype))
        form.decode(probe, bytes(data))
    except Exception as error:  # codecs raise errors of any type
        raise MetadataError(
            f"{where}: cannot compress with {metadata.compression}: {error}"
        ) from error


def check_agreement(
    stored: ArrayMetadata,
    wanted: ArrayMetadata,
    where: str,
    *,
    chunks_matter: bool,
    layout: Mapping[str, Any] | None = None,
) -> None:
    """Raise if a stored array is not the one that a write expects."""
    for name in ("shape", "dtype", "chunks", "inner"):
        have, want = getattr(stored, name), getattr(wanted, name)
        if have != want and (name not in {"chunks", "inner"} or chunks_matter):
            if stored.inner or wanted.inner:
                name = {"chunks": "shards", "inner": "chunks"}.get(name, name)  # noqa: PLW2901
            raise MetadataError(f"{where}: the stored array has {name} {have}, expected {want}")
    if layout and stored.layout != wanted.layout:
        raise MetadataError(
            f"{where}: the stored array has {stored.layout}; omit layout={dict(layout)}, or "
            "replace the array with mode='w'"
        )


def supported(
    form: Format,
    compression: Compression,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    where: str,
    chunks: tuple[int, ...] | None = None,
) -> Compression:
    """Return a compression as a format stores it, or gzip if that does not support it for a type.

    Raises
    ------
    MetadataError
        If the format cannot store the array.
    """
    metadata = ArrayMetadata(
        shape=shape, chunks=chunks or (1,) * len(shape), dtype=dtype, compression=compression
    )
    try:
        complete = completed(form, metadata, None, where)
        check_storable(complete, form, where)
    except MetadataError:
        complete = completed(form, replace(metadata, compression=resolve("gzip")), None, where)
    return complete.compression
