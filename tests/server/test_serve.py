"""`oncelog serve` as a process: it prints one line at the start, locks its data directory, and
stops cleanly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.testing.ports import reserve_port
from oncelog.testing.wire import Wire
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_server.serve import ENDED_BY_FORCE
from tests.harness.broker import Oncelog
from tests.harness.driving import create
from tests.harness.waiting import wait_until
from tests.harness.watch import seconds_to_end

pytestmark = pytest.mark.usefixtures("own_interpreter")

CLEAN_STOP_S = 2.0
# Time of each sync of a slow disk. A clean stop waits for a sync, so only a second signal ends the
# process soon.
SLOW_DISK_MS = 600_000
CLEAN_MARK = ".kafka_cleanshutdown"


class WithListeners(Oncelog):
    """A broker with `listeners` in its settings. It is started without --port, which `listeners`
    excludes."""

    def command(self) -> list[str]:
        command = super().command()
        place = command.index("--port")
        return command[:place] + command[place + 2 :]


@pytest.fixture
def broker(tmp_path: Path) -> Oncelog:
    return Oncelog(tmp_path)


def start_refused(broker: Oncelog) -> tuple[int, str]:
    """Return the exit code and output of a process that must not start."""
    process = broker.spawn()
    code = process.wait(60)
    return code, broker.said()


def test_only_the_owner_may_read_the_files_of_a_broker(broker: Oncelog) -> None:
    before = os.umask(0o022)
    try:
        with broker:
            with Wire(broker.address) as wire:
                create(wire, "orders")
            assert (broker.data / "orders-0").is_dir()
            paths = [broker.data, *broker.data.rglob("*")]
            modes = {str(path): path.stat().st_mode & 0o077 for path in paths}
            broker.stop()
    finally:
        os.umask(before)
    paths = [broker.data, *broker.data.rglob("*")]
    modes |= {str(path): path.stat().st_mode & 0o077 for path in paths}
    assert not any(modes.values()), modes


def test_one_line_has_address_data_directory_and_version(broker: Oncelog) -> None:
    with broker:
        lines = broker.output.read_text().splitlines()
        with Wire(broker.address) as wire:
            (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
        advertised = "" if node.host == "localhost" else f"; advertised as {node.host}:{node.port}"
        assert lines == [
            f"oncelog {broker.version} listening on localhost:{broker.port}"
            f" (every address, without authentication{advertised}), data in {broker.data}"
        ]


def test_a_start_creates_its_topics_and_prints_the_lines_that_kafka_logs(tmp_path: Path) -> None:
    """The topics exist before the lines are printed. A later start leaves them as they are."""
    settings = {"oncelog.create.topics": "a:3,b:1:1:compact", "oncelog.kafka.log.lines": "true"}
    broker = Oncelog(tmp_path, settings)
    for _ in range(2):
        with broker:
            lines = broker.output.read_text().splitlines()
            with Wire(broker.address) as wire:
                topics = wire.call(MetadataRequest(topics=None), 12).topics
        assert {topic.name: len(topic.partitions) for topic in topics} == {"a": 3, "b": 1}
        assert "Transitioning from RECOVERY to RUNNING" in lines[1]
        assert "Kafka Server started" in lines[2]
        assert "[KafkaServer id=1] started" in lines[3]


def test_a_topic_that_cannot_be_created_stops_the_start(tmp_path: Path) -> None:
    broker = Oncelog(tmp_path, {"oncelog.create.topics": "a:1:3"})
    code, said = start_refused(broker)
    assert code == 1
    assert "oncelog cannot start: oncelog.create.topics: a: INVALID_REPLICATION_FACTOR" in said


def test_a_second_process_on_the_same_data_is_refused(broker: Oncelog, tmp_path: Path) -> None:
    with broker:
        second = Oncelog(tmp_path)
        second.output, second.log = tmp_path / "second.out", tmp_path / "second.err"
        code, said = start_refused(second)
        assert code == 1
        assert "another process uses the data directory" in said
        assert f"(pid {broker.pid})" in said
        assert str(broker.data) in said
        with Wire(broker.address) as wire:
            assert wire.call(ApiVersionsRequest(), 2).error_code == 0


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "empty"])
def test_a_start_on_a_used_port_leaves_no_data_behind(
    broker: Oncelog, tmp_path: Path, is_there: bool
) -> None:
    with broker:
        other = tmp_path / "other"
        if is_there:
            other.mkdir()
        command = [sys.executable, "-m", "oncelog_server", "serve", "--port", str(broker.port)]
        done = subprocess.run([*command, "--data", str(other)], capture_output=True, text=True)
        assert done.returncode == 1
        assert str(broker.port) in done.stderr
        assert other.exists() == is_there
        assert not is_there or not list(other.iterdir())


def test_a_defect_is_in_the_log_with_the_place_where_it_happened(tmp_path: Path) -> None:
    program = (
        "import oncelog_server.serve as serve\n"
        "def defect(*_): raise RuntimeError('out of cheese')\n"
        "serve._run = defect\n"
        f"serve.serve(['--port', '0', '--data', {str(tmp_path / 'data')!r}])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    (event,) = map(json.loads, ended.stderr.splitlines())
    assert event["event"] == "broker failed"
    assert "out of cheese" in event["exception"]
    assert "in defect" in event["exception"]


def test_sigterm_leaves_the_mark_of_a_clean_stop_in_under_two_seconds(broker: Oncelog) -> None:
    assert _seconds_to_stop(broker) < CLEAN_STOP_S
    assert (broker.data / CLEAN_MARK).exists()
    broker.start()
    assert not (broker.data / CLEAN_MARK).exists(), (
        "a running broker removes the mark of a clean stop"
    )
    broker.kill()
    assert not (broker.data / CLEAN_MARK).exists()


def _seconds_to_stop(broker: Oncelog) -> float:
    """Return the time of a stop with a connected client."""
    broker.start()
    with Wire(broker.address):
        took_s = seconds_to_end(broker._running(), signal.SIGTERM)
        assert broker.stop() == 0
        return took_s


BUSY_LOOP = """
import asyncio, time, uvloop
from oncelog_server.serve import _stop_on_signals

