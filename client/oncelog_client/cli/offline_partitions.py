"""The check of partitions without a leader: the replicas that they wait for, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog_client.cli.cluster_state import ClusterState
from oncelog_client.cli.findings import PROBLEM, Row, row_of
from oncelog_client.values import PartitionInfo, TopicPartition

if TYPE_CHECKING:
    from oncelog_client.admin import Admin, EligibleReplicas

UNCLEAN: Final = (
    "python -m oncelog_client.kafka_tools kafka-leader-election.sh --election-type unclean"
)
# The advice for each kind of partition without a leader, in the order of the output.
START: Final = "start the stopped brokers"
OTHER_REPLICA: Final = (
    f"if they will not come back, any other replica can lead, although acknowledged records may be"
    f" lost: {UNCLEAN}"
)
NO_OTHER_REPLICA: Final = (
    "a partition with one replica has no other copy: if its broker is lost, start a broker with the"
    " same node.id and an empty disk, or delete the topic"
)
OFFLINE: Final = (
    "a replica is offline if its disk has failed or is full, or its log is damaged: see the log of"
    " the broker and `oncelog logs verify DIR`. docs/backup.md says how to repair a damaged log"
)
MAY_LACK_RECORDS: Final = (
    "a live broker does not lead if it may lack records, because its disk is new or it lost power."
    " If its old disk is intact, put the disk back. Otherwise, elect the replica that can have the"
    f" most records: {UNCLEAN}"
)
WAIT: Final = "a live broker with all records is elected within seconds, else see the brokers' logs"
NO_SOURCE: Final = (
    f"any live replica can lead, although acknowledged records may be lost: {UNCLEAN}"
)
ADVICE: Final = (START, OTHER_REPLICA, NO_OTHER_REPLICA, OFFLINE, MAY_LACK_RECORDS, WAIT, NO_SOURCE)


class Sources(NamedTuple):
    """The replicas that had all committed records of a partition last, by the state of their
    brokers. `offline` are those that their live broker cannot use. `alive` are the others with a
    live broker. `is_certain`: all of them still have these records."""

    stopped: tuple[int, ...]
    offline: tuple[int, ...]
    alive: tuple[int, ...]
    is_certain: bool

    @classmethod
    def of(
        cls, info: PartitionInfo, eligible: EligibleReplicas | None, state: ClusterState
    ) -> Sources:
        """Return the ISR and the eligible leaders, or else the last known ISR. The replica of an
        unregistered broker is left out, because it counts as empty, unless the partition has no
        other replica."""
        certain = () if eligible is None else eligible.eligible
        brokers = tuple(dict.fromkeys((*info.in_sync_replicas, *certain)))
        if eligible is not None:
            brokers = brokers or eligible.last_known
        if len(info.replicas) > 1:
            brokers = tuple(broker for broker in brokers if broker in state.racks)
        alive = [broker for broker in brokers if broker in state.alive]
        return cls(
            tuple(broker for broker in brokers if broker not in state.alive),
            tuple(broker for broker in alive if broker in info.offline_replicas),
            tuple(broker for broker in alive if broker not in info.offline_replicas),
            bool(info.in_sync_replicas or certain),
        )

    @property
    def brokers(self) -> set[int]:
        return {*self.stopped, *self.offline, *self.alive}

    def text(self) -> str:
        texts = []
        if self.stopped:
            has = "has" if self.is_certain else "may have"
            texts.append(f"only {_brokers(self.stopped)} {has} all records")
        if self.offline:
            texts.append(f"its replica on {_brokers(self.offline)} is offline")
        if self.alive and self.is_certain:
            texts.append(f"{_brokers(self.alive)} has all records and is alive")
        elif self.alive:
            texts.append(f"{_brokers(self.alive)} led last and is alive, but may lack records")
        return "; ".join(texts) or "no replica is known to have all records"

    def advice(self, info: PartitionInfo) -> set[str]:
        found = set()
        if self.stopped:
            found |= {START, OTHER_REPLICA if len(info.replicas) > 1 else NO_OTHER_REPLICA}
        if self.offline:
            found.add(OFFLINE)
        if self.alive:
            found.add(WAIT if self.is_certain else MAY_LACK_RECORDS)
        return found or {NO_SOURCE}


def _brokers(brokers: tuple[int, ...]) -> str:
    return f"broker {' or '.join(map(str, brokers))}"


async def offline_partitions(admin: Admin, state: ClusterState) -> list[Row]:
    """A partition without a leader waits for the replicas that have all its committed records."""
    offline = [place for place, info in state.partitions.items() if info.leader is None]
    found, advice = [], set()
    for place, sources in (await last_sources(admin, state, offline)).items():
        found.append(f"{place} ({sources.text()})")
        advice |= sources.advice(state.partitions[place])
    first, *others = [text for text in ADVICE if text in advice] or [""]
    to_do = ". ".join((first, *map(sentence, others)))
    return [row_of("offline partitions", PROBLEM, found, to_do)]


def sentence(text: str) -> str:
    """Return the text with a capital letter."""
    return text[0].upper() + text[1:]


async def last_sources(
    admin: Admin, state: ClusterState, offline: list[TopicPartition]
) -> dict[TopicPartition, Sources]:
    """Return the replicas that had all committed records of each partition last."""
    eligible = await admin.describe_eligible_replicas(offline) if offline else {}
    return {
        place: Sources.of(state.partitions[place], eligible.get(place), state) for place in offline
    }
