"""The pytest plugin: the fixtures `oncelog`, `oncelog_broker` and their kin.

pytest imports this module in every run, so it imports the broker and the client at their first use.
"""

from __future__ import annotations

import contextlib
import socket
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

if TYPE_CHECKING:
    from oncelog.testing.broker import Broker
    from oncelog.testing.client_thread import ClientThread
    from oncelog.testing.namespace import Namespace

BrokerFactory: TypeAlias = "Callable[..., Broker]"

MARKER: Final = (
    "oncelog(settings={}, fresh=False): the test gets a broker of its own, with these settings or,"
    " with `fresh`, with the default settings"
)
_ARGUMENTS: Final = frozenset({"settings", "fresh"})
_SKIPPED: Final = pytest.StashKey[bool]()
# The brokers of a test, each with the size of its log before the test.
_LOGS: Final = pytest.StashKey[list[tuple["Broker", int]]]()
_NAMESPACE: Final = pytest.StashKey["Namespace"]()
# The broker of the session, while it exists.
_SESSION_BROKER: Final = pytest.StashKey["Broker"]()
_LOG_LINES: Final = 40
_REPORT_TIMEOUT_S: Final = 5.0
_CONNECT_TIMEOUT_S: Final = 5.0


class LeftoverWarning(UserWarning):
    """A test has left an open transaction, a member in a group, or a fault that no request met."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("oncelog", "a broker for the tests")
    group.addoption(
        "--oncelog-broker",
        metavar="HOST:PORT",
        help="Run the tests against this broker, oncelog or Apache Kafka. Tests with faults skip.",
    )
    group.addoption(
        "--oncelog-strict",
        action="store_true",
        help="Fail a test that leaves an open transaction, a member in a group, or an unmet fault.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    address: str | None = config.getoption("--oncelog-broker")
    if address is not None and not _is_address(address):
        raise pytest.UsageError(f"--oncelog-broker {address!r} is not HOST:PORT")


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isascii() and port.isdecimal() and int(port) < 65536


@pytest.fixture(scope="session")
def _oncelog_address(request: pytest.FixtureRequest) -> str | None:
    """Return the address of `--oncelog-broker`, or None without the option. Ends the run if nothing
    listens there."""
    address: str | None = request.config.getoption("--oncelog-broker")
    if address is not None:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S).close()
        except OSError as error:
            pytest.exit(f"--oncelog-broker {address}: {error}", pytest.ExitCode.USAGE_ERROR)
    return address


@pytest.fixture(scope="session")
def oncelog_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The broker of the session, for fixtures of every scope. With xdist, each worker has one.

    Do not stop it for good: the tests share it. After each test its faults end, and a killed broker
    is started again. A test with the marker `oncelog` takes `oncelog_test_broker`.
    """
    if request.config.getoption("--oncelog-broker"):
        pytest.skip("the broker of --oncelog-broker cannot be killed or restarted")
    from oncelog.testing.broker import Broker

    with Broker() as broker:
        request.config.stash[_SESSION_BROKER] = broker
        try:
            yield broker
        finally:
            del request.config.stash[_SESSION_BROKER]


@pytest.fixture
def oncelog_test_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The broker of this test: the broker of the session, or the test's own with the marker
    `oncelog`. After the test its faults end, and a killed broker is started again."""
    broker = _broker_of(request)
    yield broker
    _report(request.node, _make_whole(broker))


@pytest.fixture(scope="session")
def _oncelog_clients() -> Iterator[Callable[[str, Broker | None], ClientThread]]:
    """Return the client of each broker's address, which the tests share."""
    from oncelog.testing.client_thread import ClientThread

    threads: dict[str, ClientThread] = {}

    with contextlib.ExitStack() as closing:  # closes each, also after a failure

        def of(address: str, broker: Broker | None) -> ClientThread:
            if address not in threads:
                threads[address] = ClientThread(address, broker)
                closing.callback(threads[address].close)
            return threads[address]

        yield of


