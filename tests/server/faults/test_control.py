"""The control socket of a broker with `--allow-faults`: each command has its effect, and an invalid
command names what is wrong."""

from __future__ import annotations

import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing import Fault, FaultRefused, Faults
from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.headers import write_request_header
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_server.storage.layout import FAULTS_SOCKET
from tests.harness.broker import Oncelog
from tests.harness.transacting import last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, batch, new_identity, produce

PLAIN = Identity(-1, -1)


def create(wire: Wire, *names: str) -> None:
    """Create topics with one partition."""
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    answer = wire.call(CreateTopicsRequest(topics=topics), 5)
    assert [topic.error_code for topic in answer.topics] == [0] * len(names)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    """The path of the data directory is too long for a Unix socket."""
    folder = tmp_path_factory.mktemp("control") / ("long" * 30)
    with Oncelog(folder, QUICK, arguments=["--allow-faults"]) as broker, Wire(broker.address) as w:
        create(w, "a", "b")
        yield broker


@pytest.fixture
def faults(broker: Oncelog) -> Iterator[Faults]:
    faults = Faults(broker.data)
    yield faults
    faults.clear()


def written(wire: Wire, topic: str, **arguments: Any) -> ErrorCode:
    """Return the error code of a Produce request."""
    return ErrorCode(produce(wire, topic, batch(PLAIN, -1), **arguments).error_code)


@pytest.mark.parametrize("version", [9, 12])
def test_requests_of_one_topic_fail_as_often_as_asked(
    broker: Oncelog, faults: Faults, version: int
) -> None:
    faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, topic="a")
    with Wire(broker.address) as wire:
        codes = [written(wire, topic, version=version) for topic in ("b", "a", "a", "a")]
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert codes == [ErrorCode.NONE, refused, refused, ErrorCode.NONE]


def test_requests_of_one_client_fail(broker: Oncelog, faults: Faults) -> None:
    faults.fail("Metadata", "BROKER_NOT_AVAILABLE", client_id="mine", times=None)
    with Wire(broker.address, "other") as other, Wire(broker.address, "mine") as mine:
        assert other.call(MetadataRequest(), 13).error_code == 0
        for _ in range(3):
            assert mine.call(MetadataRequest(), 13).error_code == ErrorCode.BROKER_NOT_AVAILABLE


def test_a_failed_produce_with_acks_0_closes_the_connection(
    broker: Oncelog, faults: Faults
) -> None:
    faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    with Wire(broker.address) as wire, pytest.raises((Closed, ConnectionResetError)):
        produce(wire, "a", batch(PLAIN, -1), acks=0)


def test_a_version_that_does_not_exist_is_refused_as_without_a_fault(
    broker: Oncelog, faults: Faults
) -> None:
    faults.fail("ApiVersions", "BROKER_NOT_AVAILABLE")
    header = write_request_header(ApiKey.API_VERSIONS, 5, 7, "wire")
    request = header[:2] + (99).to_bytes(2) + header[4:]
    with broker.connect() as plain:
        plain.sendall(len(request).to_bytes(4) + request)
        response = plain.recv(1 << 16)
    assert int.from_bytes(response[8:10]) == ErrorCode.UNSUPPORTED_VERSION


def test_a_fault_ends_with_its_block(broker: Oncelog, faults: Faults) -> None:
    with (
        Wire(broker.address) as wire,
        faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=None),
    ):
        assert written(wire, "a") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with Wire(broker.address) as wire:
        assert written(wire, "a") is ErrorCode.NONE


def end_offset(wire: Wire, topic: str) -> int:
    """Return the offset after the last record, from the offset of one more record."""
    return int(produce(wire, topic, batch(PLAIN, -1)).base_offset)


def is_stable(wire: Wire, topic: str) -> bool:
    """Return True if no transaction is open in partition 0."""
    stable, high_watermark = last_stable_offset(wire, topic)
    return stable == high_watermark


@pytest.mark.parametrize("response", [False, True])
def test_a_held_request_takes_effect_at_its_release_a_held_response_before(
    broker: Oncelog, faults: Faults, response: bool
) -> None:
    with Wire(broker.address) as wire, Wire(broker.address, "other") as other:
        before = end_offset(other, "a")
        with faults.hold("Produce", client_id="wire", response=response) as held:
            codes: list[ErrorCode] = []
            writer = threading.Thread(target=lambda: codes.append(written(wire, "a")))
            writer.start()
            held.wait()
            assert end_offset(other, "a") == before + 1 + response
            assert codes == []
            held.release()
            writer.join()
            assert codes == [ErrorCode.NONE]


