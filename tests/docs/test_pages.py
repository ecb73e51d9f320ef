"""The code of the README and of the documentation runs, and prints what the pages show."""

from __future__ import annotations

import re
import shlex
import shutil
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner

from xarray_n5.cli import main
from xarray_n5.codecs import COMPRESSIONS
from xarray_n5.dialects import DIALECTS
from xarray_n5.formats import FORMATS, KEYED_FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "src" / "xarray_n5" / "samples"

ALONE = {"README.md", "docs/index.md", "docs/tutorial.md"}
"""Pages whose code begins in an empty folder; all others begin with copies of the samples."""


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Return the page's code blocks in a language, each with the line before it."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in found]


@contextmanager
def unchanged_tables() -> Iterator[None]:
    """Undo what a page registers."""
    with ExitStack() as stack:
        for table in (COMPRESSIONS, DIALECTS, FORMATS):
            stack.enter_context(mock.patch.dict(table))  # type: ignore[arg-type]
        stack.callback(KEYED_FORMATS.__setitem__, slice(None), list(KEYED_FORMATS))
        yield


def outputs(page: Path) -> dict[int, str]:
    """Return the output shown below each Python block, by the line before the block."""
    text, found = page.read_text(encoding="utf-8"), {}
    below = re.compile(r"\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for code in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if shown := below.match(text, code.end()):
            found[text.count("\n", 0, code.start(1))] = shown[1]
    return found


def run(page: Path) -> None:
    """Run a page's code, and compare its output with the page."""
    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = outputs(page)
    try:
        for line, code in blocks(page, "python"):
            # Blank lines before it make an error name the line of the page.
            compiled = compile("\n" * line + code, page, "exec", dont_inherit=True)
            with redirect_stdout(StringIO()) as printed:
                exec(compiled, names)  # noqa: S102 - our own pages
            text = printed.getvalue().replace(f"{Path.cwd()}/", "")
            lines = [each.rstrip() for each in text.splitlines()]
            if line in shown:
                assert lines == shown[line].splitlines(), f"line {line}"
    finally:
        plt.close("all")


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def copy_samples(folder: Path) -> None:
    for container in SAMPLES.glob("*.n5"):
        shutil.copytree(container, folder / container.name)


@pytest.mark.parametrize("page", [each for each in PAGES if blocks(each, "python")], ids=name_of)
def test_code_on_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name_of(page) not in ALONE:
        copy_samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    with unchanged_tables():
        run(page)
        for command in shell_commands(page):
            if command[0] == "xarray-n5" and command[1] != "view":  # which serves on and on
                result = CliRunner().invoke(main, command[1:])
                assert result.exit_code == 0, f"{command}: {result.output}"


def shell_commands(page: Path) -> list[list[str]]:
    return [shlex.split(line) for _, code in blocks(page, "shell") for line in code.splitlines()]


@pytest.mark.parametrize("page", [each for each in PAGES if blocks(each, "console")], ids=name_of)
def test_commands_on_a_page_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    code: dict[int, str] = dict(blocks(page, "python"))
    names: dict[str, Any] = {}
    for line, block in sorted([*code.items(), *blocks(page, "console")]):
        if line in code:
            with redirect_stdout(StringIO()):
                exec(block, names)  # noqa: S102 - our own pages
            continue
        status = 0
        for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = shown.partition("\n")
            if command == "echo $?":
                printed, status = f"{status}\n", 0
            else:
                assert status == 0, f"line {line}: the exit code is {status}"
                found = CliRunner().invoke(main, shlex.split(command)[1:])
                printed, status = found.output.replace(f"{tmp_path}/", ""), found.exit_code
            lines = [text.rstrip() for text in printed.splitlines()]
            assert list(map(timeless, lines)) == list(map(timeless, expected.splitlines())), line
        assert status == 0, f"line {line}: the exit code is {status}"


def timeless(line: str) -> str:
    """Return a line of output without the seconds that it ends with."""
    return re.sub(r", [\d.]+ m?s$", "", line)
