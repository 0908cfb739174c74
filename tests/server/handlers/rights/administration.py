"""The rights of the APIs about topics, settings, users and the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import (
    alter_configs,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
    sasl_authenticate,
    sasl_handshake,
)
from oncelog_server.security.resources import Operation
from tests.server.handlers.requests import (
    alter_log_dirs_request,
    alter_quotas_request,
    alter_scram_request,
    describe_log_dirs_request,
    describe_quotas_request,
    describe_scram_request,
    elect_leaders_request,
    list_moves_request,
    move_request,
    unregister_request,
    update_features_request,
)
from tests.server.handlers.rights.case import (
    TOPIC,
    Case,
    Need,
    Outcome,
    always,
    at,
    cluster,
    hidden,
    need,
    topic,
)
from tests.server.handlers.rights.data import cluster_operations

NEW_TOPIC: Final = "invoices"
TOPIC_KIND, BROKER_KIND = 2, 4
CREATE, ALTER, DESCRIBE = Operation.CREATE, Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


CREATED: Final = always(
    create_topics.CreateTopicsRequest(
        [create_topics.CreatableTopic(NEW_TOPIC, 1, 1)], validate_only=True
    )
)
# The topic does not exist, so that an allowed request deletes nothing.
DELETED: Final = always(
    delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(NEW_TOPIC)], [NEW_TOPIC])
)
EXTENDED: Final = always(
    create_partitions.CreatePartitionsRequest(
        [create_partitions.CreatePartitionsTopic(TOPIC, 2, None)], validate_only=True
    )
)


def of_topic(request: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """Return a builder that gets a topic's id and calls `request` with the topic's name."""
    return lambda topic_id: request(TOPIC)


def configs(kind: int, name: str) -> Any:
    return always(
        describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(kind, name, ["retention.ms"])]
        )
    )


def altered(kind: int, name: str) -> Any:
    resource = alter_configs.AlterConfigsResource(kind, name)
    return always(alter_configs.AlterConfigsRequest([resource], validate_only=True))


def changed(kind: int, name: str) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(kind, name)
    return always(
        incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate_only=True)
    )


ACL_DESCRIBED: Final = always(describe_acls.DescribeAclsRequest(6, None, 1, None, None, 1, 1))
# A user cannot be created here: an allowed request is refused because of its principal.
ACL_CREATED: Final = always(
    create_acls.CreateAclsRequest([create_acls.AclCreation(2, TOPIC, 3, "x", "*", 3, 3)])
)
ACL_DELETED: Final = always(
    delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(6, None, 1, None, None, 1, 1)])
)


def directories(response: Any) -> Outcome:
    """Return the number of directories, as a set of one number. The first versions have no error
    code for a client without the right."""
    return frozenset({len(response.results)}) - {0}


K = ApiKey
CONFIG_DENIED: Final = frozenset({("topics.topic_config_error_code", TOPIC_DENIED)})
INVALID: Final = ErrorCode.INVALID_REQUEST
MISSING: Final = at("responses", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
MOVED: Final = "responses.partitions"
ELECTED: Final = "replica_election_results.partition_result"
NOT_NEEDED: Final = at(ELECTED, ErrorCode.ELECTION_NOT_NEEDED)


def creating(right: Need) -> tuple[Case, Case]:
    """Return the rows of CreateTopics by a client with a right to create."""
    configured = Need(topic(DESCRIBE_CONFIGS, NEW_TOPIC), CONFIG_DENIED)
    return (
        Case(K.CREATE_TOPICS, CREATED, (right,), versions=range(2, 5)),
        # The response has the settings of the topic, for which the client needs a second right.
        Case(K.CREATE_TOPICS, CREATED, (right, configured), versions=range(5, 8)),
    )


CASES: Final = (
    *creating(need(topic(CREATE, NEW_TOPIC), "topics")),
    *creating(need(cluster(CREATE), "topics", TOPIC_DENIED)),
    Case(
        K.DELETE_TOPICS,
        DELETED,
        (need(topic(Operation.DELETE, NEW_TOPIC), "responses"),),
        MISSING,
    ),
    Case(
        K.DELETE_TOPICS,
        DELETED,
        (need(cluster(Operation.DELETE), "responses", TOPIC_DENIED),),
        MISSING,
    ),
    Case(K.CREATE_PARTITIONS, EXTENDED, (need(topic(ALTER), "results"),)),
    Case(
        K.DESCRIBE_CONFIGS,
        configs(TOPIC_KIND, TOPIC),
        (need(topic(DESCRIBE_CONFIGS), "results"),),
    ),
    Case(
        K.DESCRIBE_CONFIGS, configs(BROKER_KIND, ""), (need(cluster(DESCRIBE_CONFIGS), "results"),)
    ),
    Case(K.ALTER_CONFIGS, altered(TOPIC_KIND, TOPIC), (need(topic(ALTER_CONFIGS), "responses"),)),
    Case(
        K.ALTER_CONFIGS,
        altered(BROKER_KIND, ""),
        (need(cluster(ALTER_CONFIGS), "responses"),),
    ),
    Case(
        K.INCREMENTAL_ALTER_CONFIGS,
        changed(TOPIC_KIND, TOPIC),
        (need(topic(ALTER_CONFIGS), "responses"),),
    ),
    Case(
        K.INCREMENTAL_ALTER_CONFIGS,
        changed(BROKER_KIND, ""),
        (need(cluster(ALTER_CONFIGS), "responses"),),
    ),
    Case(
        K.LIST_CONFIG_RESOURCES,
        always(list_config_resources.ListConfigResourcesRequest()),
        (need(cluster(DESCRIBE_CONFIGS)),),
    ),
    Case(
        K.DESCRIBE_LOG_DIRS,
        of_topic(describe_log_dirs_request),
        (hidden(cluster(DESCRIBE)),),
        frozenset({1}),
        outcome=directories,
    ),
    Case(
        K.DESCRIBE_LOG_DIRS,
        of_topic(describe_log_dirs_request),
        (need(cluster(DESCRIBE)),),
        versions=range(3, 6),
    ),
    Case(
        K.ALTER_REPLICA_LOG_DIRS,
        of_topic(alter_log_dirs_request),
        (need(cluster(ALTER), "results.partitions"),),
        at("results.partitions", ErrorCode.LOG_DIR_NOT_FOUND),
    ),
    Case(K.UPDATE_FEATURES, of_topic(update_features_request), (need(cluster(ALTER)),)),
    Case(
        K.ELECT_LEADERS,
        of_topic(elect_leaders_request),
        (need(cluster(ALTER), ELECTED),),
        NOT_NEEDED,
        range(1),
    ),
    Case(
        K.ELECT_LEADERS,
        of_topic(elect_leaders_request),
        (Need(cluster(ALTER), at("", CLUSTER_DENIED) | at(ELECTED, CLUSTER_DENIED)),),
        NOT_NEEDED,
        range(1, 3),
    ),
    Case(
        K.ALTER_PARTITION_REASSIGNMENTS,
        of_topic(move_request),
        (Need(cluster(ALTER), at("", CLUSTER_DENIED) | at(MOVED, CLUSTER_DENIED)),),
    ),
    Case(
        K.LIST_PARTITION_REASSIGNMENTS,
        of_topic(list_moves_request),
        (need(cluster(DESCRIBE)),),
    ),
    Case(
        K.UNREGISTER_BROKER,
        of_topic(unregister_request),
        (need(cluster(ALTER)),),
        at("", ErrorCode.BROKER_ID_NOT_REGISTERED),
    ),
    Case(K.DESCRIBE_ACLS, ACL_DESCRIBED, (need(cluster(DESCRIBE)),)),
    Case(K.CREATE_ACLS, ACL_CREATED, (need(cluster(ALTER), "results"),), at("results", INVALID)),
    Case(K.DELETE_ACLS, ACL_DELETED, (need(cluster(ALTER), "filter_results"),)),
    Case(
        K.DESCRIBE_CLIENT_QUOTAS,
        of_topic(describe_quotas_request),
        (need(cluster(DESCRIBE_CONFIGS)),),
    ),
    Case(
        K.ALTER_CLIENT_QUOTAS,
        of_topic(alter_quotas_request),
        (need(cluster(ALTER_CONFIGS), "entries"),),
    ),
    Case(
        K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        of_topic(describe_scram_request),
        (need(cluster(DESCRIBE)),),
        at("results", ErrorCode.RESOURCE_NOT_FOUND),
    ),
    Case(
        K.ALTER_USER_SCRAM_CREDENTIALS,
        of_topic(alter_scram_request),
        (need(cluster(ALTER), "results"),),
        at("results", ErrorCode.RESOURCE_NOT_FOUND),
    ),
    Case(
        K.DESCRIBE_CLUSTER,
        always(describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)),
        (hidden(cluster(DESCRIBE)),),
        frozenset({1 << DESCRIBE}),
        outcome=cluster_operations,
    ),
    # These APIs need no right. A connection has ended its authentication before other requests.
    Case(K.API_VERSIONS, always(api_versions.ApiVersionsRequest("client", "1")), ()),
    Case(
        K.SASL_HANDSHAKE,
        always(sasl_handshake.SaslHandshakeRequest("PLAIN")),
        (),
        at("", ErrorCode.ILLEGAL_SASL_STATE),
    ),
    Case(
        K.SASL_AUTHENTICATE,
        always(sasl_authenticate.SaslAuthenticateRequest(b"")),
        (),
        at("", ErrorCode.ILLEGAL_SASL_STATE),
    ),
)
