"""The store in an etcd that loses responses, is silent, has no leader, no space or a short memory.

The etcd is simulated, and so is the time.
"""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from oncelog_server.cluster.store import (
    Compacted,
    Delete,
    Event,
    LeaseEnded,
    Put,
    UnknownOutcome,
)
from oncelog_server.etcd.store import EtcdStore
from tests.server.etcd.stores import PREFIX, create, in_simulation
from tests.server.metadata.collected import collect, watching
from tests.simulation.cuts import both_ways
from tests.simulation.etcd.faults import Fault
from tests.simulation.etcd.processes import EtcdProcesses
from tests.simulation.loop import SimLoop
from tests.simulation.net import SimNet

GET, TXN, WATCH = "/v3/kv/range", "/v3/kv/txn", "/v3/watch"
GRANT, KEEP_ALIVE, REVOKE = "/v3/lease/grant", "/v3/lease/keepalive", "/v3/lease/revoke"
TTL_MS = 9_000
# The timeouts of a call, with the time of its connections.
RENEWAL_S, CALL_S = 1.1, 6.1


def now() -> float:
    return asyncio.get_running_loop().time()


def put(around: EtcdProcesses, key: str, value: bytes = b"") -> int:
    """Write a key of the store as another broker. Return the revision."""
    return around.etcd.state.put((PREFIX + key).encode(), value)


# Outcomes.


@pytest.mark.parametrize(
    ("fault", "is_carried_out", "reason"),
    [
        (Fault.LOST, True, "etcd has closed the connection"),
        (Fault.DROPPED, False, "etcd has closed the connection"),
        (Fault.HUNG, True, "no response from etcd at http://etcd-1:2379"),
        (Fault.TIMED_OUT, True, "request timed out"),
        (Fault.REFUSED, False, "request timed out"),
        (Fault.LATE, True, "request timed out"),
    ],
)
def test_a_transaction_without_a_response_has_an_unknown_outcome_and_is_sent_once(
    fault: Fault, is_carried_out: bool, reason: str
) -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        members = around.etcd.members
        members[0].faults.add(TXN, fault)
        begun = now()
        with pytest.raises(UnknownOutcome, match=reason):
            await store.txn((), [Put("a", b"1")])
        assert now() - begun < CALL_S
        await asyncio.sleep(2 * members[0].faults.late_s)
        assert (await store.get("a") is not None) is is_carried_out
        assert sum(member.requests.count(TXN) for member in members) == 1
        assert (await store.txn((), [Put("a", b"2")])).succeeded

    in_simulation(scenario, members=3)


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("members", [1, 3])
def test_a_read_without_a_response_is_repeated(fault: Fault, members: int) -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        last = put(around, "a", b"1")
        around.etcd.members[0].faults.add(GET, fault)
        entry = await store.get("a")
        assert entry is not None
        assert entry.mod_revision == last

    in_simulation(scenario, members=members)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DROPPED, Fault.TIMED_OUT, Fault.REFUSED])
def test_the_calls_of_a_lease_are_repeated(fault: Fault) -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        for path in (GRANT, KEEP_ALIVE, REVOKE):
            for member in around.etcd.members:
                member.faults.add(path, fault)
        lease = await store.lease(TTL_MS)
        assert await lease.keep_alive() == TTL_MS
        await store.txn((), [Put("a", b"", lease.id)])
        await lease.revoke()
        assert await store.get("a") is None

    in_simulation(scenario, members=3)


def test_a_renewal_fails_after_a_second_without_a_response() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        lease = await store.lease(TTL_MS)
        (member,) = around.etcd.members
        member.faults.awake.close()
        begun = now()
        with pytest.raises(OSError, match="no response"):
            await lease.keep_alive()
        assert now() - begun < RENEWAL_S
        member.faults.awake.open()
        assert await lease.keep_alive() == TTL_MS

    in_simulation(scenario)


def test_the_end_of_a_call_does_not_hide_why_an_earlier_attempt_failed() -> None:
    """The first member refuses connections, and no byte reaches the second before the end."""

    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        network = cast("SimNet", cast("SimLoop", asyncio.get_running_loop()).network)
        around.kill(around.etcd.members[0])
        network.cuts.add(both_ways(["client"], [around.hosts[1]]))
        with pytest.raises(OSError, match=r"no connection to http://etcd-1:2379: .*refused"):
            await store.renew_lease(1)

    in_simulation(scenario, members=2)


def test_a_transaction_that_reaches_no_member_is_not_carried_out() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        for member in around.etcd.members:
            around.kill(member)
        begun = now()
        with pytest.raises(OSError, match="no connection") as refused:
            await store.txn((), [Put("a", b"")])
        assert not isinstance(refused.value, UnknownOutcome)
        assert now() - begun < CALL_S
        await around.start_member(around.etcd.members[2])
        assert (await store.txn((), [Put("a", b"")])).succeeded

    in_simulation(scenario, members=3)


