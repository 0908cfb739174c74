"""The steps of SCRAM that take milliseconds do not run on the event loop of the application."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from oncelog_client.config import admin_config
from oncelog_client.io.authentication import Login, authenticate_connection
from oncelog_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from oncelog_protocol.security import scram_client
from oncelog_protocol.security.scram_credential import (
    ScramMechanism,
    credential_of,
    salted_password,
)
from oncelog_server.security.sasl.scram import ScramExchange

SHA_512 = ScramMechanism.SCRAM_SHA_512
ADDRESS = ("localhost", 9092)
PASSWORD = "the password of this module alone"
CREDENTIAL = credential_of(
    SHA_512, b"salt", salted_password(SHA_512, PASSWORD, b"salt", 4096), 4096
)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Return the threads that have computed PBKDF2, without any that is known already."""
    computed: list[threading.Thread] = []

    def recorded(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        # Clients of other tests may run in this process.
        if password == PASSWORD:
            computed.append(threading.current_thread())
        return salted_password(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram_client, "salted_password", recorded)
    scram_client._salted.cache_clear()
    return computed


async def authenticate(login: Login) -> None:
    """Authenticate against the broker's side of SCRAM."""
    exchange = ScramExchange(SHA_512, lambda _: CREDENTIAL, bytes, b"secret")

    async def call(request: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=[request.mechanism])
        assert isinstance(request, SaslAuthenticateRequest)
        answer = exchange.evaluate(request.auth_bytes)
        return SaslAuthenticateResponse(auth_bytes=answer.token)

    await authenticate_connection(ADDRESS, login, call, (1, 2))


async def test_pbkdf2_runs_once_for_all_connections_and_on_another_thread(
    threads: list[threading.Thread],
) -> None:
    login = Login(
        admin_config(
            "localhost:9092",
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": SHA_512.sasl.value,
                "sasl_username": "alice",
                "sasl_password": PASSWORD,
            },
        )
    )
    await asyncio.gather(*(authenticate(login) for _ in range(5)))
    await authenticate(login)
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
