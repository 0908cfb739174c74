"""Whatever brokers and controller do, a leader has every committed record.

The model has the logs of three replicas beside the real decisions of controller and leader. Brokers
are killed, lose power or their disk, drain and come back; the leader appends, replicates and
changes its ISR. The brokers that lose records are fewer than min.insync.replicas (KIP-966).
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders, elect_preferred_leaders
from oncelog_server.cluster.image import NO_LEADER, ClusterImage
from oncelog_server.cluster.isr_changes import IsrChange, Leader, isr_writes
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.store import Delete, Snapshot, Write
from oncelog_server.cluster.topic_alterations import alter_topic
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.settings.model import Settings
from tests.examples import examples
from tests.server.cluster.clusters import Cluster

REPLICAS = (1, 2, 3)
VERBS = (
    "append",
    "clean stop",
    "drain",
    "fetch",
    "join",
    "kill",
    "leave",
    "lose disk",
    "lose power",
    "lower the min ISR",
    "prefer",
    "raise the min ISR",
    "resume",
    "start",
    "sync",
    # Append a record that all live followers fetch.
    "write",
)
# Brokers must often end and come back, and records must be written, so that elections matter.
LIKELY = (*VERBS, "kill", "kill", "start", "start", "start", "write", "write")
# A verb, a broker, and whether the controller decides afterwards.
Step = tuple[str, int, bool]
STEPS = st.lists(
    st.tuples(st.sampled_from(LIKELY), st.sampled_from(REPLICAS), st.booleans()),
    min_size=10,
    max_size=60,
)


class Model:
    """A partition, the logs of its replicas, and the committed records."""

    def __init__(self, min_isr: int, replicas: tuple[int, ...] = REPLICAS) -> None:
        self.rules = ElectionRules(min_insync_replicas=min_isr)
        self.min_isr = self.lowest_min_isr = min_isr
        self.logs: dict[int, list[int]] = {broker: [] for broker in REPLICAS}
        self.synced = dict.fromkeys(REPLICAS, 0)
        self.boots = dict.fromkeys(REPLICAS, 0)
        self.directories = dict.fromkeys(REPLICAS, 0)
        self.clean_stops = dict.fromkeys(REPLICAS, 0)
        self.cluster = Cluster(())
        for broker in REPLICAS:
            self.start(broker)
        new = NewTopic("t", assignments=((0, replicas),))
        writes = create_topic(self.cluster.image, Settings(), new, self.cluster.new_id())[1]
        self.cluster.apply(writes)
        # The brokers that have ever lost a record.
        self.lossy: set[int] = set()
        self.committed: list[int] = []
        self.appended = 0
        # The log ends of the followers in the leader's present epoch.
        self.led_epoch = -1
        self.epoch_start = 0
        self.acked: dict[int, int] = {}
        # The broker epochs of the followers at their last fetch.
        self.fetch_epochs: dict[int, int] = {}

    def do(self, verb: str, broker: int) -> None:
        alive = broker in self.cluster.image.brokers
        if verb == "prefer":
            self.cluster.apply(elect_preferred_leaders(self.cluster.image))
        elif verb == "start" and not alive:
            self.start(broker)
        elif verb == "sync":
            self.synced[broker] = len(self.logs[broker])
        elif verb == "drain" and alive:
            self.cluster.drain(broker)
        elif verb == "resume":
            self.cluster.apply([Write((), (Delete(records.draining_key(broker)),))])
        elif verb.endswith("the min ISR"):
            self.require(self.min_isr + (1 if verb.startswith("raise") else -1))
        elif verb in ("kill", "clean stop", "lose power", "lose disk") and alive:
            self.stop(verb, broker)
        elif verb == "join":
            self.lead("fetch", broker)
            self.lead("join", broker)
        elif verb == "write":
            self.lead("append", broker)
            for follower in REPLICAS:
                self.lead("fetch", follower)
        elif verb in ("append", "fetch", "leave"):
            self.lead(verb, broker)

    def decide(self) -> None:
        """Let the controller decide. Check that a new controller, which reads the store, decides
        the same."""
        writes = elect_leaders(self.cluster.image, self.rules)
        entries = tuple(self.cluster.entries[key] for key in sorted(self.cluster.entries))
        again = ClusterImage.of(Snapshot(self.cluster.image.revision, entries))
        assert elect_leaders(again, self.rules) == writes
        before = self.cluster.partition("t")
        assert self.cluster.apply(writes)
        leader = self.cluster.partition("t").leader
        assert leader in (NO_LEADER, *before.isr, *before.elr), "an unclean election"

    def start(self, broker: int) -> None:
        self.cluster.register(
            broker,
            directory=f"directory-{broker}-{self.directories[broker]}",
            boot=f"boot-{broker}-{self.boots[broker]}",
            clean_stop=self.clean_stops[broker],
        )
        self.clean_stops[broker] = 0

    def require(self, min_isr: int) -> None:
        if not max(1, len(self.lossy) + 1) <= min_isr <= len(REPLICAS):
            return
        self.min_isr = min_isr
        self.lowest_min_isr = min(self.lowest_min_isr, min_isr)
        own = {"min.insync.replicas": str(min_isr)}
        self.cluster.apply(alter_topic(self.cluster.image, Settings(), "t", own))

    def stop(self, verb: str, broker: int) -> None:
        if verb.startswith("lose"):
            if len(self.lossy | {broker}) >= self.lowest_min_isr:
                return
            self.lossy.add(broker)
            self.boots[broker] += 1
        if verb == "lose power":
            del self.logs[broker][self.synced[broker] :]
        elif verb == "lose disk":
            self.logs[broker], self.synced[broker] = [], 0
            self.directories[broker] += 1
        elif verb == "clean stop":
            self.synced[broker] = len(self.logs[broker])
            self.clean_stops[broker] = self.cluster.image.brokers[broker].epoch
            self.boots[broker] += 1  # the computer may be switched off as well
        self.cluster.stop(broker)

    def lead(self, verb: str, follower: int) -> None:
        partition = self.cluster.partition("t")
        leader, image = partition.leader, self.cluster.image
        if leader not in image.brokers or leader not in partition.isr:
            return
        joined = dict(zip(partition.isr, partition.isr_epochs, strict=True))
        if joined[leader] != image.brokers[leader].epoch:
            return  # it has registered again, and is not confirmed yet
        log = self.logs[leader]
        if self.led_epoch != partition.leader_epoch:
            self.led_epoch, self.epoch_start = partition.leader_epoch, len(log)
            self.acked = {}
        if verb == "append":
            self.appended += 1
            log.append(self.appended)
        elif follower in image.brokers and follower != leader and verb == "fetch":
            self.fetch(log, follower)
        elif follower != leader and verb in ("join", "leave"):
            self.change_isr(verb, leader, follower)
        self.commit()

    def fetch(self, log: list[int], follower: int) -> None:
        """Copy the leader's log to a follower, and cut what differs."""
        common = 0
        while common < min(len(log), len(self.logs[follower])):
            if log[common] != self.logs[follower][common]:
                break
            common += 1
        self.synced[follower] = min(self.synced[follower], common)
        self.logs[follower] = list(log)
        self.acked[follower] = len(log)
        self.fetch_epochs[follower] = self.cluster.image.brokers[follower].epoch

    def change_isr(self, verb: str, leader: int, follower: int) -> None:
        image, partition = self.cluster.image, self.cluster.partition("t")
        isr, joining = partition.isr, {}
        if verb == "leave":
            isr = tuple(broker for broker in isr if broker != follower)
        elif follower in isr or follower not in image.brokers:
            return
        else:
            acked = self.acked.get(follower, -1)
            if acked < max(len(self.committed), self.epoch_start):
                return
            # A restart since the last fetch may have lost what was fetched (KIP-903).
            isr, joining = (*isr, follower), {follower: self.fetch_epochs[follower]}
        change = IsrChange(
            partition.topic_id, 0, partition.leader_epoch, partition.partition_epoch, isr, joining
        )
        me = Leader(leader, image.brokers[leader].epoch)
        made = isr_writes(image, self.rules, me, [change])
        assert self.cluster.apply([batch.write for batch in made.batches])

    def commit(self) -> None:
        """Move the high watermark, by the leader's knowledge of its followers."""
        partition = self.cluster.partition("t")
        # While there is an ELR, the high watermark stands still, even if the min ISR has just been
        # lowered: the controller has not cleared the ELR yet.
        if len(partition.isr) < self.min_isr or partition.elr:
            return
        if self.led_epoch != partition.leader_epoch:
            return
        log = self.logs[partition.leader]
        others = [broker for broker in partition.isr if broker != partition.leader]
        high_watermark = min([len(log), *(self.acked.get(broker, 0) for broker in others)])
        if high_watermark > len(self.committed):
            self.committed = log[:high_watermark]

    def check(self) -> None:
        image, partition = self.cluster.image, self.cluster.partition("t")
        assert partition.isr or partition.elr, "the last good copy is out of ISR and ELR"
        assert not set(partition.isr) & set(partition.elr)
        if elect_leaders(image, self.rules):
            return
        if partition.leader == NO_LEADER:
            assert not partition.isr
            return
        assert partition.leader in partition.isr
        assert self.logs[partition.leader][: len(self.committed)] == self.committed, (
            "the leader lacks a committed record"
        )


