"""A client in a script that names the broker of each request."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from oncelog_client.core.client_config import ClientConfig
from oncelog_client.errors import KafkaError
from oncelog_client.io.connection import Connection
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.simulation.cluster.member_node import host_of
from tests.simulation.cluster.stage import PATIENCE_S, Stage

R = TypeVar("R")

# Error codes of a request without an effect. `ask` repeats it.
RETRIED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
PAUSE_S: Final = 0.02
TIMEOUT_MS: Final = 60_000


# A producer id and an epoch.
Identity = tuple[int, int]
NO_IDENTITY: Final[Identity] = -1, -1


class RawClient:
    """A client with one connection to each broker. `client_id`: the name by default."""

    def __init__(self, stage: Stage, name: str, client_id: str | None = None) -> None:
        self._stage = stage
        self._process = stage.new_process(name)
        self._client_id = client_id or name
        self._connections: dict[int, Connection] = {}
        # The codes of the responses that `ask` did not return.
        self.retried: list[ErrorCode] = []

    async def call(self, broker_id: int, request: object, response: type[R], newest: int) -> R:
        """Send a request, and return the response. Raises KafkaError."""
        found: list[R] = []

        async def send() -> None:
            connection = await self._connection(broker_id)
            found.append(await connection.call(request, response, versions=range(newest + 1)))

        await self._process.run(send())
        return found[0]

    async def _connection(self, broker_id: int) -> Connection:
        found = self._connections.get(broker_id)
        if found is None or found.closed:
            address = host_of(broker_id), 9092
            config = ClientConfig(
                bootstrap_servers=(address,),
                client_id=self._client_id,
                request_timeout_ms=800,
                socket_connection_setup_timeout_ms=500,
            )
            found = self._connections[broker_id] = await Connection.open(address, config)
        return found

    async def ask(self, log: str, request: object, response: type[R], newest: int) -> R:
        """Send a request to the leader of a log, and repeat it until the response is final. A
        request without a response is repeated too. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    broker_id = self._stage.leader_of(log)
                    answer = await self.call(broker_id, request, response, newest)
                except KafkaError:
                    await asyncio.sleep(PAUSE_S)
                    continue
                code = ErrorCode(answer.error_code)  # type: ignore[attr-defined]
                if code not in RETRIED:
                    return answer
                self.retried.append(code)
                await asyncio.sleep(PAUSE_S)

    async def initialize(self, transactional_id: str, present: Identity = NO_IDENTITY) -> Identity:
        """Initialize a transactional id: as a new instance, or for the next epoch of the present
        producer (KIP-360). Raises AssertionError if the coordinator refuses."""
        request = InitProducerIdRequest(transactional_id, TIMEOUT_MS, *present)
        log = self._stage.transaction_log(transactional_id)
        response = await self.ask(log, request, InitProducerIdResponse, 5)
        assert not response.error_code, ErrorCode(response.error_code)
        return response.producer_id, response.producer_epoch

    async def end(self) -> None:
        await self._process.run(self._close())
        self._process.die()

    async def _close(self) -> None:
        for connection in self._connections.values():
            connection.close()