async def main():
    _stop_on_signals(asyncio.Event())
    print("busy", flush=True)
    while True:
        time.sleep(0.001)

{run}(main())
"""


@pytest.mark.parametrize("run", ["asyncio.run", "uvloop.run"])
def test_a_second_sigterm_ends_a_start_whose_loop_is_busy(run: str) -> None:
    """A start after a crash reads the logs, and the event loop does not turn meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY_LOOP.format(run=run)], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"busy\n"

        def is_ended() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        wait_until(is_ended, "the second signal ends the process")
        assert process.returncode == ENDED_BY_FORCE
    finally:
        process.kill()
        process.communicate()


def test_a_second_sigterm_ends_at_once(tmp_path: Path) -> None:
    """A slow disk delays the clean stop after the first signal. The second signal ends the process
    without waiting."""
    environment = {"ONCELOG_SYNC_DELAY_MS": str(SLOW_DISK_MS)}
    broker = Oncelog(tmp_path, environment=environment, arguments=["--allow-faults"])
    broker.start()
    process = broker._running()

    def is_ended() -> bool:
        # The system may merge signals that arrive together, so the test may have to send another.
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    try:
        with Wire(broker.address) as wire:
            wire.call(_create("quiet"), 7)
        process.send_signal(signal.SIGTERM)
        wait_until(
            lambda: not _accepts(broker), "the broker stops listening after the first signal"
        )
        wait_until(is_ended, "the second signal ends the process")
        assert process.poll() == ENDED_BY_FORCE
    finally:
        broker.kill()
    assert not (broker.data / CLEAN_MARK).exists()


def _accepts(broker: Oncelog) -> bool:
    try:
        broker.connect().close()
    except ConnectionError:
        return False
    return True


def test_the_log_is_json_lines_without_a_terminal(broker: Oncelog) -> None:
    with broker:
        pass
    events = [json.loads(line) for line in broker.log.read_text().splitlines()]
    assert [event["event"] for event in events] == ["broker started", "broker stopped"]


def test_nothing_is_logged_for_a_request(broker: Oncelog) -> None:
    with broker:
        before = broker.log.read_text()
        with Wire(broker.address) as wire:
            for _ in range(20):
                wire.call(MetadataRequest())
        assert broker.log.read_text() == before


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("num.partition", "3", "did you mean num.partitions?"),
        ("num.partitions", "none", "num.partitions=none"),
        ("log.segment.bytes", "5", "log.segment.bytes=5"),
        ("listeners", "SSL://:9093", "ssl.keystore.location"),
    ],
)
def test_a_bad_setting_is_named_with_its_value(
    tmp_path: Path, name: str, value: str, complaint: str
) -> None:
    code, said = start_refused(WithListeners(tmp_path, {name: value}))
    assert code == 2
    assert complaint in said
    assert "Traceback" not in said


def test_a_port_and_listeners_are_refused_together(tmp_path: Path) -> None:
    code, said = start_refused(Oncelog(tmp_path, {"listeners": "PLAINTEXT://:0"}))
    assert code == 2
    assert "listeners=PLAINTEXT://:0 (--set)" in said
    assert "--port 0" in said


def test_a_port_in_use_is_named_with_advice(broker: Oncelog) -> None:
    with socket.create_server((broker.host, 0)) as other:
        broker.port = other.getsockname()[1]
        code, said = start_refused(broker)
    assert code == 1
    assert f"port {broker.port} is in use by " in said
    assert f"(pid {os.getpid()}): stop it, or --port 0 picks a free one" in said


