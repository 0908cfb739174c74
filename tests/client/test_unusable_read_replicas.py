"""A leader that names a read replica which the consumer cannot use (KIP-392). The tests run in
simulated time."""

from __future__ import annotations

from typing import Any

from oncelog_client import Consumer, TopicPartition
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.client.scripted_broker import ADDRESS, TOPIC, ScriptedBroker, messages, simulated

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)
FOLLOWER = 5
FETCH, METADATA = ApiKey.FETCH, ApiKey.METADATA
FETCH_VERSION, METADATA_VERSION = 12, 12
SECONDS = 10
# An address that refuses each connect.
DOWN = ("down", 9092)


class Leader(ScriptedBroker):
    """A leader that names FOLLOWER in each response to a Fetch, if `named` is True. The metadata
    have FOLLOWER at `address`, if `known` is True."""

    def __init__(self, *, known: bool, address: tuple[str, int] = ADDRESS) -> None:
        super().__init__(self._respond)
        self.named = True
        self.known = known
        self._address = address

    def _respond(self, api: ApiKey, request: Any) -> Any:
        if api is METADATA:
            response = self.respond(api, METADATA_VERSION, request)
            if self.known:
                response.brokers.append(
                    messages(api).MetadataResponseBroker(FOLLOWER, *self._address)
                )
            return response
        return self.fetched(request) if api is FETCH else None

    def fetched(self, request: Any, code: int = ErrorCode.NONE) -> Any:
        response = self.respond(FETCH, FETCH_VERSION, request, code)
        if self.named and not code:
            for row in response.responses[0].partitions:
                row.preferred_read_replica, row.records = FOLLOWER, b""
        return response


async def _read() -> list[bytes | None]:
    async with Consumer(SERVER, client_rack="r", auto_offset_reset="earliest") as consumer:
        await consumer.assign([PLACE])
        return [record.value for record in await consumer.poll(SECONDS * 1_000)]


def test_an_unknown_replica_causes_a_request_of_metadata_and_a_growing_pause() -> None:
    """A former defect: the consumer sent 2,000 fetches a second, and requested no metadata."""
    broker = Leader(known=False)
    assert simulated(broker, _read) == []
    # retry.backoff.ms is 100, retry.backoff.max.ms is 1,000.
    assert SECONDS <= broker.counts[FETCH] <= SECONDS + 8
    # Two requests belong to the start and to `assign`.
    assert SECONDS - 2 <= broker.counts[METADATA] <= SECONDS + 10


def test_a_replica_is_read_as_soon_as_the_metadata_have_it() -> None:
    broker = Leader(known=False)
    broker.records = bytes(build_batch([NewRecord(1, b"k", b"v")], base_offset=0))
    redirects: list[bool] = []

    def script(api: ApiKey, request: Any) -> Any:
        if api is METADATA and redirects:
            broker.known = True
        elif api is FETCH:
            # The Fetch after a redirect to a known follower is that to the follower.
            broker.named = not (redirects and redirects[-1])
            redirects.append(broker.known)
        return broker._respond(api, request)

    broker.script = script
    assert simulated(broker, _read)[:1] == [b"v"]
    times_s = [at_s for at_s, api, _ in broker.requests if api is FETCH]
    # Metadata are requested at most every 100 ms, and the first pause is 80 to 120 ms long.
    usable = redirects.index(True)
    assert usable in (1, 2)
    assert 0.07 < times_s[usable] - times_s[0] < 0.4
    assert times_s[usable + 1] - times_s[usable] < 0.01


def test_a_replica_that_fails_each_time_is_read_with_a_growing_pause() -> None:
    """A former defect: the leader's next response counted as a success and ended the pauses, so
    the consumer went back and forth 1,000 times a second."""
    broker = Leader(known=True)

    def script(api: ApiKey, request: Any) -> Any:
        if api is FETCH and not broker.counts[FETCH] % 2:
            return broker.fetched(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return broker._respond(api, request)

    broker.script = script
    assert simulated(broker, _read) == []
    assert 2 * SECONDS <= broker.counts[FETCH] <= 2 * SECONDS + 16


def test_the_leader_is_read_after_a_failed_connect_to_the_replica() -> None:
    """A former defect: the consumer waited for a connection to the follower until
    metadata.max.age.ms had passed, while the leader named the follower no more."""
    broker = Leader(known=True, address=DOWN)
    broker.records = bytes(build_batch([NewRecord(1, b"k", b"v")], base_offset=0))

    def script(api: ApiKey, request: Any) -> Any:
        broker.named = broker.counts[FETCH] < 2
        return broker._respond(api, request)

    broker.script = script
    assert simulated(broker, _read)[:1] == [b"v"]
    first_s, second_s = [at_s for at_s, api, _ in broker.requests if api is FETCH][:2]
    assert second_s - first_s < 0.01
    assert broker.attempts.count(DOWN) == 1


def test_a_replica_that_refuses_each_connect_is_tried_with_a_growing_pause() -> None:
    broker = Leader(known=True, address=DOWN)
    assert simulated(broker, _read) == []
    assert SECONDS <= broker.counts[FETCH] <= SECONDS + 10
    assert SECONDS - 2 <= broker.attempts.count(DOWN) <= SECONDS + 10
