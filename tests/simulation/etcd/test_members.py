"""Members of etcd with logins, without space, without a leader, stopped and paused: the real ones
and the simulated ones behave the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.harness.etcd import ROOT, Etcd
from tests.harness.etcd_gateway import (
    ClosedByPeer,
    Document,
    GatewayConnection,
    connected,
    text,
)
from tests.simulation.etcd.server import SimEtcd
from tests.simulation.etcd.subject import NEEDS_LEADER, failure_of

PASSWORD = "secret"
KEY = {"key": text("a")}
PUT = {**KEY, "value": text("1")}
NO_USER = (400, 3, "etcdserver: user name is empty")
INVALID_TOKEN = (401, 16, "etcdserver: invalid auth token")
NO_SPACE = (429, 8, "etcdserver: mvcc: database space exceeded")
NO_LEADER = (503, 14, "etcdserver: no leader")
STREAM_NO_LEADER = {
    "error": {
        "grpc_code": 14,
        "http_code": 503,
        "message": "etcdserver: no leader",
        "http_status": "Service Unavailable",
    }
}
# Short, so that a test can wait for its end.
TOKEN_TTL_S = 1

KINDS = ["simulated", "real"]


@pytest.fixture(params=KINDS)
def is_real(request: pytest.FixtureRequest) -> bool:
    if request.param == "real":
        request.getfixturevalue("etcd_program")
    return bool(request.param == "real")


@pytest.fixture
async def with_logins(is_real: bool, tmp_path: Path) -> AsyncIterator[tuple[str, SimEtcd | None]]:
    """The address of an etcd with the user `root`, and the simulated etcd."""
    if is_real:
        with Etcd(tmp_path, password=PASSWORD, options=[f"--auth-token-ttl={TOKEN_TTL_S}"]) as real:
            yield real.endpoints[0], None
        return
    simulated = SimEtcd(passwords={ROOT: PASSWORD})
    simulated.state.users.token_ttl_s = TOKEN_TTL_S
    await simulated.start()
    yield simulated.endpoints[0], simulated
    simulated.close()


async def log_in(connection: GatewayConnection) -> dict[str, str]:
    """Return the headers of a new login."""
    login = {"name": ROOT, "password": PASSWORD}
    reply = await connection.call("/v3/auth/authenticate", login)
    assert reply.status == 200
    return {"Authorization": reply.document["token"]}


async def test_keys_need_a_login_and_keepalives_need_none(
    with_logins: tuple[str, SimEtcd | None],
) -> None:
    async with connected(with_logins[0]) as connection:
        call = connection.call
        calls: list[tuple[str, Document]] = [
            ("/v3/kv/range", KEY),
            ("/v3/kv/put", PUT),
            ("/v3/kv/txn", {"success": [{"request_put": PUT}]}),
        ]
        for path, body in calls:
            assert failure_of(await call(path, body)) == NO_USER
            invalid = await call(path, body, {"Authorization": "invalid.5"})
            assert failure_of(invalid) == INVALID_TOKEN
        wrong = await call("/v3/auth/authenticate", {"name": ROOT, "password": "other"})
        assert failure_of(wrong) == (
            400, 3, "etcdserver: authentication failed, invalid user ID or password"
        )  # fmt: skip
        login = await log_in(connection)
        for path, body in calls:
            assert (await call(path, body, login)).status == 200
        bearer = {"Authorization": f"Bearer {login['Authorization']}"}
        assert failure_of(await call("/v3/kv/range", KEY, bearer)) == INVALID_TOKEN

        granted = await call("/v3/lease/grant", {"TTL": "60"}, login)
        lease = {"ID": granted.document["ID"]}
        await call("/v3/kv/put", {**PUT, "lease": lease["ID"]}, login)
        renewed = await call("/v3/lease/keepalive", lease, {"Authorization": "invalid.5"})
        assert renewed.document["result"]["TTL"] == "60"
        assert failure_of(await call("/v3/lease/revoke", lease)) == NO_USER
        assert (await call("/v3/lease/revoke", lease, login)).status == 200


async def test_a_watch_without_a_valid_login_is_canceled_with_status_200(
    with_logins: tuple[str, SimEtcd | None],
) -> None:
    async with connected(with_logins[0]) as connection:
        refused = (await anext(connection.watch(KEY)))["result"]
        reason = refused["cancel_reason"]
    assert (refused["created"], refused["canceled"]) == (True, True)
    assert reason == "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"
    async with connected(with_logins[0]) as connection:
        watch = connection.watch(KEY, {"Authorization": "invalid.5"})
        reason = (await anext(watch))["result"]["cancel_reason"]
    assert reason == "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"


async def test_a_token_that_is_not_used_for_its_ttl_ends_and_its_watches_do_not(
    with_logins: tuple[str, SimEtcd | None],
) -> None:
    address, simulated = with_logins
    async with connected(address) as connection, connected(address) as other:
        login = await log_in(connection)
        watch = other.watch(KEY, login)
        assert (await anext(watch))["result"]["created"] is True
        if simulated is not None:
            simulated.state.users.expire_tokens()
        else:
            # etcd looks for unused tokens each second.
            await asyncio.sleep(TOKEN_TTL_S + 2)
        assert failure_of(await connection.call("/v3/kv/put", PUT, login)) == INVALID_TOKEN
        assert (await connection.call("/v3/kv/put", PUT, await log_in(connection))).status == 200
        assert "events" in (await anext(watch))["result"]


async def test_without_space_deletions_work_and_puts_and_new_leases_do_not(
    is_real: bool, tmp_path: Path
) -> None:
    if is_real:
        with Etcd(tmp_path, options=["--quota-backend-bytes=300000"]) as real:
            async with connected(real.endpoints[0]) as connection:
                large = {**PUT, "value": text(bytes(20_000))}
                # The size of the database grows with each commit to the disk, every 100 ms.
                async with asyncio.timeout(60):
                    while (await connection.call("/v3/kv/put", large)).status == 200:
                        pass
                await check_full(connection)
        return
    simulated = SimEtcd()
    await simulated.start()
    async with connected(simulated.endpoints[0]) as connection:
        await connection.call("/v3/kv/put", PUT)
        simulated.state.is_full = True
        await check_full(connection)
    simulated.close()


async def check_full(connection: GatewayConnection) -> None:
    call = connection.call
    failing = {"target": "MOD", "key": text("a"), "mod_revision": "1"}
    put = {"request_put": PUT}
    refused: list[tuple[str, Document]] = [
        ("/v3/kv/put", PUT),
        ("/v3/kv/txn", {"success": [put]}),
        # This holds even if the Put is in the branch that is not carried out.
        ("/v3/kv/txn", {"compare": [failing], "success": [put]}),
        ("/v3/lease/grant", {"TTL": "60"}),
    ]
    for path, body in refused:
        assert failure_of(await call(path, body)) == NO_SPACE
    assert (await call("/v3/kv/range", KEY)).status == 200
    assert (await call("/v3/kv/txn", {"success": [{"request_range": KEY}]})).status == 200
    assert (await call("/v3/lease/keepalive", {"ID": "1"})).status == 200
    deleted = await call("/v3/kv/txn", {"success": [{"request_delete_range": KEY}]})
    assert deleted.document["responses"][0]["response_delete_range"]["deleted"] == "1"
    health = await call("/health", "", method="GET")
    assert (health.status, health.document["health"]) == (503, "false")


async def test_without_a_leader_a_request_that_demands_one_fails_at_once(
    is_real: bool, tmp_path: Path
) -> None:
    if is_real:
        with Etcd(tmp_path, members=3) as real:
            alone, *others = real.members
            await check_leaderless(alone.address, *(other.kill for other in others))
        return
    simulated = SimEtcd(3)
    await simulated.start()
    await check_leaderless(simulated.endpoints[0], simulated.lose_leader)
    simulated.close()


async def check_leaderless(address: str, *lose: Callable[[], None]) -> None:
    """Check a member that loses its leader when the functions `lose` are called."""
    async with connected(address) as connection, connected(address) as other:
        watch = other.watch(KEY, NEEDS_LEADER)
        assert (await anext(watch))["result"]["created"] is True
        for call in lose:
            call()
        async with asyncio.timeout(30):
            assert [element async for element in watch] == [STREAM_NO_LEADER]
        calls: list[tuple[str, Document]] = [
            ("/v3/kv/range", KEY),
            ("/v3/kv/put", PUT),
            ("/v3/kv/txn", {"success": [{"request_put": PUT}]}),
            ("/v3/lease/grant", {"TTL": "60"}),
        ]
        for path, body in calls:
            assert failure_of(await connection.call(path, body, NEEDS_LEADER)) == NO_LEADER
        renewed = await connection.call("/v3/lease/keepalive", {"ID": "1"}, NEEDS_LEADER)
        assert renewed == (503, STREAM_NO_LEADER)
        assert [element async for element in other.watch(KEY, NEEDS_LEADER)] == [STREAM_NO_LEADER]
        health = await connection.call("/health", "", method="GET")
        assert (health.status, health.document["health"]) == (503, "false")


# The stream of a real member's gateway ends either with its transport or with its client.
CLOSINGS = ("transport is closing", "grpc: the client connection is closing")


async def test_a_clean_stop_ends_a_watch_with_an_error(is_real: bool, tmp_path: Path) -> None:
    if is_real:
        with Etcd(tmp_path) as real:
            await check_stop(real.endpoints[0], real.members[0].stop)
        return
    simulated = SimEtcd()
    await simulated.start()
    await check_stop(simulated.endpoints[0], simulated.members[0].stop)
    simulated.close()


async def check_stop(address: str, stop: Callable[[], None]) -> None:
    async with connected(address) as connection:
        watch = connection.watch(KEY)
        await anext(watch)
        stop()
        (element,) = [element async for element in watch]
        assert element["error"]["message"] in CLOSINGS
        with pytest.raises(ClosedByPeer):
            await connection.call("/health", "", method="GET")
    with pytest.raises(ConnectionRefusedError):
        await GatewayConnection.open(address)


async def test_a_paused_member_accepts_connections_and_is_silent(
    is_real: bool, tmp_path: Path
) -> None:
    if is_real:
        with Etcd(tmp_path) as real:
            member = real.members[0]
            await check_pause(member.address, member.pause, member.resume)
        return
    simulated = SimEtcd()
    await simulated.start()
    gate = simulated.members[0].faults.awake
    await check_pause(simulated.endpoints[0], gate.close, gate.open)
    simulated.close()


async def check_pause(address: str, pause: Callable[[], None], resume: Callable[[], None]) -> None:
    async with connected(address) as watching:
        watch = watching.watch(KEY)
        await anext(watch)
        pause()
        async with connected(address) as connection:
            put = asyncio.ensure_future(connection.call("/v3/kv/put", PUT))
            done, _ = await asyncio.wait([put], timeout=0.5)
            assert not done
            resume()
            assert (await put).status == 200
        assert "events" in (await anext(watch))["result"]
