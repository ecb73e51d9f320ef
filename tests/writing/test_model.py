"""The write protocol holds in every order of steps and kills, and needs each of its rules."""

from __future__ import annotations

import pytest

from tests.writing.model import RULES, SCENARIOS, explore

NEEDS = {
    "one writer": "one append twice",
    "replaced": "a region and a replacement",
    "second look": "two new arrays",
    "clears": "two replacements",
    "alone": "two replacements",
    "began": "one region twice",
    "unmixed": "two new arrays",
    "late": "an append and a region",
    "ends": "a dead append, then growth by others",
    "final": "one append twice",
    "documents first": "a committed append, a helper, a reader",
}
"""A scenario that is broken without each rule."""


@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.quick])
def test_scenario_holds_with_few_kills(name: str) -> None:
    scenario = SCENARIOS[name]
    assert explore(scenario, scenario.quick) is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_holds_with_more_kills(name: str) -> None:
    scenario = SCENARIOS[name]
    assert explore(scenario, scenario.kills) is None


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    scenario = SCENARIOS[NEEDS[rule]]
    broken = explore(scenario, scenario.kills, frozenset(RULES) - {rule})
    assert broken is not None
    promise, steps = broken
    assert promise
    assert steps
