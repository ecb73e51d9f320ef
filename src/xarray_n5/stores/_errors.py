"""Classify the errors of filesystems: missing, refused, or transient.

Each library has its own errors, and none is imported here: they are recognised by their base
classes, by the status of their HTTP response, or else by name.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors that mean that there is no file at a key; other errors do not."""

_GONE = frozenset({404, 410})
_REFUSED = frozenset({401, 403, 407})
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of servers for which the same request may succeed a moment later."""

_BROKEN = frozenset(
    {
        *(errno.EBUSY, errno.EAGAIN, errno.ETIMEDOUT, errno.EPIPE),
        *(errno.ECONNRESET, errno.ECONNABORTED, errno.ENETRESET),
    }
)
"""Broken connections. A host that does not exist is not retried."""

_BROKEN_NAMES = frozenset(
    {
        *("ClientPayloadError", "ServerDisconnectedError", "ServerTimeoutError"),  # aiohttp
        *("IncompleteRead", "IncompleteReadError", "ProtocolError"),  # http.client, urllib3
        *("ReadTimeoutError", "ConnectTimeoutError", "ConnectionClosedError"),  # botocore
        *("ServiceResponseError", "ChunkedEncodingError"),  # azure, requests
    }
)

_REFUSED_NAMES = frozenset(
    {
        *("PermissionDeniedError", "UnauthenticatedError"),  # obstore
        *("NoCredentialsError", "PartialCredentialsError"),  # botocore
        "DefaultCredentialsError",  # google.auth
    }
)


def is_missing(error: BaseException) -> bool:
    """Return whether an error means that a file is missing, rather than unknown.

    fsspec raises FileNotFoundError also if a web server does not report a file's size, and if
    there is no server. If the whole bucket is missing, this may be another server than that of the
    writer.
    """
    if not isinstance(error, MISSING) or lacks_bucket(error):
        return False
    cause = error.__cause__
    if cause is None or _status(cause) in _GONE:
        return True
    if isinstance(cause, MISSING):
        return is_missing(cause)
    if _status(cause) is not None or isinstance(cause, OSError) or _is_of_aiohttp(cause):
        return False
    return not is_refused(cause) and not is_transient(cause)


def lacks_bucket(error: BaseException) -> bool:
    """Return whether S3 or Azure has no such bucket."""
    codes = ("NoSuchBucket", "ContainerNotFound")
    return any(code in str(cause) for cause in _chain(error) for code in codes)


def _is_of_aiohttp(error: BaseException) -> bool:
    """Return whether a web server could not be reached, or its response was invalid."""
    return any(
        kind.__name__ == "ClientError" and kind.__module__.startswith("aiohttp")
        for kind in type(error).__mro__
    )


def is_refused(error: BaseException) -> bool:
    """Return whether an error means that the user lacks the permission."""
    return any(
        isinstance(cause, PermissionError)
        or _status(cause) in _REFUSED
        or type(cause).__name__ in _REFUSED_NAMES
        for cause in _chain(error)
    )


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed a moment later."""
    for cause in _chain(error):
        status = _status(cause)
        if status is not None:
            return status in _BUSY
        if isinstance(cause, ConnectionResetError | ConnectionAbortedError | TimeoutError):
            return True
        if isinstance(cause, OSError) and cause.errno in _BROKEN:
            return True
        if not _BROKEN_NAMES.isdisjoint(kind.__name__ for kind in type(cause).__mro__):
            return True
    return False


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Iterate over an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    """Return the status of the HTTP response that an error carries, or None."""
    for name in ("status", "status_code", "code"):
        status = getattr(error, name, None)
        if isinstance(status, int):
            return status if 400 <= status < 600 else None  # noqa: PLR2004 - HTTP's errors
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    status = metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    return status if isinstance(status, int) else None