def test_a_lost_response_breaks_the_connection_after_the_effect(
    broker: Oncelog, faults: Faults
) -> None:
    with Wire(broker.address) as wire, Wire(broker.address, "other") as other:
        before = end_offset(other, "a")
        held = faults.hold("Produce", client_id="wire")
        failures: list[Exception] = []

        def write() -> None:
            try:
                written(wire, "a")
            except (Closed, ConnectionResetError) as failure:
                failures.append(failure)

        writer = threading.Thread(target=write)
        writer.start()
        held.wait()
        held.release(lost_response=True)
        writer.join()
        assert len(failures) == 1
        assert end_offset(other, "a") == before + 2


def test_a_wait_for_a_request_that_does_not_come_has_a_deadline(faults: Faults) -> None:
    with faults.hold("EndTxn") as held, pytest.raises(TimeoutError, match=r"0\.05 s"):
        held.wait(0.05)


def test_the_disk_is_full_and_slow_within_the_blocks(broker: Oncelog, faults: Faults) -> None:
    with Wire(broker.address) as wire:
        with faults.disk_full("a-0/"):
            assert written(wire, "a") is ErrorCode.KAFKA_STORAGE_ERROR
            assert written(wire, "b") is ErrorCode.NONE
        with faults.disk_full():
            assert written(wire, "b") is ErrorCode.KAFKA_STORAGE_ERROR
        assert written(wire, "a") is ErrorCode.NONE
        assert written(wire, "b") is ErrorCode.NONE


def test_an_fsync_takes_longer_within_the_block(tmp_path: Path) -> None:
    settings = {**QUICK, "oncelog.flush.on.ack": "true"}
    with (
        Oncelog(tmp_path, settings, arguments=["--allow-faults"]) as broker,
        Wire(broker.address) as wire,
    ):
        create(wire, "a")
        with Faults(broker.data).delay_fsync(300):
            began_s = time.monotonic()
            assert written(wire, "a") is ErrorCode.NONE
            assert time.monotonic() - began_s >= 0.29


def test_fifteen_minutes_pass_at_once_for_an_open_transaction(
    broker: Oncelog, faults: Faults
) -> None:
    with Wire(broker.address) as wire:
        producer = new_identity(wire, "x", timeout_ms=10 * 60_000)
        assert produce(wire, "a", batch(producer, 0), producer=producer).error_code == 0
        assert not is_stable(wire, "a")
        faults.ask("advance", ms=15 * 60_000)
        wait_until(lambda: is_stable(wire, "a"), "the transaction is aborted")


