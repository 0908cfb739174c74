"""A setting that cannot be used is shown with its value, unless the value may be a secret."""

from __future__ import annotations

import pytest

from oncelog_protocol.secret import HIDDEN
from oncelog_server.settings.problems import given_text, problem_of
from oncelog_server.settings.sources import SettingAssignment

REASON = "is not a number: 'xyzzy'"


@pytest.mark.parametrize(
    ("name", "provider", "shown", "reason"),
    [
        ("num.partitions", "", "xyzzy", REASON),
        ("num.partitions", "file", HIDDEN, "the provider's value is not valid"),
        # The reasons for a password quote no value.
        ("ssl.key.password", "file", HIDDEN, REASON),
        ("ssl.key.password", "", HIDDEN, REASON),
        ("ssl.key.pasword", "", HIDDEN, REASON),
        ("num.partitons", "", "xyzzy", REASON),
        ("listener.name.a.ssl.key.password", "", HIDDEN, REASON),
        ("listener.name.a.ssl.key.password", "file", HIDDEN, REASON),
        ("listener.name.a.num.io.threads", "file", HIDDEN, REASON),
    ],
)
def test_a_value_that_may_be_a_secret_is_hidden(
    name: str, provider: str, shown: str, reason: str
) -> None:
    problem = problem_of(SettingAssignment(name, "xyzzy", "a.properties", provider), REASON)
    assert (problem.text, problem.reason) == (shown, reason)
    assert problem.source == "a.properties" + (", config provider file" if provider else "")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("num.partitions", "xyzzy"), ("ssl.key.password", HIDDEN), ("unknown", "xyzzy")],
)
def test_a_given_text_is_hidden_if_it_is_a_password(name: str, shown: str) -> None:
    assert given_text(SettingAssignment(name, "xyzzy", "--set")) == shown
