"""The README as PyPI shows it: its pictures and links lead to the site and the repository."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

FILES = "https://github.com/xarray-n5/xarray-n5/blob/main/"
PICTURES = "https://raw.githubusercontent.com/xarray-n5/xarray-n5/main/"
SITE = "https://xarray-n5.readthedocs.io/en/stable/"


class ReadmeHook(MetadataHookInterface):
    """Set the `readme` of the distributions."""

    def update(self, metadata: dict[str, object]) -> None:
        """Replace each relative link of the README by the URL of what it links to."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": re.sub(r"\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)", _absolute, text),
        }


def _absolute(link: re.Match[str]) -> str:
    path, anchor = link[1], link[2] or ""
    if path.startswith("docs/") and path.endswith(".md"):
        return f"]({SITE}{path.removeprefix('docs/').removesuffix('.md')}.html{anchor})"
    return f"]({PICTURES if path.endswith('.png') else FILES}{path}{anchor})"
