"""Resolve links in an HDF5 file, and refuse those that leave the file.

External links, external storage and virtual datasets are refused unless the user opts in to read
them; nothing is ever written, or deleted, through them.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import PathError
from xarray_n5.formats.hdf5.attributes import is_empty_scale
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLLOW = "follow_external"
"""The storage option that allows other files to be read."""

_HIDDEN = frozenset({"__DATA_TYPES__"})
"""Groups that JHDF5 reserves in every file."""

_MAX_SOFT_LINKS = 16
"""The maximum number of soft links that HDF5 follows to an object."""

Address: TypeAlias = "tuple[int, int, int]"
"""An object: the device and number of its file, which may be another one, and where it is there."""

_OPT_IN = f"if you trust the file, set the storage option {FOLLOW!r} to True to read it"


def node_in(file: Any, path: str, *, follow: bool = False) -> Any:
    """Return the group or dataset at a path of an h5py file or group; None if there is none.

    Raises
    ------
    PathError
        If the path leads to another file, unless `follow` is set.
    """
    import h5py

    if follow:
        try:
            node = file[path or "/"]
        except (KeyError, RuntimeError):
            return None  # no such object, or a cycle of links
        return node if isinstance(node, h5py.Group | h5py.Dataset) else None
    node = _Walk(file.file, path).walk(file.id, path)
    if isinstance(node, h5py.h5g.GroupID):
        return h5py.Group(node)
    return h5py.Dataset(node) if isinstance(node, h5py.h5d.DatasetID) else None


class _Walk:
    """Follow one path, link by link, within a file."""

    def __init__(self, file: Any, path: str) -> None:
        self._file, self._path = file, path
        self._soft_links = 0

    def walk(self, start: Any, path: str) -> Any:
        """Return the identifier of the object at a path from a group; None if there is none."""
        import h5py

        root = h5py.h5o.open(self._file.id, b"/")
        node = root if path.startswith("/") or start == self._file.id else start
        for part in path.encode("utf-8", "surrogateescape").split(b"/"):
            if part in {b"", b"."}:
                continue
            if not isinstance(node, h5py.h5g.GroupID) or not node.links.exists(part):
                return None
            node = self._step(node, part)
        return node

    def _step(self, group: Any, name: bytes) -> Any:
        import h5py

        kind = group.links.get_info(name).type
        if kind == h5py.h5l.TYPE_HARD:
            return h5py.h5o.open(group, name)
        if kind == h5py.h5l.TYPE_SOFT:
            self._soft_links += 1
            if self._soft_links > _MAX_SOFT_LINKS:
                return None
            target = group.links.get_val(name).decode("utf-8", "surrogateescape")
            return self.walk(group, target)
        where = f"{os.fsdecode(self._file.filename)}: {self._path!r}"
        if kind != h5py.h5l.TYPE_EXTERNAL:
            raise PathError(
                f"{where} is a user-defined link, which cannot be followed; read it with h5py"
            )
        other, target = (os.fsdecode(part) for part in group.links.get_val(name))
        raise PathError(
            f"{where} is an external link to {target!r} in {other!r}, which is not followed; "
            f"{_OPT_IN}, and open that file to write to it"
        )


def outside(dataset: Any) -> str | None:
    """Return why a dataset's elements may be outside its file; None if they are inside."""
    if dataset.external:
        names = sorted({os.fsdecode(name) for name, *_ in dataset.external})
        return f"its elements are in other files ({', '.join(names)}); {_OPT_IN}"
    if not dataset.is_virtual:
        return None
    for source in dataset.virtual_sources():
        if source.file_name != "." or not _is_plain(dataset.file, source.dset_name):
            return (
                "it is a virtual dataset of other files or virtual datasets "
                f"({source.dset_name!r} in {source.file_name!r}); {_OPT_IN}"
            )
    return None


