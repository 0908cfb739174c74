"""The driver's round trips for a micro-batch, and the effects of broken connections. A proxy before
the broker records the requests."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator

import pyarrow
import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.proxy.fates import DEADLINE_S, Drop, Fate, Link
from oncelog.testing.proxy.frame import Direction, Frame
from oncelog.testing.proxy.proxy import Proxy
from oncelog_client.spark.background import background
from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink import driver, task_writer
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent, TaskMessage
from oncelog_client.spark.sink.protocol.sink_options import sink_options
from oncelog_protocol.apis import ApiKey
from tests.harness.broker import Oncelog
from tests.spark.topics import Topics

TASKS = 8
# More turns than the event loop of the driver or of the proxy takes to send and record a request.
TURNS = 50


class Late(Fate):
    """Hold requests back, in order, until the driver only waits. By then the driver has sent all
    requests that it sends without waiting for a response, even on a slow computer."""

    is_overtaken = True

    def __init__(self) -> None:
        super().__init__()
        self._in_turn: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def meet(self, frame: Frame, link: Link) -> None:
        async with self._in_turn[frame.connection]:
            for _ in range(TURNS):
                await asyncio.to_thread(background().run, asyncio.sleep(0), DEADLINE_S)
            await link.forward(frame.data)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Oncelog]]:
    with Proxy() as proxy:
        settings = {**QUICK, "advertised.listeners": f"PLAINTEXT://{proxy.address}"}
        with Oncelog(tmp_path_factory.mktemp("proxied"), settings) as broker:
            proxy.target = broker.address
            yield proxy, broker


class Micro:
    """Batches of one query. This process plans and commits them."""

    def __init__(self, proxy: Proxy, name: str, **more: str) -> None:
        self.proxy = proxy
        given = {"kafka.bootstrap.servers": proxy.address, "sinkId": name, "topic": name}
        self.options = sink_options(Options({**given, **more}), streaming=True)
        self.intent = Intent(name, CommitKind.GROUP, query_id="q")

    def batch(self, batch_id: int) -> list[list[ApiKey]]:
        """Run a batch. Return the driver's requests, grouped by round."""
        begun = len(self.proxy.frames)
        plan = driver.plan(self.options, self.intent)
        planned = rounds(self.proxy.frames[begun:])
        rows = pyarrow.RecordBatch.from_pylist([{"value": "v"}])
        messages: list[TaskMessage | None] = [
            task_writer.write(plan, self.options, Attempt(number, "q", batch_id), iter([rows]))
            for number in range(TASKS)
        ]
        begun = len(self.proxy.frames)
        assert driver.commit(self.options, messages, batch_id, None)
        return planned + rounds(self.proxy.frames[begun:])


def rounds(frames: list[Frame]) -> list[list[ApiKey]]:
    """Split requests into rounds. A request that is sent after a response may depend on that
    response, so it begins the next round."""
    found: list[list[ApiKey]] = []
    answered = True
    for frame in frames:
        if frame.direction is Direction.RESPONSE:
            answered = True
            continue
        if answered:
            found.append([])
            answered = False
        found[-1].append(frame.api)
    return [sorted(round_) for round_ in found]


def test_at_steady_state_a_batch_of_many_tasks_takes_five_round_trips_of_the_driver(
    proxied: tuple[Proxy, Oncelog], name: str
) -> None:
    proxy, broker = proxied
    Topics(broker.address).create(name)
    micro = Micro(proxy, name)
    for batch_id in range(2):
        micro.batch(batch_id)
    late = Late()
    proxy.always(lambda frame: late if frame.direction is Direction.REQUEST else None)
    look = sorted([ApiKey.OFFSET_FETCH, ApiKey.LIST_TRANSACTIONS])
    staged = sorted([ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT])
    renewed, ended = [ApiKey.INIT_PRODUCER_ID], [ApiKey.END_TXN]
    found = micro.batch(2)
    proxy.always(lambda frame: None)
    assert found == [look, renewed, look, staged, ended]


def test_at_steady_state_tasks_open_no_connection_and_request_no_metadata(
    proxied: tuple[Proxy, Oncelog], name: str
) -> None:
    proxy, broker = proxied
    Topics(broker.address).create(name)
    micro = Micro(proxy, name)
    for batch_id in range(2):
        micro.batch(batch_id)
    begun = len(proxy.frames)
    micro.batch(2)
    frames = [frame for frame in proxy.frames[begun:] if frame.direction is Direction.REQUEST]
    connections = {frame.connection for frame in proxy.frames[:begun]}
    assert {frame.connection for frame in frames} <= connections
    asked = Counter(frame.api for frame in frames)
    # One further InitProducerId comes from the driver.
    assert asked[ApiKey.INIT_PRODUCER_ID] == TASKS + 1
    assert asked[ApiKey.PRODUCE] == TASKS
    assert not asked.keys() & {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS}


@pytest.mark.parametrize(
    ("api", "direction"),
    [
        (api, direction)
        for api in (
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
        )
        for direction in Direction
    ],
    ids=lambda value: value.name.lower(),
)
def test_a_connection_that_breaks_at_a_request_or_its_response_changes_nothing(
    proxied: tuple[Proxy, Oncelog], name: str, api: ApiKey, direction: Direction
) -> None:
    proxy, broker = proxied
    topics = Topics(broker.address)
    topics.create(name)
    micro = Micro(proxy, name)
    micro.batch(0)
    broken = Drop()
    proxy.on(api, broken, direction=direction)
    micro.batch(1)
    broken.wait()
    micro.batch(2)
    assert len(topics.values(name)) == 3 * TASKS


def test_a_decision_without_a_response_is_repeated_until_its_outcome_is_known(
    proxied: tuple[Proxy, Oncelog], name: str
) -> None:
    """The responses to the first two EndTxn requests are lost. The driver repeats the decision even
    after the client's timeouts. The request timeout is longer than the usual pauses of a
    computer."""
    proxy, broker = proxied
    topics = Topics(broker.address)
    topics.create(name)
    Micro(proxy, name).batch(0)
    patience = {"kafka.default.api.timeout.ms": "5000", "kafka.request.timeout.ms": "3000"}
    micro = Micro(proxy, name, **patience)
    micro.batch(1)
    silent = [Drop(cut=False), Drop(cut=False)]
    for nth, call in enumerate(silent, 1):
        proxy.on(ApiKey.END_TXN, call, direction=Direction.RESPONSE, nth=nth)
    micro.batch(2)
    assert all(call.there.is_set() for call in silent)
    assert len(topics.values(name)) == 3 * TASKS
