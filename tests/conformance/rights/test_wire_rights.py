"""500 users with drawn access rules get the same from oncelog and from Apache Kafka: error codes at
every level, names, authorized operations and effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.conformance.rights.brokers import (
    Judged,
    SecuredOncelog,
    drawn_versions,
    secured_kafka,
)
from tests.conformance.rights.compared import View, codes
from tests.conformance.rights.differences import ALLOWED, MOST
from tests.conformance.rights.requests import TEMPLATES
from tests.conformance.rights.rules import USERS
from tests.harness.kafka.features import turn_newer_groups

NAMES = ("kafka", "oncelog")
SHOWN = 20
# Requests with the same response for every user. Both brokers refuse those of the newer group
# protocols before they look at rights.
SAME_FOR_ALL = (
    "api_versions",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "share_group_heartbeat",
)


def _whole(found: View) -> View:
    return found


@pytest.fixture(scope="module")
def brokers(
    kafka_jars: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Judged]]:
    kafka, kafka_port = secured_kafka(tmp_path_factory.mktemp("kafka"))
    oncelog = SecuredOncelog(tmp_path_factory.mktemp("oncelog"))
    with ExitStack() as stack:
        stack.enter_context(kafka)
        stack.enter_context(oncelog)
        # The super user is a client of the listener without SASL.
        wires = {"kafka": Wire(kafka.address), "oncelog": Wire(oncelog.address)}
        ports = {"kafka": kafka_port, "oncelog": oncelog.sasl_port}
        for wire in wires.values():
            stack.enter_context(wire)
        turn_newer_groups(wires["kafka"], 0)
        yield {name: Judged(wire, ports[name]) for name, wire in wires.items()}


@pytest.fixture(scope="module")
def responses(brokers: dict[str, Judged]) -> dict[str, list[list[View]]]:
    """The responses by broker, user and template."""
    with ThreadPoolExecutor() as threads:
        asked = {name: threads.submit(judged.ask_all) for name, judged in brokers.items()}
        return {name: future.result() for name, future in asked.items()}


def test_every_user_gets_the_same_from_both_brokers(
    responses: dict[str, list[list[View]]],
) -> None:
    common = {difference.template: difference.common for difference in ALLOWED}
    wrong = []
    counts: Counter[str] = Counter()
    for number in range(USERS):
        versions = drawn_versions(number)
        for index, template in enumerate(TEMPLATES):
            part = common.get(template.name, _whole)
            kafka, oncelog = (part(responses[name][number][index]) for name in NAMES)
            if kafka != oncelog:
                counts[template.name] += 1
                wrong.append(
                    f"user-{number} {template.name} v{versions[index]}\n"
                    f"  kafka   {kafka}\n  oncelog {oncelog}"
                )
    assert not wrong, f"{counts}\n" + "\n".join(wrong[:SHOWN])


def test_the_requests_have_left_the_same_on_both_brokers(
    brokers: dict[str, Judged], responses: dict[str, list[list[View]]]
) -> None:
    assert brokers["oncelog"].effects() == brokers["kafka"].effects()


def test_each_template_is_allowed_to_some_users_and_denied_to_others(
    responses: dict[str, list[list[View]]],
) -> None:
    """Otherwise the comparison would prove nothing about a template."""
    for index, template in enumerate(TEMPLATES):
        views = {repr(of_user[index]) for of_user in responses["kafka"]}
        assert len(views) > 1 or template.name in SAME_FOR_ALL, template.name


def test_the_rights_that_are_missed_are_of_every_type(
    responses: dict[str, list[list[View]]],
) -> None:
    found = {code for of_user in responses["kafka"] for each in of_user for code in codes(each)}
    assert {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    } <= found


def test_the_table_of_differences_is_short() -> None:
    assert len(ALLOWED) <= MOST
