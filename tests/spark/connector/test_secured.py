"""The official connector over SASL_SSL with an authorizer. Its certificates are text in PEM, or a
file in PKCS12."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_client.core.acl_bindings import AclOperation, AclResourceType, PatternType
from oncelog_client.spark.settings.rights import Right
from oncelog_client.spark.source.plan.source_rights import source_rights
from tests.harness.certificates import PASSWORD
from tests.spark.connector.options import Options
from tests.spark.connector.process import SparkError, SparkProcess
from tests.spark.guarded import GuardedOncelog
from tests.spark.topics import Row, Topics

ROWS = [{"value": "a"}, {"value": "b"}]
TRUST = "kafka.ssl.truststore"
# The connector reads in groups of its own.
GROUPS = Right(AclOperation.READ, AclResourceType.GROUP, "spark-kafka-", PatternType.PREFIXED)


def trusting(guarded: GuardedOncelog, user: Options, kind: str) -> Options:
    """Return the options of a user with a trust store of this kind."""
    if kind == "PEM":
        return user
    others = {name: value for name, value in user.items() if not name.startswith(TRUST)}
    return others | {
        f"{TRUST}.type": kind,
        f"{TRUST}.location": str(guarded.certificates.trust_store(kind)),
        f"{TRUST}.password": PASSWORD,
    }


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_the_connector_writes_reads_and_copies_over_tls_and_scram(
    connector: SparkProcess, guarded: GuardedOncelog, topic: str, tmp_path: Path, kind: str
) -> None:
    copy = f"{topic}-copy"
    topics = Topics(guarded.address)
    topics.create_all([topic, copy])
    writes = [Right(AclOperation.WRITE, AclResourceType.TOPIC, name) for name in (topic, copy)]
    rights = [*writes, *source_rights([topic]), GROUPS]
    user = trusting(guarded, guarded.user(topic, rights), kind)
    connector.call("write", rows=ROWS, options=user | {"topic": topic})
    source = user | {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    found = connector.call("read", options=source)
    assert sorted(row["value"] for row in found) == ["a", "b"]
    connector.call(
        "start",
        name=topic,
        source=source | {"startingOffsets": "earliest"},
        sink=user | {"topic": copy},
        checkpoint=str(tmp_path),
        available_now=True,
    )
    connector.call("end", name=topic)
    connector.call("stop", name=topic)
    assert sorted(filter(None, topics.values(copy))) == [b"a", b"b"]


def test_the_connector_reads_nothing_without_the_right(
    connector: SparkProcess, guarded: GuardedOncelog, topic: str
) -> None:
    topics = Topics(guarded.address)
    topics.create(topic)
    topics.append(topic, [Row(b"a")])
    user = guarded.user(topic, [GROUPS])
    with pytest.raises(SparkError, match="TopicAuthorizationException"):
        connector.call("read", options=user | {"subscribe": topic})