def test_a_kill_at_a_fail_point_and_its_end(tmp_path: Path) -> None:
    with Oncelog(tmp_path, QUICK, arguments=["--allow-faults"]) as broker:
        faults = Faults(broker.data)
        with Wire(broker.address) as wire:
            create(wire, "a")
            with faults.kill_at("before-data"):
                pass
            assert written(wire, "a") is ErrorCode.NONE
            with faults.kill_at("after-data:2"):
                assert written(wire, "a") is ErrorCode.NONE
                with pytest.raises((Closed, ConnectionResetError)):
                    written(wire, "a")
        assert broker.wait_for_death() == -9
        broker.start()
        with Wire(broker.address) as wire:
            assert end_offset(wire, "a") == 3


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("nonsense", {}, "command 'nonsense' is not known; there are"),
        ("fail", {"api": "Prodduce", "error": "NONE"}, "'Prodduce' is not known; .* Produce"),
        ("fail", {"api": "CommitTransaction", "error": "NONE"}, "is not known; did you mean"),
        ("fail", {"api": "Produce", "error": "NOT_COORD"}, "is not known; .*NOT_COORDINATOR"),
        ("fail", {"api": "Produce", "error": "NONE"}, "error code 'NONE' is not known"),
        ("fail", {"api": "Produce", "error": "zzz"}, "known; use the names of Kafka's codes$"),
        ("fail", {"api": "Produce", "error": "not_coord"}, "did you mean NOT_COORDINATOR or"),
        ("fail", {"api": "Produce", "error": 16}, "16 is a number; give its name, NOT_COORDINATOR"),
        ("fail", {"api": "Produce", "error": 999}, "999 is a number; give its name, for example"),
        ("fail", {"api": "zzz", "error": "NONE"}, "known; use Kafka's names, for example EndTxn$"),
        ("fail", {"api": 26, "error": "NONE"}, "API 26 is not a name; give a name, for example"),
        ("fail", {"api": "Produce", "error": "UNKNOWN_SERVER_ERROR", "times": 0}, "at least 1"),
        ("fail", {"api": "DescribeLogDirs", "error": "NONE"}, "DESCRIBE_LOG_DIRS cannot fail"),
        ("fail", {"api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER", "topi": 1}, "topi"),
        ("fail", {"api": "Produce"}, "error"),
        ("hold", {"api": "EndTxn", "topic": "a"}, "requests of END_TXN name no topic"),
        ("hold", {"api": "JoinGroup", "topic": "a"}, "requests of JOIN_GROUP name no topic"),
        ("kill_at", {"point": "after-prepar"}, "did you mean after-prepare"),
        ("delay_fsync", {"ms": -1}, "below 0"),
        ("fill_disk", {"patterns": ["("]}, r"pattern '\('"),
        ("advance", {"ms": -5}, "cannot go back by 5 ms"),
        ("release", {"id": 1_000_000}, "fault 1000000 is over"),
        ("wait", {"id": 1_000_000, "timeout_ms": 1}, "fault 1000000 is over"),
    ],
)
def test_an_invalid_command_is_refused_by_name(
    faults: Faults, command: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(FaultRefused, match=message):
        faults.ask(command, **arguments)


@pytest.mark.parametrize("line", [b"\n", b"no json\n", b"[]\n", b'{"command": ["fail"]}\n'])
def test_a_line_that_is_no_command_gets_an_error_and_harms_nothing(
    broker: Oncelog, faults: Faults, line: bytes
) -> None:
    from oncelog_server.operating_system.socket_path import socket_path

    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(10)
        with socket_path(broker.data, FAULTS_SOCKET) as path:
            control.connect(path)
        control.sendall(line)
        assert b'"error"' in control.makefile("rb").readline()
    faults.clear()


def test_only_a_broker_that_allows_faults_has_a_socket_and_only_while_it_runs(
    tmp_path: Path,
) -> None:
    with Oncelog(tmp_path / "plain", QUICK) as plain:
        assert not (plain.data / FAULTS_SOCKET).exists()
        with pytest.raises(OSError):  # noqa: PT011 - the system's error
            Faults(plain.data).clear()
    with Oncelog(tmp_path / "faulty", QUICK, arguments=["--allow-faults"]) as faulty:
        assert (faulty.data / FAULTS_SOCKET).is_socket()
        assert stat.S_IMODE((faulty.data / FAULTS_SOCKET).stat().st_mode) == 0o600
        faulty.kill()
        faulty.start()  # the socket of the killed process is replaced
        Faults(faulty.data).clear()
    assert not (faulty.data / FAULTS_SOCKET).exists()


def test_a_stop_releases_held_requests(tmp_path: Path) -> None:
    with Oncelog(tmp_path, QUICK, arguments=["--allow-faults"]) as broker:
        held = Faults(broker.data).hold("Metadata")
        with Wire(broker.address) as wire:
            wire.send(MetadataRequest(), 12)
            held.wait()
            assert broker.stop() == 0


@pytest.fixture
def restarting(tmp_path: Path) -> Iterator[tuple[Oncelog, Faults]]:
    with Oncelog(tmp_path, QUICK, arguments=["--allow-faults"]) as broker:
        with Wire(broker.address) as wire:
            create(wire, "a")
        yield broker, Faults(broker.data)


def test_the_end_of_a_fault_of_a_killed_process_ends_no_fault_of_the_next(
    restarting: tuple[Oncelog, Faults],
) -> None:
    broker, faults = restarting
    begin: list[Callable[[], Fault]] = [
        lambda: faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=None),
        lambda: faults.hold("EndTxn"),
        lambda: faults.kill_at("after-data"),
        lambda: faults.disk_full("a-"),
        lambda: faults.delay_fsync(1),
    ]
    earlier = [make() for make in begin]
    broker.kill()
    broker.start()
    later = [make() for make in begin]
    for fault in earlier:
        fault.end()
    assert faults.pending() == 2
    with Wire(broker.address) as wire:
        assert written(wire, "a") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        later[0].end()
        assert written(wire, "a") is ErrorCode.KAFKA_STORAGE_ERROR
        later[3].end()
        with pytest.raises((Closed, ConnectionResetError)):
            written(wire, "a")
    assert broker.wait_for_death() == -9


def test_faults_of_a_killed_process_count_as_met_or_unmet(
    restarting: tuple[Oncelog, Faults],
) -> None:
    broker, faults = restarting
    with (
        faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", client_id="wire"),
        faults.fail("EndTxn", "NOT_COORDINATOR"),
        faults.hold("Fetch"),
        faults.kill_at("after-data"),
    ):
        with Wire(broker.address) as wire:
            assert written(wire, "a") is ErrorCode.NOT_LEADER_OR_FOLLOWER
            with pytest.raises((Closed, ConnectionResetError)):
                written(wire, "a")
        assert broker.wait_for_death() == -9
        broker.start()
    assert sorted(faults.unmet) == ["fail('EndTxn')", "hold('Fetch')"]
    faults.clear()
    assert len(faults.unmet) == 2


def test_a_fail_point_that_a_later_one_replaces_counts_as_unmet(
    restarting: tuple[Oncelog, Faults],
) -> None:
    broker, faults = restarting
    faults.kill_at("before-data:2")
    faults.kill_at("after-data")
    with Wire(broker.address) as wire, pytest.raises((Closed, ConnectionResetError)):
        written(wire, "a")
    assert broker.wait_for_death() == -9
    broker.start()
    faults.clear()
    assert faults.unmet == ["kill_at('before-data:2')"]
