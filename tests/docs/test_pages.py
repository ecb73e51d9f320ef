"""The code, the output and the links of the README and the documentation are right."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import shutil
import tomllib
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
README = ROOT / "README.md"
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


def run(page: Path, language: str = "python") -> dict[str, Any]:
    """Return the names that a page's code defines, and compare its output with the page."""
    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = outputs(page)
    try:
        for line, code in blocks(page, language):
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
    return names


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]


HOWTO = [page for page in PAGES if page.parent.name == "howto"]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", HOWTO, ids=name_of)
def test_pages_say_where_their_sample_is_from(page: Path) -> None:
    code = "".join(code for _, code in blocks(page, "python"))
    if "cells.n5" in code:
        assert "xarray_n5.tutorial" in page.read_text(encoding="utf-8")


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


FIRST = [README, ROOT / "docs" / "install.md", ROOT / "docs" / "tutorial.md"]


@pytest.mark.parametrize("page", [*FIRST, *HOWTO], ids=name_of)
def test_shell_commands_on_a_page_are_right(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for command in shell_commands(page):
        match command:
            case ["xarray-n5", *_]:
                pass  # run after the page's code
            case ["conda", "install", "-c", "conda-forge", *packages]:
                recipe = (ROOT / "ci" / "recipe.yaml").read_text(encoding="utf-8")
                assert all(re.search(rf"- {name}(-core)? ", recipe) for name in packages)
            case ["bash", script]:
                assert (ROOT / script).is_file(), script
            case ["git", "clone", url]:
                assert url == project["urls"]["Source"]
            case ["python", "-m", "pip", "install", *packages]:
                ours = [each for each in packages if each.startswith(("xarray-n5", "."))]
                assert ours
                for package in ours:
                    extras = package.partition("[")[2].rstrip("]")
                    if extras:
                        assert set(extras.split(",")) <= set(project["optional-dependencies"])
            case _:
                pytest.fail(f"nothing checks {shlex.join(command)}")


@pytest.mark.parametrize("page", [each for each in PAGES if blocks(each, "py")], ids=name_of)
def test_calls_that_need_a_server_fit_the_signatures(page: Path) -> None:
    import dask.array as da

    import xarray_n5

    known = {"da": da, "xarray_n5": xarray_n5}
    for line, code in blocks(page, "py"):
        for call in ast.walk(ast.parse(code)):
            match call:
                case ast.Call(ast.Attribute(ast.Name(module), name), args, keywords):
                    if function := getattr(known.get(module), name, None):
                        names = {each.arg: each for each in keywords if each.arg}
                        try:
                            inspect.signature(function).bind(*args, **names)
                        except TypeError as error:
                            pytest.fail(f"line {line}: {ast.unparse(call)}: {error}")


@pytest.mark.parametrize("page", [README, *HOWTO], ids=name_of)
def test_a_page_shows_what_all_of_its_code_prints(page: Path) -> None:
    code = blocks(page, "python")
    # A progress bar shows times.
    printing = [line for line, text in code if "print(" in text and "ProgressBar" not in text]
    assert printing == list(outputs(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_imports_the_package_before_it_needs_it(page: Path) -> None:
    code = "".join(code for _, code in blocks(page, "python"))
    needs = re.search(r"\.n5\.(?:to_n5|geometry)|\bda\.(?:from|to)_n5|xarray_n5\.\w", code)
    # The engine imports it, too.
    brings = re.search(r"^(?:import|from) xarray_n5\b|engine=\"n5\"", code, re.MULTILINE)
    assert needs is None or (brings is not None and brings.start() < needs.start())


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


def test_readme_begins_with_the_example_and_the_tests() -> None:
    commands = [code.strip() for _, code in blocks(README, "shell")]
    assert commands[:2] == ["bash ci/example", "bash ci/test"]


def anchors(page: Path) -> set[str]:
    """Return the fragments that a page's headings give, as GitHub and MyST name them."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    broken = []
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        # The build of the site copies the notebooks.
        target = ROOT / path[3:] if path.startswith("../notebooks") else page.parent / path
        target = target if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_each_task_has_a_picture_and_each_picture_a_page() -> None:
    pages = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs" / "howto").glob("*.md")}
    assert {name for name, text in pages.items() if "](../images/" not in text} == set()
    stored = sorted(path.stem for path in (ROOT / "docs" / "images" / "howto").iterdir())
    assert stored == sorted(re.findall(r"/howto/(\w+)\.png\)", "".join(pages.values())))
