"""The rights in the message of a refused request."""

from __future__ import annotations

import pytest

from oncelog_client.core.acl_bindings import AclOperation, AclResourceType, PatternType
from oncelog_client.errors import error_for
from oncelog_client.spark.settings.rights import Right, explain_refusal
from oncelog_protocol.errors import ErrorCode

TOPIC = AclResourceType.TOPIC
ID = AclResourceType.TRANSACTIONAL_ID
RIGHTS = (
    Right(AclOperation.READ, TOPIC, "a"),
    Right(AclOperation.WRITE, TOPIC, "a.b"),
    Right(AclOperation.CREATE, TOPIC, "a.b", purpose="it is created"),
    Right(AclOperation.WRITE, ID, "s"),
    Right(AclOperation.WRITE, ID, "s/", PatternType.PREFIXED),
    Right(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER, "kafka-cluster", purpose="x"),
)
READ_A, WRITE_AB = "READ on topic a", "WRITE on topic a.b"
WRITE_S, WRITE_MEMBERS = "WRITE on transactional id s", "WRITE on transactional ids that begin with"
OF_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
OF_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("code", "message", "needs"),
    [
        (OF_TOPIC, "a", READ_A),
        (OF_TOPIC, "a-0 at 7", READ_A),
        (OF_TOPIC, "a.b-0", WRITE_AB),
        (OF_TOPIC, "ADD_PARTITIONS_TO_TXN of s: topic a, a.b", f"{READ_A}, {WRITE_AB}"),
        # The broker names no topic of the list, so the message has all of them.
        (OF_TOPIC, "aa", f"{READ_A}, {WRITE_AB}"),
        (OF_TOPIC, "", f"{READ_A}, {WRITE_AB}"),
        (OF_ID, "s", WRITE_S),
        (OF_ID, "s/1/x.0", f"{WRITE_MEMBERS} s/"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "", "DESCRIBE_CONFIGS on the cluster"),
    ],
)
def test_the_message_of_a_refusal_gets_the_rights_to_the_resource(
    code: ErrorCode, message: str, needs: str
) -> None:
    error = error_for(code, message)
    explain_refusal(error, RIGHTS)
    before = f"{code.name}: {message}: " if message else f"{code.name}: "
    expected = f"{before}the principal needs {needs}"
    assert str(error) == expected
    # A cached error may be raised twice.
    explain_refusal(error, RIGHTS)
    assert str(error) == expected


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_other_errors_and_unlisted_resources_stay_as_they_are(code: ErrorCode) -> None:
    error = error_for(code, "a")
    explain_refusal(error, RIGHTS)
    assert str(error) == f"{code.name}: a"


def test_a_right_to_a_topic_that_only_the_rows_name_has_no_name() -> None:
    error = error_for(OF_TOPIC, "words")
    explain_refusal(error, [Right(AclOperation.WRITE, TOPIC, "")])
    assert str(error) == "TOPIC_AUTHORIZATION_FAILED: words: the principal needs WRITE on the topic"
