"""Benchmarks are collected only where pytest-benchmark is asked for: pytest -p benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what needs the plugin."""
    needs_it = collection_path.name == "test_speed.py"
    return True if needs_it and not config.pluginmanager.hasplugin("benchmark") else None
