"""Creates the topics that requests need and that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import TopicImage
from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.partition_limits import TakePermits
from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.topic_creation import TopicCreation
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings

_log = structlog.get_logger("oncelog_server.metadata.cluster_metadata")


class MissingTopics:
    """Creates topics with the broker's defaults, and internal topics with Kafka's settings for
    them. `is_alone` returns True if the cluster cannot have other brokers."""

    def __init__(
        self,
        creation: TopicCreation,
        follower: ImageFollower,
        settings: Settings,
        *,
        is_alone: Callable[[], bool],
    ) -> None:
        self._creation = creation
        self._follower = follower
        self._settings = settings
        self._is_alone = is_alone
        self._logged_refusal = ""

    async def create_one(self, name: str) -> TopicImage:
        """Return the topic, and first create the topic if it does not exist. Raises Refused."""
        refused = await self._create([name])
        if name in refused:
            raise refused[name]
        topic = self._follower.image.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    async def create(self, names: Sequence[str], take: TakePermits = None) -> dict[str, ErrorCode]:
        """Create the topics that do not exist. Return the error codes of the topics that are still
        missing."""
        refused = await self._create(names, take)
        codes = {name: refusal.code for name, refusal in refused.items()}
        for name in names:
            if name not in self._follower.image.topics:
                codes.setdefault(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return codes

    async def _create(self, names: Sequence[str], take: TakePermits = None) -> dict[str, Refused]:
        """Create the topics that do not exist. Return the errors of the topics that could not be
        created, by name."""
        missing: list[NewTopic] = []
        refused: dict[str, Refused] = {}
        for name in names:
            if name not in self._follower.image.topics:
                try:
                    missing.append(self._new_topic(name))
                except Refused as too_few:
                    refused[name] = too_few
        # The image may be stale. As in Kafka, the client retries after an error.
        outcomes = await self._creation.create(missing, take=take, catches_up=False)
        return refused | {
            new.name: outcome
            for new, outcome in zip(missing, outcomes, strict=True)
            if isinstance(outcome, Refused) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    def _new_topic(self, name: str) -> NewTopic:
        """Return the topic to create. Raises Refused if it needs more live brokers."""
        if not is_internal(name):
            return NewTopic(name)
        image = self._follower.image
        try:
            return internal_topic(image, self._settings, name, is_alone=self._is_alone())
        except Refused as refused:
            # A reason is logged once, because clients retry many times a second.
            if refused.message != self._logged_refusal:
                self._logged_refusal = refused.message
                _log.warning("an internal topic cannot be created yet", reason=refused.message)
            raise
