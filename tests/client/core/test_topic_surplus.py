"""The order in which a plan looks for a partition to move."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from oncelog_client.core.rebalancing import rebalance
from oncelog_client.core.replica_layout import ReplicaLayout
from oncelog_client.core.topic_surplus import TopicSurplus
from oncelog_client.values import TopicPartition

SOURCE, TARGET = 1, 2


def test_a_topic_with_a_larger_surplus_comes_first_and_changes_are_followed() -> None:
    counts = Counter({(SOURCE, "a"): 1, (SOURCE, "b"): 3, (SOURCE, "c"): 3, (TARGET, "c"): 1})
    surplus = TopicSurplus(lambda broker, topic: counts[broker, topic])

    def ranked() -> list[str]:
        return list(surplus.ranked(SOURCE, TARGET, "abc"))

    assert ranked() == ranked() == ["b", "c", "a"]
    assert list(islice(surplus.ranked(SOURCE, TARGET, ""), 1)) == ["b"]
    counts[SOURCE, "b"], counts[TARGET, "b"] = 1, 2
    surplus.changed("b", (SOURCE, TARGET))
    assert ranked() == ["c", "a", "b"]
    counts[SOURCE, "a"] = 0
    surplus.changed("a", (SOURCE,))
    assert ranked() == ["c", "b"]


def test_a_topic_that_cannot_move_is_left_out_until_it_changes() -> None:
    surplus = TopicSurplus(lambda broker, topic: broker == SOURCE)
    for topic in surplus.ranked(SOURCE, TARGET, "ab"):
        if topic == "a":
            surplus.stick(topic, SOURCE, TARGET)
    assert list(surplus.ranked(SOURCE, TARGET, "")) == ["b"]
    surplus.changed("a", ())
    assert list(surplus.ranked(SOURCE, TARGET, "")) == ["a", "b"]


class Counting(ReplicaLayout):
    """Counts the topics that a plan looks at."""

    looks = 0

    def count_of(self, broker: int, topic: str) -> int:
        self.looks += 1
        return super().count_of(broker, topic)


def test_the_work_of_a_plan_grows_with_its_moves_and_not_with_their_square() -> None:
    """A fourth broker joins: with 10,000 topics, a plan that sorts all topics for each move takes
    minutes."""

    def looks_per_move(topics: int) -> float:
        old = {
            TopicPartition(f"t{topic}", partition): tuple(
                (topic + partition + replica) % 3 + 1 for replica in range(3)
            )
            for topic in range(topics)
            for partition in range(3)
        }
        layout = Counting(old, dict.fromkeys(range(1, 5)), range(1, 5))
        rebalance(layout)
        return layout.looks / len(layout.moves())

    assert looks_per_move(400) < 2 * looks_per_move(100)
