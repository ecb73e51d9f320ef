"""What the page on migrating says that one wrote elsewhere gives what one writes here."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.docs.test_pages import ROOT, SAMPLES
from tests.whole.test_interop import python_with_zarr2

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "migrating.md"

PEERS = {
    "zarr-2": None,
    "z5py": "z5py",
    "tensorstore": "tensorstore",
    "zarr": "zarr",
    "fibsem-tools": "fibsem_tools",
}
"""What stands behind "python" where code of another library begins, and how it is imported."""


def code() -> list[tuple[str, str]]:
    """The page's blocks of Python in their order: of which library, and the text."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^```python ?([\w-]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_in(folder: Path, text: str, names: dict[str, Any]) -> Any:
    """Return the `values` that code leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(text, PAGE, "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    return names.get("values")


def run_with_zarr2(folder: Path, text: str) -> Any:
    """Return the `values` that code leaves in an environment with zarr-python 2."""
    whole = f"{text}\nimport numpy\nnumpy.save('values.npy', values)\n"
    subprocess.run(  # noqa: S603 - our own page
        [python_with_zarr2(), "-c", whole], cwd=folder, check=True, env={**os.environ}
    )
    return np.load(folder / "values.npy")


@pytest.mark.parametrize(
    "peer", [pytest.param("zarr-2", marks=pytest.mark.exhaustive), *list(PEERS)[1:]]
)
def test_both_give_the_same_values(peer: str, tmp_path: Path) -> None:
    package = PEERS[peer]
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"no {package}")
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        for container in SAMPLES.glob("*.n5"):
            shutil.copytree(container, folder / container.name)
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    (_, first), *blocks = code()
    run_in(there, first, {})
    run_in(here, first, ours)
    expected, before, compared = None, "", 0
    for library, text in blocks:
        if not library:
            values = run_in(here, text, ours)
            if expected is not None:
                np.testing.assert_array_equal(values, expected)
                compared += 1
            expected = None
        elif library == peer:
            before += text
            theirs_now = run_in(there, text, theirs) if package else run_with_zarr2(there, before)
            expected = np.asarray(theirs_now)
    assert compared


def test_every_library_of_the_page_is_known() -> None:
    assert {library for library, _ in code()} == {"", *PEERS}
