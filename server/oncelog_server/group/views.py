"""The read models of the group coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.listing import views_of
from oncelog_server.group.shard import GroupShard
from oncelog_server.slices import Steps, portions
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.groups import GroupOffset, GroupTotals, GroupView
from oncelog_server.views.loads import LoadView


class GroupViews:
    """Read models of a coordinator's groups."""

    def __init__(self, runtime: ShardRuntime[GroupShard]) -> None:
        self._runtime = runtime

    @property
    def is_loading(self) -> bool:
        """Return True while a part of the groups is loaded and cannot be shown."""
        return self._runtime.is_loading

    def count(self) -> int:
        """Return the number of groups."""
        return sum(len(shard.table.groups) for _, shard in self._runtime.shards())

    def all(self) -> Iterator[GroupView]:
        """Yield the groups that exist at the call. Each view shows the group's state at the moment
        of its yield."""
        return chain.from_iterable([views_of(shard.table) for _, shard in self._runtime.shards()])

    def offsets(self) -> Iterator[GroupOffset]:
        """Yield the committed offsets of all groups."""
        for _, shard in self._runtime.shards():
            offsets = shard.table.offsets
            for group_id in offsets.groups():
                # The offsets are copied, because commits and expiry may change them between two
                # steps.
                for topic, partitions in list(offsets.of_group(group_id).items()):
                    for index, value in list(partitions.items()):
                        yield GroupOffset(group_id, TopicPartition(topic, index), value.offset)

    def totals(self) -> Steps[GroupTotals]:
        """Count all groups and offsets. A step handles a portion of the groups of a shard."""
        states: Counter[str] = Counter()
        offsets = 0
        for _, shard in self._runtime.shards():
            for groups in portions(shard.table.groups.values()):
                states.update([group.state_name for group in groups])
                yield
            offsets += yield from shard.table.offsets.committed_count()
        loads = self._runtime.load_times
        return GroupTotals(
            {state.value: states[state.value] for state in GroupState},
            offsets,
            LoadView(loads.longest_ms, loads.average_ms),
        )
