"""A request gets the first rule that fits its API, topic and client. A rule applies as many times
as it says."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_server.faults.fault_register import FaultRegister
from oncelog_server.faults.request_rules import UNLIMITED, Failing, Holding, RequestRules, Scope

CODE = ErrorCode.NOT_COORDINATOR
PRODUCE = ApiKey.PRODUCE


def failing(times: int = 1, topic: str | None = None, client_id: str | None = None) -> Failing:
    return Failing(Scope(PRODUCE, topic, client_id), CODE, times)


def applied(
    rules: RequestRules, api: ApiKey = PRODUCE, client: str = "c", topics: Collection[str] = ("t",)
) -> bool:
    """Return True if a rule applies to this request."""
    return rules.apply_to(api, client, lambda: topics) is not None


def test_a_rule_applies_as_often_as_it_says_and_its_api_is_watched_until_then() -> None:
    rules = RequestRules(FaultRegister())
    rules.add(failing(2))
    assert [rules.apis, applied(rules), applied(rules), applied(rules)] == [
        {PRODUCE}, True, True, False,
    ]  # fmt: skip
    assert not rules.apis


def test_an_unlimited_rule_applies_until_it_is_removed() -> None:
    rules = RequestRules(FaultRegister())
    number = rules.add(failing(UNLIMITED))
    assert all(applied(rules) for _ in range(100))
    rules.remove(number)
    assert not applied(rules)
    rules.remove(number)


@pytest.mark.parametrize(
    ("rule", "applies"),
    [
        (failing(topic="t"), True),
        (failing(topic="other"), False),
        (failing(client_id="c"), True),
        (failing(client_id="other"), False),
        (failing(topic="t", client_id="other"), False),
    ],
)
def test_topic_and_client_limit_a_rule(rule: Failing, applies: bool) -> None:
    rules = RequestRules(FaultRegister())
    rules.add(rule)
    assert applied(rules) is applies


def test_another_api_is_not_affected() -> None:
    rules = RequestRules(FaultRegister())
    rules.add(failing())
    assert not applied(rules, ApiKey.FETCH)


def test_the_oldest_rule_that_fits_decides() -> None:
    rules = RequestRules(FaultRegister())
    rules.add(failing(topic="other"))
    first, second = failing(), failing()
    rules.add(first)
    rules.add(second)
    assert rules.apply_to(PRODUCE, "c", lambda: ("t",)) is first
    assert rules.apply_to(PRODUCE, "c", lambda: ("t",)) is second


def held(rules: RequestRules, rule: Holding, outcomes: list[bool]) -> None:
    """Let a request arrive at the rule; its outcome (lost or not) is added at the release."""
    assert rules.apply_to(PRODUCE, "c", lambda: ()) is rule
    rule.arrive(outcomes.append)


def test_only_one_request_is_held_and_the_next_passes() -> None:
    rules, outcomes = RequestRules(FaultRegister()), list[bool]()
    rule = Holding(Scope(PRODUCE, None, None), holds_response=False)
    number = rules.add(rule)
    held(rules, rule, outcomes)
    assert not applied(rules)
    assert outcomes == []
    assert rule.arrived.is_set()
    rule.release(lost=True)
    rules.remove(number)
    assert outcomes == [True]


@pytest.mark.parametrize("end", ["remove", "clear"])
def test_a_held_request_goes_on_when_its_rule_ends(end: str) -> None:
    rules, outcomes = RequestRules(FaultRegister()), list[bool]()
    rule = Holding(Scope(PRODUCE, None, None), holds_response=False)
    number = rules.add(rule)
    held(rules, rule, outcomes)
    if end == "remove":
        rules.remove(number)
    else:
        rules.clear()
    assert outcomes == [False]
    with pytest.raises(KeyError):
        rules[number]
