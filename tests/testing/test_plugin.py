"""The pytest plugin in suites of applications: fixtures, markers, options and reports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

INNER_SUITE = Path(__file__).with_name("inner_suite.py")
CONFIGURATION = "[pytest]\nasyncio_mode = auto\n"


def run(folder: Path, suite: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a suite in a pytest of its own, as an application does."""
    (folder / "pytest.ini").write_text(CONFIGURATION)
    (folder / "test_suite.py").write_text(suite)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", *arguments, "test_suite.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def outcomes(output: str) -> dict[str, int]:
    """Return the number of tests with each outcome, from pytest's last line."""
    last = output.strip().splitlines()[-1]
    return {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", last)}


def test_a_suite_of_an_application_passes(tmp_path: Path) -> None:
    done = run(tmp_path, INNER_SUITE.read_text())
    assert outcomes(done.stdout) == {"passed": 8}, done.stdout


# Each test leaves the broker of its worker in a file.
OF_WORKERS = """
import pathlib, pytest

@pytest.mark.parametrize("number", range(8))
def test_leaves_its_broker(oncelog, worker_id, number):
    topic = oncelog.topic("invoices")
    topic.produce(b"a")
    assert topic.committed() == [b"a"]
    pathlib.Path(__file__).with_name(f"{number}.txt").write_text(
        f"{worker_id} {oncelog.bootstrap_servers}"
    )
"""


def test_with_xdist_each_worker_has_a_broker(tmp_path: Path) -> None:
    done = run(tmp_path, OF_WORKERS, "-n", "4")
    assert outcomes(done.stdout) == {"passed": 8}, done.stdout
    pairs = {path.read_text() for path in tmp_path.rglob("?.txt")}
    workers, addresses = zip(*(pair.split() for pair in pairs), strict=True)
    assert sorted(workers) == ["gw0", "gw1", "gw2", "gw3"]
    assert len(set(addresses)) == 4


LEAVING = """
def test_hangs(oncelog):
    oncelog.hang(oncelog.id("billing"), oncelog.topic("invoices"))

def test_next(oncelog):
    assert oncelog.open_transactions() == []
"""


def test_an_open_transaction_is_a_warning_or_with_strict_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, LEAVING)
    assert outcomes(done.stdout) == {"passed": 2, "warning": 1}, done.stdout
    assert "the test has left: transaction of billing-" in done.stdout
    strict = run(tmp_path, LEAVING, "--oncelog-strict")
    assert outcomes(strict.stdout) == {"passed": 2, "error": 1}, strict.stdout


FIXED = """
def test_an_id_of_the_application(oncelog):
    topic = oncelog.topic("invoices")
    oncelog.hang("billing-of-the-application", topic)
    assert oncelog.open_transactions() == ["billing-of-the-application"]

def test_next(oncelog):
    assert oncelog.open_transactions() == []
"""


def test_open_transactions_of_fixed_ids_are_found_and_ended(tmp_path: Path) -> None:
    done = run(tmp_path, FIXED)
    assert outcomes(done.stdout) == {"passed": 2, "warning": 1}, done.stdout
    assert "transaction of billing-of-the-application is open" in done.stdout


MEMBER = """
from oncelog import Consumer

async def test_member(oncelog):
    topic, group = oncelog.topic("invoices"), oncelog.group("readers")
    topic.produce(b"1")
    async with Consumer(
        bootstrap_servers=oncelog.bootstrap_servers, group_id=group,
        auto_offset_reset="earliest",
    ) as consumer:
        await consumer.subscribe(topic.name)
        while not await consumer.poll(1000):
            pass
        assert oncelog.members() == ["oncelog"]
    assert oncelog.members() == []
"""


def test_members_of_the_groups_of_a_test_are_known(tmp_path: Path) -> None:
    done = run(tmp_path, MEMBER, "--oncelog-strict")
    assert outcomes(done.stdout) == {"passed": 1}, done.stdout


FAILING = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_fails(oncelog, number):
    topic = oncelog.topic("invoices")
    oncelog.hang(oncelog.id("billing"), topic)
    oncelog.clock.advance(minutes=15)
    while oncelog.open_transactions():
        pass
    oncelog.hang(oncelog.id("left"), topic)
    assert not number