def _is_plain(file: Any, path: str) -> bool:
    """Return whether the elements of a virtual dataset's source are in the same file, or absent."""
    if "%" in path:
        return False  # HDF5 replaces it with a number
    try:
        source = node_in(file, path)
    except PathError:
        return False
    return not hasattr(source, "shape") or not (source.external or source.is_virtual)


def check_inside(dataset: Any) -> None:
    """Raise if writing to a dataset would change other files, or other datasets.

    Raises
    ------
    PathError
        If it has external storage or is virtual.
    """
    if dataset.external or dataset.is_virtual:
        raise PathError(
            f"{os.fsdecode(dataset.file.filename)}: cannot write to {dataset.name!r}, whose "
            "elements are in other files or datasets (external storage, or a virtual dataset); "
            "write to those instead"
        )


@dataclass(slots=True)
class Members:
    """The nodes in each group of a walk that begins at one; each group is a member once.

    Of several links to a group, only the one on the shortest path counts, and of equally short
    paths the first in sorted order: the number of paths may grow exponentially with that of links.
    Links are read level by level, no deeper than needed, and once.
    """

    top: str
    """The path of the group at which the walk begins."""
    names: dict[Address, list[str]] = field(default_factory=dict)
    """The names of the nodes in a group whose links have been read; hidden ones are left out."""
    known: set[Address] = field(default_factory=set)
    """The groups that are members, and the ones around them."""
    level: list[str] = field(default_factory=list)
    """The paths of the groups whose links are read next."""

    def children(self, find: Callable[[str], Any], path: str, *, follow: bool) -> list[str]:
        """Return the sorted names of the nodes in a group; `find` returns the node at a path."""
        group = find(path)
        if not self.known:
            self.known, self.level = groups_around(find, self.top), [self.top]
        while (address := address_of(group)) not in self.names and self.level:
            paths, self.level = self.level, []
            for inner in paths:
                with contextlib.suppress(*FAILURES):  # groups that are damaged
                    self._read(find(inner), inner, follow=follow)
        return self.names[address] if address in self.names else children(find, path, follow=follow)

    def _read(self, group: Any, path: str, *, follow: bool) -> None:
        links = list(links_in(group, follow=follow))
        names = self.names[address_of(group)] = []
        for name, address in links:
            if address in self.known or name.startswith("."):
                continue
            names.append(name)
            if address is not None:
                self.known.add(address)
                self.level.append(join(path, name))


def children(find: Callable[[str], Any], path: str, *, follow: bool) -> list[str]:
    """Return the sorted names of the nodes in a group; hidden ones and circles are left out."""
    around, links = groups_around(find, path), links_in(find(path), follow=follow)
    return [name for name, to in links if to not in around and not name.startswith(".")]


def groups_around(find: Callable[[str], Any], path: str) -> set[Address]:
    """Return the group at a path and those above it; `find` returns the node at a path."""
    parts = path.split("/") if path else []
    paths = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    return {address_of(node) for node in map(find, paths) if node is not None}


def links_in(group: Any, *, follow: bool = False) -> Iterator[tuple[str, Address | None]]:
    """Iterate over the names of the nodes in a group, in sorted order, with addresses of groups.

    Links to other files are included unless `follow` is set: reading them raises an error that
    explains the refusal.
    """
    import h5py

    names = group if isinstance(group, h5py.Group) else ()
    for name in sorted(name for name in names if isinstance(name, str)):
        try:
            node = node_in(group, name, follow=follow)
        except PathError:
            yield name, None
            continue
        except FAILURES:
            continue  # a link to nothing
        if isinstance(node, h5py.Group):
            if name not in _HIDDEN:
                yield name, address_of(node)
        elif node is not None and not is_empty_scale(node):
            yield name, None


def file_of(node: Any) -> str:
    """Return the path of the file that an object is in."""
    import h5py

    return os.fsdecode(h5py.h5f.get_name(node.id))


def address_of(node: Any) -> Address:
    """Return the identity of an object, which does not depend on the link that leads to it."""
    import h5py

    file = os.stat(file_of(node))
    return file.st_dev, file.st_ino, int(h5py.h5o.get_info(node.id).addr)
