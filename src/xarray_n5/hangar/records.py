"""Hangar's records: texts that say where a sample lies, of which shape it is, and its digest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from xarray_n5.errors import MetadataError

LONGEST = 255
"""Hangar counts the characters of a record in one byte."""

Form = Literal["0.5", "0.4", "0.3"]
"""The versions of Hangar after which the forms of its records are called."""

_UID = "(?P<uid>[A-Za-z0-9_-]+)"
_DIGEST = "(?P<digest>[0-9a-f]{16})"
_SHAPE = "(?P<shape>|[0-9]+(?: [0-9]+)*)"
_FORMS = (
    re.compile(
        f"(?P<backend>0[01]):{_UID}:{_DIGEST}:(?P<dataset>[0-9]+):(?P<row>[0-9]+):{_SHAPE}",
    ),
    re.compile(
        rf"(?P<backend>0[01]):{_UID}\${_DIGEST}\$(?P<dataset>[0-9]+) (?P<row>[0-9]+)\*{_SHAPE}",
    ),
    re.compile(rf"(?P<backend>0[01]):{_UID}\$(?P<dataset>[0-9]+) (?P<row>[0-9]+)\*{_SHAPE}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Where one sample lies.

    >>> parse_record("00:rlUK3C:8067007c0f05c359:16:105:10 10").shape
    (10, 10)
    """

    uid: str
    """The name of the file, without its ``.hdf5``."""
    dataset: int
    """The number that is the name of a dataset in the file."""
    row: int
    """The place along the dataset's first axis."""
    shape: tuple[int, ...]
    """The shape of the sample."""
    digest: str | None
    """The xxh64 of its bytes, as 16 hexadecimal digits; none in the oldest records."""
    backend: str = "00"
    """Hangar's code for the layout of the file: "00" or "01"."""

    def text(self, form: Form = "0.5") -> str:
        """Return the record as one version of Hangar writes it.

        Parameters
        ----------
        form
            "0.5", and with it later ones; "0.4"; or "0.3", which has no digest.

        Raises
        ------
        MetadataError
            If it is longer than Hangar can read, or a digest is needed and not there.
        """
        sizes = " ".join(map(str, self.shape))
        match form:
            case "0.5":
                place = f"{self.uid}:{self.digest}:{self.dataset}:{self.row}:{sizes}"
            case "0.4":
                place = f"{self.uid}${self.digest}${self.dataset} {self.row}*{sizes}"
            case _:
                place = f"{self.uid}${self.dataset} {self.row}*{sizes}"
        made = f"{self.backend}:{place}"
        if self.digest is None and form != "0.3":
            raise MetadataError(f"{made!r} has no digest; only Hangar 0.3's form does without")
        _check_length(made)
        return made

    def __str__(self) -> str:
        return self.text("0.3" if self.digest is None else "0.5")


def parse_record(found: str | bytes) -> Record:
    """Return what a record says, in any of the three forms that Hangar has had.

    Parameters
    ----------
    found
        A record, or its bytes as Hangar's database holds them.

    Raises
    ------
    MetadataError
        If it is none, or longer than Hangar can read.
    """
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else found
    if not isinstance(text, str):
        raise MetadataError(f"{found!r} is no record of Hangar's: a text is needed")
    _check_length(text)
    for form in _FORMS:
        if match := form.fullmatch(text):
            return _record(match)
    raise MetadataError(
        f"{text!r} is no record of Hangar's HDF5 files: "
        "00:<uid>:<16 hexadecimal digits>:<dataset>:<row>:<sizes> is needed"
    )


def _record(match: re.Match[str]) -> Record:
    parts = match.groupdict()
    return Record(
        uid=parts["uid"],
        dataset=int(parts["dataset"]),
        row=int(parts["row"]),
        shape=tuple(map(int, parts["shape"].split())),
        digest=parts.get("digest"),
        backend=parts["backend"],
    )


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise MetadataError(
            f"the record {text[:60]!r}... has {len(text)} characters; Hangar reads {LONGEST}"
        )
