"""Named defects that appear only in a special situation, such as an age, an order or a pause."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SERVER: Final = "server/oncelog_server"
_CLIENT: Final = "client/oncelog_client"
_TRANSACTION: Final = f"{_SERVER}/transaction"

_MEMBERS: Final = ("tests/server/group/test_expiry_after_members.py",)
_TIMEOUTS: Final = ("tests/server/group/classic/test_longest_timeout.py",)
_ROLL: Final = ("tests/server/log/test_roll_after_restart.py",)
_FETCH: Final = ("tests/server/handlers/test_fetch_sessions.py",)
_STABLE: Final = ("tests/client/io/test_stable_offsets.py",)
_OUT_OF_RANGE: Final = ("tests/client/io/test_fetch_out_of_range.py",)
_OFFSETS_ALONE: Final = ("tests/server/transaction/test_offsets_alone.py",)
_RETRIES: Final = ("tests/server/transaction/test_marker_retries.py",)

SITUATION_MUTANTS: Final = (
    Mutant(
        "B1",
        "in a group that became empty, retention counts from the commit",
        f"{_SERVER}/group/classic/group.py",
        "                return self.current_state_timestamp_ms\n",
        "                pass\n",
        _MEMBERS,
    ),
    Mutant(
        "B2",
        "a coordinator that loads a group forgets when it became empty",
        f"{_SERVER}/group/classic/records.py",
        "current_state_timestamp_ms=value.current_state_timestamp)",
        "current_state_timestamp_ms=-1)",
        _MEMBERS,
    ),
    Mutant(
        "B3",
        "offsets expire while the members of their group rebalance",
        f"{_SERVER}/group/classic/group.py",
        "elif self.state is not GroupState.STABLE or self.subscribed_topics is None:\n",
        "elif self.subscribed_topics is None:\n",
        _MEMBERS,
    ),
    Mutant(
        "B4",
        "a join phase waits for the shortest rebalance timeout",
        f"{_SERVER}/group/classic/group.py",
        "        return max((member.rebalance_timeout_ms",
        "        return min((member.rebalance_timeout_ms",
        _TIMEOUTS,
    ),
    Mutant(
        "B5",
        "a read_committed member reads offsets without require_stable",
        f"{_CLIENT}/io/positions.py",
        "            [state.partition for state in jumps],\n"
        "            require_stable=self._config.read_committed,\n",
        "            [state.partition for state in jumps],\n            require_stable=False,\n",
        _STABLE,
    ),
    Mutant(
        "B6",
        "UNSTABLE_OFFSET_COMMIT counts as no committed offset",
        f"{_CLIENT}/io/group_offsets.py",
        "            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:\n"
        "                continue\n",
        "            if row.error_code in (3, ErrorCode.UNSTABLE_OFFSET_COMMIT):\n"
        "                continue\n",
        _STABLE,
    ),
    Mutant(
        "B7",
        "a refused offset resets the position while fetched records wait",
        f"{_CLIENT}/io/fetcher.py",
        "            if self.records.count(state):\n",
        "            if False:\n",
        _OUT_OF_RANGE,
    ),
    Mutant(
        "B8",
        "segment.ms begins anew after a clean restart",
        f"{_SERVER}/log/segment.py",
        "        if self.first_timestamp is None:\n            for _, header",
        "        if False:\n            for _, header",
        _ROLL,
    ),
    Mutant(
        "B9",
        "in a fetch session a busy partition starves the others",
        f"{_SERVER}/handlers/fetch.py",
        "                scope.session.to_end(key)\n",
        "                pass\n",
        _FETCH,
    ),
    Mutant(
        "B10",
        "a fetch waits for min_bytes even if max_bytes is smaller",
        f"{_SERVER}/fetching/fetch.py",
        "    min_bytes = min(limits.min_bytes, limits.max_bytes)\n",
        "    min_bytes = limits.min_bytes\n",
        _FETCH,
    ),
    Mutant(
        "B11",
        "a transaction with offsets alone has no deadline",
        f"{_TRANSACTION}/commands/add_partitions.py",
        "        effects = (StartTimer(command.transactional_id, now_ms + metadata.timeout_ms),)\n",
        '        if {place.topic for place in command.partitions} != {"__consumer_offsets"}:\n'
        "            effects = (\n"
        "                StartTimer(command.transactional_id, now_ms + metadata.timeout_ms),\n"
        "            )\n",
        _OFFSETS_ALONE,
    ),
    Mutant(
        "B12",
        "a fail-over forgets the deadline of a transaction with offsets alone",
        f"{_TRANSACTION}/shard.py",
        "        for live in self.ongoing.values():\n"
        "            timeout_ms = live.metadata.timeout_ms\n",
        "        for live in self.ongoing.values():\n"
        "            places = live.metadata.partitions\n"
        '            if {place.topic for place in places} == {"__consumer_offsets"}:\n'
        "                continue\n"
        "            timeout_ms = live.metadata.timeout_ms\n",
        _OFFSETS_ALONE,
    ),
    Mutant(
        "B13",
        "markers are retried without back-off",
        f"{_TRANSACTION}/completion.py",
        "        delay_ms = min(RETRY_MS << min(attempt, 8), RETRY_MAX_MS) if attempt else 0\n",
        "        delay_ms = 0\n",
        _RETRIES,
    ),
    Mutant(
        "B14",
        "the attempts to write a marker are not counted",
        f"{_TRANSACTION}/completion.py",
        "self.finish_later(shard, work, attempt + 1)",
        "self.finish_later(shard, work, attempt)",
        _RETRIES,
    ),
    Mutant(
        "B15",
        "a Spark source takes a topic for recreated again and again",
        f"{_CLIENT}/spark/source/stream_reader.py",
        "self._topic_ids = {end.topic: ids[end.topic] for end in ends if end.topic in ids}\n",
        "self._topic_ids = self._topic_ids or dict(ids)\n",
        ("tests/spark/source/test_recreated_topics.py",),
    ),
    Mutant(
        "B16",
        "a consumer returns records twice if the leader changes while a Fetch is in flight",
        f"{_CLIENT}/io/fetcher.py",
        "        if place is None or place[0] != offset:\n",
        "        if place is None:\n",
        ("tests/client/io/test_moved_leaders.py",),
    ),
    Mutant(
        "PF1",
        "zeros of a power failure take a coordinator's partition offline",
        f"{_SERVER}/log/recovery.py",
        "        or ends_in_zeros(sizes, segment, scan.position, tail)\n",
        "",
        ("tests/server/log/test_damage.py",),
    ),
    Mutant(
        "PF2",
        "a batch with a damaged length is cut off, because its records end in a zero",
        f"{_SERVER}/log/damage.py",
        "batch <= len(data) - HEADER_SIZE and",
        "batch < len(data) and",
        ("tests/server/log/test_damage.py",),
    ),
    Mutant(
        "PF3",
        "a log keeps a gap of lost batches, because compaction might have made it",
        f"{_SERVER}/log/damage.py",
        "    if not sizes or segment.base_offset <= max(sizes):\n        return False\n",
        "    return False\n",
        ("tests/server/log/test_recovery.py",),
    ),
)
