"""What stands around an array and says something of its axes: groups, base level, XML file."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.dialects.levels import view_of
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.errors import MetadataError
from xarray_n5.formats.containers import SUFFIX
from xarray_n5.formats.hdf5.signature import SUFFIXES
from xarray_n5.formats.keyed import get_all_documents, get_documents
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.stores import CachedStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.model.metadata import Attributes, Metadata
    from xarray_n5.stores.protocol import Store

_GENERATIONS = 3
"""How many groups around an array are looked at: those of a level, a timepoint, a setup."""

_COARSE = re.compile(r"(?:(.*)/)?s0*[1-9]\d*")
"""The path of a level that has a base level beside it."""

_LEVEL = re.compile(r"s?\d+")
"""The name of a level."""

_OF_LEVELS = ("multiscales", "multiScale", "scales", "downsamplingFactors")
"""Attributes of a group of levels."""

_INHERITED = ("axes", "units", "resolution", "pixelResolution", "coordinateArrays")
"""What comes down from all groups above in Neuroglancer, where that is asked for."""


def load_context(
    store: Store,
    path: str,
    form: KeyedFormat,
    metadata: ArrayMetadata,
    *,
    inherit: bool = False,
    like: ArrayContext | None = None,
) -> ArrayContext:
    """Return an array as dialects see it; what is around it is read in one batch.

    Parameters
    ----------
    store, path, form, metadata
        The array, be it stored or not.
    inherit
        Whether all groups above have their say, as in Neuroglancer: the nearer the louder.
    like
        An array in the same group, around which has been looked already.
    """
    inside, most = bool(path), _GENERATIONS
    if not inside and _LEVEL.fullmatch(store.name):
        store, path, most = _within_groups(store, form)
    coarse = _COARSE.fullmatch(path)
    if like is not None and not coarse:
        other = like.other(path, metadata.attributes, metadata.shape)
        return replace(other, dtype=metadata.dtype)
    parts = path.split("/")[:-1]
    groups = ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)] if path else []
    wanted = groups if inherit and inside else groups[:most]
    others = [*wanted, *([join(coarse[1] or "", "s0")] if coarse else [])]
    found = _read(store, form, others)
    parents = tuple(each.attributes if each else {} for each in found[: len(wanted)])
    node = ArrayContext(
        attributes=metadata.attributes,
        shape=metadata.shape,
        path=path,
        parents=(inherited(parents), *parents[1:]) if inherit and parents else parents,
        beside=like.beside if like else {},
        xml=xml_beside(store) if inside and view_of(path) else None,
        format=form.lists(lambda: get_documents(store, "", form)),
        dtype=metadata.dtype,
    )
    return over_base(node, found[-1], others[-1]) if coarse else node


def _within_groups(store: Store, form: KeyedFormat) -> tuple[Store, str, int]:
    """Return where a level lies that a URL leads to: a store above, its path there, its groups.

    A container need not be called ``*.n5``, as many in buckets are not. The directories above are
    asked for documents in one batch, and count as groups up to the first that has none.
    """
    stores: list[Store] = []
    names, above = [store.name], store.parent()
    while above is not None and len(stores) < _GENERATIONS:
        stores.append(above)
        names.append(above.name)
        above = above.parent()
    if not stores:
        return store, "", 0
    top, count = CachedStore(stores[-1]), len(stores)
    paths = ["/".join(names[depth:count][::-1]) for depth in range(1, count + 1)]
    try:
        several = get_all_documents(top, [*paths, join(paths[0], "s0")], form)[:-1]
    except PermissionError:
        return store, "", 0  # nothing says that those directories belong to a container
    depth = next((n for n, each in enumerate(several) if not each), count)
    if not depth or not (store.name.startswith("s") or _is_multiscale(several[0])):
        return store, "", 0
    return top, "/".join(names[:count][::-1]), depth


def _is_multiscale(documents: Documents) -> bool:
    """Return whether a group's documents describe levels, which may be called by numbers."""
    return any(f'"{key}"'.encode() in data for data in documents.values() for key in _OF_LEVELS)


def over_base(node: ArrayContext, base: Metadata | None, path: str) -> ArrayContext:
    """Return a coarser level with the base level beside it, if that is one."""
    if not isinstance(base, ArrayMetadata) or len(base.shape) != len(node.shape):
        return node
    return replace(node, base=node.other(path, base.attributes, base.shape))


def inherited(parents: Sequence[Attributes]) -> Attributes:
    """Return the nearest group's attributes with what comes down to it from those above."""
    merged: dict[str, object] = {}
    for attributes in reversed(parents[1:]):
        merged |= {key: attributes[key] for key in _INHERITED if key in attributes}
    return {**merged, **(parents[0] if parents else {})}


def xml_beside(store: Store) -> bytes | None:
    """Return the XML file of the same name beside a container, or None where there is none."""
    suffix = next(filter(store.name.endswith, (SUFFIX, *SUFFIXES)), "")
    above, name = store.parent(), f"{store.name.removesuffix(suffix)}.xml"
    try:
        return above.get(name) if above else None
    except PermissionError as error:
        warn(f"{name!r} beside {store.url!r} cannot be read, if it is there: {error}")
        return None


def _read(store: Store, form: KeyedFormat, paths: Sequence[str]) -> list[Metadata | None]:
    """Return the metadata of nodes; None where they are not to be understood, or to be seen."""
    try:
        several = get_all_documents(store, paths, form)
    except PermissionError as error:
        warn(f"the groups around {paths[0]!r} in {store.url!r} cannot be read: {error}")
        return [None] * len(paths)
    found: list[Metadata | None] = []
    for path, documents in zip(paths, several, strict=True):
        try:
            found.append(form.read(documents, join(store.url, path, form.documents[0])))
        except MetadataError:
            found.append(None)
    return found
