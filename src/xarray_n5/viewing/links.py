"""Links to Neuroglancer's public page, which reads stored data directly from its URL."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from xarray_n5.arrays.open import open_node
from xarray_n5.dialects.ngff_attributes import images_of
from xarray_n5.viewing.layers import images_to_show, is_labels, layer_of
from xarray_n5.viewing.state import plain_layer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import xarray as xr

    from xarray_n5.images.tree import Variable
    from xarray_n5.model.image import Image

PAGE = "https://neuroglancer-demo.appspot.com/"
"""Neuroglancer's public page."""

_SCHEMES = frozenset({"http", "https", "s3", "gs"})

_FORMATS = frozenset({"n5", "zarr2", "zarr3"})
"""The formats that Neuroglancer supports, under the same names."""


def is_public(url: str, options: Mapping[str, Any] | None) -> bool:
    """Return whether a URL is probably public.

    >>> is_public("https://example.org/a.n5", None), is_public("http://10.0.0.1/a.n5", None)
    (True, False)
    """
    parts = urlsplit(url)
    if not _can_be_linked(url) or set(options or {}) - {"anon"}:
        return False
    if parts.scheme in {"s3", "gs"}:
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_global
    except ValueError:
        host = parts.hostname or ""
        return "." in host and not host.endswith((".local", ".localhost", ".internal"))


def _can_be_linked(url: str) -> bool:
    """Return whether a URL can be part of a link: no project, credentials, queries or chains."""
    parts = urlsplit(url)
    is_plain = parts.username is None and not parts.query and "::" not in url
    is_plain = is_plain and not parts.path.lower().endswith(".xml")
    return is_plain and parts.scheme in _SCHEMES and bool(parts.netloc)


def link_of(
    tree: xr.DataTree,
    url: str,
    group: str,
    labels: bool | Collection[str] | None,
    options: Mapping[str, Any] | None,
) -> str | None:
    """Return a link that shows all images of a tree, or None if Neuroglancer cannot read one."""
    if not _can_be_linked(url):
        return None
    container = open_node(url, group, storage_options=options).container
    form = container.format.name
    if form not in _FORMATS:
        return None
    layers: list[dict[str, Any]] = []
    for image in images_to_show(tree):
        place = _location(image, form)
        if place is None or not place.startswith(url.rstrip("/")):
            return None
        layer = layer_of(image, {}, is_labels=is_labels(image, labels))
        layers.append(plain_layer(layer, f"{place}/|{form}:", is_first=not layers))
    return f"{PAGE}#!{quote(json.dumps({'layers': layers}, separators=(',', ':')), safe='')}"


def _location(image: Image[Variable], form: str) -> str | None:
    """Return the location of an image for Neuroglancer: an array or the group of a pyramid."""
    place = image.base.first.array.encoding.get("source")
    if not isinstance(place, str):
        return None
    above = place.rstrip("/").rpartition("/")[0]
    described = form != "n5" and len(images_of(image.base.attributes)) == 1
    return above if len(image.levels) > 1 or described else place.rstrip("/")