"""


def test_a_failure_shows_open_transactions_and_the_log_of_this_test(tmp_path: Path) -> None:
    done = run(tmp_path, FAILING)
    assert outcomes(done.stdout) == {"failed": 2, "warnings": 2}, done.stdout
    assert done.stdout.count("log of oncelog 127.0.0.1:") == 2
    assert done.stdout.count('"event":"transaction aborted"') == 2
    assert len(re.findall(r"^left-[0-9a-f]{8}$", done.stdout, re.MULTILINE)) == 2


PAUSING = """
def test_fails(oncelog, oncelog_broker):
    oncelog_broker.pause()
    assert 0
"""


def test_the_report_of_a_test_that_has_paused_the_broker_says_what_is_not_known(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, PAUSING)
    assert outcomes(done.stdout) == {"failed": 1}, done.stdout
    assert "not known: TimeoutError" in done.stdout


BREAKING = """
def test_fails(oncelog):
    oncelog.faults.fail("ListTransactions", "CLUSTER_AUTHORIZATION_FAILED", times=None)
    assert 0

def test_next(oncelog):
    assert oncelog.topic("t").committed() == []
"""


def test_faults_of_the_plugins_own_requests_do_not_end_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, BREAKING)
    assert outcomes(done.stdout) == {"failed": 1, "passed": 1}, done.stdout
    assert "not known: KafkaError" in done.stdout or "not known: Authorization" in done.stdout
    assert '"event":"request refused by a test"' in done.stdout


LEAKING = """
import asyncio, threading
from oncelog import Consumer

class Application:
    def __init__(self, servers, topic, group):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.consumer = Consumer(bootstrap_servers=servers, group_id=group)
        self.run(self.join(topic))
    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)
    async def join(self, topic):
        await self.consumer.start()
        await self.consumer.subscribe(topic)
        while not self.consumer.assignment():
            await self.consumer.poll(100)

application = None

def test_leaks(oncelog):
    global application
    topic = oncelog.topic("t")
    application = Application(oncelog.bootstrap_servers, topic.name, oncelog.group("g"))

def test_is_innocent(oncelog):
    assert oncelog.members() == []

def test_end():
    application.run(application.consumer.close())
"""


def test_what_a_test_leaves_is_charged_to_no_later_test(tmp_path: Path) -> None:
    done = run(tmp_path, LEAKING, "--oncelog-strict")
    assert outcomes(done.stdout) == {"passed": 3, "error": 1}, done.stdout
    assert done.stdout.count("is still in its group") >= 1


UNMET = """
def test_fail(oncelog):
    oncelog.faults.fail("EndTxn", "COORDINATOR_NOT_AVAILABLE")

def test_hold(oncelog):
    with oncelog.faults.hold("Produce", topic=oncelog.topic("t"), client_id="c"):
        pass

def test_kill(oncelog):
    with oncelog.faults.kill_at("after-prepare"):
        pass

def test_met(oncelog):
    oncelog.faults.fail("CreateTopics", "NOT_CONTROLLER")
    oncelog.topic("t")
"""


def test_a_fault_that_no_request_met_is_reported(tmp_path: Path) -> None:
    done = run(tmp_path, UNMET, "--oncelog-strict")
    assert outcomes(done.stdout) == {"passed": 4, "errors": 3}, done.stdout
    for fault in ("fail('EndTxn')", "hold('Produce', 't-", "kill_at('after-prepare')"):
        assert f"no request met the fault {fault}" in done.stdout


KILLED = """
import pytest

def test_unmet_at_a_kill(oncelog, oncelog_broker):
    oncelog.faults.fail("EndTxn", "NOT_COORDINATOR")
    oncelog_broker.kill()

def test_unmet_at_a_restart(oncelog, oncelog_broker):
    with oncelog.faults.kill_at("after-prepare"):
        oncelog_broker.restart()

def test_met(oncelog, oncelog_broker):
    topic = oncelog.topic("t")
    with oncelog.faults.kill_at("after-data"):
        with pytest.raises(Exception, match="was killed"):
            topic.produce(b"1", timeout_s=2)
        assert oncelog_broker.wait_for_death() == -9
        oncelog_broker.restart()

