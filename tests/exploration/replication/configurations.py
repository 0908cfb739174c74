"""The clusters that are searched. A search without `depth` ends when no budget is left, so it
follows every order of steps to its end."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.exploration.replication.broker_model import Rules
from tests.exploration.replication.search import Search
from tests.exploration.replication.world import Budget, Cluster, first_world

TO_THE_END: Final = 1_000


class Configuration(NamedTuple):
    """A cluster at its start. Replica 1 is the preferred leader, and `leader` leads."""

    name: str
    rules: Rules
    budget: Budget
    brokers: int = 2
    leader: int = 1
    depth: int = TO_THE_END

    def search(self) -> Search:
        """Search the cluster. Raises Violation."""
        cluster = Cluster(self.brokers, self.rules)
        search = Search(cluster, self.depth)
        search.run(first_world(cluster, self.budget, leader=self.leader))
        return search

    def __str__(self) -> str:
        rules, faults = self.rules, self.budget
        settings = f"min ISR {rules.min_isr}{', flush on ack' if rules.flush_on_ack else ''}"
        budget = ", ".join(
            f"{count} {name.replace('_', ' ')}" for name, count in faults._asdict().items() if count
        )
        until = "" if self.depth == TO_THE_END else f", {self.depth} steps"
        return f"{self.name}: {self.brokers} brokers, {settings}, {budget}{until}"


ONE: Final = Rules(min_isr=1)
TWO: Final = Rules(min_isr=2)
FLUSH: Final = Rules(min_isr=2, flush_on_ack=True)
NONE: Final = Budget(0, 0, 0, 0, 0, 0, 0, 0, 0)

# `make test` searches these.
SMALL: Final = (
    Configuration("kill", TWO, NONE._replace(appends=2, kills=1, checks=1)),
    Configuration("kill-one", ONE, NONE._replace(appends=2, kills=1, checks=1)),
    Configuration("delay", ONE, NONE._replace(appends=2, elections=1, delays=2), leader=2),
    Configuration("loss", TWO, NONE._replace(appends=1, checks=2, losses=2)),
    Configuration("power", TWO, NONE._replace(appends=2, power_losses=1, delays=1)),
    Configuration("power-one", ONE, NONE._replace(appends=2, power_losses=1, checks=1)),
    Configuration("flush", FLUSH, NONE._replace(appends=2, power_losses=1)),
    Configuration(
        "flush-election", FLUSH, NONE._replace(appends=1, elections=1, power_losses=1), leader=2
    ),
    Configuration("session", ONE, NONE._replace(appends=2, sessions=1, checks=1)),
    Configuration("election", TWO, NONE._replace(appends=2, sessions=1, elections=1)),
    Configuration("late", ONE, NONE._replace(appends=1, sessions=1, elections=1, delays=1)),
    Configuration("stop", ONE, NONE._replace(appends=1, stops=1, checks=1)),
    Configuration("three", TWO, NONE._replace(appends=1, kills=1, checks=1), brokers=3, depth=8),
)

# `make explore WORLD=replication` searches these, too.
LARGE: Final = (
    Configuration("kills", TWO, NONE._replace(appends=2, kills=2, checks=1)),
    Configuration("kills-one", ONE, NONE._replace(appends=3, kills=2, checks=1)),
    Configuration("kill-loss", TWO, NONE._replace(appends=2, kills=1, checks=1, losses=1)),
    Configuration("kill-delay", ONE, NONE._replace(appends=2, kills=1, checks=1, delays=2)),
    Configuration(
        "sessions", TWO, NONE._replace(appends=2, sessions=1, checks=1, elections=1, delays=1)
    ),
    Configuration(
        "session-loss", ONE, NONE._replace(appends=2, sessions=1, checks=1, elections=1, losses=1)
    ),
    Configuration(
        "power-kill", TWO, NONE._replace(appends=2, kills=1, power_losses=1, elections=1)
    ),
    Configuration("flushes", FLUSH, NONE._replace(appends=2, power_losses=2)),
)
