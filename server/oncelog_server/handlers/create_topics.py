"""CreateTopics.

v2, v3: topics, with a replication factor or a manual assignment; with `validate_only`, the topics
    are only checked
v4: -1 means the broker's default number of partitions or replicas (KIP-464)
v5: the response contains the settings (KIP-525); flexible
v6: THROTTLING_QUOTA_EXCEEDED
v7: the response contains the topic id
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import CLUSTER_METADATA
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.deferred import Deferred, then_ask
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.settings.description import describe_topic
from oncelog_server.slices import Steps, when_large

# A topic's own settings -> the descriptions of all its settings. Topics with equal own settings
# share one list.
Described = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]

API = ApiKey.CREATE_TOPICS

# From this version on, a client understands THROTTLING_QUOTA_EXCEEDED (KIP-599).
STRICT_SINCE: Final = 6


Answer = CreateTopicsResponse | Deferred[CreateTopicsResponse]


def handle(
    services: BrokerServices, context: RequestContext, request: CreateTopicsRequest
) -> Answer | Steps[Answer]:
    return when_large(len(request.topics), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: CreateTopicsRequest
) -> Steps[Answer]:
    times = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatableTopicResult] = {}
    wanted: list[NewTopic] = []
    for topic in request.topics:
        yield
        try:
            _check(context, topic, times[topic.name])
        except Refused as refused:
            results[topic.name] = _refused(topic.name, refused)
        else:
            wanted.append(_new_topic(topic))
    created = services.spawn(
        services.metadata.create_topics(
            wanted,
            validate_only=request.validate_only,
            take=context.permits(is_strict=context.api_version >= STRICT_SINCE),
        )
    )

    def answer(made: list[CreatedTopic | Refused]) -> Answer:
        named = zip([new.name for new in wanted], made, strict=True)
        return services.slices.run(_response(services, context, [*times], results, [*named]))

    return then_ask(created, answer)


def _response(
    services: BrokerServices,
    context: RequestContext,
    names: Sequence[str],
    results: dict[str, CreatableTopicResult],
    made: Sequence[tuple[str, CreatedTopic | Refused]],
) -> Steps[CreateTopicsResponse]:
    """Return the response in the order of `names`. `results` has the refused topics, by name.
    `made` has the outcomes of the others; their results are added to `results`."""
    described: Described = {}
    for name, outcome in made:
        yield
        results[name] = (
            _refused(name, outcome)
            if isinstance(outcome, Refused)
            else _created(services, context, outcome, described)
        )
    return CreateTopicsResponse(topics=[results[name] for name in names])


def _check(context: RequestContext, topic: CreatableTopic, times: int) -> None:
    """Raise Refused if the request may not create the topic. `times` is the number of times that
    the request names it."""
    if times > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if topic.name == CLUSTER_METADATA:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Creation of internal topic {CLUSTER_METADATA} is prohibited.",
        )
    if not (
        context.may(Operation.CREATE, CLUSTER, logged=False)
        or context.may(Operation.CREATE, topic=topic.name)
    ):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(
            (assignment.partition_index, tuple(assignment.broker_ids))
            for assignment in topic.assignments
        ),
        _settings(topic),
    )


def _settings(topic: CreatableTopic) -> dict[str, str | None]:
    """Return the settings of the topic. If the request repeats a setting, the last value counts, as
    in Kafka. A setting without a value stays so, because it is refused."""
    settings: dict[str, str | None] = {}
    for config in topic.configs:
        if settings.get(config.name, "") is not None:
            settings[config.name] = config.value
    return settings


def _refused(name: str, refused: Refused) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=refused.code, error_message=refused.message or None
    )


def _created(
    services: BrokerServices, context: RequestContext, topic: CreatedTopic, described: Described
) -> CreatableTopicResult:
    result = CreatableTopicResult(name=topic.name, topic_id=topic.id, error_message=None)
    if not context.may(Operation.DESCRIBE_CONFIGS, topic=topic.name, logged=False):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result
    result.num_partitions = topic.partitions
    result.replication_factor = topic.replication_factor
    own = tuple(topic.settings.items())
    configs = described.get(own)
    if configs is None:
        # As in Kafka, a value of the request has its text.
        configs = described[own] = [
            CreatableTopicConfigs(
                row.name,
                topic.settings.get(row.name, row.value),
                row.read_only,
                row.source,
                False,
            )
            for row in describe_topic(services.settings, topic.settings)
        ]
    result.configs = configs
    return result