@settings(max_examples=examples(600), deadline=None)
@given(min_isr=st.integers(1, 3), steps=STEPS)
def test_a_leader_has_every_committed_record(min_isr: int, steps: Sequence[Step]) -> None:
    model = Model(min_isr)
    for verb, broker, decides in steps:
        model.do(verb, broker)
        model.check()
        if decides:
            model.decide()
            model.check()
            before = model.cluster.partition("t")
            model.decide()
            assert model.cluster.partition("t") == before, "a decision is made twice"


@settings(max_examples=examples(200), deadline=None)
@given(min_isr=st.integers(1, 3), steps=STEPS)
def test_with_all_brokers_alive_and_their_disks_whole_a_partition_has_a_leader(
    min_isr: int, steps: Sequence[Step]
) -> None:
    model = Model(min_isr)
    for verb, broker, decides in steps:
        model.do(verb, broker)
        if decides:
            model.decide()
    for broker in REPLICAS:
        model.do("start", broker)
        model.do("resume", broker)
    model.decide()
    model.check()
    assert model.cluster.partition("t").leader != NO_LEADER


def test_a_lower_min_isr_commits_nothing_before_the_controller_has_ended_the_elr() -> None:
    """Otherwise the member of the ELR, which lacks the record, is elected after the leader."""
    model = Model(2)
    for verb, broker, decides in (
        ("leave", 3, False),
        ("kill", 2, True),
        ("lower the min ISR", 1, False),
        ("write", 1, False),
    ):
        model.do(verb, broker)
        if decides:
            model.decide()
    assert model.cluster.partition("t").elr == (2,)
    assert model.committed == []
    model.decide()
    assert model.cluster.partition("t").elr == ()
    model.do("write", 1)
    assert len(model.committed) == 2
