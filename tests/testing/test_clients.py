"""Each client sees faults as it would see them in production, and commits every record once.

`fail`: an error code that a client retries. `hold` with a lost response: the client does not know
the outcome and sends again. `kill_at`: the broker dies after the decision, before the response.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from oncelog.testing import Broker, Namespace, Topic
from oncelog.testing.client_thread import ClientThread
from tests.conformance.clients import Aiokafka, Client, Confluent, KafkaPython, Ours, Record

DEADLINE_S = 60.0

CLIENTS: list[Client] = [Confluent(), Aiokafka(), KafkaPython(), Ours()]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def namespace(broker: Broker) -> Iterator[Namespace]:
    """The names of this test, and a broker without faults after it."""
    thread = ClientThread(broker.bootstrap_servers)
    namespace = Namespace(thread, broker)
    yield namespace
    if not broker.is_running:
        broker.start()
    broker.faults.clear()
    namespace.close()
    thread.close()


@pytest.fixture(params=CLIENTS, ids=[client.name for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


def bill(client: Client, namespace: Namespace, topic: Topic, value: bytes) -> None:
    """Commit one record in one transaction."""
    producer = client.producer(
        namespace.bootstrap_servers, transactional_id=namespace.id(client.name)
    )
    try:
        producer.init_transactions()
        producer.begin()
        producer.send(topic.name, [Record(value)])
        producer.commit()
    finally:
        producer.close()


@pytest.fixture
def application(client: Client, namespace: Namespace) -> Iterator[Application]:
    with ThreadPoolExecutor(1) as threads:
        yield Application(client, namespace, threads)


class Application:
    """A client that commits one record in a thread of its own."""

    def __init__(self, client: Client, namespace: Namespace, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._namespace = namespace
        self._threads = threads

    def start(self, topic: Topic) -> Future[None]:
        return self._threads.submit(bill, self._client, self._namespace, topic, b"1")


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),
        ("EndTxn", "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_a_client_retries_after_an_error_code(
    client: Client, namespace: Namespace, api: str, error: str
) -> None:
    topic = namespace.topic("invoices")
    namespace.faults.fail(api, error, times=2)
    bill(client, namespace, topic, b"1")
    assert topic.committed(1) == [b"1"]
    # The second failure was used too, so the client has retried twice.
    assert namespace.faults.pending() == 0


@pytest.mark.parametrize("api", ["Produce", "EndTxn"])
def test_a_lost_response_doubles_no_record(
    application: Application, namespace: Namespace, api: str
) -> None:
    topic = namespace.topic("invoices")
    held = namespace.faults.hold(api)
    running = application.start(topic)
    held.wait()
    assert topic.committed() == []
    held.release(lost_response=True)
    running.result(DEADLINE_S)
    assert topic.committed(1) == [b"1"]
    assert topic.aborted() == []


def test_a_commit_survives_the_death_of_the_broker(
    application: Application, namespace: Namespace, broker: Broker
) -> None:
    topic = namespace.topic("invoices")
    namespace.faults.kill_at("after-prepare")
    running = application.start(topic)
    assert broker.wait_for_death() == -9
    broker.restart()
    running.result(DEADLINE_S)
    assert topic.committed(1) == [b"1"]
    assert topic.aborted() == []
