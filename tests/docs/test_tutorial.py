"""The tutorial prints what it says that it prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from tests.docs.test_pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = ROOT / "docs" / "tutorial.md"

STEP = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\n^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
"""Code, and what follows it where it prints something."""


def test_each_step_prints_what_stands_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names: dict[str, Any] = {}
    try:
        steps = list(STEP.finditer(PAGE.read_text(encoding="utf-8")))
        for step in steps:
            exec(step["code"], names)  # noqa: S102 - our own page
            assert capsys.readouterr().out == (step["output"] or "")
    finally:
        plt.close("all")
    assert sum(step["output"] is not None for step in steps) > 5