def test_a_refused_transaction_is_not_carried_out() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        lease = await store.lease(TTL_MS)
        first = await store.txn((), [Put("a", b"1")])
        around.etcd.state.is_full = True
        with pytest.raises(OSError, match="space exceeded") as refused:
            await store.txn((), [Put("a", b"2")])
        assert not isinstance(refused.value, UnknownOutcome)
        with pytest.raises(OSError, match="space exceeded"):
            await store.lease(TTL_MS)
        # Calls that free space or keep the broker alive succeed.
        assert await lease.keep_alive() == TTL_MS
        deleted = await store.txn((), [Delete("a")])
        assert deleted.revision == first.revision + 1
        around.etcd.state.is_full = False
        assert (await store.txn((), [Put("a", b"3")])).succeeded

    in_simulation(scenario)


def test_a_transaction_that_a_login_refuses_is_sent_again() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        users = around.etcd.state.users
        await store.txn((), [Put("a", b"1")])
        users.expire_tokens()
        result = await store.txn((), [Put("a", b"2")])
        entry = await store.get("a")
        assert entry is not None
        assert (entry.value, entry.mod_revision) == (b"2", result.revision)
        assert users.logins == 2

    in_simulation(scenario, passwords={"root": "secret"})


# Watches.


@pytest.mark.parametrize("seed", range(5))
def test_a_watch_over_broken_connections_has_no_gap_and_no_change_twice(seed: int) -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        members = around.etcd.members
        revisions: list[int] = []

        async def change() -> None:
            for number in range(60):
                revisions.append(put(around, f"k{number % 7}", b"%d" % number))
                if number % 4 == seed % 4:
                    for member in members:
                        member.cut()
                if number % 7 == seed % 7:
                    around.etcd.state.put(b"foreign", b"")
                await asyncio.sleep(0.03 * (number % 5))

        start = around.etcd.state.kv.revision + 1
        changing = asyncio.create_task(change())
        seen = await collect(store, "", start, 60)
        await changing
        assert [changes.revision for changes in seen] == revisions

    in_simulation(scenario, members=3, seed=seed)


def test_a_silent_member_is_found_by_a_renewal_and_its_watch_resumes_elsewhere() -> None:
    """A silent watch may have no changes, or its member may be stopped. Only a stopped member
    leaves a call without a response."""

    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        lease = await store.lease(TTL_MS)
        first = put(around, "a")
        async with watching(store, "", first) as watch:
            assert (await anext(watch)).revision == first
            around.etcd.members[0].faults.awake.close()
            second = put(around, "a")
            with pytest.raises(OSError, match="no response"):
                await lease.keep_alive()
            async with asyncio.timeout(1.0):
                assert (await anext(watch)).revision == second
            assert await lease.keep_alive() == TTL_MS

    in_simulation(scenario, members=3)


def test_a_watch_whose_connection_has_vanished_resumes_on_another() -> None:
    """Neither end notices that the connection has vanished, and keepalives succeed on other
    connections."""

    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        network = cast("SimNet", cast("SimLoop", asyncio.get_running_loop()).network)
        first = put(around, "a")
        async with watching(store, "", first) as watch:
            await anext(watch)
            (link,) = network.open_links()
            network.vanish(link)
            lease = await store.lease(TTL_MS)
            second = put(around, "a")
            changed = asyncio.ensure_future(anext(watch))
            for _ in range(4):
                await asyncio.sleep(2.0)
                await lease.keep_alive()
            assert changed.done()
            assert changed.result().revision == second

    in_simulation(scenario)


def test_a_watch_without_changes_goes_on_while_etcd_has_none() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        first = put(around, "a")
        async with watching(store, "", first) as watch:
            await anext(watch)
            changed = asyncio.ensure_future(anext(watch))
            lease = await store.lease(TTL_MS)
            for _ in range(10):
                await asyncio.sleep(2.0)
                await lease.keep_alive()
            second = put(around, "a")
            assert (await changed).revision == second
            assert member.requests.count(WATCH) == 1

    in_simulation(scenario)


def test_a_watch_that_lags_gets_its_changes_in_the_end() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        first = put(around, "a")
        async with watching(store, "", first) as watch:
            await anext(watch)
            around.etcd.members[0].faults.watches.close()
            revisions = [put(around, "a", b"%d" % number) for number in range(5)]
            await asyncio.sleep(5)
            around.etcd.members[0].faults.watches.open()
            assert [(await anext(watch)).revision for _ in revisions] == revisions

    in_simulation(scenario, members=3)


def test_a_compaction_behind_a_watch_that_lags_raises_compacted() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        first = put(around, "a")
        async with watching(store, "", first) as watch:
            await anext(watch)
            around.etcd.members[0].faults.watches.close()
            last = [put(around, "a", b"%d" % number) for number in range(5)][-1]
            around.etcd.state.kv.compact(last)
            around.etcd.members[0].faults.watches.open()
            with pytest.raises(Compacted):
                await anext(watch)

    in_simulation(scenario)


