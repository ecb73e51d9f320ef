"""Links in an HDF5 file: where a path leads, and that it stays in the file.

External links, external storage and virtual datasets are refused unless the user opts in to read
them; nothing is ever written, or deleted, through them.
"""

from __future__ import annotations

import os
from typing import Any

from xarray_n5.errors import PathError
from xarray_n5.formats.hdf5.library import FAILURES
from xarray_n5.formats.hdf5.scales import is_empty_scale

FOLLOW = "follow_external"
"""The storage option that allows other files to be read."""

HIDDEN = frozenset({"__DATA_TYPES__"})
"""What JHDF5 keeps in every file for itself."""

_MOST_LINKS = 16
"""How many soft links HDF5 follows on the way to one object."""

_OPT_IN = f"if you trust the file, set the storage option {FOLLOW!r} to True to read it"


def node_in(file: Any, path: str, *, follow: bool = False) -> Any:
    """Return the group or dataset at a path of an open file, or None.

    Raises
    ------
    PathError
        If the path leads to another file, unless `follow` is set.
    """
    import h5py

    if follow:
        try:
            found = file[path or "/"]
        except (KeyError, RuntimeError):
            return None  # nothing there, or links that turn back
        return found if isinstance(found, h5py.Group | h5py.Dataset) else None
    return _as_node(_walk(file, file.id, path, [_MOST_LINKS], path))


def member_of(group: Any, name: str) -> Any:
    """Return a group or dataset directly in a group; None where its link leads nowhere.

    Raises
    ------
    PathError
        If the link leads to another file.
    """
    return _as_node(_walk(group.file, group.id, name, [_MOST_LINKS], name))


def _as_node(found: Any) -> Any:
    import h5py

    if isinstance(found, h5py.h5g.GroupID):
        return h5py.Group(found)
    return h5py.Dataset(found) if isinstance(found, h5py.h5d.DatasetID) else None


def _walk(file: Any, start: Any, path: str, left: list[int], asked: str) -> Any:
    """Return the identifier of what a path leads to from a group, or None.

    Parameters
    ----------
    file
        The open file; an absolute path begins at its root.
    start
        The identifier of a group.
    path
        Names of links.
    left
        How many soft links may still be followed.
    asked
        The path that the user named, for the error.
    """
    import h5py

    root = h5py.h5o.open(file.id, b"/")
    found = root if path.startswith("/") or start == file.id else start
    for part in path.encode("utf-8", "surrogateescape").split(b"/"):
        if part in {b"", b"."}:
            continue
        if not isinstance(found, h5py.h5g.GroupID) or not found.links.exists(part):
            return None
        kind = found.links.get_info(part).type
        if kind == h5py.h5l.TYPE_HARD:
            found = h5py.h5o.open(found, part)
        elif kind == h5py.h5l.TYPE_SOFT:
            left[0] -= 1
            if left[0] < 0:
                return None
            target = found.links.get_val(part).decode("utf-8", "surrogateescape")
            found = _walk(file, found, target, left, asked)
        else:
            raise PathError(_refusal(file, asked, found, part))
    return found


def _refusal(file: Any, asked: str, group: Any, name: bytes) -> str:
    import h5py

    where = f"{os.fsdecode(file.filename)}: {asked!r}"
    if group.links.get_info(name).type != h5py.h5l.TYPE_EXTERNAL:
        return f"{where} is a link of a kind that only other programs can follow"
    other, target = (os.fsdecode(each) for each in group.links.get_val(name))
    return (
        f"{where} leads to {target!r} in another file, {other!r}, through an external link, which "
        f"is not followed; {_OPT_IN}, and open that file to write there"
    )


def outside(dataset: Any) -> str | None:
    """Return why a dataset's elements cannot be trusted to be in its file; None where they are."""
    if dataset.external:
        names = sorted({os.fsdecode(name) for name, *_ in dataset.external})
        return f"its elements are in other files ({', '.join(names)}); {_OPT_IN}"
    if not dataset.is_virtual:
        return None
    for source in dataset.virtual_sources():
        if source.file_name != "." or not _is_plain(dataset.file, source.dset_name):
            return (
                f"it is a virtual dataset of other files or other virtual datasets "
                f"({source.dset_name!r} in {source.file_name!r}); {_OPT_IN}"
            )
    return None


def _is_plain(file: Any, path: str) -> bool:
    """Return whether a source of a virtual dataset is elements in the same file, or missing."""
    if "%" in path:
        return False  # HDF5 replaces it by a number
    try:
        found = node_in(file, path)
    except PathError:
        return False
    return not hasattr(found, "shape") or not (found.external or found.is_virtual)


def check_inside(dataset: Any) -> None:
    """Raise where writing into a dataset would change other files, or other datasets.

    Raises
    ------
    PathError
        If its elements are not its own.
    """
    if dataset.external or dataset.is_virtual:
        raise PathError(
            f"{os.fsdecode(dataset.file.filename)}: the elements of {dataset.name!r} are in other "
            "files or datasets (external storage, or a virtual dataset), to which nothing is "
            "written from here; write to these themselves"
        )


def members_of(file: Any, path: str, *, follow: bool = False) -> list[str]:
    """Return the names of the groups and datasets in a group, without links that turn back.

    Links to other files are among them, so that reading them explains why they are refused.
    """
    parts = path.split("/") if path else []
    places = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    above = {place_of(node_in(file, place, follow=follow)) for place in places}
    group = node_in(file, path, follow=follow)
    return sorted(
        name
        for name in group
        if isinstance(name, str) and _is_member(group, name, above, follow=follow)
    )


def _is_member(group: Any, name: str, above: set[tuple[int, int]], *, follow: bool) -> bool:
    import h5py

    try:
        node = node_in(group, name, follow=True) if follow else member_of(group, name)
    except PathError:
        return True
    except FAILURES:
        return False  # a link that leads nowhere
    if isinstance(node, h5py.Group):
        return name not in HIDDEN and place_of(node) not in above
    return node is not None and not is_empty_scale(node)


def place_of(node: Any) -> tuple[int, int]:
    """Return what tells an object from others, by whichever name it is found."""
    import h5py

    found = h5py.h5o.get_info(node.id)
    return int(found.fileno), int(found.addr)
