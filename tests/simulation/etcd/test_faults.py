"""Each fault of a simulated etcd does what its description says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness.etcd_gateway import ClosedByPeer, GatewayConnection, connected, text
from tests.simulation.etcd.faults import REQUEST_TIMEOUT_S, Fault
from tests.simulation.etcd.kv import KeyRange, Read
from tests.simulation.etcd.processes import EtcdProcesses, simulate
from tests.simulation.etcd.server import SimEtcd
from tests.simulation.etcd.subject import NEEDS_LEADER, failure_of

KEY = {"key": text("a")}
PUT = {**KEY, "value": text("1")}
ALL = {"key": text("\0"), "range_end": text("\0")}
PATH = "/v3/kv/put"
TIMED_OUT = (503, 14, "etcdserver: request timed out")


def present(etcd: SimEtcd) -> bool:
    """Return True if the key was written."""
    return bool(etcd.state.kv.read(Read(KeyRange(b"a"))).kvs)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(("fault", "is_carried_out"), [(Fault.LOST, True), (Fault.DROPPED, False)])
def test_a_broken_connection_says_nothing_about_the_request(
    fault: Fault, is_carried_out: bool
) -> None:
    async def scenario(around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        member.faults.add(PATH, fault)
        async with connected(member.address) as connection:
            with pytest.raises(ClosedByPeer):
                await connection.call(PATH, PUT)
        assert present(around.etcd) is is_carried_out
        async with connected(member.address) as connection:
            assert (await connection.call(PATH, PUT)).status == 200

    simulate(scenario)


@pytest.mark.parametrize(
    ("fault", "is_carried_out"),
    [(Fault.TIMED_OUT, True), (Fault.REFUSED, False), (Fault.LATE, False)],
)
def test_a_timeout_says_nothing_about_the_request(fault: Fault, is_carried_out: bool) -> None:
    async def scenario(around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        member.faults.add(PATH, fault)
        async with connected(member.address) as connection:
            assert failure_of(await connection.call(PATH, PUT)) == TIMED_OUT
        assert present(around.etcd) is is_carried_out
        await asyncio.sleep(2 * member.faults.late_s)
        assert present(around.etcd) is (fault is not Fault.REFUSED)

    simulate(scenario)


def test_a_hung_request_is_carried_out_and_has_no_response() -> None:
    async def scenario(around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        member.faults.add(PATH, Fault.HUNG)
        async with connected(member.address) as connection:
            with pytest.raises(TimeoutError):
                await connection.call(PATH, PUT)
        assert present(around.etcd)

    simulate(scenario)


def test_a_delayed_request_is_carried_out_later() -> None:
    async def scenario(around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        member.faults.delay_s = 3.0
        begun = now()
        async with connected(member.address) as connection:
            assert (await connection.call(PATH, PUT)).status == 200
        assert 3.0 <= now() - begun < 3.1

    simulate(scenario)


def test_a_request_waits_for_a_leader_and_then_times_out() -> None:
    async def scenario(around: EtcdProcesses) -> None:
        etcd = around.etcd
        async with connected(etcd.endpoints[1]) as connection:
            etcd.lose_leader()
            asyncio.get_running_loop().call_later(2.0, etcd.elect)
            assert (await connection.call(PATH, PUT)).status == 200
            etcd.lose_leader()
            begun = now()
            late = await connection.call(PATH, PUT)
            assert failure_of(late) == (500, 2, "context deadline exceeded")
            assert failure_of(await connection.call("/v3/kv/range", KEY)) == TIMED_OUT
            assert now() - begun == pytest.approx(2 * REQUEST_TIMEOUT_S, abs=0.1)
            refused = await connection.call(PATH, PUT, NEEDS_LEADER)
            assert refused.status == 503

    simulate(scenario, members=3)


def test_a_watch_that_lags_gets_all_changes_in_the_end() -> None:
    async def scenario(around: EtcdProcesses) -> None:
        fast, slow, _ = around.etcd.members
        slow.faults.watches.close()
        async with connected(fast.address) as first, connected(slow.address) as second:
            ahead, behind = first.watch(KEY), second.watch(KEY)
            await anext(ahead)
            await anext(behind)
            revisions = [around.etcd.state.put(b"a", b"%d" % number) for number in range(3)]
            found = [(await anext(ahead))["result"]["events"] for _ in revisions]
            slow.faults.watches.open()
            events = (await anext(behind))["result"]["events"]
            assert events == [event for part in found for event in part]

    simulate(scenario, members=3)


def test_a_watch_that_lags_behind_a_compaction_is_canceled() -> None:
    async def scenario(around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        async with connected(member.address) as connection:
            watch = connection.watch(KEY)
            await anext(watch)
            around.etcd.state.put(b"a", b"0")
            assert "events" in (await anext(watch))["result"]
            member.faults.watches.close()
            last = [around.etcd.state.put(b"a", b"%d" % number) for number in range(3)][-1]
            around.etcd.state.kv.compact(last)
            member.faults.watches.open()
            assert (await anext(watch))["result"]["compact_revision"] == str(last)

    simulate(scenario)


def test_a_lease_ends_on_the_clock_of_etcd_and_an_election_gives_it_its_full_ttl() -> None:
    async def scenario(around: EtcdProcesses) -> None:
        etcd = around.etcd
        async with connected(etcd.endpoints[0]) as connection, connected(etcd.endpoints[1]) as two:
            granted = await connection.call("/v3/lease/grant", {"TTL": "4"})
            begun = now()
            await connection.call(PATH, {**PUT, "lease": granted.document["ID"]})
            watch = two.watch(KEY)
            await anext(watch)
            await asyncio.sleep(3.0)
            etcd.elect()
            assert (await anext(watch))["result"]["events"][0]["type"] == "DELETE"
            assert 7.0 <= now() - begun <= 7.6

    simulate(scenario, members=3)


def test_a_keepalive_does_not_save_a_lease_that_is_due() -> None:
    async def scenario(around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        async with connected(member.address) as connection:
            granted = await connection.call("/v3/lease/grant", {"TTL": "2"})
            lease = around.etcd.state.leases.find(int(granted.document["ID"]))
            assert lease is not None
            await asyncio.sleep(lease.ends_at - now() + 0.001)
            renewed = await connection.call("/v3/lease/keepalive", {"ID": str(lease.id)})
            assert "TTL" not in renewed.document["result"]
            assert around.etcd.state.leases.find(lease.id) is None

    simulate(scenario)


def test_a_killed_member_refuses_connections_until_it_starts_again() -> None:
    async def scenario(around: EtcdProcesses) -> None:
        member = around.etcd.members[0]
        async with connected(member.address) as connection:
            around.kill(member)
            with pytest.raises(ClosedByPeer):
                await connection.call(PATH, PUT)
        with pytest.raises(ConnectionRefusedError):
            await GatewayConnection.open(member.address)
        await around.start_member(member)
        async with connected(member.address) as connection:
            assert (await connection.call(PATH, PUT)).status == 200

    simulate(scenario, members=3)


def test_the_same_seed_gives_the_same_run() -> None:
    async def scenario(around: EtcdProcesses) -> list[Any]:
        (member,) = around.etcd.members
        async with connected(member.address) as connection, connected(member.address) as other:
            watch = other.watch(ALL)
            found: list[Any] = [await anext(watch)]
            for number in range(10):
                await connection.call(PATH, {**PUT, "value": text(str(number))})
                found.append((now(), await anext(watch)))
            return found

    assert simulate(scenario, seed=1) == simulate(scenario, seed=1)
    assert simulate(scenario, seed=1) != simulate(scenario, seed=2)
