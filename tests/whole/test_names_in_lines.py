"""Names in a file are escaped wherever they enter a line, so they cannot look like another one."""

from __future__ import annotations

import json
import os
import sys
import warnings
from itertools import product
from typing import TYPE_CHECKING

import h5py
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
from tests.support.containers import FULL, NAMES
from xarray_n5 import N5Error, create_array, open_array, open_group
from xarray_n5.cli import main
from xarray_n5.doctor import examine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no files with these names"),
    pytest.mark.filterwarnings("ignore"),
]

FORGED = "forged: ok"
"""What lines of output must not begin with."""

ENDS = ["\n", "\r", "\x1b[2K\r", "\x85", "\u2028", "\u202e", "\x07", "\x0b", "\x9bH", "\u2029"]
"""Characters that end a line, go back in it, erase or reverse it, or ring a bell."""

HOSTILE = [f"n{number}{end}{FORGED}" for number, end in enumerate(ENDS)]

SURROGATES = f"n\udc80\n{FORGED}"
"""A name of a directory that is not UTF-8."""


def is_safe(text: str) -> bool:
    lines = text.split("\n")
    return all(line.isprintable() and not line.lstrip(" │├└─").startswith(FORGED) for line in lines)


@pytest.fixture(params=NAMES)
def container(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A container with hostile names, units, dialects and attributes, and damaged chunks."""
    url = tmp_path / HOSTILE[0] / f"{HOSTILE[2]}{NAMES[request.param]}"
    url.parent.mkdir()
    for name in HOSTILE:
        array = create_array(
            url, f"{name}/{name}", shape=(4, 6), dtype="u2", chunks=(4, 3), format=request.param
        )
        array[:] = 7
        array.attrs.update({name: name, "axes": [name, "x"], "units": [name, name]})
        array.attrs.update({"resolution": [name, 2], "transform": {"axes": [name], "units": [7]}})
        array.attrs.update({"_ARRAY_DIMENSIONS": [name, "x"], "pixelResolution": {"unit": name}})
        open_group(url, name, mode="r+").attrs.update({name: [name], "multiscales": [{name: name}]})
        for level in ("s0", "s1"):
            create_array(url, f"p{name}/{level}", shape=(8, 8), dtype="u1", chunks=8)
    damage(url)
    return str(url)


def damage(url: Path) -> None:
    """Truncate a chunk, and make an array unreadable."""
    if url.is_file():
        with h5py.File(url, "a") as file:
            file[f"{HOSTILE[1]}/{HOSTILE[1]}"].id.write_direct_chunk((0, 0), b"x")
            file[f"l{HOSTILE[0]}"] = h5py.ExternalLink(f"{HOSTILE[3]}.h5", f"/{HOSTILE[4]}")
        return
    for path in sorted(url.rglob("*")):
        if path.is_file() and path.suffix != ".json" and not path.name.startswith("."):
            path.write_bytes(b"x")
    for name in HOSTILE[:5]:
        for document in (url / f"p{name}" / "s1").iterdir():
            members = json.loads(document.read_bytes())
            for key in {"dataType", "data_type", "dtype", "compression"} & members.keys():
                members[key] = name
            document.write_text(json.dumps(members))
    os.rename(url / f"p{HOSTILE[9]}", url / SURROGATES)  # noqa: PTH104 - not a text


COMMANDS = [
    *(["tree"], ["info"], ["info", "--json"], ["verify"]),
    *(["verify", "--json"], ["verify", "--quick", "--strict"], ["digest", "--each"]),
    *(["doctor"], ["doctor", "--fix", "--dry-run"]),
    *(["repair", "--missing"], ["copy", "OUT"], ["digest", "ITSELF", "--each"]),
]

OF_NODES = ["info", "tree", "verify", "digest", "doctor", "preview", "pyramid", "copy"]


def test_commands_print_one_line_for_each_name(container: str) -> None:
    words = {"OUT": f"{container}.out.n5", "ITSELF": container}
    for name, *options in COMMANDS:
        result = CliRunner().invoke(main, [name, container, *(words.get(o, o) for o in options)])
        assert result.exception is None or isinstance(result.exception, SystemExit), name
        assert result.output
        assert is_safe(result.output), ascii(result.output)


def test_commands_about_a_node_escape_its_name(container: str) -> None:
    more = {"preview": ["-o", f"{container}.png"], "copy": [f"{container}.out.n5"]}
    for command, name in product(OF_NODES, HOSTILE):
        for node in (f"{name}/{name}", f"p{name}", f"nothing{name}"):
            whole = [f"{container}/{node}"] if command in {"copy", "pyramid"} else [container, node]
            result = CliRunner().invoke(main, [command, *whole, *more.get(command, [])])
            assert result.exception is None or isinstance(result.exception, SystemExit)
            assert is_safe(result.output), ascii(result.output)


CALLS: list[Callable[[str, str], object]] = [
    open_array,
    lambda url, path: open_array(url, path)[:],
    lambda url, path: open_array(url, path).read_chunk((9, 9)),
    lambda url, path: open_array(url, path, mode="r+").resize((1,)),
    open_group,
    lambda url, path: open_group(url, path).attrs,
    lambda url, path: xr.open_dataset(url, engine="n5", group=path).load(),
    lambda url, path: xr.open_dataset(url, engine="n5", group=path).n5,
    lambda url, path: xr.open_dataset(url, engine="n5", group=path, level=7),
    lambda url, path: xr.open_dataset(url, engine="n5", group=path, level={"q": 2}),
    lambda url, path: xr.open_datatree(url, engine="n5", group=path).n5,
    xarray_n5.pyramid,
    xarray_n5.digest,
]


def test_errors_warnings_and_reprs_escape_names(container: str) -> None:
    inner = [f"{name}/{name}" for name in HOSTILE] + [f"{name}/nothing" for name in HOSTILE]
    pyramids = [f"p{name}{level}" for name in HOSTILE for level in ("", "/s1")]
    lines = []
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for path in ("", *HOSTILE, *inner, *pyramids):
            for call in CALLS:
                try:
                    result = call(container, path)
                except (N5Error, OSError, ValueError, LookupError, TypeError) as error:
                    lines += [str(error), *getattr(error, "__notes__", [])]
                else:
                    if type(result).__module__.startswith("xarray_n5"):
                        lines.append(repr(result))
    lines += [str(each.message) for each in given]
    assert [line for line in lines if not is_safe(line)] == []


def test_findings_escape_names(container: str) -> None:
    report = examine(container)
    shown = [str(finding) for finding in report.findings]
    assert shown
    assert all(line.isprintable() for line in shown), shown


@FULL
def test_a_url_is_escaped(tmp_path: Path, form: str) -> None:
    for name in HOSTILE:
        url = tmp_path / f"{name}{NAMES[form]}"
        for command in (["tree"], ["verify"], ["info"], ["copy", str(tmp_path / "o.n5")]):
            result = CliRunner().invoke(main, [command[0], str(url), *command[1:]])
            assert result.exit_code == 1
            assert is_safe(result.output), ascii(result.output)


def test_safe_output_is_told_from_forged_output() -> None:
    assert is_safe("├── a\\nforged: ok  4 x 4\n    x: start 0")
    for end in ENDS:
        assert not is_safe(f"├── a{end}{FORGED}")
