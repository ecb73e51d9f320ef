"""Pyramids in the group ``labels`` of an image of OME-NGFF, which lists them.

Readers find images of labels by that list only. Source: "labels" and "image-label" of versions 0.4
to 0.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.group import create_group
from xarray_n5.dialects.ngff_attributes import are_described, is_label_image
from xarray_n5.formats.protocol import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Attributes

_LABELS, _SOURCE = "labels", {"source": {"image": "../../"}}


def is_label(path: str, dtype: np.dtype[Any], container: Container) -> bool:
    """Return whether a new pyramid is one of labels: integers, in ``labels`` of an image."""
    above, _, _ = path.rpartition("/")
    if dtype.kind not in "iu" or not _is_labels(above):
        return False
    (image,) = container.nodes([above.rpartition("/")[0]], verify=False)
    return isinstance(image, Node) and are_described(image.metadata.attributes)


def with_source(
    attributes: Mapping[str, Any], path: str, dtype: np.dtype[Any], container: Container
) -> dict[str, Any]:
    """Return the attributes of a pyramid's group, with ``image-label`` if it is one of labels.

    The source is the image two groups up, unless the attributes have another one.
    """
    new = are_described(attributes) and not is_label_image(attributes)
    if not new or not is_label(path, dtype, container):
        return dict(attributes)
    if "ome" in attributes:
        return {**attributes, "ome": {**attributes["ome"], "image-label": _SOURCE}}
    return {**attributes, "image-label": {"version": "0.4", **_SOURCE}}


def list_labels(container: Container, pyramids: Mapping[str, Mapping[str, Any]]) -> None:
    """Add images of labels to the lists of the groups ``labels`` around them.

    Parameters
    ----------
    container
        Their container.
    pyramids
        The attributes of groups by their paths; others than those of labels are ignored.
    """
    for path, attributes in pyramids.items():
        above, _, name = path.rpartition("/")
        if not _is_labels(above) or not is_label_image(attributes):
            continue
        labels = create_group(container, above, mode="a")
        ome, version = labels.attrs.get("ome"), attributes.get("ome", {}).get("version")
        holder = labels.attrs if version is None else ome if isinstance(ome, dict) else {}
        listed = holder.get(_LABELS)
        names = listed if isinstance(listed, list) else []
        if name not in names:
            new = {_LABELS: [*names, name]}
            nested = {"ome": {"version": version, **holder, **new}}
            labels.attrs.update(new if version is None else nested)


def relisted(attributes: Attributes, labels: Mapping[str, Attributes]) -> dict[str, Any]:
    """Return the list of a group ``labels`` in the version of its images; empty if it has none.

    Parameters
    ----------
    attributes
        The group's attributes.
    labels
        The new attributes of images in the group, by their names.
    """
    old = attributes.get("ome")
    if not isinstance(old, dict) or _LABELS not in old:
        old = {_LABELS: attributes.get(_LABELS)}
    names = old[_LABELS] if isinstance(old[_LABELS], list) else []
    images = [image for name, image in labels.items() if name in names and are_described(image)]
    new = {key: value for key, value in old.items() if key != "version"} if images else {}
    versions = [image["ome"]["version"] for image in images if "ome" in image]
    return {"ome": {"version": versions[0], **new}} if versions else new


def _is_labels(path: str) -> bool:
    return path.rpartition("/")[2] == _LABELS
