"""The topics of oncelog.create.topics, and of KAFKA_CREATE_TOPICS."""

from __future__ import annotations

import pytest

from oncelog_server.config import SettingsError, load_settings
from oncelog_server.settings.first_topics import FirstTopic, parse_first_topics


def test_partitions_replicas_and_cleanup_policy_of_a_topic() -> None:
    assert parse_first_topics(["a:3", " b.c:1:2", "d_e:6:1:compact"]) == [
        FirstTopic("a", 3, 1, None),
        FirstTopic("b.c", 1, 2, None),
        FirstTopic("d_e", 6, 1, "compact"),
    ]


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:0", "a:x", "a:1:", "a:1:0", "a:1:1:", "a:-1"])
def test_another_form_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={"KAFKA_CREATE_TOPICS": f"good:1,{text}"})
    (problem,) = map(str, caught.value.problems)
    assert f"'{text}' is not name:partitions" in problem
    assert problem.startswith("oncelog.create.topics=")


def test_a_topic_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="orders occurs twice"):
        parse_first_topics(["orders:1", "orders:2"])


def test_the_variable_of_the_images_of_kafka_is_the_setting() -> None:
    loaded = load_settings(environment={"KAFKA_CREATE_TOPICS": "a:1:1,b:2:1:compact"})
    assert loaded.settings.oncelog_create_topics == ("a:1:1", "b:2:1:compact")
    ours = load_settings(environment={"ONCELOG_CREATE_TOPICS": "c:1"})
    assert ours.settings.oncelog_create_topics == ("c:1",)
