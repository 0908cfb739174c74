"""What the clients of etcd's gateway must know, on the real etcd and on the simulated one."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import pytest

from tests.harness.etcd_gateway import text
from tests.harness.waiting import DEADLINE_S
from tests.simulation.etcd.subject import NEEDS_LEADER, Subject, failure_of, revision_of

# The shortest TTL that etcd grants.
SHORTEST_S: Final = 2
NO_LEASE = (404, 5, "etcdserver: requested lease not found")
DUPLICATE = (400, 3, "etcdserver: duplicate key given in txn request")
TOO_MANY = (400, 3, "etcdserver: too many operations in txn request")
COMPACTED = (400, 11, "etcdserver: mvcc: required revision has been compacted")
FUTURE = (400, 11, "etcdserver: mvcc: required revision is a future revision")


async def test_numbers_are_texts_and_empty_fields_are_absent(etcd: Subject) -> None:
    revision = await etcd.put("a")
    document = await etcd.done("/v3/kv/range", {"key": etcd.key("a")})
    assert set(document["header"]) == {"cluster_id", "member_id", "revision", "raft_term"}
    assert document["count"] == "1"
    assert document["kvs"] == [
        {
            "key": etcd.key("a"),
            "create_revision": str(revision),
            "mod_revision": str(revision),
            "version": "1",
        }
    ]
    assert set(await etcd.done("/v3/kv/range", {"key": etcd.key("b")})) == {"header"}


async def test_a_put_keeps_the_create_revision_and_detaches_the_key_from_its_lease(
    etcd: Subject,
) -> None:
    lease = await etcd.grant(60)
    first = await etcd.put("a", "1", lease)
    before = await etcd.get("a")
    second = await etcd.put("a", "2")
    after = await etcd.get("a")
    assert before is not None
    assert after is not None
    assert before["lease"] == lease
    assert "lease" not in after
    assert (after["create_revision"], after["mod_revision"]) == (str(first), str(second))
    assert after["version"] == "2"
    await etcd.done("/v3/lease/revoke", {"ID": lease})
    assert await etcd.get("a") == after


async def test_one_key_in_two_operations_is_a_duplicate_unless_both_delete(etcd: Subject) -> None:
    put = {"request_put": {"key": etcd.key("a"), "value": ""}}
    delete = {"request_delete_range": {"key": etcd.key("a")}}
    prefix = {"request_delete_range": etcd.keys}
    for operations in ([put, put], [delete, put], [put, delete], [put, prefix]):
        assert failure_of(await etcd.txn(success=operations)) == DUPLICATE
        assert failure_of(await etcd.txn(failure=operations)) == DUPLICATE
    assert (await etcd.txn(success=[delete, delete])).status == 200
    assert (await etcd.txn(success=[put], failure=[put])).status == 200


async def test_a_failed_condition_returns_the_present_values_by_the_other_branch(
    etcd: Subject,
) -> None:
    revision = await etcd.put("a", "1")
    reply = await etcd.txn(
        compare=[{"target": "MOD", "key": etcd.key("a"), "mod_revision": str(revision - 1)}],
        success=[{"request_put": {"key": etcd.key("a"), "value": text("2")}}],
        failure=[{"request_range": {"key": etcd.key(name)}} for name in ("a", "b")],
    )
    assert "succeeded" not in reply.document
    present, absent = (part["response_range"] for part in reply.document["responses"])
    assert present["kvs"] == [await etcd.get("a")]
    assert "kvs" not in absent


@pytest.mark.parametrize(
    ("target", "field"),
    [("MOD", "mod_revision"), ("CREATE", "create_revision"), ("VERSION", "version")],
)
async def test_a_key_that_does_not_exist_compares_as_zero(
    etcd: Subject, target: str, field: str
) -> None:
    zero = {"target": target, "key": etcd.key("a"), field: "0"}
    assert (await etcd.txn(compare=[zero])).document.get("succeeded")
    assert (await etcd.txn(compare=[{"target": target, "key": etcd.key("a")}])).document.get(
        "succeeded"
    )
    await etcd.put("a")
    assert not (await etcd.txn(compare=[zero])).document.get("succeeded")
    assert (await etcd.txn(compare=[{**zero, "result": "GREATER"}])).document.get("succeeded")


async def test_the_lease_of_a_key_can_be_a_condition(etcd: Subject) -> None:
    lease = await etcd.grant(60)
    await etcd.put("a", lease=lease)
    condition = {"target": "LEASE", "key": etcd.key("a"), "lease": lease}
    assert (await etcd.txn(compare=[condition])).document.get("succeeded")
    await etcd.put("a")
    assert not (await etcd.txn(compare=[condition])).document.get("succeeded")


async def test_a_transaction_has_at_most_128_conditions_and_operations(etcd: Subject) -> None:
    compare = [
        {"target": "MOD", "key": etcd.key(str(number)), "mod_revision": "0"}
        for number in range(129)
    ]
    puts = [{"request_put": {"key": etcd.key(str(number)), "value": ""}} for number in range(129)]
    assert (await etcd.txn(compare=compare[:128], success=puts[:128])).document.get("succeeded")
    assert failure_of(await etcd.txn(compare=compare)) == TOO_MANY
    assert failure_of(await etcd.txn(success=puts)) == TOO_MANY
    assert failure_of(await etcd.txn(failure=puts)) == TOO_MANY


async def test_only_a_change_has_a_new_revision(etcd: Subject) -> None:
    first = await etcd.put("a")
    assert await etcd.delete("b") == first
    reply = await etcd.txn(success=[{"request_delete_range": {"key": etcd.key("b")}}])
    assert revision_of(reply.document) == first
    assert "deleted" not in reply.document["responses"][0]["response_delete_range"]
    assert await etcd.put("a") == first + 1
    assert await etcd.delete("a") == first + 2


# Leases.


async def test_a_ttl_of_one_second_is_granted_as_two(etcd: Subject) -> None:
    async with asyncio.timeout(DEADLINE_S):
        is_renewed = False
        while not is_renewed:
            asked_s = time.monotonic()
            granted = await etcd.done("/v3/lease/grant", {"TTL": "1"})
            assert granted["TTL"] == "2"
            assert int(granted["ID"]) > 2**53
            renewed = await etcd.done("/v3/lease/keepalive", {"ID": granted["ID"]})
            is_renewed = "TTL" in renewed["result"]
            assert is_renewed or is_late(asked_s)
    assert renewed["result"]["TTL"] == "2"
    await etcd.done("/v3/lease/revoke", {"ID": granted["ID"]})


def is_late(asked_s: float) -> bool:
    """Return True if a lease with the shortest TTL may have ended since `asked_s`, because this
    process or etcd was paused."""
    return time.monotonic() - asked_s >= SHORTEST_S


async def test_a_keepalive_has_the_newest_revision_in_its_header(etcd: Subject) -> None:
    lease = await etcd.grant(60)
    last = await etcd.put("a")
    renewed = await etcd.done("/v3/lease/keepalive", {"ID": lease})
    assert int(renewed["result"]["header"]["revision"]) >= last
    await etcd.done("/v3/lease/revoke", {"ID": lease})


async def test_a_keepalive_of_an_ended_lease_succeeds_without_a_ttl(etcd: Subject) -> None:
    lease = await etcd.grant(60)
    await etcd.done("/v3/lease/revoke", {"ID": lease})
    renewed = await etcd.done("/v3/lease/keepalive", {"ID": lease})
    assert set(renewed["result"]) == {"header", "ID"}
    left = await etcd.done("/v3/lease/timetolive", {"ID": lease})
    assert left["TTL"] == "-1"


async def test_a_revoked_lease_deletes_its_keys_at_one_revision_in_the_order_of_keys(
    etcd: Subject,
) -> None:
    lease = await etcd.grant(60)
    for name in ("z", "b", "c"):
        await etcd.put(name, lease=lease)
    last = await etcd.put("a")
    left = await etcd.done("/v3/lease/timetolive", {"ID": lease, "keys": True})
    assert sorted(left["keys"]) == sorted(etcd.key(name) for name in ("b", "c", "z"))
    assert left["grantedTTL"] == "60"
    await etcd.done("/v3/lease/revoke", {"ID": lease})
    async with etcd.watch(last + 1) as elements:
        assert (await anext(elements))["result"].get("created")
        element = await anext(elements)
    assert etcd.events(element) == [("DELETE", name, last + 1) for name in ("b", "c", "z")]
    assert all(set(event["kv"]) == {"key", "mod_revision"} for event in element["result"]["events"])
    assert failure_of(await etcd.call("/v3/lease/revoke", {"ID": lease})) == NO_LEASE


async def test_a_lease_ends_by_itself_after_its_ttl(etcd: Subject) -> None:
    async with etcd.watch() as elements, asyncio.timeout(DEADLINE_S):
        await anext(elements)
        is_put = False
        while not is_put:
            asked_s = time.monotonic()
            lease = await etcd.grant(1)
            reply = await etcd.call("/v3/kv/put", {"key": etcd.key("a"), "lease": lease})
            is_put = reply.status == 200
            assert is_put or (failure_of(reply) == NO_LEASE and is_late(asked_s))
        revision = revision_of(reply.document)
        assert etcd.events(await anext(elements)) == [("PUT", "a", revision)]
        etcd.advance(2.5)
        assert etcd.events(await anext(elements)) == [("DELETE", "a", revision + 1)]
        assert etcd.simulated is not None or is_late(asked_s)
    renewed = await etcd.done("/v3/lease/keepalive", {"ID": lease})
    assert "TTL" not in renewed["result"]


async def test_a_put_with_an_ended_lease_changes_nothing(etcd: Subject) -> None:
    lease = await etcd.grant(60)
    await etcd.done("/v3/lease/revoke", {"ID": lease})
    puts = [
        {"request_put": {"key": etcd.key("a"), "value": ""}},
        {"request_put": {"key": etcd.key("b"), "value": "", "lease": lease}},
    ]
    assert failure_of(await etcd.txn(success=puts)) == NO_LEASE
    assert await etcd.get("a") is None
    # etcd checks the lease only in the branch that is carried out.
    failing = {"target": "MOD", "key": etcd.key("a"), "mod_revision": "1"}
    assert (await etcd.txn(compare=[failing], success=puts)).status == 200


# Watches.


async def test_a_watch_has_one_element_for_each_revision_with_all_of_its_keys(
    etcd: Subject,
) -> None:
    async with etcd.watch() as elements:
        created = (await anext(elements))["result"]
        assert created["created"] is True
        assert "events" not in created
        first = await etcd.put("a")
        reply = await etcd.txn(
            success=[
                {"request_put": {"key": etcd.key("c"), "value": ""}},
                {"request_put": {"key": text("elsewhere"), "value": ""}},
                {"request_put": {"key": etcd.key("b"), "value": ""}},
                {"request_delete_range": {"key": etcd.key("a")}},
            ]
        )
        second = revision_of(reply.document)
        assert etcd.events(await anext(elements)) == [("PUT", "a", first)]
        assert etcd.events(await anext(elements)) == [
            ("PUT", "c", second),
            ("PUT", "b", second),
            ("DELETE", "a", second),
        ]


async def test_the_revision_of_etcd_runs_ahead_of_the_events_of_a_prefix(etcd: Subject) -> None:
    await etcd.put("a")
    foreign = await etcd.done("/v3/kv/put", {"key": text("elsewhere"), "value": ""})
    async with etcd.watch() as elements:
        assert revision_of((await anext(elements))["result"]) >= revision_of(foreign)
        await etcd.done("/v3/kv/put", {"key": text("elsewhere"), "value": ""})
        last = await etcd.put("b")
        # Nothing comes for the foreign key.
        assert etcd.events(await anext(elements)) == [("PUT", "b", last)]


async def test_a_watch_that_is_behind_gets_up_to_1000_revisions_in_one_element(
    etcd: Subject,
) -> None:
    first = await etcd.put("a")
    for _ in range(1200):
        last = await etcd.put("a")
    async with etcd.watch(first) as elements:
        await anext(elements)
        found = [await anext(elements), await anext(elements)]
    assert [len(element["result"]["events"]) for element in found] == [1000, 201]
    assert [revision_of(element["result"]) for element in found] == [last, last]
    revisions = [revision for element in found for _, _, revision in etcd.events(element)]
    assert revisions == list(range(first, last + 1))


async def test_a_watch_may_begin_in_the_future(etcd: Subject) -> None:
    first = await etcd.put("a")
    async with etcd.watch(first + 2) as elements:
        await anext(elements)
        await etcd.put("b")
        last = await etcd.put("c")
        assert etcd.events(await anext(elements)) == [("PUT", "c", last)]


async def test_nothing_comes_back_while_the_body_of_a_watch_is_open(etcd: Subject) -> None:
    host, _, port = etcd.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    key = etcd.keys
    line = f'{{"create_request":{{"key":"{key["key"]}","range_end":"{key["range_end"]}"}}}}\n'
    writer.write(
        b"POST /v3/watch HTTP/1.1\r\nHost: etcd\r\nTransfer-Encoding: chunked\r\n\r\n"
        + f"{len(line):x}\r\n{line}\r\n".encode()
    )
    await etcd.put("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await reader.read(1)
    writer.close()


# Compaction.


async def test_compacted_and_future_revisions_cannot_be_read(etcd: Subject) -> None:
    first = await etcd.put("a", "1")
    second = await etcd.put("a", "2")
    last = await etcd.put("a", "3")
    old = await etcd.done("/v3/kv/range", {"key": etcd.key("a"), "revision": str(first)})
    assert old["kvs"][0]["value"] == text("1")
    assert revision_of(old) == last
    await etcd.done("/v3/kv/compaction", {"revision": str(second)})
    kept = await etcd.done("/v3/kv/range", {"key": etcd.key("a"), "revision": str(second)})
    assert kept["kvs"][0]["value"] == text("2")
    for path, revision, failure in [
        ("/v3/kv/range", first, COMPACTED),
        ("/v3/kv/range", last + 1, FUTURE),
        ("/v3/kv/compaction", second, COMPACTED),
        ("/v3/kv/compaction", last + 1, FUTURE),
    ]:
        body = {"key": etcd.key("a")} if path.endswith("range") else {}
        assert failure_of(await etcd.call(path, {**body, "revision": str(revision)})) == failure


async def test_a_watch_from_a_compacted_revision_is_canceled_and_stays_open(etcd: Subject) -> None:
    first = await etcd.put("a")
    last = await etcd.put("a")
    await etcd.done("/v3/kv/compaction", {"revision": str(last)})
    async with etcd.watch(first) as elements:
        await anext(elements)
        canceled = (await anext(elements))["result"]
        assert canceled["canceled"] is True
        assert canceled["compact_revision"] == str(last)
        assert "revision" not in canceled["header"]
        await etcd.put("a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await anext(elements)


async def test_a_watch_from_exactly_the_compacted_revision_misses_its_deletions(
    etcd: Subject,
) -> None:
    await etcd.put("a")
    deletion = await etcd.delete("a")
    last = await etcd.put("b")
    # Without `physical`, the real etcd forgets the deletion some time later.
    await etcd.done("/v3/kv/compaction", {"revision": str(deletion), "physical": True})
    async with etcd.watch(deletion) as elements:
        await anext(elements)
        assert etcd.events(await anext(elements)) == [("PUT", "b", last)]


async def test_pages_of_a_prefix_can_be_read_at_one_revision(etcd: Subject) -> None:
    for name in ("c", "a", "b"):
        last = await etcd.put(name)
    page = await etcd.done("/v3/kv/range", {**etcd.keys, "limit": "2"})
    assert [present["key"] for present in page["kvs"]] == [etcd.key("a"), etcd.key("b")]
    assert (page["more"], page["count"], revision_of(page)) == (True, "3", last)
    await etcd.delete("c")
    await etcd.put("z")
    following = {**etcd.keys, "key": etcd.key("b\0"), "limit": "2", "revision": str(last)}
    page = await etcd.done("/v3/kv/range", following)
    assert [present["key"] for present in page["kvs"]] == [etcd.key("c")]
    assert "more" not in page


# HTTP.


async def test_unknown_paths_and_methods_get_a_text(etcd: Subject) -> None:
    assert await etcd.call("/v3/kv/nothing", {}) == (404, "Not Found")
    assert await etcd.call("/v3/kv/range", "", method="GET") == (405, "Method Not Allowed")


@pytest.mark.parametrize("body", ["{", "[]", '{"key": "***"}'])
async def test_a_body_that_is_no_request_is_an_invalid_argument(etcd: Subject, body: str) -> None:
    status, code, _ = failure_of(await etcd.call("/v3/kv/range", body))
    assert (status, code) == (400, 3)


async def test_a_member_says_its_health_and_version(etcd: Subject) -> None:
    health = await etcd.call("/health", "", method="GET")
    assert (health.status, health.document["health"]) == (200, "true")
    version = await etcd.call("/version", "", method="GET")
    assert {"etcdserver", "etcdcluster"} <= set(version.document)


async def test_a_request_may_demand_a_leader(etcd: Subject) -> None:
    reply = await etcd.call("/v3/kv/range", {"key": etcd.key("a")}, NEEDS_LEADER)
    assert reply.status == 200
    async with etcd.watch(headers=NEEDS_LEADER) as elements:
        assert (await anext(elements))["result"]["created"] is True
