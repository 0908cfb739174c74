"""The rules of `ssl.principal.mapping.rules`. tests/conformance/principals compares many more with
Kafka's SslPrincipalMapper."""

from __future__ import annotations

import pytest

from oncelog_server.security import principal_rules
from oncelog_server.security.principal_rules import (
    NoRuleApplies,
    PrincipalRules,
    PrincipalRulesError,
)

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
# The rules of Kafka's documentation.
DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("DEFAULT", "", ""),
        (DOCUMENTED, DUKE, "Duke"),
        (DOCUMENTED, "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (DOCUMENTED, "cn=Kafka1.Example.com", "kafka1.example.com"),
        (DOCUMENTED, "OU=Test", "OU=Test"),
        ("RULE:CN=(.*),.*/$1/U", "CN=a,b,c", "A,B"),
        ("RULE:(.)(.*)/$2$1$12/", "abc", "bcaa2"),
        ("RULE:.*/x/", "abc", "xx"),
        ("RULE:a|ab/x/", "ab", "xb"),
        ("RULE:CN=(?<user>[^,]+).*/${user}/", DUKE, "Duke"),
        ("RULE:(?i)cn=(.*?),.*/$1/", DUKE, "Duke"),
        ("RULE:(a)(b)?/[$2]/", "a", "[]"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_gives_the_principal(
    rules: str, subject: str, name: str
) -> None:
    mapping = PrincipalRules(rules)
    assert mapping.name_of(subject) == name
    assert mapping.name_of(subject) == name


@pytest.mark.parametrize("rules", ["", "RULE:^CN=x$/x/", "RULE:uke/x/"])
def test_a_name_without_a_rule_is_refused_and_not_anonymous(rules: str) -> None:
    with pytest.raises(NoRuleApplies, match=r"no rule of ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules).name_of(DUKE)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("default", "'default' is neither DEFAULT nor RULE:"),
        ("RULE:a/b/X", "neither DEFAULT nor RULE:"),
        ("DEFAULT, RULE:a", "'RULE:a' is neither"),
        ("RULE:(?=a)b/x/", r"pattern of the rule .* has a lookahead, which is not supported"),
        ("RULE:(a)\\1/x/", r"has a reference to a group \(\\1\), which is not supported"),
        ("RULE:a++/x/", "has a possessive repetition"),
        ("RULE:\\bCN/x/", "has a word boundary"),
        ("RULE:\\p{L}/x/", "has a Unicode class"),
        ("RULE:[a&&b]/x/", "has an intersection of classes"),
        ("RULE:a(?m)b/x/", "has flags"),
        ("RULE:(a*)*/x/", "repeats a part that can be empty"),
        ("RULE:[b-a]/x/", "has the illegal range b-a"),
        ("RULE:(a/x/", r"has a \( without its \)"),
        ("RULE:a/$1/", "replacement of the rule .* has the group 1, and the pattern has 0"),
        ("RULE:(a)/$x/", r"has a \$ without the number of a group"),
        ("RULE:(a)/${b}/", "has the group b, and the pattern has none of that name"),
    ],
)
def test_wrong_rules_are_refused_by_name(rules: str, message: str) -> None:
    with pytest.raises(PrincipalRulesError, match=message):
        PrincipalRules(rules)


def test_a_name_cannot_cost_exponential_time() -> None:
    """Java would try every way to split the letters."""
    with pytest.raises(NoRuleApplies, match="no rule"):
        PrincipalRules("RULE:(a|aa)+b/x/").name_of("a" * 5_000)


def test_a_name_that_takes_too_many_steps_is_refused() -> None:
    with pytest.raises(NoRuleApplies, match="takes too long for"):
        PrincipalRules("RULE:(.{1,900})+b/x/").name_of("a" * 5_000)
    with pytest.raises(NoRuleApplies, match="more than 8192 characters"):
        PrincipalRules("DEFAULT").name_of("a" * 8_193)


def test_results_are_stored_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principal_rules, "MOST_STORED", 3)
    mapping = PrincipalRules("DEFAULT")
    for number in range(10):
        assert mapping.name_of(f"CN={number}") == f"CN={number}"
        assert len(mapping._stored) <= 3
