"""Receipts of written chunks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import xxhash

from xarray_n5.model.alerts import ODD
from xarray_n5.model.json import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xarray_n5.model.grid import Index


def digest(block: np.ndarray) -> int:
    """Return the 64-bit XXH3 of a chunk's elements, little-endian and in C order.

    Strings are hashed as UTF-8, each after its length in 4 bytes.

    >>> hex(digest(np.arange(4, dtype=">u2")))
    '0x1f4ed048ceb8a80e'
    """
    if block.dtype.hasobject:
        texts = [str(value).encode() for value in block.flat]
        return xxhash.xxh3_64_intdigest(b"".join(len(t).to_bytes(4, "little") + t for t in texts))
    plain = np.ascontiguousarray(block, block.dtype.newbyteorder("<")).reshape(-1)
    return xxhash.xxh3_64_intdigest(plain.view("u1").data if plain.size else b"")


@dataclass(frozen=True, slots=True, eq=False)
class Receipts:
    """Receipts of chunks, one row for each."""

    indices: np.ndarray
    """The chunks' coordinates, int64, a column for each axis."""
    sizes: np.ndarray
    """Their stored sizes, int64; 0 for empty chunks that are not stored."""
    digests: np.ndarray
    """The XXH3 of their elements, uint64."""
    seconds: np.ndarray
    """How long encoding and storing took, float32."""
    writers: np.ndarray
    """Their writers, as indices of `names`, int32."""
    names: tuple[str, ...] = ()
    """The names of the writers."""

    def __len__(self) -> int:
        return len(self.sizes)

    @classmethod
    def of(cls, rows: Sequence[tuple[Index, int, int, float]], ndim: int, writer: str) -> Self:
        """Return the receipts of one writer, from rows of index, size, digest and seconds."""
        indices, sizes, digests, seconds = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(
            np.array(indices, np.int64).reshape(len(rows), ndim),
            np.array(sizes, np.int64),
            np.array(digests, np.uint64),
            np.array(seconds, np.float32),
            np.zeros(len(rows), np.int32),
            (writer,),
        )

    @classmethod
    def merge(cls, parts: Iterable[Receipts]) -> Self:
        """Return several receipts as one, without a copy if the others are empty."""
        several = list(parts)
        full = [part for part in several if len(part)]
        if len(full) == 1:
            return cast("Self", full[0])
        names = tuple(dict.fromkeys(name for part in several for name in part.names))
        places = {name: place for place, name in enumerate(names)}
        writers = [
            np.array([places[name] for name in part.names], np.int32)[part.writers]
            for part in several
        ]
        return cls(
            np.concatenate([part.indices for part in several]),
            np.concatenate([part.sizes for part in several]),
            np.concatenate([part.digests for part in several]),
            np.concatenate([part.seconds for part in several]),
            np.concatenate(writers),
            names,
        )

    def chosen(self, rows: np.ndarray) -> Receipts:
        """Return a selection of rows."""
        return Receipts(
            self.indices[rows],
            self.sizes[rows],
            self.digests[rows],
            self.seconds[rows],
            self.writers[rows],
            self.names,
        )

    def to_json(self) -> bytes:
        """Return the receipts as JSON."""
        columns: dict[str, Any] = {
            "indices": self.indices.tolist(),
            "sizes": self.sizes.tolist(),
            "digests": [f"{value:016x}" for value in self.digests.tolist()],
            "seconds": [round(value, 6) for value in self.seconds.tolist()],
            "writers": [self.names[value] for value in self.writers.tolist()],
        }
        return json.dumps(columns).encode()

    @classmethod
    def from_json(cls, document: bytes, ndim: int) -> Self:
        """Parse receipts; raise ValueError if the document is not one of receipts."""
        try:
            columns = parse_json(document, "receipts", len(document))
            digests = [int(text, 16) for text in columns["digests"]]
            rows = list(
                zip(columns["indices"], columns["sizes"], digests, columns["seconds"], strict=True)
            )
            read = cls.of(rows, ndim, "")
            names = tuple(dict.fromkeys(map(str, columns["writers"])))
            writers = np.array([names.index(str(text)) for text in columns["writers"]], np.int32)
        except ODD as error:
            raise ValueError(f"not receipts: {error}") from error
        return cls(read.indices, read.sizes, read.digests, read.seconds, writers, names)
