"""The store in an etcd with TLS, and with logins. Tokens end, and the store logs in again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from oncelog_protocol.tls.contexts import client_context
from oncelog_server.cluster.store import FinalFailure, Put
from oncelog_server.etcd.members import NewContext
from oncelog_server.etcd.store import EtcdStore
from tests.harness.certificates import Certificates, Identity
from tests.harness.etcd import ROOT, Etcd
from tests.server.etcd.stores import create, opened
from tests.server.metadata.collected import collect, watching
from tests.simulation.etcd.server import SimEtcd

PASSWORD = "secret"
TOKEN_TTL_S = 1
TTL_MS = 60_000
# A watch resumes within this time.
RESUMED_S = 20


class Secured:
    """An etcd with the user `root`, of one member."""

    def __init__(self, etcd: Etcd | SimEtcd) -> None:
        self._etcd = etcd

    @property
    def url(self) -> str:
        return f"http://{self._etcd.endpoints[0]}"

    async def end_tokens(self) -> None:
        if isinstance(self._etcd, SimEtcd):
            self._etcd.state.users.expire_tokens()
        else:
            # etcd looks for unused tokens each second.
            await asyncio.sleep(TOKEN_TTL_S + 1.5)

    async def restart(self) -> None:
        """Break all connections. A restart ends all tokens."""
        if isinstance(self._etcd, SimEtcd):
            self._etcd.state.users.expire_tokens()
            self._etcd.members[0].kill()
            await self._etcd.start()
        else:
            self._etcd.members[0].kill()
            await asyncio.to_thread(self._etcd.start, *self._etcd.members)


@pytest.fixture(scope="module")
def real_logins(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    options = [f"--auth-token-ttl={TOKEN_TTL_S}"]
    with Etcd(tmp_path_factory.mktemp("logins"), password=PASSWORD, options=options) as etcd:
        yield etcd


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.process)])
async def secured(request: pytest.FixtureRequest) -> AsyncIterator[Secured]:
    if request.param == "real":
        yield Secured(request.getfixturevalue("real_logins"))
        return
    simulated = SimEtcd(passwords={ROOT: PASSWORD})
    await simulated.start()
    yield Secured(simulated)
    simulated.close()


async def test_calls_log_in_again_after_the_end_of_the_token(secured: Secured) -> None:
    async with opened(secured.url, password=PASSWORD) as store:
        lease = await store.lease(TTL_MS)
        first = await store.txn((), [Put("a", b"1", lease.id)])
        await secured.end_tokens()
        # A transaction that a login refuses is not carried out, so its outcome is known.
        second = await store.txn((), [Put("a", b"2", lease.id)])
        assert second.revision == first.revision + 1
        assert await lease.keep_alive() == TTL_MS
        await lease.revoke()
        assert await store.get("a") is None


async def test_a_watch_that_resumes_logs_in_again(secured: Secured) -> None:
    """An idle broker only renews its lease, which needs no token. So the watch itself must find out
    that its token has ended."""
    prefix = "/resumed/"
    async with (
        opened(secured.url, prefix=prefix, password=PASSWORD) as store,
        opened(secured.url, prefix=prefix, password=PASSWORD) as writer,
    ):
        first = await create(store, "a", b"1")
        async with watching(store, "", first) as watch:
            await anext(watch)
            await secured.restart()
            second = await create(writer, "b", b"2")
            async with asyncio.timeout(RESUMED_S):
                assert (await anext(watch)).revision == second


async def test_a_watch_that_begins_with_an_ended_token_logs_in_again(secured: Secured) -> None:
    """etcd refuses such a watch in its stream, with status 200."""
    async with (
        opened(secured.url, prefix="/begun/", password=PASSWORD) as store,
        opened(secured.url, prefix="/begun/", password=PASSWORD) as writer,
    ):
        assert await store.get("a") is None
        await secured.end_tokens()
        first = await create(writer, "a", b"1")
        async with asyncio.timeout(RESUMED_S):
            (changes,) = await collect(store, "", first, 1)
        assert changes.revision == first


async def test_a_wrong_password_is_an_error(secured: Secured) -> None:
    async with opened(secured.url, password="other") as store:
        with pytest.raises(FinalFailure, match="authentication failed"):
            await store.get("a")
        with pytest.raises(OSError, match="authentication failed"):
            await store.txn((), [Put("a", b"")])
        with pytest.raises(OSError, match="authentication failed"):
            await store.lease(TTL_MS)


async def test_a_store_without_a_login_is_refused(secured: Secured) -> None:
    async with opened(secured.url) as store:
        with pytest.raises(FinalFailure, match="user name is empty"):
            await store.get("a")
        with pytest.raises(OSError, match="user name is empty"):
            await store.txn((), [Put("a", b"")])


# TLS. The simulated etcd has none.


@pytest.mark.process
async def test_a_store_works_over_tls(etcd_program: str, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    with Etcd(tmp_path / "etcd", certificates=certificates) as etcd:
        async with opened(*etcd.urls, context=trusting(certificates)) as store:
            await check_store(store)


@pytest.mark.process
async def test_both_sides_check_certificates(etcd_program: str, tmp_path: Path) -> None:
    """With logins, etcd's gateway refuses a certificate with a common name, because it would ignore
    this name of a user."""
    certificates = Certificates(tmp_path)
    nameless = certificates.identity("client.test", name="nameless")
    named = certificates.client("broker")
    with Etcd(
        tmp_path / "etcd", certificates=certificates, demands_certificates=True, password=PASSWORD
    ) as etcd:
        context = trusting(certificates, nameless)
        async with opened(*etcd.urls, context=context, password=PASSWORD) as store:
            await check_store(store)
        context = trusting(certificates, named)
        async with opened(*etcd.urls, context=context, password=PASSWORD) as store:
            with pytest.raises(FinalFailure, match="CommonName"):
                await store.get("a")
        elsewhere = tmp_path / "other"
        elsewhere.mkdir()
        untrusting = trusting(Certificates(elsewhere), nameless)
        async with (
            opened(*etcd.urls, context=trusting(certificates), password=PASSWORD) as without,
            opened(*etcd.urls, context=untrusting, password=PASSWORD) as store,
        ):
            refused, refusing = await asyncio.gather(
                without.get("a"), store.get("a"), return_exceptions=True
            )
            assert isinstance(refused, FinalFailure)
            assert isinstance(refusing, FinalFailure)
            assert "the certificate of the peer is not valid" in str(refusing)


def trusting(certificates: Certificates, identity: Identity | None = None) -> NewContext:
    context = client_context(certificates.client_settings(identity))
    return lambda: context


async def check_store(store: EtcdStore) -> None:
    lease = await store.lease(TTL_MS)
    first = await store.txn((), [Put("a", b"1", lease.id)])
    assert await lease.keep_alive() == TTL_MS
    await lease.revoke()
    seen = await collect(store, "", first.revision, 2)
    assert [event.entry is None for changes in seen for event in changes.events] == [False, True]


@pytest.mark.process
async def test_a_member_without_a_connection_is_logged_once(
    etcd_program: str, tmp_path: Path
) -> None:
    """Calls continue at the other members, so that nothing else shows it."""
    certificates = Certificates(tmp_path)
    (tmp_path / "other").mkdir()
    untrusting = trusting(Certificates(tmp_path / "other"))
    with (
        Etcd(tmp_path / "etcd", certificates=certificates) as etcd,
        structlog.testing.capture_logs() as events,
    ):
        async with opened(*etcd.urls, context=untrusting) as store:
            with pytest.raises(OSError, match="unable to get local issuer certificate"):
                await store.get("a")
    (event,) = events
    assert event["event"] == "no connection to a member of etcd"
    assert event["member"] == etcd.urls[0]
    assert "unable to get local issuer certificate" in event["reason"]
