"""Chromium without a window, for tests that skip where it is not."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

from tests.support.servers import WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

_OPTIONS = (
    "--headless",
    "--no-sandbox",  # containers' root may not have one
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-sync",
    "--enable-unsafe-swiftshader",  # WebGL by the processor
    "--hide-scrollbars",
    "--no-first-run",
)

_OWN = re.compile(
    r"\w+ (https?://)?(accounts|clients2|content-autofill|optimizationguide-pa|update)"
    r"\.google(apis)?\.com\W"
)
"""Requests by which Chromium calls its maker, whatever page is shown."""

viewer = pytest.mark.viewer
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed; ci/viewer installs it"
)


@contextmanager
def browsing(url: str, folder: Path, *options: str) -> Iterator[None]:
    """Show a page for as long as the block runs; the browser keeps its things in `folder`."""
    command = [*_command(folder), *options, "--window-size=800,600", url]
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def dom(page: Path, folder: Path) -> str:
    """Return a page as it is after its scripts have run."""
    return _run([*_command(folder), "--dump-dom", page.as_uri()])


def screenshot(
    page: Path, target: Path, folder: Path, size: tuple[int, int], *, dark: bool = False
) -> None:
    """Save a picture of a page, as someone sees it who likes their pages light, or dark."""
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    shot = (f"--screenshot={target}", "--window-size={},{}".format(*size), scheme)
    _run([*_command(folder), *shot, page.as_uri()])


@contextmanager
def watching() -> Iterator[tuple[str, list[str]]]:
    """An option by which requests of pages to other machines end here, and those requests."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            line = self.rfile.readline(1000).decode("latin-1")
            if line and not _OWN.match(line):
                seen.append(line)
            self.close_connection = True

    with WebServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            # Pages of this machine are not requested by way of proxies.
            yield f"--proxy-server=127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def _command(folder: Path) -> list[str]:
    return [str(CHROMIUM), *_OPTIONS, f"--user-data-dir={folder}"]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)  # noqa: S603
    return done.stdout
