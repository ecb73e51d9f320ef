"""Links to Neuroglancer's public page, which reads stored data directly from its URL."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from xarray_n5.arrays.access import container_of
from xarray_n5.arrays.open import open_node
from xarray_n5_view.collect import is_labels, sources_in
from xarray_n5_view.layers import whole_image
from xarray_n5_view.state import plain_layer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import xarray as xr

    from xarray_n5_view.collect import Source

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
    if not can_be_linked(url) or set(options or {}) - {"anon"}:
        return False
    if parts.scheme in {"s3", "gs"}:
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_global
    except ValueError:
        host = parts.hostname or ""
        return "." in host and not host.endswith((".local", ".localhost", ".internal"))


def can_be_linked(url: str) -> bool:
    """Return whether a URL can be part of a link: without credentials, queries and chains."""
    parts = urlsplit(url)
    is_plain = parts.username is None and not parts.query and "::" not in url
    return is_plain and parts.scheme in _SCHEMES and bool(parts.netloc)


def link_of(
    tree: xr.DataTree,
    url: str,
    group: str,
    labels: bool | Collection[str] | None,
    options: Mapping[str, Any] | None,
) -> str | None:
    """Return a link that shows all images of a tree, or None if Neuroglancer cannot read one."""
    container = container_of(open_node(url, group, storage_options=options))
    form = container.format.name
    if form not in _FORMATS:
        return None
    layers: list[dict[str, Any]] = []
    for source in sources_in(tree):
        place = _location(source, form)
        if place is None or not place.startswith(url.rstrip("/")):
            return None
        image = whole_image(source, is_labels=is_labels(source, labels))
        layers.append(plain_layer(image, f"{place}/|{form}:", is_first=not layers))
    return f"{PAGE}#!{quote(json.dumps({'layers': layers}, separators=(',', ':')), safe='')}"


def _location(source: Source, form: str) -> str | None:
    """Return the location of an image for Neuroglancer: an array or the group of a pyramid."""
    place = source.array.encoding.get("source")
    if not isinstance(place, str):
        return None
    above = place.rstrip("/").rpartition("/")[0]
    described = form != "n5" and _describes_one(source.attributes)
    return above if len(source.datasets) > 1 or described else place.rstrip("/")


def _describes_one(attributes: Mapping[Any, Any]) -> bool:
    ome = attributes.get("ome")
    listed = (ome if isinstance(ome, dict) else attributes).get("multiscales")
    return isinstance(listed, list) and len(listed) == 1
