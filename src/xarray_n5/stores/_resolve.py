"""Resolve URLs to fsspec filesystems; redact the errors."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MissingPackageError, RefusedError, RequestError
from xarray_n5.stores._errors import is_missing, is_refused, is_transient
from xarray_n5.stores._filesystems import has_protocol, is_http
from xarray_n5.stores._http import get_anonymous_client, with_client
from xarray_n5.stores.redaction import redact, redact_urls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem


_EXTRAS = {
    **dict.fromkeys(["s3", "s3a"], "s3"),
    **dict.fromkeys(["gs", "gcs"], "gcs"),
    **dict.fromkeys(["az", "abfs", "abfss", "adl"], "azure"),
    **dict.fromkeys(["http", "https"], "http"),
}
"""Protocols, and the extras that install the packages that fsspec needs for them."""


_ANONYMOUS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **{each: {each: {"get_client": get_anonymous_client}} for each in ("http", "https")},
        **{each: {"anon": True} for each in ("s3", "s3a")},
        **{each: {"token": "anon"} for each in ("gs", "gcs")},
    }
)
"""Protocols, and the options of requests without credentials of the user or the environment."""


def anonymous_options(url: str) -> dict[str, Any] | None:
    """Return options for requests without credentials; None if that is not possible."""
    found = _ANONYMOUS.get(url.partition("://")[0])
    return None if found is None else dict(found)


def resolve_url(url: str, options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem of a URL and the path on it.

    An archive, such as a zip, is opened for this: its errors are redacted.

    Raises
    ------
    MissingPackageError
        If fsspec needs a package that one of our extras installs.
    """
    from fsspec.core import url_to_fs

    try:
        fs, root = url_to_fs(url, **with_client(url, options))
    except ImportError as error:
        for protocol in re.findall(r"(?<!\w)\w++(?=::|://)", url):
            if protocol in _EXTRAS:
                what = f"URLs of {protocol}://"
                raise MissingPackageError(what, _EXTRAS[protocol], error) from error
        raise
    except Exception as error:  # each library has errors of its own
        if not (isinstance(error, OSError) or is_refused(error) or is_transient(error)):
            raise
        failure = _failure(url, options, error)
    else:
        return fs, root
    raise failure


def split_query(fs: AbstractFileSystem, path: str) -> tuple[str, str]:
    """Split a path on a filesystem, which is a URL on the web, into its path and its query."""
    query = ""
    if is_http(fs):
        path, _, query = path.partition("#")[0].partition("?")
    return path.rstrip("/") or path, query


def path_at(fs: AbstractFileSystem, url: str) -> tuple[str, str] | None:
    """Return the path and query of a URL on a filesystem; None if it has another protocol."""
    known = has_protocol(fs, url.partition("://")[0])
    return split_query(fs, fs._strip_protocol(url)) if known else None  # noqa: SLF001


def _failure(url: str, options: Mapping[str, Any], error: Exception) -> Exception:
    why = redact(f"{type(error).__name__}: {error}", options)
    if is_missing(error):
        return FileNotFoundError(
            f"cannot open {redact_urls(url)!r}: not found, or permission denied ({why})"
        )
    return (RefusedError if is_refused(error) else RequestError)("open", redact_urls(url), "", why)
