"""A setting is described with its effective value and every source that could set it."""

from __future__ import annotations

from oncelog_server.config import load_settings
from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.description import (
    ConfigSource,
    Synonym,
    describe_broker,
    describe_defaults,
    describe_topic,
)
from oncelog_server.settings.dynamic import in_force
from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.settings.refused import REFUSED
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
    assert set(found) == HONOURED.keys() | ACCEPTED.keys() | REFUSED.keys()
    assert (found["num.partitions"].value, found["num.partitions"].read_only) == ("2", True)
    assert found["num.io.threads"].synonyms == (
        Synonym("num.io.threads", "9", ConfigSource.STATIC_BROKER),
        Synonym("num.io.threads", "8", ConfigSource.DEFAULT),
    )
    assert found["log.roll.ms"].value is None
    assert found["log.roll.ms"].synonyms == ()


def test_a_refused_setting_is_described_with_its_default() -> None:
    """Consoles read some of them, for example to know if there is tiered storage."""
    found = {entry.name: entry for entry in describe_broker(Settings())}
    remote = found["remote.log.storage.system.enable"]
    assert (remote.value, remote.source, remote.read_only) == ("false", ConfigSource.DEFAULT, True)
    assert remote.synonyms == (
        Synonym("remote.log.storage.system.enable", "false", ConfigSource.DEFAULT),
    )
    assert "remote (tiered) storage is not built" in remote.documentation


def test_a_setting_without_a_default_has_no_synonym() -> None:
    found = {entry.name: entry for entry in describe_broker(Settings())}
    for name in ("num.replica.alter.log.dirs.threads", "metadata.log.dir", "ssl.provider"):
        assert (found[name].value, found[name].synonyms) == (None, ())


def test_a_value_is_normal_and_its_synonym_has_the_text_that_was_set() -> None:
    assignments = ["log.cleanup.policy=delete , compact", "num.io.threads=09"]
    settings = load_settings(assignments=assignments).settings
    own = {"log.segment.bytes": " +5000000 ", "num.replica.fetchers": " 02 "}
    changed = in_force(settings, own, {"log.segment.bytes": " +6000000 "})
    found = {entry.name: entry for entry in describe_broker(changed)}
    shown = {
        name: (found[name].value, [synonym.value for synonym in found[name].synonyms])
        for name in (*own, "log.cleanup.policy", "num.io.threads")
    }
    assert shown == {
        "log.segment.bytes": ("5000000", [" +5000000 ", " +6000000 ", "1073741824"]),
        "num.replica.fetchers": ("2", [" 02 ", "1"]),
        "log.cleanup.policy": ("delete,compact", ["delete , compact", "delete"]),
        "num.io.threads": ("9", ["09", "8"]),
    }
    (default,) = describe_defaults(changed)
    assert default.value == " +6000000 "


def test_a_setting_of_lower_precedence_is_a_synonym_only_below_the_first() -> None:
    """Kafka's ConfigHelper drops the synonyms before the first with the name of the broker's
    setting. So `log.retention.hours` is shown only if log.retention.ms has a value too."""
    settings = load_settings(assignments=["log.retention.hours=1", "log.roll.ms=7"]).settings
    found = {entry.name: entry for entry in describe_topic(settings, {})}
    retention = found["retention.ms"]
    assert (retention.value, retention.source) == ("3600000", ConfigSource.DEFAULT)
    assert retention.synonyms == found["flush.ms"].synonyms == ()
    assert found["segment.ms"].synonyms == (
        Synonym("log.roll.ms", "7", ConfigSource.STATIC_BROKER),
        Synonym("log.roll.hours", "168", ConfigSource.DEFAULT),
    )
    assert found["local.retention.ms"].synonyms == (
        Synonym("log.local.retention.ms", "-2", ConfigSource.DEFAULT),
    )


def test_the_synonyms_of_a_setting_are_in_the_order_of_their_sources() -> None:
    """Those of a setting of a listener include those of the broker's setting."""
    assignments = ["log.retention.minutes=5", "log.retention.hours=1", "num.network.threads=4"]
    settings = load_settings(assignments=assignments).settings
    name = "listener.name.plaintext.num.network.threads"
    own = {"num.network.threads": "6", "log.retention.ms": "7"}
    changed = in_force(settings, own, {name: "5", "num.network.threads": "8"})
    found = {entry.name: entry for entry in describe_broker(changed)}

    def shown(name: str) -> list[tuple[str, str | None, int]]:
        synonyms = found[name].synonyms
        return [(synonym.name, synonym.value, synonym.source) for synonym in synonyms]

    # The broker's own number is left out, because it comes before the first of the listener.
    assert shown(name) == [
        (name, "5", 3),
        ("num.network.threads", "8", 3),
        ("num.network.threads", "4", 4),
        ("num.network.threads", "3", 5),
    ]
    assert found[name].read_only
    hours = [("log.retention.hours", "1", 4), ("log.retention.hours", "168", 5)]
    minutes = [("log.retention.minutes", "5", 4), *hours]
    assert shown("log.retention.ms") == [("log.retention.ms", "7", 2), *minutes]
    assert shown("log.retention.minutes") == minutes
    assert shown("log.retention.hours") == hours
    (own_default,) = [entry for entry in describe_defaults(changed) if entry.name == name]
    assert own_default.read_only
    assert [(synonym.name, synonym.value) for synonym in own_default.synonyms] == [
        (name, "5"),
        ("num.network.threads", "8"),
    ]
