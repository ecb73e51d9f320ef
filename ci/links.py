"""Check the links and anchors of the site, and that it loads nothing from elsewhere.

python ci/links.py FOLDER
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors = {"", "top"}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the attributes that name something."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag in {"img", "script", "source", "iframe"} and "src" in values:
            self.loads.add(values["src"])
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag == "link" and values.get("rel") in {"stylesheet", "icon", "preload"}:
            self.loads.add(values["href"])


def main(folder: Path) -> int:
    """Print what leads nowhere, or is loaded from elsewhere, and return how much that is."""
    files = [file for file in sorted(folder.rglob("*.html")) if "_static" not in file.parts]
    pages = {file.resolve(): Page(file) for file in files}
    wrong = []
    for file, page in pages.items():
        for link in sorted(page.links | page.loads):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                if link in page.loads and url.scheme != "data":
                    wrong.append(f"{file}: loads {link}")
                continue
            target = (file.parent / unquote(url.path)).resolve() if url.path else file
            if not target.is_file():
                wrong.append(f"{file}: {link} leads nowhere")
            elif target in pages and unquote(url.fragment) not in pages[target].anchors:
                wrong.append(f"{file}: {link} has no such anchor")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