@pytest.fixture
def oncelog_broker_factory(request: pytest.FixtureRequest) -> Iterator[BrokerFactory]:
    """Return a function that starts a broker for this test: `factory(settings={...})`, with the
    arguments of `oncelog.testing.Broker`. The brokers end with the test."""
    if request.config.getoption("--oncelog-broker"):
        pytest.skip("the tests of --oncelog-broker start no brokers")
    from oncelog.testing.broker import Broker

    with contextlib.ExitStack() as closing:  # closes each, also after a failure

        def start(settings: Mapping[str, object] | None = None, **arguments: str) -> Broker:
            broker = Broker(settings, **arguments)
            closing.callback(broker.close)
            broker.start()
            request.node.stash.setdefault(_LOGS, []).append((broker, 0))
            return broker

        yield start


@pytest.fixture
def oncelog(
    request: pytest.FixtureRequest,
    _oncelog_address: str | None,
    _oncelog_clients: Callable[[str, Broker | None], ClientThread],
) -> Iterator[Namespace]:
    """Topics, transactional ids and groups of this test, on the broker of the session or of the
    marker `oncelog`. All of them are deleted after the test."""
    from oncelog.testing.client_thread import ClientThread
    from oncelog.testing.namespace import Namespace

    own = _has_own_broker(request.node)
    broker: Broker | None = None
    if own or _oncelog_address is None:
        broker = request.getfixturevalue("oncelog_test_broker")
    address = _oncelog_address if broker is None else broker.bootstrap_servers
    assert address is not None
    with contextlib.ExitStack() as closing:
        if own:
            thread = closing.enter_context(contextlib.closing(ClientThread(address, broker)))
        else:
            thread = _oncelog_clients(address, broker)
        namespace = request.node.stash[_NAMESPACE] = Namespace(thread, broker)
        closing.callback(namespace.close)
        yield namespace
        left = [] if broker is None else _make_whole(broker)
        left += namespace.leftovers()
    _report(request.node, left)


def _report(item: pytest.Item, left: list[str]) -> None:
    """Warn of what a test has left, or fail with `--oncelog-strict`."""
    if left and not item.stash.get(_SKIPPED, False):
        sentence = "the test has left: " + "; ".join(left)
        if item.config.getoption("--oncelog-strict"):
            pytest.fail(sentence)
        warnings.warn(LeftoverWarning(sentence), stacklevel=1)


def _broker_of(request: pytest.FixtureRequest) -> Broker:
    """Return the broker for this test, which runs and has no faults."""
    if _has_own_broker(request.node):
        factory: BrokerFactory = request.getfixturevalue("oncelog_broker_factory")
        return factory(request.node.get_closest_marker("oncelog").kwargs.get("settings"))
    broker: Broker = request.getfixturevalue("oncelog_broker")
    _note_log(request.node, broker)
    return broker


def _note_log(item: pytest.Item, broker: Broker) -> None:
    """Note where the log of this test begins, for the report of a failure."""
    logs = item.stash.setdefault(_LOGS, [])
    if broker not in [noted for noted, _ in logs]:
        size = broker.log.stat().st_size if broker.log.exists() else 0
        logs.append((broker, size))


def _has_own_broker(item: pytest.Item) -> bool:
    """Return True if the marker of the test asks for a broker of its own."""
    marker = item.get_closest_marker("oncelog")
    if marker is None:
        return False
    unknown = sorted(set(marker.kwargs) - _ARGUMENTS)
    if marker.args or unknown:
        pytest.fail(f"the marker oncelog takes settings= and fresh=, not {marker.args or unknown}")
    return bool(marker.kwargs.get("settings") or marker.kwargs.get("fresh"))


