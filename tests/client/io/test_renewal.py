"""A connection authenticates again before its session ends, between its requests (KIP-368)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from oncelog_client.config import admin_config
from oncelog_client.core.client_config import AdminConfig
from oncelog_client.errors import AuthenticationError, DisconnectedError, TimedOutError
from oncelog_client.io.connection import Connection
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.produce import ProduceRequest
from tests.client.scripted_broker import ADDRESS, DROP, ScriptedBroker, messages, simulated

LIFETIME_MS = 10_000
CANARY = "S3cret!"
SASL = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class _SaslBroker(ScriptedBroker):
    """A broker with PLAIN. It accepts the first `accepted` authentications, and responds to
    authentications after that with `then`."""

    def __init__(self, *, accepted: int = 1_000, then: Any = None) -> None:
        super().__init__(self._authentication)
        self.accepted = accepted
        self.then = then
        self.tokens: list[bytes] = []
        self._last_s = 0.0

    def _response_time(self, transport: Any, time_s: float) -> float:
        self._last_s = max(time_s, self._last_s + 1e-6)
        return self._last_s

    def _authentication(self, api: ApiKey, request: Any) -> Any:
        if api is ApiKey.SASL_HANDSHAKE:
            return messages(api).SaslHandshakeResponse(mechanisms=["PLAIN"])
        if api is not ApiKey.SASL_AUTHENTICATE:
            return None
        self.tokens.append(request.auth_bytes)
        if len(self.tokens) > self.accepted:
            return self.then
        return messages(api).SaslAuthenticateResponse(session_lifetime_ms=LIFETIME_MS)

    @property
    def order(self) -> list[ApiKey]:
        return [api for _, api, _ in self.requests]

    @property
    def times(self) -> list[float]:
        """The times (s) of the authentications."""
        return [time for time, api, _ in self.requests if api is ApiKey.SASL_AUTHENTICATE]


def _refusal() -> Any:
    return messages(ApiKey.SASL_AUTHENTICATE).SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed"
    )


def _note(answered: list[int], number: int, _: object) -> None:
    answered.append(number)


def _config(**settings: Any) -> AdminConfig:
    security = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "u",
        "sasl_password": CANARY,
    }
    return admin_config("broker:9092", security | settings)  # type: ignore[arg-type]


def test_a_connection_authenticates_behind_api_versions() -> None:
    broker = _SaslBroker()

    async def scenario() -> None:
        connection = await Connection.open(ADDRESS, _config())
        await connection.start(MetadataRequest())
        connection.close()

    simulated(broker, scenario)
    assert broker.order == [ApiKey.API_VERSIONS, *SASL, ApiKey.METADATA]
    assert broker.tokens == [f"\0u\0{CANARY}".encode()]


def test_a_busy_connection_renews_its_session_at_85_to_95_percent_of_it() -> None:
    broker = _SaslBroker()

    async def scenario() -> None:
        connection = await Connection.open(ADDRESS, _config())
        for _ in range(1_000):
            await connection.start(MetadataRequest())
            await asyncio.sleep(0.1)  # simulated time
        connection.close()

    simulated(broker, scenario)
    pauses = [after - before for before, after in zip(broker.times, broker.times[1:], strict=False)]
    assert len(pauses) >= 10
    assert all(8.5 <= pause <= 9.8 for pause in pauses)
    assert len({round(pause, 2) for pause in pauses}) > 1


def test_requests_keep_their_order_and_none_is_sent_while_the_connection_authenticates() -> None:
    """The requests of a pipeline before, during and after an authentication get their own
    responses."""
    broker = _SaslBroker()
    answered: list[int] = []

    async def scenario() -> None:
        connection = await Connection.open(ADDRESS, _config())
        await asyncio.sleep(9.6)  # simulated time
        for number in range(5):
            waiting = connection.start(MetadataRequest(topics=None))
            waiting.add_done_callback(partial(_note, answered, number))
            # A request without a response keeps its place too.
            connection.start_unanswered(ProduceRequest(acks=0))
            assert not connection.writable
            assert connection.busy
        await waiting
        assert connection.writable
        assert not connection.busy
        connection.close()

    simulated(broker, scenario)
    assert answered == [0, 1, 2, 3, 4]
    assert broker.order[4:] == [*SASL[1:], *[ApiKey.METADATA, ApiKey.PRODUCE] * 5]


def test_a_request_in_flight_gets_its_response_during_an_authentication() -> None:
    broker = _SaslBroker()

    async def scenario() -> None:
        connection = await Connection.open(ADDRESS, _config())
        await asyncio.sleep(8.4)  # simulated time
        early = [connection.start(MetadataRequest()) for _ in range(3)]
        connection._renew_at_ms = 0
        late = connection.start(MetadataRequest())
        await asyncio.gather(*early, late)
        connection.close()

    simulated(broker, scenario)
    assert broker.order[3:] == [ApiKey.METADATA] * 3 + [*SASL, ApiKey.METADATA]


def test_an_idle_connection_authenticates_only_before_its_next_request() -> None:
    broker = _SaslBroker()

    async def scenario() -> None:
        connection = await Connection.open(ADDRESS, _config())
        await asyncio.sleep(100)  # simulated time
        assert len(broker.tokens) == 1
        await connection.start(MetadataRequest())
        connection.close()

    simulated(broker, scenario)
    assert broker.order[3:] == [*SASL, ApiKey.METADATA]


@pytest.mark.parametrize(
    ("then", "kind"), [(_refusal(), AuthenticationError), (DROP, TimedOutError)]
)
def test_a_failed_renewal_ends_the_connection_and_fails_the_held_requests(
    then: Any, kind: type[Exception]
) -> None:
    broker = _SaslBroker(accepted=1, then=then)

    async def scenario() -> None:
        connection = await Connection.open(ADDRESS, _config())
        await asyncio.sleep(9.6)  # simulated time
        held = [connection.start(MetadataRequest()) for _ in range(2)]
        for waiting in held:
            with pytest.raises(kind) as caught:
                await waiting
            assert CANARY not in str(caught.value)
        assert connection.closed
        with pytest.raises(DisconnectedError):
            connection.start(MetadataRequest())

    simulated(broker, scenario)
    assert ApiKey.METADATA not in broker.order


def test_a_refused_authentication_has_the_brokers_code_and_message() -> None:
    broker = _SaslBroker(accepted=0, then=_refusal())

    async def scenario() -> None:
        with pytest.raises(AuthenticationError, match="Authentication failed") as caught:
            await Connection.open(ADDRESS, _config())
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert [failure.address for failure in caught.value.failures] == [ADDRESS]
        assert CANARY not in str(caught.value) + repr(caught.value)

    simulated(broker, scenario)


def test_without_sasl_nothing_of_it_is_sent() -> None:
    broker = _SaslBroker()

    async def scenario() -> None:
        connection = await Connection.open(ADDRESS, admin_config("broker:9092"))
        await connection.start(MetadataRequest())
        connection.close()

    simulated(broker, scenario)
    assert broker.order == [ApiKey.API_VERSIONS, ApiKey.METADATA]
