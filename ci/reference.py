"""Validates the docstrings of all public names with numpydoc."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.reference import problems_of, public_objects

names = public_objects()
problems = [f"{name}: {problem}" for name in names for problem in problems_of(name)]
print(*problems, f"{len(names)} public docstrings, {len(problems)} problems", sep="\n")
sys.exit(bool(problems))
