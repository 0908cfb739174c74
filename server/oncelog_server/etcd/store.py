"""The MetadataStore of a cluster of several brokers: the keys below a prefix of an etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final

import structlog

from oncelog_server.cluster.store import (
    Changes,
    Compacted,
    Compare,
    Entry,
    LeaseEnded,
    LostMetadata,
    Snapshot,
    TxnResult,
    WriteOperation,
    check_limits,
)
from oncelog_server.etcd.calls import READ, RENEWAL, WRITE, Calls, Timeouts
from oncelog_server.etcd.members import Members, NewContext
from oncelog_server.etcd.session import Login, Session
from oncelog_server.etcd.silent_watch import SilentWatch, heard
from oncelog_server.etcd_gateway import requests
from oncelog_server.etcd_gateway.responses import (
    KeepAliveResponse,
    LeaseResponse,
    RangeResponse,
    TxnResponse,
    decoded,
    entry_of,
    txn_result,
)
from oncelog_server.etcd_gateway.watch_stream import WatchStream
from oncelog_server.settings.etcd_addresses import EtcdAddress

# Maximum number of keys in one response. A response is parsed in one turn of the loop.
PAGE_KEYS: Final = 1000
# Pauses before a watch resumes: doubled after each failure.
FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 2.0
# The revision of an etcd without a change. A watch from revision 0 would begin at the present.
FIRST_REVISION: Final = 1

log = structlog.get_logger("oncelog.etcd")


class EtcdStore:
    """The keys below `prefix`, without the prefix. Nothing is sent before the first call.

    `addresses` are the client listeners of the members. `context` is for the members with
    https.
    """

    def __init__(
        self,
        addresses: Sequence[EtcdAddress],
        prefix: str,
        *,
        context: NewContext | None = None,
        login: Login | None = None,
    ) -> None:
        self._prefix = prefix.encode()
        self._members = Members(tuple(addresses), context)
        self._calls = Calls(self._members, Session(login))
        self._has_lost_watch = False
        # The highest revision of etcd in all responses.
        self._newest = FIRST_REVISION
        self._lost: str | None = None

    async def get(self, key: str) -> Entry | None:
        body = requests.key_body(self._prefix + key.encode())
        response = await self._ranged(body)
        return entry_of(self._prefix, response.kvs[0]) if response.kvs else None

    async def range(self, prefix: str) -> Snapshot:
        while True:
            try:
                return await self._pages(self._prefix + prefix.encode())
            except Compacted:
                # Etcd no longer keeps the revision of the first page.
                continue

    async def _pages(self, prefix: bytes) -> Snapshot:
        page = requests.Page(prefix)
        entries: list[Entry] = []
        while True:
            body = requests.page_body(prefix, page, PAGE_KEYS)
            response = await self._ranged(body)
            entries += (entry_of(self._prefix, value) for value in response.kvs)
            revision = page.revision or response.header.revision
            if not response.more:
                return Snapshot(revision, tuple(entries))
            page = requests.Page(response.kvs[-1].key + b"\0", revision)

    async def _ranged(self, body: bytes) -> RangeResponse:
        least = self._before_call()
        response = decoded(RangeResponse, await self._calls.call(requests.RANGE, body, READ))
        self._confirm(least, response.header.revision)
        return response

    def _before_call(self) -> int:
        """Return the revision that the response of a linearizable call must have at least. Reads
        and transactions are linearizable. Raises LostMetadata."""
        if self._lost is not None:
            # A new error each time, because each raise makes the traceback of an error longer.
            raise LostMetadata(self._lost)
        return self._newest

    def _confirm(self, least: int, revision: int) -> None:
        """Note the revision of a linearizable response. `least` is that of `_before_call`. Raises
        LostMetadata if etcd was emptied or restored from a snapshot."""
        if revision < least:
            self._lost = f"etcd has gone back from revision {least} to {revision}"
            raise LostMetadata(self._lost)
        self._note(revision)

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        check_limits(compare, operations)
        body = requests.txn_body(self._prefix, compare, operations)
        least = self._before_call()
        response = decoded(TxnResponse, await self._calls.call(requests.TXN, body, WRITE))
        self._confirm(least, response.header.revision)
        return txn_result(self._prefix, response)

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        watched = self._prefix + prefix.encode()
        following = from_revision
        pause_s = FIRST_PAUSE_S
        while True:
            stream = WatchStream(self._prefix)
            # A compaction at a revision also forgets the deletions of this revision. A watch from
            # this revision on would miss them without an error. A watch from one revision earlier
            # raises Compacted.
            body = requests.watch_body(watched, max(following - 1, FIRST_REVISION))
            try:
                async with (
                    aclosing(self._calls.stream(body)) as received,
                    aclosing(heard(received, lambda: self._newest)) as arriving,
                ):
                    async for data in arriving:
                        for changes in stream.feed(data):
                            if changes.revision >= following:
                                yield changes
                                following = changes.revision + 1
                        self._note(stream.revision)
                        pause_s = FIRST_PAUSE_S
                        self._log_watch(None)
            except SilentWatch:
                self._calls.leave_member()
            except OSError as error:
                if self._calls.is_closed:
                    raise
                # An expired token may be the reason. Etcd says so in the stream.
                self._calls.renew_login()
                self._log_watch(error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)

    def _note(self, revision: int) -> None:
        self._newest = max(self._newest, revision)

    def _log_watch(self, failure: OSError | None) -> None:
        """Log the first failure of a watch, and the next success."""
        if self._has_lost_watch == (failure is not None):
            return
        self._has_lost_watch = failure is not None
        if failure is not None:
            log.warning("the broker does not see changes of the metadata", reason=str(failure))
        else:
            log.info("the broker sees changes of the metadata again")

    async def lease(self, ttl_ms: int) -> EtcdLease:
        body = requests.grant_body(-(-ttl_ms // 1000))
        granted = decoded(LeaseResponse, await self._calls.call(requests.GRANT, body, READ))
        return EtcdLease(self, granted.ID, granted.TTL * 1000)

    async def renew_lease(self, lease_id: int) -> int:
        """Return the time to live in ms. Raises LeaseEnded and OSError."""
        least = self._before_call()
        response = await self._lease_call(requests.KEEP_ALIVE, lease_id, RENEWAL)
        renewed = decoded(KeepAliveResponse, response).result
        self._note(renewed.header.revision)
        if renewed.header.revision < least:
            # The member may lag behind the others. A linearizable read shows if etcd has gone back.
            await self._ranged(requests.key_body(self._prefix))
        if not renewed.TTL:
            raise LeaseEnded(f"lease {lease_id} has ended")
        return renewed.TTL * 1000

    async def revoke_lease(self, lease_id: int) -> None:
        try:
            await self._lease_call(requests.REVOKE, lease_id, READ)
        except LeaseEnded:
            return

    async def _lease_call(self, path: str, lease_id: int, timeouts: Timeouts) -> bytes:
        return await self._calls.call(path, requests.lease_body(lease_id), timeouts)

    async def close(self) -> None:
        self._calls.close()


class EtcdLease:
    """A lease of etcd. Its time to live is a whole number of seconds."""

    def __init__(self, store: EtcdStore, lease_id: int, ttl_ms: int) -> None:
        self._store = store
        self.id = lease_id
        self.ttl_ms = ttl_ms

    async def keep_alive(self) -> int:
        return await self._store.renew_lease(self.id)

    async def revoke(self) -> None:
        await self._store.revoke_lease(self.id)