@pytest.mark.parametrize("compacted", ["at the deletion", "after the deletion"])
def test_a_compaction_behind_a_watch_without_a_connection_raises_compacted(
    compacted: str,
) -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        first = put(around, "a")
        async with watching(store, "", first) as watch:
            await anext(watch)
            around.kill(member)
            kv = around.etcd.state.kv
            kv.delete([(PREFIX + "a").encode()])
            deletion = kv.revision
            put(around, "b")
            kv.compact(deletion if compacted == "at the deletion" else kv.revision)
            await around.start_member(member)
            with pytest.raises(Compacted):
                await anext(watch)

    in_simulation(scenario)


def test_a_range_starts_again_if_its_revision_is_compacted_between_two_pages() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        names = [f"k{number:04}" for number in range(2_500)]
        for name in names:
            put(around, name)
        (member,) = around.etcd.members
        member.faults.delay_s = 0.5
        reading = asyncio.create_task(store.range(""))
        await asyncio.sleep(1.2)
        last = put(around, "k2400", b"new")
        around.etcd.state.kv.compact(last)
        snapshot = await reading
        assert snapshot.revision == last
        assert [entry.key for entry in snapshot.entries] == names
        assert snapshot.entries[2400].value == b"new"

    in_simulation(scenario)


# Leases.


def test_a_lease_that_an_operator_ends_raises_lease_ended() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        lease = await store.lease(TTL_MS)
        first = await store.txn((), [Put("a", b"", lease.id)])
        around.etcd.state.end_lease(lease.id)
        (changes,) = await collect(store, "", first.revision + 1, 1)
        assert changes.events == (Event("a", None),)
        with pytest.raises(LeaseEnded):
            await lease.keep_alive()
        with pytest.raises(LeaseEnded):
            await store.txn((), [Put("a", b"", lease.id)])
        await lease.revoke()

    in_simulation(scenario)


def test_a_lease_lives_its_ttl_after_the_renewal_and_ends_at_most_a_second_later() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        lease = await store.lease(TTL_MS)
        first = await store.txn((), [Put("a", b"", lease.id)])
        for _ in range(3):
            await asyncio.sleep(TTL_MS / 1000 - 1)
            sent = now()
            assert await lease.keep_alive() == TTL_MS
        async with watching(store, "", first.revision + 1) as watch:
            changes = await anext(watch)
            assert changes.events == (Event("a", None),)
            assert TTL_MS / 1000 <= now() - sent <= TTL_MS / 1000 + 1

    in_simulation(scenario)


# Leaders.


def test_calls_wait_for_an_election() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        etcd = around.etcd
        first = put(around, "a")
        lease = await store.lease(TTL_MS)
        async with watching(store, "", first) as watch:
            await anext(watch)
            etcd.lose_leader()
            asyncio.get_running_loop().call_later(1.5, etcd.elect)
            # A member without a leader says so. So even a transaction can be sent again.
            begun = now()
            entry, result = await asyncio.gather(store.get("a"), store.txn((), [Put("b", b"")]))
            assert 1.5 <= now() - begun < 1.8
            assert entry is not None
            assert (await anext(watch)).revision == result.revision
            assert await lease.keep_alive() == TTL_MS

    in_simulation(scenario, members=3)


def test_without_a_leader_calls_fail_and_no_transaction_is_carried_out() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        etcd = around.etcd
        lease = await store.lease(TTL_MS)
        first = put(around, "a")
        async with watching(store, "", first) as watch:
            await anext(watch)
            etcd.lose_leader()
            for call in (lambda: store.get("a"), lambda: store.txn((), [Put("b", b"")])):
                begun = now()
                with pytest.raises(OSError, match="no leader") as refused:
                    await call()
                assert not isinstance(refused.value, UnknownOutcome)
                assert now() - begun < CALL_S
            with pytest.raises(OSError, match="etcdserver: no leader"):
                await lease.keep_alive()
            etcd.elect()
            second = await create(store, "c", b"")
            assert await store.get("b") is None
            assert (await anext(watch)).revision == second

    in_simulation(scenario, members=3)


def test_a_watch_leaves_a_member_that_has_lost_its_leader() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        cut_off = around.etcd.members[0].faults
        first = put(around, "a")
        async with watching(store, "", first) as watch:
            await anext(watch)
            # The network cuts this member off from the other two. It ends its watches after 3 s.
            cut_off.leader.close()
            following = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(6.0)
            cut_off.watches.close()
            second = put(around, "a")
            async with asyncio.timeout(0.1):
                assert (await following).revision == second

    in_simulation(scenario, members=3)


# The end.


def test_a_closed_store_has_no_connections_and_opens_none() -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        (member,) = around.etcd.members
        watch = asyncio.create_task(collect(store, "", 1, 1))
        await store.get("a")
        await asyncio.sleep(1.0)
        assert member.connections
        await store.close()
        await asyncio.sleep(1.0)
        requests = len(member.requests)
        await asyncio.sleep(30.0)
        assert not member.connections
        assert len(member.requests) == requests
        with pytest.raises(OSError, match="closed"):
            await store.get("a")
        watch.cancel()

    in_simulation(scenario)
