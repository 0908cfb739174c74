"""Links to another broker over the security protocol of the inter-broker listener, as one broker
makes them to itself."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from oncelog_protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from oncelog_protocol.security import scram_client
from oncelog_protocol.security.scram_credential import ScramMechanism, salted_password
from oncelog_server.broker import Broker
from oncelog_server.cluster.scram_changes import ScramUpsertion
from oncelog_server.config import load_settings
from oncelog_server.environment import OsEnvironment
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.links.link_security import LinkSecurity
from tests.harness.certificates import Certificates

DEADLINE_S = 60
SALT = b"salt of the links"
JAAS = (
    'org.apache.kafka.common.security.{module} required username="broker" '
    'password="{password}" user_broker="links";'
)
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}


@asynccontextmanager
async def links_to_itself(
    folder: Path, protocol: str, mechanism: str = "PLAIN", password: str = "links", *more: str
) -> AsyncIterator[BrokerLinks]:
    """Yield links from a broker to itself, through its only listener."""
    certificates = Certificates(folder)
    jaas = JAAS.format(module=MODULES[mechanism], password=password)
    settings = load_settings(
        data=str(folder / "data"),
        assignments=[
            f"listeners={protocol}://127.0.0.1:0",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={certificates.server.pem_path}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={certificates.authority_path}",
            *([f"sasl.enabled.mechanisms={mechanism}"] if "SASL" in protocol else []),
            f"sasl.mechanism.inter.broker.protocol={mechanism}",
            f"listener.name.{protocol.lower()}.{mechanism.lower()}.sasl.jaas.config={jaas}",
            *more,
        ],
    ).settings
    broker = Broker(settings, OsEnvironment(settings.data_directory))
    await broker.start()
    links = BrokerLinks(lambda: broker.metadata.image, protocol, "test", broker.security.of_links())
    if mechanism != "PLAIN":
        salted = salted_password(ScramMechanism.SCRAM_SHA_512, "links", SALT, 4096)
        upsertion = ScramUpsertion("broker", ScramMechanism.SCRAM_SHA_512, 4096, SALT, salted)
        await broker.metadata.users.alter_scram_credentials([], [upsertion])
    try:
        yield links
    finally:
        links.close()
        await broker.stop()


async def response(links: BrokerLinks, request: object, version: int) -> Any:
    """Send a request and return its response, None if the link broke."""
    link = links.to(1)
    assert link is not None
    got: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    link.send(request, version, got.set_result)
    async with asyncio.timeout(DEADLINE_S):
        return await got


@pytest.mark.parametrize("mechanism", list(MODULES))
@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def test_markers_reach_a_broker_over_its_secured_listener(
    tmp_path: Path, protocol: str, mechanism: str
) -> None:
    async with links_to_itself(tmp_path, protocol, mechanism) as links:
        for _ in range(3):
            assert await response(links, WriteTxnMarkersRequest(markers=[]), 1) is not None


async def test_pbkdf2_of_a_link_runs_on_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def recorded(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        threads.append(threading.current_thread())
        return salted_password(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram_client, "salted_password", recorded)
    scram_client._salted.cache_clear()
    async with links_to_itself(tmp_path, "SASL_PLAINTEXT", "SCRAM-SHA-512") as links:
        assert await response(links, WriteTxnMarkersRequest(markers=[]), 1) is not None
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_a_refused_link_loses_its_requests_and_logs_the_reason(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as events:
        async with links_to_itself(tmp_path, "SASL_SSL", "PLAIN", "hunter2") as links:
            assert await response(links, WriteTxnMarkersRequest(markers=[]), 1) is None
    (event,) = (event for event in events if event["event"] == "no link to broker")
    assert "Invalid username or password" in event["reason"]
    assert "hunter" not in str(events)


async def test_a_link_whose_session_ends_soon_connects_again_without_a_loss(
    tmp_path: Path,
) -> None:
    lifetime = "listener.name.sasl_plaintext.connections.max.reauth.ms=1500"
    async with links_to_itself(tmp_path, "SASL_PLAINTEXT", "PLAIN", "links", lifetime) as links:
        link = links.to(1)
        assert link is not None
        connections: set[object] = set()
        async with asyncio.timeout(DEADLINE_S):
            while len(connections) < 3:
                assert await response(links, WriteTxnMarkersRequest(markers=[]), 1) is not None
                connections.add(link._transport)


async def test_a_link_without_credentials_names_the_setting(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as events:
        mechanism = "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256"
        async with links_to_itself(
            tmp_path, "SASL_PLAINTEXT", "PLAIN", "links", mechanism
        ) as links:
            assert await response(links, WriteTxnMarkersRequest(markers=[]), 1) is None
    (event,) = (event for event in events if event["event"] == "no link to broker")
    assert "has the user and the password of the links" in event["reason"]


async def test_a_failure_is_logged_once_and_again_after_a_response(tmp_path: Path) -> None:
    """The reason is in plain words, even if the other broker refuses the certificate of the link
    after this end of the handshake (TLS 1.3)."""
    (tmp_path / "foreign").mkdir()
    required = "listener.name.ssl.ssl.client.auth=required"
    request = WriteTxnMarkersRequest(markers=[])
    with structlog.testing.capture_logs() as events:
        async with links_to_itself(tmp_path, "SSL", "PLAIN", "links", required) as links:
            link, security = links.to(1), links._security
            assert link is not None
            assert security is not None
            context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
            context.load_cert_chain(Certificates(tmp_path / "foreign").server.pem_path)
            for _ in range(2):
                link._security = lambda: LinkSecurity(context, None)
                for _ in range(5):
                    assert await response(links, request, 1) is None
                link._security = security
                assert await response(links, request, 1) is not None
                assert link._transport is not None
                link._transport.abort()
    reasons = [event["reason"] for event in events if event["event"] == "no link to broker"]
    assert reasons == ["the peer does not trust the authority of our certificate"] * 2
