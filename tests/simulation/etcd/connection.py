"""One connection of HTTP/1.1 to a member of a simulated etcd."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

import h11

from tests.simulation.etcd.bodies import Unsupported
from tests.simulation.etcd.failures import CLOSING, TIMED_OUT
from tests.simulation.etcd.faults import Fault
from tests.simulation.etcd.gateway import (
    KEEP_ALIVE,
    WATCH,
    Document,
    Response,
    failed,
    stream_failure,
)
from tests.simulation.etcd.requests import Request, request_of
from tests.simulation.etcd.watch import Watch

if TYPE_CHECKING:
    from tests.simulation.etcd.member import SimMember

# Go's server sends a body longer than this in chunks. In a stream, the line feed after an element
# longer than this is a chunk of its own.
BUFFER: Final = 2048
JSON: Final = ("Content-Type", "application/json")
CHUNKED: Final = ("Transfer-Encoding", "chunked")
# etcd announces this trailer with each error, and sends it at the end.
TRAILER: Final = ("Grpc-Trailer-Content-Type", "application/grpc")
OF_GRPC: Final = ("Grpc-Metadata-Content-Type", "application/grpc")

CARRIED_OUT: Final = frozenset({Fault.LOST, Fault.HUNG, Fault.TIMED_OUT})
BROKEN: Final = frozenset({Fault.LOST, Fault.DROPPED})


class Connection(asyncio.Protocol):
    """Serves one request at a time, in the order of their arrival."""

    def __init__(self, member: SimMember) -> None:
        self._member = member
        self._http = h11.Connection(h11.SERVER)
        self._arrived = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._streams = False

    # --- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._member.connections[self] = None
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._arrived.set()

    def eof_received(self) -> None:
        # The transport closes itself.
        self._http.receive_data(b"")
        self._arrived.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._member.connections.pop(self, None)
        if self._task is not None:
            self._task.cancel()

    # --- for the member

    def abort(self) -> None:
        """Break the connection."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """End the connection. A stream on it gets an error first."""
        assert self._transport is not None
        if self._streams:
            self._send_element(stream_failure(CLOSING))
            self._write(h11.EndOfMessage())
        self._transport.close()

    # --- requests

    async def _serve(self) -> None:
        try:
            while (request := await self._request()) is not None:
                try:
                    await self._respond(request)
                except Unsupported as error:
                    self._send(Response(501, str(error)))
                if self._http.our_state is not h11.DONE:
                    break
                self._http.start_next_cycle()
        except h11.RemoteProtocolError:
            pass  # etcd closes the connection without a response
        self.abort()

    async def _request(self) -> Request | None:
        """Return the next request, or None at the end of the connection."""
        head: h11.Request | None = None
        body = b""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._arrived.clear()
                await self._arrived.wait()
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return request_of(head, body)
            else:
                return None

    async def _respond(self, request: Request) -> None:
        member, faults = self._member, self._member.faults
        member.requests.append(request.path)
        member.on_request(request.path)
        fault = faults.take(request.path)
        await faults.awake.passed()
        if faults.delay_s:
            await asyncio.sleep(faults.delay_s)
        if fault is None:
            if request.path == WATCH:
                await self._respond_stream(request)
            else:
                self._send(await member.carry_out(request))
            return
        if fault in CARRIED_OUT:
            await member.carry_out(request)
        if fault is Fault.LATE:
            asyncio.get_running_loop().call_later(
                faults.late_s, member.gateway.respond, request.path, request.body, request.token
            )
        if fault in BROKEN:
            self.abort()
        elif fault is Fault.HUNG:
            await asyncio.Event().wait()
        else:
            self._send(failed(TIMED_OUT, is_stream=request.path == KEEP_ALIVE))

    async def _respond_stream(self, request: Request) -> None:
        failure = await self._member.leaderless(request) if request.needs_leader else None
        if failure is not None:
            self._send(failed(failure, is_stream=True))
            return
        async with aclosing(Watch(self._member, request).elements()) as elements:
            async for element in elements:
                if not self._streams:
                    self._streams = True
                    self._write(h11.Response(status_code=200, headers=[JSON, OF_GRPC, CHUNKED]))
                self._send_element(element)
        self._streams = False
        self._write(h11.EndOfMessage())

    # --- responses

    def _send(self, response: Response) -> None:
        if isinstance(response.document, str):
            self._send_body(response.status, [("Content-Type", "text/plain")], response.document)
        elif response.is_stream:
            head = h11.Response(status_code=response.status, headers=[JSON, OF_GRPC, CHUNKED])
            self._write(head)
            self._send_element(response.document)
            self._write(h11.EndOfMessage())
        elif response.status >= 400 and "error" in response.document:
            headers = [JSON, ("Trailer", TRAILER[0]), CHUNKED]
            self._write(h11.Response(status_code=response.status, headers=headers))
            self._write(h11.Data(data=_encoded(response.document)))
            self._write(h11.EndOfMessage(headers=[TRAILER]))
        else:
            self._send_body(response.status, [JSON, OF_GRPC], _encoded(response.document).decode())

    def _send_body(self, status: int, headers: list[tuple[str, str]], body: str) -> None:
        data = body.encode()
        length = CHUNKED if len(data) > BUFFER else ("Content-Length", str(len(data)))
        self._write(h11.Response(status_code=status, headers=[*headers, length]))
        self._write(h11.Data(data=data))
        self._write(h11.EndOfMessage())

    def _send_element(self, element: Document) -> None:
        data = _encoded(element)
        if "error" in element:
            # The last element, which etcd does not end with a line feed.
            self._write(h11.Data(data=data))
        elif len(data) > BUFFER:
            self._write(h11.Data(data=data))
            self._write(h11.Data(data=b"\n"))
        else:
            self._write(h11.Data(data=data + b"\n"))

    def _write(self, event: h11.Event) -> None:
        assert self._transport is not None
        data = self._http.send(event)
        if data and not self._transport.is_closing():
            self._transport.write(data)


def _encoded(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
