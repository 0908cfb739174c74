"""A setting is described with its effective value and every source that could set it."""

from __future__ import annotations

from oncelog_server.config import load_settings
from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.description import (
    ConfigSource,
    Synonym,
    describe_broker,
    describe_topic,
)
from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.settings.topics import INTERNAL, TOPIC_SETTINGS


def test_every_setting_of_a_topic_is_there_once() -> None:
    shown = [entry.name for entry in describe_topic(Settings(), {})]
    assert shown == sorted(TOPIC_SETTINGS.keys() - INTERNAL.keys())


def test_the_source_is_where_the_value_in_force_was_set() -> None:
    settings = load_settings(assignments=["log.segment.bytes=1048576"]).settings
    found = {entry.name: entry for entry in describe_topic(settings, {"retention.ms": "5"})}
    assert found["retention.ms"].source is ConfigSource.TOPIC
    assert found["segment.bytes"].source is ConfigSource.STATIC_BROKER
    assert found["flush.messages"].source is ConfigSource.DEFAULT
    assert found["segment.bytes"].synonyms == (
        Synonym("log.segment.bytes", "1048576", ConfigSource.STATIC_BROKER),
        Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )


def test_a_value_is_shown_in_its_normal_form() -> None:
    shown = describe_topic(Settings(), {"preallocate": " TRUE "})
    found = {record.name: record.value for record in shown}
    assert found["preallocate"] == "true"


def test_a_broker_shows_settings_with_effect_and_settings_without_effect() -> None:
    settings = load_settings(assignments=["num.io.threads=9", "num.partitions=2"]).settings
    found = {entry.name: entry for entry in describe_broker(settings)}
    assert set(found) == HONOURED.keys() | ACCEPTED.keys()
    assert (found["num.partitions"].value, found["num.partitions"].read_only) == ("2", True)
    assert found["num.io.threads"].synonyms == (
        Synonym("num.io.threads", "9", ConfigSource.STATIC_BROKER),
        Synonym("num.io.threads", "8", ConfigSource.DEFAULT),
    )
    assert found["log.roll.ms"].value is None
    assert found["log.roll.ms"].synonyms == ()
