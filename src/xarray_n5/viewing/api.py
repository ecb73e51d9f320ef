"""Open xarray's objects, or data at a URL, in Neuroglancer."""

from __future__ import annotations

import html
import json
import os
import shutil
import tempfile
import weakref
import webbrowser
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

import xarray as xr

from xarray_n5.arrays.open import open_node
from xarray_n5.dialects.groups import images_of
from xarray_n5.errors import N5Error
from xarray_n5.model.paths import level_name
from xarray_n5.viewing.layers import images_to_show, is_labels, layer_of, layers_of
from xarray_n5_engine import N5BackendEntrypoint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.images.tree import Variable
    from xarray_n5.model.image import Image

_HEIGHT = 600
"""The height of a viewer in a notebook, in pixels."""


@dataclass(slots=True, repr=False, eq=False)
class View:
    """A viewer that runs until `stop()` is called, or until the process ends.

    As the last line of a notebook's cell, it unfolds there. It is also a context manager, which
    stops it.

    Attributes
    ----------
    url : str
        The URL of the viewer. Whoever has it sees the data, if they reach this address.
    viewer : neuroglancer.Viewer or None
        The viewer of the package `neuroglancer`, to change what is shown: its ``txn()``, ``state``
        and ``screenshot()``. None for a link.

    Examples
    --------
    >>> with xarray_n5.view("cells.n5", "em") as shown:  # doctest: +SKIP
    ...     input(f"Open {shown.url}, and press Enter to stop")
    """

    url: str
    viewer: Any = None
    _server: Any = None
    _files: ExitStack = field(default_factory=ExitStack)

    @property
    def running(self) -> bool:
        """Whether this process serves the viewer.

        Examples
        --------
        >>> xarray_n5.view("cells.n5", "em").running  # doctest: +SKIP
        True
        """
        return self._server is not None

    def stop(self) -> None:
        """Stop serving the viewer; the page shows no more data. Stopping again does nothing.

        Examples
        --------
        >>> shown = xarray_n5.view("cells.n5", "em")  # doctest: +SKIP
        >>> shown.stop()  # doctest: +SKIP
        """
        server, self._server = self._server, None
        if server is not None:
            from xarray_n5.viewing.server import stop

            stop(server)
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        """Show the URL."""
        return f"<xarray_n5.View {self.url}>"

    def _repr_html_(self) -> str:
        url = html.escape(self.url, quote=True)
        return (
            f'<iframe src="{url}" width="100%" height="{_HEIGHT}" frameborder="0"></iframe>'
            f'<a href="{url}" target="_blank" rel="noopener">Neuroglancer</a>'
        )


def view(
    source: object,
    group: str = "",
    *,
    labels: bool | Collection[str] | None = None,
    link: bool = False,
    open: bool = False,  # noqa: A002
    address: str = "127.0.0.1",
    port: int = 0,
    storage_options: dict[str, Any] | None = None,
    **opening: Any,
) -> View:
    """Show data in Neuroglancer, in a browser or a notebook.

    Every variable with two dimensions or more is a layer; a pyramid is one, at all its levels.
    Channels are layers that are added in their colours, labels are segmentations, and further
    dimensions have sliders. Views of a project of BigDataViewer are placed by their registrations.
    The data is read, or computed by Dask, when it is looked at: of a large image, store a pyramid
    first. The contrast is taken from a section through the coarsest level.

    This process serves the viewer and the data at `address`, by a URL with a secret token.

    Parameters
    ----------
    source : xarray.DataArray, xarray.Dataset, xarray.DataTree, str or os.PathLike
        An object of xarray; or a URL, as in ``xarray.open_datatree``, of N5, Zarr, HDF5 or a
        project.
    group : str, default: ""
        The path of a group or an array, if `source` is a URL.
    labels : bool or collection of str, optional
        Whether images are segmentations, or the names of those that are. By default those of type
        uint64, and those that Paintera or OME-NGFF describe as labels.
    link : bool, default: False
        Whether to link N5 or Zarr at a public URL, of http(s), s3 or gs, from Neuroglancer's public
        page, which reads it there, instead of serving it: a link that others can open, too. The
        web server must allow requests from elsewhere (CORS).
    open : bool, default: False
        Whether to open the viewer in a browser.
    address : str, default: "127.0.0.1"
        The address to serve at; by default this machine alone reaches it.
    port : int, default: 0
        The port to serve at; 0 for a free one.
    storage_options : mapping, optional
        Options of the fsspec filesystem, if `source` is a URL.
    **opening
        More options of ``xarray.open_datatree``, such as `dialect`.

    Returns
    -------
    View
        The viewer: its `url`, and `stop()`.

    Raises
    ------
    MissingPackageError
        If Neuroglancer is not installed: the extra ``view``.
    TypeError
        If `source` is neither an object of xarray nor a URL.
    ValueError
        If there is nothing to show, there are too many layers, or the page cannot read the data.

    Examples
    --------
    >>> shown = xarray_n5.view("cells.n5", "em")  # doctest: +SKIP
    >>> shown.url  # doctest: +SKIP
    'http://127.0.0.1:41533/v/.../'
    """
    if isinstance(source, (xr.DataArray, xr.Dataset, xr.DataTree)):
        if group or opening or storage_options or link:
            raise TypeError(
                "group, link, storage_options and options of opening require a URL as source"
            )
        shown = _serve(source, labels, address, port)
    elif isinstance(source, (str, os.PathLike)):
        how = {"storage_options": storage_options, **opening}
        given = {key: value for key, value in how.items() if value is not None}
        tree = open_tree(source, group or None, given)
        with ExitStack() as stack:
            stack.callback(tree.close)
            if link:
                shown = View(_link_of(tree, str(source), group, labels, storage_options))
            else:
                shown = _serve(tree, labels, address, port)
                shown._files = stack.pop_all()  # noqa: SLF001 - of this file
    else:
        raise TypeError(
            "expected a DataArray, a Dataset, a DataTree or a URL to view, got "
            f"{type(source).__name__}"
        )
    if open:
        webbrowser.open(page_of(shown))
    return shown


