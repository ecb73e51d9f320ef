"""Resolve URLs to fsspec filesystems; redact the errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MissingPackageError, RefusedError, RequestError
from xarray_n5.stores._errors import is_missing, is_refused, is_transient
from xarray_n5.stores._http import with_client
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
    except Exception as error:
        if not (isinstance(error, OSError) or is_refused(error) or is_transient(error)):
            raise
        failure = _failure(url, options, error)
    else:
        return fs, root
    raise failure


def _failure(url: str, options: Mapping[str, Any], error: Exception) -> Exception:
    why = redact(f"{type(error).__name__}: {error}", options)
    if is_missing(error):
        return FileNotFoundError(
            f"cannot open {redact_urls(url)!r}: not found, or permission denied ({why})"
        )
    return (RefusedError if is_refused(error) else RequestError)("open", redact_urls(url), "", why)
