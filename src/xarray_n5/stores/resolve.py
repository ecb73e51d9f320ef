"""From a URL to a filesystem of fsspec, and what is told where that fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MissingPackageError, RefusedError, RequestError
from xarray_n5.stores.failures import is_missing, is_refused, is_transient
from xarray_n5.stores.http import with_client
from xarray_n5.stores.redaction import hide, hide_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem


_EXTRAS = {
    **dict.fromkeys(["s3", "s3a"], "s3"),
    **dict.fromkeys(["gs", "gcs"], "gcs"),
    **dict.fromkeys(["az", "abfs", "abfss", "adl"], "azure"),
    **dict.fromkeys(["http", "https"], "http"),
}
"""The extras that bring what fsspec needs for URLs."""


def reach(url: str, options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    """Return a filesystem and the path on it that a URL names.

    To know a file with files inside, such as a zip, it is asked for: errors of that show no secret.

    Raises
    ------
    MissingPackageError
        If fsspec needs a package for it that an extra brings.
    """
    from fsspec.core import url_to_fs

    try:
        fs, root = url_to_fs(url, **with_client(url, options))
    except ImportError as error:
        for protocol in re.findall(r"(\w+)(?=::|://)", url):
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
    why = hide_all(f"{type(error).__name__}: {error}", options)
    if is_missing(error):
        return FileNotFoundError(f"cannot open {hide(url)!r}: nothing is there, or refused ({why})")
    return (RefusedError if is_refused(error) else RequestError)("open", hide(url), "", why)
