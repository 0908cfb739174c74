"""The audit of a running broker: what an operator reads about refused clients and changed rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from oncelog_server.metrics import table as metrics
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.harness.certificates import Certificates
from tests.harness.scraping import PORT, scrape
from tests.harness.waiting import wait_until
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog

TIMEOUT_S = 30
EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
    AclOperation.ANY, AclPermissionType.ANY,
)  # fmt: skip
DENY_ALICE = AclBinding(
    ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, f"User:{USER}", "*",
    AclOperation.ALTER, AclPermissionType.DENY,
)  # fmt: skip


@pytest.fixture(scope="module")
def authorizing(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecuredOncelog]:
    """A broker with an authorizer. The super user comes by the listener PLAINTEXT."""
    settings = {
        **PORT,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    directory = tmp_path_factory.mktemp("authorizing")
    with SecuredOncelog(directory, certificates, settings) as broker:
        yield broker


def events(broker: SecuredOncelog, name: str) -> list[dict[str, Any]]:
    lines = Path(broker.log).read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [event for event in found if event["event"] == name]


def admin_of(broker: SecuredOncelog, listener: str, password: str = PASSWORD) -> AdminClient:
    settings = {"bootstrap.servers": broker.address_of(listener)}
    if listener == "SASL_PLAINTEXT":
        settings |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": password,
        }
    return AdminClient(settings)


def test_denials_and_changes_of_rules_name_their_principals(authorizing: SecuredOncelog) -> None:
    root = admin_of(authorizing, "PLAINTEXT")
    (added,) = root.create_acls([DENY_ALICE]).values()
    added.result(TIMEOUT_S)
    alice = admin_of(authorizing, "SASL_PLAINTEXT")
    for _ in range(5):
        (response,) = alice.create_acls([DENY_ALICE]).values()
        with pytest.raises(KafkaException) as refused:
            response.result(TIMEOUT_S)
        assert refused.value.args[0].name() == "CLUSTER_AUTHORIZATION_FAILED"
    (denied,) = events(authorizing, "access denied")
    rule = f"DENY ALTER by User:{USER} from * on CLUSTER LITERAL kafka-cluster"
    expected = {
        "count": 1,
        "principal": f"User:{USER}",
        "host": "127.0.0.1",
        "listener": "SASL_PLAINTEXT",
        "operation": "ALTER",
        "resource_type": "CLUSTER",
        "resource": "kafka-cluster",
        "api": "CreateAcls",
        "rule": rule,
    }
    assert {key: denied[key] for key in expected} == expected
    (changed,) = events(authorizing, "access rules added")
    assert (changed["principal"], changed["changes"]) == ("User:ANONYMOUS", [rule])
    page = scrape(authorizing)
    assert page.value(metrics.DENIED.name) == 5
    assert page.value(metrics.ACLS.name) == 1
    (removed,) = root.delete_acls([EVERY_RULE]).values()
    removed.result(TIMEOUT_S)
    (changed,) = events(authorizing, "access rules removed")
    assert changed["changes"] == [rule]


def test_failed_authentications_are_counted_by_listener(authorizing: SecuredOncelog) -> None:
    wrong = admin_of(authorizing, "SASL_PLAINTEXT", "canary-wrong")
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=1)
    name = metrics.FAILED_AUTHENTICATIONS.name

    def counted() -> bool:
        return scrape(authorizing).value(name, listener="SASL_PLAINTEXT") > 0

    wait_until(counted, "a failed authentication on the page", TIMEOUT_S)
    assert scrape(authorizing).value(name, listener="PLAINTEXT") == 0
    assert events(authorizing, "authentication failed")
    assert "canary" not in Path(authorizing.log).read_text()
