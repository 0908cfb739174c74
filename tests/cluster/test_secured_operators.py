"""`oncelog cluster drain`, `strays` and `unregister` know which topics a user cannot see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_client import NewTopic, TopicPartition
from oncelog_client.admin import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_client.cli import drain
from oncelog_client.core.acl_bindings import CLUSTER_NAME
from oncelog_client.sync import Admin
from tests.client.cli.conftest import CommandLine
from tests.cluster.secured import ADMIN, CLIENT, SecuredCluster
from tests.harness.waiting import wait_until

CALL_S = 30.0
ONE_COPY_ENOUGH = {"min.insync.replicas": "1"}
HIDDEN, SEEN = TopicPartition("hidden", 0), TopicPartition("seen", 0)


def rule(
    type_: AclResourceType, name: str, operation: AclOperation, permission: AclPermissionType
) -> AclBinding:
    return AclBinding(
        ResourcePattern(type_, name, PatternType.LITERAL),
        AccessControlEntry(f"User:{CLIENT}", "*", operation, permission),
    )


# CLIENT operates the cluster, and may see each topic but one.
RULES = [
    rule(AclResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALL, AclPermissionType.ALLOW),
    rule(AclResourceType.TOPIC, HIDDEN.topic, AclOperation.ALL, AclPermissionType.DENY),
]


class Operators:
    """The command line of each user of a cluster."""

    def __init__(self, cluster: SecuredCluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self.command_line = CommandLine(cluster.address)

    def words(self, user: str, *words: str) -> tuple[str, ...]:
        """Return the arguments of a verb of `oncelog cluster` for a user."""
        path = self._folder / f"{user}.properties"
        login = self._cluster.login_of(user).java
        path.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
        return ("cluster", *words, "--command-config", str(path))

    def done(self, user: str, *words: str) -> str:
        """Return what a verb that succeeds says on standard error."""
        result = self.command_line.call(*self.words(user, *words))
        assert result.exit_code == 0, result.output
        return result.stderr

    def refused(self, user: str, *words: str) -> str:
        return self.command_line.refused(*self.words(user, *words))

    def stray(self, user: str, *flags: str) -> tuple[bool, str]:
        """Return the verdict on the stray folder of HIDDEN."""
        data = str(self._cluster.brokers[3].data)
        rows = self.command_line.json(*self.words(user, "strays", data, *flags))
        (row,) = (row for row in rows if row["topic"] == HIDDEN.topic)
        return row["removable"], row["reason"]

    def stop_broker_3(self) -> None:
        self._cluster.brokers[3].stop()
        words = self.words(ADMIN, "brokers")
        self.command_line.settled(lambda rows: rows[2]["state"] == "fenced", *words)


@pytest.fixture
def admin(secured_cluster: SecuredCluster) -> Iterator[Admin]:
    """The client of the super user. The topics and the rules exist."""
    cluster = secured_cluster
    with Admin(cluster.address, **cluster.login_of(ADMIN).ours) as admin:
        topics = [
            NewTopic(place.topic, assignments={0: [3, 2]}, configs=ONE_COPY_ENOUGH)
            for place in (HIDDEN, SEEN)
        ]
        admin.create_topics(topics)
        admin.create_acls(RULES)
        wait_until(
            lambda: admin.describe_log_dirs([3])[3][0].replicas.keys() >= {HIDDEN, SEEN},
            "the replicas of broker 3",
            CALL_S,
        )
        yield admin


def test_what_a_user_may_not_describe_is_not_taken_for_deleted(
    secured_cluster: SecuredCluster, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operators = Operators(secured_cluster, tmp_path)
    monkeypatch.setattr(drain, "SETTLE_MS", 2_000)
    said = operators.refused(CLIENT, "drain", "3", "--execute")
    assert "still has 1 partition on its disk: hidden-0" in said
    assert "repeat this command as a user that may" in said
    assert admin.describe_topics([SEEN.topic])[SEEN.topic].partitions[0].replicas == (1, 2)

    operators.stop_broker_3()
    said = operators.done(CLIENT, "drain", "3", "--execute")
    assert "broker 3 has no replica of a topic that this user may describe" in said
    said = operators.refused(CLIENT, "unregister", "3")
    assert "only the topics that this user may describe were examined" in said

    admin.alter_partition_reassignments({HIDDEN: [1, 2]})
    wait_until(lambda: not admin.list_partition_reassignments(), "the move", CALL_S)
    secured_cluster.brokers[3].start()
    verdict = operators.stray(CLIENT, "--unknown-topics", "--execute")
    assert verdict == (False, "the topic is not known: TOPIC_AUTHORIZATION_FAILED")
    whole = True, "whole on broker 1, 2"
    wait_until(lambda: operators.stray(ADMIN) == whole, "whole replicas", CALL_S)
    operators.stop_broker_3()
    operators.done(ADMIN, "unregister", "3")  # a super user needs no --force
