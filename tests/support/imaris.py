"""Imaris files as ImarisWriter makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INFO = {
    "Image": {
        "X": "10",
        "Y": "7",
        "Z": "5",
        "ExtMin0": "100",
        "ExtMax0": "105",
        "ExtMin1": "-7",
        "ExtMax1": "7",
        "ExtMin2": "0",
        "ExtMax2": "10",
        "Unit": "um",
        "Name": "cells",
    },
    "Channel 0": {"Name": "DAPI", "Color": "0 0 1"},
    "Channel 1": {"Name": "GFP", "Color": "0 1 0"},
    "TimeInfo": {
        "DatasetTimePoints": "12",
        **{f"TimePoint{n + 1}": f"2026-01-01 00:00:{n * 2.5:06.3f}" for n in range(12)},
    },
}
"""The groups of metadata of :func:`write_ims` by default."""

CHUNKS = (4, 4, 8)


def characters(text: str) -> np.ndarray:
    """A text as an array of single characters; an empty one is a NUL."""
    return np.frombuffer(text.encode() or b"\0", "S1")


def sizes(shape: tuple[int, ...], level: int) -> tuple[int, ...]:
    """The size of a level: y and x are halved and floored, z is not."""
    return (shape[0], shape[1] >> level, shape[2] >> level)


def values(shape: tuple[int, ...], t: int, c: int, level: int, dtype: str = "u2") -> np.ndarray:
    """The samples of an array, none of which is 0."""
    own = sizes(shape, level)
    found = np.arange(np.prod(own)).reshape(own) + 1 + 10 * t + 100 * c + level
    return (found % 250 + 1).astype(dtype)


def write_ims(
    path: Path,
    info: Mapping[str, Mapping[str, Any]] = INFO,
    *,
    shape: tuple[int, ...] = (5, 7, 10),
    times: int = 1,
    channels: int = 1,
    levels: int = 2,
    dtype: str = "u2",
) -> Path:
    """Write a file whose data are padded to whole chunks; values of `info` may be arrays."""
    with h5py.File(path, "w") as file:
        root = {"ImarisDataSet": "ImarisDataSet", "ImarisVersion": "5.5.0"}
        root |= {"DataSetDirectoryName": "DataSet", "DataSetInfoDirectoryName": "DataSetInfo"}
        for key, text in root.items():
            file.attrs[key] = characters(text)
        file.attrs["NumberOfDataSets"] = np.array([1], "u4")
        for name, attributes in info.items():
            group = file.create_group(f"DataSetInfo/{name}")
            for key, value in attributes.items():
                group.attrs[key] = characters(value) if isinstance(value, str) else value
        for level, t, c in np.ndindex(levels, times, channels):
            group = file.create_group(f"DataSet/ResolutionLevel {level}/TimePoint {t}/Channel {c}")
            data = values(shape, t, c, level, dtype)
            for axis, size in zip("ZYX", data.shape, strict=True):
                group.attrs[f"ImageSize{axis}"] = characters(str(size))
            pad = [(0, -size % side) for size, side in zip(data.shape, CHUNKS, strict=True)]
            group.create_dataset(
                "Data", data=np.pad(data, pad), chunks=CHUNKS, compression=2, shuffle=True
            )
            group.create_dataset("Histogram", data=np.zeros(256, "u8"))
    return path