def _arguments(item: pytest.Item) -> tuple[str, ...]:
    """Return the names of the fixtures that the function of a test takes itself."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _make_whole(broker: Broker) -> list[str]:
    """End the faults of a test. Start the broker again if the test has killed it or has advanced
    its clock. Return a sentence for each fault that was not met."""
    if broker.is_running:
        broker.resume()
        try:
            broker.faults.clear()
        except OSError:  # the broker has died meanwhile, or it hangs
            broker.kill()
    if not broker.is_running or broker.clock.is_ahead:
        broker.restart()
    unmet, broker.faults.unmet = broker.faults.unmet, []
    return [f"no request met the fault {each}" for each in unmet]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Repair the broker of the session after each test, also if a fixture failed to end.
    A test may have it from a fixture with a wider scope."""
    left: list[str] = []
    with _skips_without_faults(item):
        try:
            yield
        finally:
            broker = item.config.stash.get(_SESSION_BROKER, None)
            if broker is not None:
                left = _make_whole(broker)
    _report(item, left)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the open transactions and the broker's log of this test to the report of a failure."""
    report = yield
    if report.failed and call.when == "call":
        report.sections += _sections(item)
    return report


def _sections(item: pytest.Item) -> list[tuple[str, str]]:
    """Return the sections about the brokers of a test, each with its title."""
    sections = []
    logs = item.stash.get(_LOGS, [])
    namespace = item.stash.get(_NAMESPACE, None)
    if namespace is not None and (namespace.broker is None or namespace.broker.is_running):
        sections.append(("open transactions of this test", _opened(namespace)))
    for broker, size in logs:
        title = f"log of oncelog {broker.bootstrap_servers} in this test"
        sections.append((title, _logged(broker, size)))
    return sections


def _logged(broker: Broker, size: int) -> str:
    """Return the end of what a broker has logged after the first `size` bytes."""
    try:
        with broker.log.open("rb") as file:
            file.seek(size)
            lines = file.read().decode(errors="replace").splitlines()[-_LOG_LINES:]
    except OSError as error:  # the test has closed its broker, which deletes the log
        return f"not known: {error!r}"
    return "\n".join(lines) or "no entries"


def _opened(namespace: Namespace) -> str:
    try:
        return "\n".join(namespace.open_transactions(_REPORT_TIMEOUT_S)) or "none"
    except Exception as error:  # an exception in a hook would end the whole run
        return f"not known: {error!r}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Refuse the session's broker to a test with a broker of its own: the test would break the
    other one, and pass."""
    broker = item.config.stash.get(_SESSION_BROKER, None)
    if broker is not None and "oncelog_broker" in _arguments(item):
        if _has_own_broker(item):
            pytest.fail(
                "this test has a broker of its own, by the marker oncelog: oncelog_test_broker;"
                " oncelog_broker is the broker of all tests"
            )
        _note_log(item, broker)
    with _skips_without_faults(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test with a fixture that needs faults if the broker has none."""
    with _skips_without_faults(item):
        yield


@contextlib.contextmanager
def _skips_without_faults(item: pytest.Item) -> Iterator[None]:
    """Skip a test in the block that needs faults if the broker has none. Nothing happens if the
    test was skipped before."""
    try:
        yield
    except Exception as error:
        reason = _missing_faults(error)
        if reason is None:
            raise
        if not item.stash.get(_SKIPPED, False):
            item.stash[_SKIPPED] = True
            pytest.skip(reason)


def _missing_faults(error: Exception) -> str | None:
    """Return the message of a NoFaults, or of a group with no other exceptions (a TaskGroup, or the
    ends of several fixtures). Return None for any other exception."""
    if isinstance(error, ExceptionGroup):
        reasons = [_missing_faults(each) for each in error.exceptions]
        return None if None in reasons else reasons[0]
    kind = type(error)  # an import of NoFaults would import the client
    is_ours = kind.__name__ == "NoFaults" and kind.__module__.startswith("oncelog.")
    return str(error) if is_ours else None
