"""A whole broker with Kafka's authorizer, on a simulated computer. It serves requests of any
principal and host."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from types import GeneratorType
from typing import Any, Final, TypeVar

from oncelog_protocol.apis import APIS, api_of
from oncelog_protocol.codecs import decode, encode, encoder
from oncelog_protocol.messages import (
    add_partitions_to_txn,
    find_coordinator,
    init_producer_id,
    offset_commit,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.config import load_settings
from oncelog_server.deferred import Deferred
from oncelog_server.handlers import all_handlers
from oncelog_server.log.results import FileRange
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.requests.session import Session
from oncelog_server.security.acls import WILDCARD, Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import Principal
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.server.handlers.rights.case import GROUP, OPEN_ID, TOPIC, Right
from tests.simulation.lone_node import LoneNode
from tests.simulation.loop import SimLoop
from tests.simulation.net import SimNet
from tests.simulation.process import Process

T = TypeVar("T")

SUPER_USER: Final = "root"
HOST: Final = "10.0.0.1"
TRANSACTION_TIMEOUT_MS: Final = 900_000
SETTINGS: Final = (
    "listeners=PLAINTEXT://broker:9092",
    f"authorizer.class.name={STANDARD_AUTHORIZER}",
    f"super.users=User:{SUPER_USER};User:ANONYMOUS",
    "group.transactions.enable=true",
    "transaction.two.phase.commit.enable=true",
    "transaction.state.log.num.partitions=1",
    "offsets.topic.num.partitions=1",
)
HANDLERS: Final = {handler.API: handler for handler in all_handlers()}


class RightsBroker:
    """The broker. After `prepare` it has the topic, the group and the open transaction of
    `case.py`."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        loop.network = SimNet(loop, Random(0))
        settings = load_settings(assignments=SETTINGS).settings
        self.node = LoneNode(loop, Random(0), settings, lambda name: Process(name, 1))

    @property
    def services(self) -> BrokerServices:
        return self.node.broker.services

    def start(self) -> None:
        self._loop.run_until_complete(self.node.start())

    def prepare(self) -> None:
        """Create the topic, the group and the open transaction."""
        self.run(self.services.metadata.create_topics([NewTopic(TOPIC)]))
        for key_type, key in ((0, GROUP), (1, OPEN_ID)):
            self.ask(
                SUPER_USER,
                find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]),
                5,
            )
        self.commit_an_offset()
        began = self.ask(
            SUPER_USER,
            init_producer_id.InitProducerIdRequest(OPEN_ID, TRANSACTION_TIMEOUT_MS),
            5,
        )
        self.ask(
            SUPER_USER,
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=OPEN_ID,
                v3_and_below_producer_id=began.producer_id,
                v3_and_below_producer_epoch=began.producer_epoch,
                v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])],
            ),
            3,
        )

    def commit_an_offset(self) -> None:
        """Commit an offset of the group, so that the group exists."""
        partitions = [offset_commit.OffsetCommitRequestPartition(0, 0)]
        topics = [offset_commit.OffsetCommitRequestTopic(TOPIC, partitions=partitions)]
        request = offset_commit.OffsetCommitRequest(GROUP, topics=topics)
        self.ask(SUPER_USER, request, 8)

    def allow(self, rules: Iterable[tuple[Pattern, Acl]]) -> None:
        self.run(self.services.metadata.users.create_acls(list(rules)))

    def remove(self, rules: Iterable[tuple[Pattern, Acl]]) -> None:
        """Remove rules that `allow` has added."""
        self.run(self.services.metadata.users.delete_acls([list(rules)]))

    def allow_user(self, user: str, *rights: Right) -> None:
        """Add rules that give the user these rights, from any host."""
        self.allow(
            (
                Pattern(right.resource.type, right.resource.name, PatternType.LITERAL),
                Acl(f"User:{user}", WILDCARD, right.operation, Permission.ALLOW),
            )
            for right in rights
        )

    @property
    def topic_id(self) -> bytes:
        return self.services.metadata.image.topics[TOPIC].id

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the broker's process."""
        results: list[T] = []

        async def ran() -> None:
            results.append(await work)

        process = self.node.process
        assert process is not None
        self._loop.run_until_complete(process.run(ran()))
        return results[0]

    def ask(self, user: str, request: Any, version: int, host: str = HOST) -> Any:
        """Return the response as the client gets it, encoded in `version`; None if there is no
        response."""
        session = Session(Principal("User", user), host, "PLAINTEXT", lambda: False)
        return self.ask_in(session, request, version)

    def ask_in(self, session: Session, request: Any, version: int) -> Any:
        """Return the response as the client of this session gets it."""
        return self.run(self._ask(session, request, version))

    async def _ask(self, session: Session, request: Any, version: int) -> Any:
        services, api = self.services, api_of(type(request))
        context = RequestContext(session, services.authorizer, api.key, version, 1, "client")
        arrived = decode(api.request, version, bytearray(encode(request, version)))
        response = HANDLERS[api.key].handle(services, context, arrived)
        while isinstance(response, (GeneratorType, Deferred)):
            if isinstance(response, GeneratorType):
                response = services.slices.run(response)
                continue
            response = await _completed(response)
        if response is None:
            return None
        parts: list[Any] = []
        message: type[Any] = APIS[api.key].response
        encoder(message, version)(response, parts.append)
        return decode(message, version, b"".join(map(_bytes, parts)))


def _bytes(part: Any) -> bytes:
    """Return the bytes of a part. The records of a Fetch may be a range of a file."""
    return part.read() if isinstance(part, FileRange) else bytes(part)


async def _completed(response: Deferred[Any]) -> Any:
    ready = asyncio.Event()
    response.on_complete(lambda value: ready.set())
    await ready.wait()
    return response.value


@contextmanager
def rights_broker(*, prepared: bool = True) -> Iterator[RightsBroker]:
    """Start a broker, and end its process at the end of the context. A broker that is not
    `prepared` has no topics."""
    loop = SimLoop(0)
    asyncio.set_event_loop(loop)
    try:
        broker = RightsBroker(loop)
        broker.start()
        if prepared:
            broker.prepare()
        yield broker
        assert broker.node.process is not None
        broker.node.process.bury()
    finally:
        asyncio.set_event_loop(None)
        loop.close()
