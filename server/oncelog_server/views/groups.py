"""What operators see of consumer groups and their coordinator."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.loads import LoadView


class GroupView(msgspec.Struct, frozen=True, gc=False):
    """One row of a list. `state` and `type` are Kafka's names."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class GroupOffset(msgspec.Struct, frozen=True):
    """A committed offset."""

    group_id: str
    partition: TopicPartition
    offset: int


class GroupTotals(msgspec.Struct, frozen=True):
    """Sums over the groups of one coordinator. `by_state` has Kafka's names of the states."""

    by_state: Mapping[str, int]
    offsets: int
    loads: LoadView
