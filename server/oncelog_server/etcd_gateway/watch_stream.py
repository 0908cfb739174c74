"""The stream of a watch: JSON documents in lines, each with the events of some revisions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from oncelog_server.cluster.store import Changes, Compacted, Event
from oncelog_server.etcd_gateway.failures import EtcdError, Failure, failure_of_code
from oncelog_server.etcd_gateway.responses import Header, InvalidResponse, KeyValue, entry_of


class WatchEvent(msgspec.Struct, frozen=True):
    """A Put has no `type`. The `kv` of a DELETE has the key and the revision of the deletion."""

    kv: KeyValue
    type: str = "PUT"


class WatchResult(msgspec.Struct, frozen=True):
    header: Header = Header()
    events: tuple[WatchEvent, ...] = ()
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""


class WatchError(msgspec.Struct, frozen=True):
    grpc_code: int = 2
    message: str = ""


class WatchDocument(msgspec.Struct, frozen=True):
    result: WatchResult | None = None
    error: WatchError | None = None


_DECODER: Final = msgspec.json.Decoder(WatchDocument, strict=False)


class WatchStream:
    """Cuts the bytes of a watch of `prefix` into changes."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._unfinished = b""
        # The newest revision of etcd in the received bytes.
        self.revision = 0

    def feed(self, data: bytes) -> Iterator[Changes]:
        """Yield the changes that `data` completes, in the order of revisions.

        Raises Compacted. Raises EtcdError if the watch has ended, and InvalidResponse.
        """
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            if line:
                yield from self._changes(line)

    def _changes(self, line: bytes) -> Iterator[Changes]:
        try:
            document = _DECODER.decode(line)
        except ValueError as error:
            raise InvalidResponse(f"etcd: {error} in a watch") from error
        if document.error is not None:
            raise failure_of_code(document.error.grpc_code, document.error.message)
        result = document.result or WatchResult()
        self.revision = max(self.revision, result.header.revision)
        for revision, events in groupby(result.events, attrgetter("kv.mod_revision")):
            yield Changes(revision, tuple(map(self._event, events)))
        if result.compact_revision:
            raise Compacted(f"etcd has compacted revision {result.compact_revision}")
        if result.canceled:
            reason = result.cancel_reason or "no reason"
            raise EtcdError(Failure.UNAVAILABLE, f"etcd has ended a watch: {reason}")

    def _event(self, event: WatchEvent) -> Event:
        entry = entry_of(self._prefix, event.kv)
        return Event(entry.key, None if event.type == "DELETE" else entry)
