"""`oncelog.testing.Broker`: start, kill, restart and end, and no trace of it afterwards."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest

from oncelog import OffsetAndMetadata
from oncelog.testing import Broker, BrokerFailed, Namespace, Topic
from oncelog.testing.client_thread import ClientThread
from oncelog.testing.wire import Wire
from oncelog_protocol.messages.metadata import MetadataRequest
from tests.harness.waiting import turns_until, wait_until


def names(broker: Broker) -> list[str]:
    """Return the names of all topics."""
    with Wire(broker.bootstrap_servers) as wire:
        return [topic.name for topic in wire.call(MetadataRequest(topics=None), 12).topics]


def test_a_broker_listens_on_this_computer_only_and_leaves_nothing() -> None:
    with Broker({"num.partitions": 3}) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        with Wire(broker.bootstrap_servers) as wire:
            (found,) = wire.call(MetadataRequest(), 12).brokers
        assert (found.host, found.port) == ("127.0.0.1", broker.port)
        assert broker.data.is_dir()
    assert not broker.directory.exists()
    assert not broker.is_running


async def test_a_coroutine_uses_a_broker_too() -> None:
    async with Broker() as broker:
        assert broker.is_running
    assert not broker.directory.exists()


def test_data_and_port_stay_over_a_kill_and_over_a_restart(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        port = broker.port
        thread = ClientThread(broker.bootstrap_servers)
        try:
            topic = Namespace(thread, broker).topic("kept")
            broker.kill()
            assert not broker.is_running
            broker.restart()
            assert topic.name in names(broker)
            broker.restart()
            assert topic.name in names(broker)
        finally:
            thread.close()
        assert broker.port == port
    assert broker.data.is_dir()
    with Broker(data=tmp_path) as again:
        assert topic.name in names(again)


def test_a_paused_broker_sends_no_response_until_it_resumes() -> None:
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.pause()
        wire.send(MetadataRequest(), 12)
        wire.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            wire.answer()
        broker.resume()
        wire.socket.settimeout(20)
        assert wire.answer().brokers


def test_a_paused_broker_can_be_restarted() -> None:
    with Broker() as broker:
        broker.pause()
        broker.restart()
        assert names(broker) == []


def test_a_paused_broker_can_be_closed() -> None:
    with Broker() as broker:
        broker.pause()
    assert not broker.directory.exists()


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing() -> None:
    broker = Broker({"num.partitons": 3})
    with pytest.raises(BrokerFailed, match=r"did you mean num\.partitions"):
        broker.start()
    broker.close()
    assert not broker.directory.exists()


def temporary_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("oncelog-*"))


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have brokers in the system's folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("own_temporary_folder")
async def test_a_block_whose_broker_cannot_start_leaves_nothing() -> None:
    with (
        pytest.raises(BrokerFailed, match=r"did you mean num\.partitions"),
        Broker({"num.partitons": 3}),
    ):
        pass
    with pytest.raises(BrokerFailed, match=r"did you mean num\.partitions"):
        async with Broker({"num.partitons": 3}):
            pass
    assert temporary_folders() == set()


def test_a_block_whose_broker_cannot_start_keeps_the_folder_of_the_user(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerFailed, match=r"did you mean num\.partitions"),
        Broker({"num.partitons": 3}, data=tmp_path),
    ):
        pass
    assert "did you mean" in (tmp_path / "stderr").read_text()


@pytest.mark.usefixtures("own_temporary_folder")
async def test_a_coroutine_that_is_cancelled_during_the_start_leaves_nothing() -> None:
    broker = Broker()

    async def use() -> None:
        async with broker:
            await asyncio.Event().wait()

    using = asyncio.create_task(use())
    await turns_until(lambda: broker.is_running)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert not broker.is_running
    assert temporary_folders() == set()


def test_a_thousand_tests_on_one_broker_leave_nothing_in_it() -> None:
    """Topics and groups are deleted, transactions ended, and the memory of the broker grows by less
    than 20 MB. Transactional ids stay until they expire, as Kafka has no request to delete them."""
    with Broker() as broker:
        thread = ClientThread(broker.bootstrap_servers)
        try:
            first = 0
            for number in range(1_000):
                namespace = Namespace(thread, broker)
                topic = namespace.topic("invoices")
                if not number % 10:
                    namespace.hang(namespace.id("billing"), topic)
                    thread.run(commit(thread, namespace.group("readers"), topic))
                namespace.close()
                assert namespace.leftovers() == []
                if number == 100:
                    first = resident_mb(broker.pid)
            assert [name for name in names(broker) if not name.startswith("__")] == []
            assert thread.run(groups(thread)) == []
            assert resident_mb(broker.pid) - first < 20
        finally:
            thread.close()


async def commit(thread: ClientThread, group: str, topic: Topic) -> None:
    """Commit an offset, so that the group exists."""
    admin = await thread.admin()
    await admin.alter_group_offsets(group, {topic.partitions[0]: OffsetAndMetadata(0)})


async def groups(thread: ClientThread) -> list[str]:
    return [listing.group_id for listing in await (await thread.admin()).list_groups()]


def test_a_transaction_times_out_as_soon_as_the_clock_has_advanced() -> None:
    with Broker() as broker:
        thread = ClientThread(broker.bootstrap_servers)
        try:
            namespace = Namespace(thread, broker)
            for number in range(20):
                namespace.hang(namespace.id(f"billing-{number}"), namespace.topic("invoices"))
                broker.clock.advance(minutes=15)
                wait_until(partial(is_settled, namespace), "the timeout")
        finally:
            thread.close()


def is_settled(namespace: Namespace) -> bool:
    return not namespace.open_transactions()


def resident_mb(pid: int) -> int:
    """Return the resident memory of a process in MB."""
    done = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], check=True, capture_output=True, text=True
    )
    return int(done.stdout) // 1024


def test_variables_of_the_environment_do_not_configure_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "KAFKA_LISTENERS", "PLAINTEXT://:1")
    with Broker() as broker:
        assert names(broker) == []