def test_met_by_the_last_process(oncelog, oncelog_broker):
    oncelog.faults.kill_at("after-data")
    topic = oncelog.topic("t")
    with pytest.raises(Exception, match="was killed"):
        topic.produce(b"1", timeout_s=2)

@pytest.mark.oncelog(fresh=True)
def test_met_and_closed(oncelog, oncelog_test_broker):
    with oncelog.faults.fail("CreateTopics", "NOT_CONTROLLER"):
        oncelog.topic("t")
        oncelog_test_broker.close()
"""


def test_a_fault_of_a_killed_broker_is_reported_only_if_nothing_met_it(tmp_path: Path) -> None:
    done = run(tmp_path, KILLED, "--oncelog-strict")
    assert outcomes(done.stdout) == {"passed": 5, "errors": 2}, done.stdout
    for fault in ("fail('EndTxn')", "kill_at('after-prepare')"):
        assert f"no request met the fault {fault}" in done.stdout


MARKED = """
import pytest

@pytest.mark.oncelog(setting={"num.partitions": 3})
def test_misspelt(oncelog): ...

@pytest.mark.oncelog({"num.partitions": 3})
def test_positional(oncelog): ...
"""


def test_a_marker_with_other_arguments_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, MARKED)
    assert outcomes(done.stdout) == {"errors": 2}, done.stdout
    assert done.stdout.count("the marker oncelog takes settings= and fresh=") >= 2


@pytest.mark.parametrize(
    ("address", "said"),
    [("localhost", "is not HOST:PORT"), ("127.0.0.1:1", "Connection refused")],
)
def test_an_address_without_a_broker_ends_the_run_with_a_sentence(
    tmp_path: Path, address: str, said: str
) -> None:
    suite = "def test_one(oncelog): ...\ndef test_two(oncelog): ..."
    done = run(tmp_path, suite, "--oncelog-broker", address)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--oncelog-broker {address}" in (output := done.stdout + done.stderr).replace("'", "")
    assert said in output
    assert "Traceback" not in output


KILLING = """
def test_kills(oncelog, oncelog_broker):
    oncelog_broker.kill()

def test_pauses(oncelog, oncelog_broker):
    oncelog.topic("t").produce(b"x")
    oncelog_broker.pause()

def test_leaves_faults(oncelog):
    oncelog.faults.disk_full()
    oncelog.faults.fail("CreateTopics", "NOT_CONTROLLER", times=None)
    oncelog.faults.hold("Metadata")

def test_next(oncelog):
    oncelog.topic("t").produce(b"x")
"""


def test_the_next_test_gets_a_whole_broker(tmp_path: Path) -> None:
    done = run(tmp_path, KILLING)
    assert outcomes(done.stdout) == {"passed": 4, "warning": 1}, done.stdout


FACTORY = """
def test_two_brokers(oncelog_broker_factory):
    one = oncelog_broker_factory()
    other = oncelog_broker_factory(settings={"num.partitions": 7})
    assert one.port != other.port
    (tmp := one.directory).exists()
    globals()["directory"] = tmp

def test_they_are_gone():
    assert not directory.exists()
"""


def test_a_factory_starts_brokers_that_end_with_the_test(tmp_path: Path) -> None:
    done = run(tmp_path, FACTORY)
    assert outcomes(done.stdout) == {"passed": 2}, done.stdout


UNUSED = """
import sys

def test_unused():
    roots = ("oncelog_server", "oncelog_client.", "oncelog.testing.broker", "uvloop")
    assert not [name for name in sys.modules if name.startswith(roots)]
"""


def test_a_run_without_the_fixtures_imports_no_broker_and_no_client(tmp_path: Path) -> None:
    done = run(tmp_path, UNUSED)
    assert outcomes(done.stdout) == {"passed": 1}, done.stdout


@pytest.mark.parametrize("option", ["--oncelog-broker", "--oncelog-strict", "oncelog(settings="])
def test_the_help_names_options_and_marker(tmp_path: Path, option: str) -> None:
    page = "--markers" if option.startswith("oncelog(") else "--help"
    assert option in run(tmp_path, "", page).stdout
