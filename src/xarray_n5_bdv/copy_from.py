"""Copy projects: the Datasets that their XML describes, to a container of any format."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.codecs import resolve
from xarray_n5.datasets.build import DatasetOptions
from xarray_n5.datasets.engine import open_groups
from xarray_n5.datasets.write import write
from xarray_n5.errors import N5Error, NodeExistsError, UnfinishedWriteWarning
from xarray_n5.images.select import level_by_number
from xarray_n5.images.tree import groups_of
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.writing.compression import with_fallback
from xarray_n5_bdv.open import OpenProject

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.writing.request import WriteOptions
    from xarray_n5.writing.transaction import Transaction
    from xarray_n5_bdv.project_file import ProjectFile

_SAME = (None, None, "same")
"""The options of chunks, shards and compression that keep them unchanged."""


def level_of_project(
    file: ProjectFile, path: str, level: int | str, storage_options: Mapping[str, Any] | None
) -> str:
    """Return the path of a level of a project by its name or number."""
    opened = OpenProject.at(file, storage_options, DatasetOptions(), path)
    images = opened.images()
    if len(images) > 1:
        raise ValueError(
            f"the setups of {file.url!r} differ; name one in addition to the level, such as "
            f"{next(iter(images))!r}"
        )
    (levels,) = images.values()
    if isinstance(level, str) and level.lstrip("-").isdigit():
        level = int(level)
    return join(path, level_by_number([f"s{number}" for number in levels], level, file.url))


def plan_project(
    file: ProjectFile,
    group: str,
    how: WriteOptions,
    path: str,
    options: CopyOptions,
    without: Collection[str],
    storage_options: Mapping[str, Any] | None,
) -> Transaction | None:
    """Return the write of a project's Datasets: a pyramid, or a group for each level.

    Return None if the write to resume has ended.

    Raises
    ------
    ValueError
        If an option is set that is only for copies of arrays.
    """
    given = {"region": options.region, "dtype": options.dtype, "without": list(without) or None}
    if refused := [name for name, value in given.items() if value is not None]:
        raise ValueError(
            f"{file.url!r} is a project, which is copied as Datasets and does not support "
            f"{' and '.join(refused)}; open it with xarray.open_datatree, select, and store that "
            "with .n5.to_n5"
        )
    tree = xr.open_datatree(
        file.source,  # type: ignore[arg-type]
        engine="n5",
        chunks={},
        group=group or None,
        storage_options=storage_options,
    )
    encodings: dict[str, Any] = {
        node.path: {name: _encoding(each, how, options) for name, each in node.data_vars.items()}
        for node in tree.subtree
        if node.data_vars and (options.chunks, options.shards, options.compression) != _SAME
    }
    if options.dialect not in {None, "same"}:
        how = replace(how, dialect=options.dialect)
    try:
        return write(groups_of(tree, path, encodings, how), how)
    except NodeExistsError:
        if how.resume and how.mode != "w" and _is_complete(tree, how, path):
            return None
        raise


def _encoding(variable: xr.DataArray, how: WriteOptions, options: CopyOptions) -> dict[str, Any]:
    """Return the encoding of a variable: as the user chose, or as it was stored."""
    stored = variable.encoding
    chunks = stored.get("chunks") if options.chunks is None else options.chunks
    encoding = {"chunks": chunks, "shards": options.shards}
    if options.compression != "same":
        encoding["compression"] = options.compression
    elif "n5_compression" in stored:
        metadata = ArrayMetadata(
            shape=variable.shape,
            chunks=(1,) * variable.ndim,
            dtype=variable.dtype,
            compression=resolve(stored["n5_compression"]),
        )
        found = with_fallback(how.format, metadata, None, str(variable.name))
        encoding["compression"] = found.compression
    return {key: value for key, value in encoding.items() if value is not None}


def _is_complete(tree: xr.DataTree, how: WriteOptions, path: str) -> bool:
    """Return whether the destination has all variables of a tree, and no unfinished write."""
    options: dict[str, Any] = {"storage_options": None, "form": None, "drop": (), "decoders": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnfinishedWriteWarning)
        try:
            found = open_groups(how.container, path, **options, options=DatasetOptions())
        except (N5Error, UnfinishedWriteWarning):
            return False
    for node in tree.subtree:
        for name, variable in node.data_vars.items():
            other = found.get(node.path, xr.Dataset()).get(name)
            if other is None or (other.shape, other.dtype) != (variable.shape, variable.dtype):
                return False
    return True
