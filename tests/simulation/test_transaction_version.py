"""The cluster's transaction.version changes from 2 to 0 and back while all clients work (V2m).

No request changes the version yet, so the test changes the record in the metadata store. The broker
reports the version to every client that connects. A client uses the version at the beginning of its
transaction, so transactions of both versions are open at the same time. Broker and network fail,
and the world is checked like every other world.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial

import pytest

from oncelog_protocol.features import TRANSACTION_VERSION
from oncelog_server.cluster import records
from oncelog_server.cluster.store import Put
from tests.simulation.checking.batches import BrokenBatch
from tests.simulation.checking.internal_records import ONGOING, Transition, read_transitions
from tests.simulation.checking.logs import TRANSACTION_STATE
from tests.simulation.disk_logs import logs_on
from tests.simulation.fault import Fault
from tests.simulation.report import failure_lines
from tests.simulation.run import run_seed
from tests.simulation.world import World

WORLDS = 18
EACH = 6
FLIPS_US = range(150_000, 3_000_000, 200_000)
# Situations that the worlds of this test must reach.
OPEN = "a transaction of the other version was open when the version became"
BOTH = "an id has had transactions of both versions"


class Flipping(World):
    """A world that changes its transaction.version a few times a second."""

    async def live(self, faults: list[Fault]) -> None:
        for number, at_us in enumerate(FLIPS_US):
            self.after(at_us, partial(self.flip, 2 * (number % 2)))
        await super().live(faults)

    def flip(self, level: int) -> None:
        """Change the version and break every connection, because a client learns the version when
        it connects."""
        if self.is_healed:
            return
        with suppress(BrokenBatch):  # a file may be torn while the broker is down
            self.look(level)
        features = records.FeaturesRecord({TRANSACTION_VERSION: level})
        self.node.store.apply([Put(records.FEATURES, records.encode(features))])
        for link in self.net.open_links():
            self.net.reset(link)

    def look(self, level: int) -> None:
        """Note open transactions of the other version, and ids with transactions of both
        versions."""
        for (topic, _), log in logs_on(self.node.disk).items():
            if topic != TRANSACTION_STATE:
                continue
            kinds: dict[str, set[int]] = {}
            last: dict[str, Transition] = {}
            for read_transition in read_transitions(log):
                last[read_transition.transactional_id] = read_transition
                if read_transition.state == ONGOING:
                    kinds.setdefault(read_transition.transactional_id, set()).add(
                        read_transition.version
                    )
            if any(
                transaction.state == ONGOING and transaction.version != level
                for transaction in last.values()
            ):
                self.sometimes.met(f"{OPEN} {level}")
            if any(found >= {0, 2} for found in kinds.values()):
                self.sometimes.met(BOTH)


@pytest.mark.parametrize("first", range(0, WORLDS, EACH))
def test_v2m_the_simulation_stays_correct_while_the_transaction_version_changes(first: int) -> None:
    met: Counter[str] = Counter()
    for seed in range(first, first + EACH):
        verdict = run_seed(seed, kind=Flipping)
        assert not verdict.failed, "\n".join(failure_lines(verdict))
        met += verdict.met
    assert met[BOTH] > 0
    assert met[f"{OPEN} 0"] > 0
    assert met[f"{OPEN} 2"] > 0
