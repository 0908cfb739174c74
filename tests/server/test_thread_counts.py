"""A number of threads has no effect here, and changes as far at once as Kafka allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker import Broker
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.settings.thread_counts import THREAD_COUNTS, thread_count
from tests.server.metadata.brokers import until
from tests.server.test_dynamic_settings import ALL_BROKERS, alter_to, started

OF_LISTENER = "listener.name.plaintext.num.network.threads"


async def changed(broker: Broker, name: str, texts: dict[str, str]) -> str | None:
    """Change the settings, and wait until they are in force. Return the refusal, None for
    success."""
    try:
        await alter_to(broker, name, texts)
    except Refused as refused:
        return refused.message if refused.code is ErrorCode.INVALID_REQUEST else refused.code.name
    await until(
        lambda: (broker.settings.dynamic if name else broker.settings.dynamic_defaults) == texts
    )
    return None


def refusal(name: str, value: int, bound: str, current: int) -> str:
    return (
        "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update "
        f"validation failed for {name}={value}, value should {bound} the current value {current} "
        "for configuration Invalid dynamic configuration"
    )


LESS, MORE = "be at least half", "not be greater than double"


@pytest.mark.parametrize("name", sorted(THREAD_COUNTS.keys() - {"log.cleaner.threads"}))
@pytest.mark.parametrize("broker_name", ["1", ALL_BROKERS])
async def test_a_number_of_threads_changes_by_a_factor_of_two_at_most(
    tmp_path: Path, name: str, broker_name: str
) -> None:
    async with started(tmp_path, f"{name}=9") as broker:
        for value, reason in (
            (3, refusal(name, 3, LESS, 9)),
            (19, refusal(name, 19, MORE, 9)),
            (18, None),
            (37, refusal(name, 37, MORE, 18)),
            (36, None),
            (17, refusal(name, 17, LESS, 36)),
            (18, None),
        ):
            assert await changed(broker, broker_name, {name: str(value)}) == reason
        # Without the dynamic number, that of the start is in force.
        assert await changed(broker, broker_name, {name: "20"}) is None
        assert await changed(broker, broker_name, {}) == refusal(name, 9, LESS, 20)


async def test_the_threads_of_the_cleaner_have_messages_of_their_own(tmp_path: Path) -> None:
    name = "log.cleaner.threads"
    async with started(tmp_path) as broker:
        for value, reason in (
            (0, "Log cleaner threads should be at least 1"),
            (3, "Log cleaner threads cannot be increased to more than double the current value 1"),
            (2, None),
            (4, None),
            (1, "Log cleaner threads cannot be reduced to less than half the current value 4"),
        ):
            shown = await changed(broker, "1", {name: str(value)})
            assert shown == reason or (shown is not None and reason is not None and reason in shown)
        buffer = {name: "4", "log.cleaner.dedupe.buffer.size": str(4 << 20)}
        assert "at least 1MB per cleaner thread" in (await changed(broker, "1", buffer) or "")
        buffer["log.cleaner.dedupe.buffer.size"] = str((4 << 20) + 4)
        assert await changed(broker, "1", buffer) is None


async def test_a_listener_has_its_own_number_or_that_of_the_broker(tmp_path: Path) -> None:
    name = "num.network.threads"
    async with started(tmp_path) as broker:
        assert await changed(broker, "1", {OF_LISTENER: "7"}) == refusal(name, 7, MORE, 3)
        assert await changed(broker, "1", {name: "5"}) is None
        assert await changed(broker, "1", {name: "5", OF_LISTENER: "10"}) is None
        # No listener has the broker's number any more.
        assert await changed(broker, "1", {name: "500", OF_LISTENER: "10"}) is None
        assert await changed(broker, "1", {"listener.name.nosuch.num.network.threads": "500"}) == (
            refusal(name, 3, LESS, 10)
        )


def test_a_number_of_the_start_that_is_none_counts_as_the_default() -> None:
    """The broker does not check the settings without effect."""
    settings = Settings(given={"num.io.threads": "many"})
    assert thread_count(settings, ({}, {}), "num.io.threads") == 8