@pytest.mark.parametrize("attempt", range(5))
def test_of_two_brokers_that_start_on_one_port_at_once_one_fails_with_an_error(
    tmp_path: Path, attempt: int
) -> None:
    """Both may bind the port as long as neither listens (`network/binding.py`)."""
    brokers = [Oncelog(tmp_path / str(number)) for number in range(2)]
    port = reserve_port(brokers[0])
    for broker in brokers:
        broker.port = port
    processes = [broker.spawn() for broker in brokers]
    wait_until(lambda: any(process.poll() is not None for process in processes), "a refused start")
    first_ended = 0 if processes[0].poll() is not None else 1
    refused, winner = brokers[first_ended], brokers[1 - first_ended]
    try:
        assert processes[first_ended].returncode == 1
        assert f"port {port} is in use" in refused.said()
        assert "listening on" not in refused.said()
        wait_until(lambda: "listening on" in winner.said(), "the other broker's start line")
        with Wire(f"127.0.0.1:{port}") as wire:
            assert wire.call(ApiVersionsRequest(), 2).error_code == 0
    finally:
        winner.kill()


@pytest.mark.parametrize(
    ("listener", "complaint"),
    [
        ("PLAINTEXT://nosuchhost.invalid:0", "no such host: nosuchhost.invalid"),
        ("PLAINTEXT://192.0.2.7:0", "this machine has no address 192.0.2.7"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_named(
    tmp_path: Path, listener: str, complaint: str
) -> None:
    code, said = start_refused(WithListeners(tmp_path, {"listeners": listener}))
    assert code == 1
    assert f"oncelog cannot start: listeners=PLAINTEXT: {complaint}" in said
    assert "Traceback" not in said


def test_a_loopback_address_is_not_shown_as_open_to_every_address(tmp_path: Path) -> None:
    with WithListeners(tmp_path, {"listeners": "PLAINTEXT://127.0.0.1:0"}) as broker:
        line = broker.output.read_text()
        assert line.startswith(f"oncelog {broker.version} listening on 127.0.0.1:{broker.port}, ")


def test_the_address_that_clients_get_is_in_the_first_line(tmp_path: Path) -> None:
    """A client that cannot resolve the advertised address fails after its first response."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT://kafka.example:9094",
    }
    with WithListeners(tmp_path, settings) as broker:
        line = broker.output.read_text()
        shown = f"listening on 127.0.0.1:{broker.port} (advertised as kafka.example:9094), data in"
        assert shown in line


@pytest.mark.parametrize(
    ("hello", "named"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", "an HTTP request"),
        (bytes.fromhex("160301020001000001fc0303"), "a TLS handshake"),
    ],
)
def test_another_protocol_on_the_port_is_named_in_the_log(
    broker: Oncelog, hello: bytes, named: str
) -> None:
    with broker:
        with broker.connect() as client:
            client.sendall(hello)
            assert client.recv(1) == b""
        reason = f"{named} on a listener for Kafka's protocol without TLS"
        wait_until(lambda: reason in broker.log.read_text(), "a line in the log")


def test_the_metrics_port_cannot_be_that_of_a_listener(tmp_path: Path) -> None:
    broker = Oncelog(tmp_path, {"oncelog.metrics.port": "19092"})
    broker.port = 19092
    code, said = start_refused(broker)
    assert code == 2
    assert "oncelog.metrics.port=19092" in said
    assert "listener PLAINTEXT" in said


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xef\xbb\xbfnum.partitions=3\n")
    with (
        Oncelog(tmp_path, arguments=("--config", str(file))) as broker,
        Wire(broker.address) as wire,
    ):
        wire.call(_create("made"), 7)
        (topic,) = wire.call(MetadataRequest(topics=None)).topics
        assert len(topic.partitions) == 3


def test_a_data_directory_that_cannot_be_made_is_named(broker: Oncelog) -> None:
    broker.data = broker.directory / "file" / "data"
    (broker.directory / "file").touch()
    code, said = start_refused(broker)
    assert code == 1
    assert f"the data directory {broker.data} cannot be created" in said
    assert "Traceback" not in said


def test_settings_come_from_environment_variables_of_kafka_and_of_oncelog(tmp_path: Path) -> None:
    broker = Oncelog(
        tmp_path,
        environment={"KAFKA_NUM_PARTITIONS": "4", "ONCELOG_AUTO_CREATE_TOPICS_ENABLE": "true"},
    )
    with broker, Wire(broker.address) as wire:
        wire.call(_create("made"), 7)
        (topic,) = wire.call(MetadataRequest(topics=None)).topics
        assert (topic.name, len(topic.partitions)) == ("made", 4)


def _create(name: str) -> object:
    from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def test_clients_of_a_listener_get_its_own_advertised_address(tmp_path: Path) -> None:
    """Each of the two listeners has an advertised address of its own."""
    broker = WithListeners(
        tmp_path,
        {
            "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
            "advertised.listeners": "INSIDE://inside.example:1111,OUTSIDE://outside.example:2222",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        },
    )
    with broker, Wire(broker.address) as wire:
        node = wire.call(MetadataRequest()).brokers[0]
        assert (node.host, node.port) == ("inside.example", 1111)


def test_help_describes_serve() -> None:
    command = Oncelog(Path("unused")).command()[:4]
    said = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    for option in ("--port", "--data", "--config", "--set"):
        assert option in said
