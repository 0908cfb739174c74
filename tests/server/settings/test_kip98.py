"""Every broker setting that KIP-98 names: default, limit, the KIP's own spelling, and effect.

tests/client/test_kip98.py tests the settings of clients.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import BrokerImage, ClusterImage
from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.config import SettingsError, load_settings
from oncelog_server.settings.accepted import ALIASES
from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.transaction.id_expiry import IdExpiry
from tests.server.settings.kafka_settings import BROKER_SETTINGS
from tests.server.transaction.world import World, value_of


class Row(NamedTuple):
    """`alias`: the name in the KIP; `name`: the name in released versions."""

    name: str
    alias: str
    default: int
    least: int


ROWS = (
    Row("transactional.id.expiration.ms", "transactional.id.timeout.ms", 604_800_000, 1),
    Row("transaction.max.timeout.ms", "max.transaction.timeout.ms", 900_000, 1),
    Row("transaction.state.log.replication.factor", "transaction.state.replication.factor", 3, 1),
    Row("transaction.state.log.num.partitions", "transaction.state.num.partitions", 50, 1),
    Row("transaction.state.log.min.isr", "transaction.state.min.isr", 2, 1),
    Row("transaction.state.log.segment.bytes", "transaction.state.segment.bytes", 104_857_600, 1),
)
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def value(settings: Settings, row: Row) -> object:
    return getattr(settings, HONOURED[row.name].attribute)


def test_the_table_has_every_setting_with_another_name_in_the_kip() -> None:
    assert {row.alias: row.name for row in ROWS} == ALIASES


@rows
def test_the_default_is_that_of_the_kip_and_of_current_kafka(row: Row) -> None:
    assert value(Settings(), row) == row.default
    assert BROKER_SETTINGS[row.name][1] == str(row.default)


@rows
def test_a_value_below_its_limit_stops_the_start(row: Row) -> None:
    for name in (row.name, row.alias):
        with pytest.raises(SettingsError, match=f"Value must be at least {row.least}"):
            load_settings(assignments=[f"{name}={row.least - 1}"])
    assert value(load_settings(assignments=[f"{row.name}={row.least}"]).settings, row) == row.least


@rows
def test_the_kips_spelling_is_accepted_from_every_source_with_a_warning(
    row: Row, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{row.alias}=7\n")
    variable = row.alias.upper().replace(".", "_")
    for loaded in (
        load_settings(assignments=[f"{row.alias}=7"]),
        load_settings(environment={f"KAFKA_{variable}": "7"}),
        load_settings(config_file=file),
    ):
        assert value(loaded.settings, row) == 7
        (warning,) = loaded.warnings
        assert row.alias in warning
        assert f"the name is now {row.name}" in warning


@rows
def test_in_one_file_kafkas_name_wins_over_the_kips(row: Row, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    for lines in ((f"{row.name}=8", f"{row.alias}=7"), (f"{row.alias}=7", f"{row.name}=8")):
        file.write_text("\n".join(lines))
        assert value(load_settings(config_file=file).settings, row) == 8


# --- effects


def test_the_topic_of_transactions_is_created_with_its_settings() -> None:
    settings = Settings(
        transaction_state_log_num_partitions=7,
        transaction_state_log_replication_factor=2,
        transaction_state_log_min_isr=1,
        transaction_state_log_segment_bytes=4096,
    )
    brokers = {number: BrokerImage(number, 1, "", (), None, {}) for number in (1, 2, 3)}
    topic = internal_topic(ClusterImage(brokers=brokers), settings, TRANSACTION_STATE)
    assert (topic.partitions, topic.replication_factor) == (7, 2)
    assert topic.settings["min.insync.replicas"] == "1"
    assert topic.settings["internal.segment.bytes"] == "4096"


def test_one_broker_needs_no_settings_for_the_topic_of_transactions() -> None:
    image = ClusterImage(brokers={1: BrokerImage(1, 1, "", (), None, {})})
    assert internal_topic(image, Settings(), TRANSACTION_STATE).replication_factor == 1


def test_a_longer_timeout_than_the_limit_is_refused_with_code_50() -> None:
    limit = Settings().transaction_max_timeout_ms
    world = World()
    assert value_of(world.init(timeout_ms=limit)).code is ErrorCode.NONE
    for timeout_ms in (limit + 1, 0, -1):
        refused = value_of(world.init("other", timeout_ms=timeout_ms))
        assert int(refused.code) == 50, "INVALID_TRANSACTION_TIMEOUT"


def test_an_idle_transactional_id_expires_after_the_time_of_the_setting() -> None:
    world = World()
    world.producer()
    expiration_ms = Settings().transactional_id_expiration_ms
    sweeper = IdExpiry(
        world.transactions.runtime,
        expiration_ms=expiration_ms,
        wall_ms=world.wall,
        monotonic_ms=world.now,
    )
    assert expired(sweeper) == 0
    world.settle(expiration_ms - 1)
    assert expired(sweeper) == 0
    world.settle(1)
    assert expired(sweeper) == 1


def expired(sweeper: IdExpiry) -> int:
    """Run one complete sweep of expiry."""
    count, goes_on = sweeper.step()
    while goes_on:
        found, goes_on = sweeper.step()
        count += found
    return count