_PAGE = """<!DOCTYPE html>
<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}">
<a href="{url}">Neuroglancer</a>
"""


def page_of(shown: View) -> str:
    """Return a URL to start a browser with: of a file that only the user reads, and that redirects.

    Other users see the arguments of programs, which must not hold the token.
    """
    if not shown.running:
        return shown.url
    folder = tempfile.mkdtemp(prefix="xarray-n5-")
    remove = weakref.finalize(shown._server, shutil.rmtree, folder, ignore_errors=True)  # noqa: SLF001
    shown._files.callback(remove)  # noqa: SLF001 - of this file
    page = Path(folder, "view.html")
    page.touch(mode=0o600)
    page.write_text(_PAGE.format(url=html.escape(shown.url, quote=True)), encoding="utf-8")
    return page.as_uri()


class _ShownEntrypoint(N5BackendEntrypoint):
    """The engine "n5" for pictures: label multisets are their most frequent labels."""

    label_multisets = "argmax"


def open_tree(source: Any, group: str | None, options: dict[str, Any]) -> xr.DataTree:
    """Open a node as a tree; if the server cannot list, open a pyramid by its levels."""
    how: dict[str, Any] = {"engine": _ShownEntrypoint, "group": group, **options}
    tree = xr.open_datatree(source, **how)
    if any(node.data_vars for node in tree.subtree):
        return tree
    levels: dict[str, xr.Dataset] = {}
    with suppress(N5Error, ValueError):
        while True:
            levels[level_name(len(levels))] = xr.open_dataset(source, level=len(levels), **how)
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=tree.attrs), **levels}) if levels else tree


def _serve(
    shown: xr.DataArray | xr.Dataset | xr.DataTree,
    labels: bool | Collection[str] | None,
    address: str,
    port: int,
) -> View:
    from xarray_n5.viewing.server import serve

    server, viewer = serve(layers_of(shown, labels), address, port)
    return View(viewer.get_viewer_url(), viewer, server)


PAGE = "https://neuroglancer-demo.appspot.com/"
"""Neuroglancer's public page."""

_SCHEMES = frozenset({"http", "https", "s3", "gs"})

_FORMATS = frozenset({"n5", "zarr2", "zarr3"})
"""The formats that Neuroglancer supports, under the same names."""


def _link_of(
    tree: xr.DataTree,
    url: str,
    group: str,
    labels: bool | Collection[str] | None,
    options: Mapping[str, Any] | None,
) -> str:
    """Return a link that shows all images of a tree; raise if Neuroglancer cannot read one."""
    parts = urlsplit(url)
    is_plain = parts.username is None and not parts.query and "::" not in url
    is_plain = is_plain and parts.scheme in _SCHEMES and not parts.path.lower().endswith(".xml")
    container = open_node(url, group, storage_options=options).container if is_plain else None
    form = container.format.name if container is not None else ""
    layers: list[dict[str, Any]] = []
    for image in images_to_show(tree):
        location = _location(image, form)
        if form not in _FORMATS or not location.startswith(url.rstrip("/")):
            raise ValueError(
                "Neuroglancer's public page cannot read this from its URL; expected N5 or Zarr at "
                "an http, https, s3 or gs URL without credentials and queries, with an image in "
                "each layer; omit link=True to serve it instead"
            )
        layer = layer_of(image, {}, is_labels=is_labels(image, labels))
        layers.append(layer.shown(f"{location}/|{form}:", is_first=not layers))
    return f"{PAGE}#!{quote(json.dumps({'layers': layers}, separators=(',', ':')), safe='')}"


def _location(image: Image[Variable], form: str) -> str:
    """Return the URL that Neuroglancer reads of an image: an array's, or that of a pyramid."""
    location = str(image.base.first.array.encoding.get("source", "")).rstrip("/")
    described = form != "n5" and len(images_of(image.base.attributes)) == 1
    return location.rpartition("/")[0] if len(image.levels) > 1 or described else location
