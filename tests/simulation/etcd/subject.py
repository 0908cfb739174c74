"""An etcd for a test that runs on the simulated and on the real one: raw requests, and keys that no
other test uses."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from tests.harness.etcd_gateway import Document, GatewayConnection, Reply, connected, text
from tests.simulation.etcd.server import SimEtcd

NEEDS_LEADER: Final = {"Grpc-Metadata-hasleader": "true"}


class Subject:
    """`simulated` is None for the real etcd."""

    def __init__(
        self, address: str, connection: GatewayConnection, simulated: SimEtcd | None
    ) -> None:
        self.address = address
        self.simulated = simulated
        self._connection = connection
        self._prefix = f"{uuid.uuid4().hex}/"

    def key(self, name: str) -> str:
        """Return a key of this test, as the gateway writes it."""
        return text(self._prefix + name)

    @property
    def keys(self) -> Document:
        """Return the range of all keys of this test."""
        return {"key": text(self._prefix), "range_end": text(self._prefix[:-1] + "0")}

    async def call(
        self,
        path: str,
        body: Document | str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "POST",
    ) -> Reply:
        return await self._connection.call(path, body, headers, method=method)

    async def done(self, path: str, body: Document) -> Document:
        """Return the document of a call that succeeds."""
        reply = await self.call(path, body)
        assert reply.status == 200, reply
        document: Document = reply.document
        return document

    async def put(self, name: str, value: str = "", lease: str = "0") -> int:
        """Return the revision."""
        body = {"key": self.key(name), "value": text(value), "lease": lease}
        return revision_of(await self.done("/v3/kv/put", body))

    async def delete(self, name: str) -> int:
        """Return the revision."""
        return revision_of(await self.done("/v3/kv/deleterange", {"key": self.key(name)}))

    async def get(self, name: str) -> Document | None:
        document = await self.done("/v3/kv/range", {"key": self.key(name)})
        found: list[Document] = document.get("kvs", [])
        return found[0] if found else None

    async def grant(self, ttl_s: int) -> str:
        """Return the id of a new lease."""
        granted: str = (await self.done("/v3/lease/grant", {"TTL": str(ttl_s)}))["ID"]
        return granted

    async def txn(self, **parts: list[Document]) -> Reply:
        return await self.call("/v3/kv/txn", parts)

    @asynccontextmanager
    async def watch(
        self, start: int = 0, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[Document]]:
        """Watch all keys of this test, on a connection of its own."""
        create = {**self.keys, "start_revision": str(start)}
        async with (
            connected(self.address) as connection,
            aclosing(connection.watch(create, headers)) as elements,
        ):
            yield elements

    def advance(self, seconds: float) -> None:
        """Set the clock of the simulated etcd ahead. The real one takes its time."""
        if self.simulated is not None:
            self.simulated.state.advance(seconds)

    def events(self, element: Document) -> list[tuple[str, str, int]]:
        """Return the events of an element: PUT or DELETE, the key as text, the revision."""
        return [
            (
                event.get("type", "PUT"),
                next(name for name in NAMES if self.key(name) == event["kv"]["key"]),
                int(event["kv"]["mod_revision"]),
            )
            for event in element["result"].get("events", [])
        ]


# The names of keys in the tests.
NAMES: Final = ("a", "b", "c", "z")


def revision_of(document: Document) -> int:
    return int(document["header"]["revision"])


def failure_of(reply: Reply) -> tuple[int, int, str]:
    """Return status, code and message of an error."""
    found: dict[str, Any] = reply.document
    return reply.status, found["code"], found["message"]
