"""The XML file of a project."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from xarray_n5.stores import Store
    from xarray_n5_bdv.project import Project

_ENDING = re.compile(r"\.xml(?:~\d+)?$", re.IGNORECASE)
"""The suffix of a project's name; BigStitcher numbers its backups: ``dataset.xml~1``."""


@dataclass(frozen=True)
class ProjectFile:
    """An XML file, and the project that it describes."""

    store: Store
    """The file, as a store whose root it is."""
    project: Project
    source: object
    """The file as the user named it."""

    @property
    def url(self) -> str:
        """The file's location."""
        return self.store.url

    @property
    def name(self) -> str:
        """The file's name without its suffix, or that of a backup: the name of variables."""
        return _ENDING.sub("", self.store.name) or self.store.name

    @property
    def is_local(self) -> bool:
        """Whether the file is on a local disk."""
        return isinstance(self.store, LocalStore)
