"""The broker sends responses in the order of the requests. It parks a request that waits, and
serves no further requests of a client that does not read."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import structlog

from oncelog_protocol.errors import ProtocolError
from oncelog_server.clock import SystemClock
from oncelog_server.deferred import Deferred, Order
from oncelog_server.log.results import FileRange
from oncelog_server.network.admission import PlaintextAdmission
from oncelog_server.network.connection import (
    BACKLOG_BYTES,
    TURN_MS,
    TURN_REQUESTS,
    Connection,
)
from oncelog_server.network.mutes import Mutes
from oncelog_server.network.outbox import QUEUED_BYTES
from oncelog_server.network.spin import Spin
from oncelog_server.network.turn import Turn
from oncelog_server.network.writables import Writables
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.requests.frame_reader import SharedBuffer
from oncelog_server.requests.pending_responses import MAX_UNANSWERED
from oncelog_server.requests.response import EncodedResponse, Parts, RequestFailed
from oncelog_server.requests.session import Session as ClientSession
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.storage.files import File

DEADLINE_S = 60
# More bytes than the buffers of both sockets hold.
RANGE_BYTES = 32 << 20
MUTED_MS = 50


# The order of a pending response, by the kind of its request.
ORDERS = {b"later": Order.PARKS, b"ordered": Order.ORDERED, b"free": Order.FREE}


class Scripted:
    """A server. The first word of a request chooses the response. `now`: at once. `later`: parked,
    `ordered`: parked and in order. `none`: no response. `bad`: a protocol error. `bug`: an
    unexpected exception. `range`: all of `file`. `complete`: at once, and the oldest parked request
    is completed. `slow`: at once, after the time of a turn. `mute`: at once, and the connection is
    muted for MUTED_MS; `mute none`: the same without a response."""

    file: File

    def __init__(self) -> None:
        self.shared_buffer = SharedBuffer()
        loop = asyncio.get_running_loop()
        self.turn = Turn(loop, Spin(loop, SystemClock(), 0))
        self.writables = Writables(loop)
        self.mutes = Mutes(loop, self.monotonic_ms)
        self.max_request_bytes = 1 << 20
        self.send_buffer_bytes = 102_400
        self.served: list[bytes] = []
        self.waiting: list[Deferred[Parts]] = []
        self.opened: list[Connection] = []
        self.closed = asyncio.Event()
        self.closings: list[str] = []
        self.changed = asyncio.Condition()
        self.accepts = True
        self.now_ms = 0

    def serve(self, frame: memoryview, session: ClientSession) -> EncodedResponse:
        text = bytes(frame)
        self.served.append(text)
        kind = text.split(b" ")[0]
        if kind == b"mute":
            session.mute(MUTED_MS)
            if text == b"mute none":
                return None
        if kind == b"none":
            return None
        if kind == b"bad":
            raise ProtocolError("as asked")
        if kind == b"bug":
            raise ZeroDivisionError
        if kind in ORDERS:
            answer: Deferred[Parts] = Deferred(order=ORDERS[kind])
            self.waiting.append(answer)
            return answer
        if kind == b"slow":
            self.now_ms += TURN_MS
        if kind == b"complete":
            self.waiting[0].complete([b"late;"])
        if kind == b"range":
            return [FileRange(self.file, 0, self.file.size)]
        return [text + b";"]

    def connection_opened(self, connection: Connection) -> bool:
        self.opened.append(connection)
        return self.accepts

    def connection_closed(self, connection: Connection) -> None:
        self.closed.set()

    def log_closing(self, address: str, reason: str) -> None:
        self.closings.append(reason)

    def monotonic_ms(self) -> int:
        return self.now_ms


class Session:
    """A client of the scripted server."""

    def __init__(
        self, server: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer

    def send(self, *texts: bytes) -> None:
        for text in texts:
            self.writer.write(len(text).to_bytes(4, "big") + text)

    async def expect(self, text: bytes) -> None:
        async with asyncio.timeout(DEADLINE_S):
            assert await self.reader.readexactly(len(text)) == text

    async def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until a condition is true."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - waits for turns of the loop
                await asyncio.sleep(0)

    async def expect_end(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            try:
                rest = await self.reader.read()
            except ConnectionResetError:
                rest = b""
        assert rest == b""


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    loop = asyncio.get_running_loop()
    server = Scripted()
    listening = await loop.create_server(
        lambda: Connection(server, PlaintextAdmission("PLAINTEXT"), loop), "127.0.0.1", 0
    )
    port = listening.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    opened = Session(server, reader, writer)
    await opened.until(lambda: bool(server.opened))
    # A client of another test may look for its broker, which had this port before.
    listening.close()
    yield opened
    writer.close()
    for connection in server.opened:
        connection.close("the test is over")
    async with asyncio.timeout(DEADLINE_S):
        await server.closed.wait()


def _has(waiting: list[Deferred[Parts]], count: int) -> bool:
    return len(waiting) == count


async def test_responses_are_sent_in_the_order_of_requests(session: Session) -> None:
    session.send(b"now 1", b"none", b"now 2", b"now 3")
    await session.expect(b"now 1;now 2;now 3;")


async def test_a_closed_connection_is_freed_without_a_garbage_collection(session: Session) -> None:
    session.send(b"now", b"later")
    await session.expect(b"now;")
    gc.disable()
    try:
        gone = weakref.ref(session.server.opened.pop())
        session.writer.close()
        await session.until(lambda: gone() is None)
    finally:
        gc.enable()


async def test_a_parked_request_holds_back_the_next(session: Session) -> None:
    """As in Kafka, the broker serves the next request of a connection after the response to the
    previous request."""
    session.send(b"now 1", b"later", b"now 2")
    await session.expect(b"now 1;")
    await session.until(lambda: len(session.server.served) == 2)
    session.server.waiting[0].complete([b"done;"])
    await session.expect(b"done;now 2;")


async def test_a_free_response_leaves_when_it_is_complete(session: Session) -> None:
    session.send(b"free", b"free", b"now")
    await session.expect(b"now;")
    first, second = session.server.waiting
    second.complete([b"second;"])
    await session.expect(b"second;")
    first.complete([b"first;"])
    await session.expect(b"first;")
    session.send(b"now")
    await session.expect(b"now;")


async def test_a_drained_connection_waits_for_its_free_responses(session: Session) -> None:
    session.send(b"free", b"free", b"now")
    await session.expect(b"now;")
    session.server.opened[0].drain()
    for response in session.server.waiting:
        response.complete([b"late;"])
        await session.expect(b"late;")
    async with asyncio.timeout(DEADLINE_S):
        assert await session.reader.read() == b""


async def test_after_an_ordered_wait_the_next_request_is_served_but_does_not_overtake(
    session: Session,
) -> None:
    session.send(b"ordered", b"ordered", b"now")
    await session.until(lambda: len(session.server.served) == 3)
    first, second = session.server.waiting
    second.complete([b"second;"])
    first.complete([b"first;"])
    await session.expect(b"first;second;now;")


async def test_requests_behind_several_parked_requests_all_get_responses(session: Session) -> None:
    session.send(*[b"later", b"now 1"] * 5)
    waiting = session.server.waiting
    for count in range(1, 6):
        await session.until(partial(_has, waiting, count))
        waiting[-1].complete([b"late;"])
    await session.expect(b"late;now 1;" * 5)


async def test_a_response_that_a_later_request_completes_does_not_overtake_earlier_responses(
    session: Session,
) -> None:
    session.send(b"now 1", b"ordered", b"complete", b"now 2")
    await session.expect(b"now 1;late;complete;now 2;")


@pytest.mark.parametrize(("first", "count"), [(b"none", 2000), (b"later", 2000), (b"later", 8000)])
async def test_requests_that_arrived_before_the_peer_closed_are_served(
    session: Session, first: bytes, count: int
) -> None:
    """A producer with acks=0 closes after its last request. The broker serves the requests in many
    turns of the loop. With 8,000 requests behind a parked request, it stops reading before the
    end of the stream. It notices the end only after it has served all requests."""
    served, opened = session.server.served, session.server.opened
    session.send(b"none", first, *[b"none %d" % number for number in range(count)])
    await session.until(lambda: bool(session.server.waiting) or first == b"none")
    session.writer.close()
    if first == b"later":
        await session.until(lambda: opened[0]._ended or opened[0].held_bytes > BACKLOG_BYTES)
        session.server.waiting[0].complete([])
    await session.until(session.server.closed.is_set)
    assert served == [b"none", first] + [b"none %d" % number for number in range(count)]


async def test_a_drained_connection_ends_when_its_peer_closes(session: Session) -> None:
    session.send(b"later", b"now")
    await session.until(lambda: bool(session.server.waiting))
    await session.until(lambda: session.server.opened[0].held_bytes > 0)
    session.server.opened[
        0
    ]._draining = True  # `drain` stops reading, and may be called after the peer has closed
    session.writer.close()
    await session.until(session.server.closed.is_set)
    assert session.server.served == [b"later"]


async def test_a_request_that_cannot_be_read_closes_after_earlier_responses(
    session: Session,
) -> None:
    session.send(b"now 1", b"bad", b"now 2")
    await session.until(lambda: session.server.closed.is_set())
    assert session.server.served == [b"now 1", b"bad"]


async def test_a_defect_closes_only_its_connection(session: Session) -> None:
    session.send(b"bug")
    await session.expect_end()
    assert session.server.closed.is_set()


async def test_a_lost_connection_cancels_its_parked_requests(session: Session) -> None:
    session.send(b"later")
    await session.until(lambda: bool(session.server.waiting))
    session.writer.close()
    await session.until(session.server.closed.is_set)
    assert session.server.waiting[0].cancelled
    session.server.waiting[0].complete([b"never sent"])


async def test_an_abandoned_response_closes_the_connection(session: Session) -> None:
    session.send(b"later")
    await session.until(lambda: bool(session.server.waiting))
    session.server.waiting[0].abandon()
    await session.expect_end()


async def test_a_failed_response_closes_its_connection_and_is_logged(session: Session) -> None:
    """The failure does not reach the code that completes the response (A5). The log event names the
    API, the version and the peer."""
    session.send(b"later")
    await session.until(lambda: bool(session.server.waiting))
    failure = RequestFailed(api="AlterConfigs", version=1)
    failure.__cause__ = ZeroDivisionError("as asked")
    with structlog.testing.capture_logs() as lines:
        session.server.waiting[0].abandon(failure)
    await session.expect_end()
    (line,) = [line for line in lines if line["event"] == "request failed"]
    assert (line["api"], line["version"], line["peer"]) == ("AlterConfigs", 1, "/127.0.0.1")
    assert line["exc_info"] is failure.__cause__


async def test_a_response_that_cannot_be_sent_closes_only_its_connection(session: Session) -> None:
    session.send(b"later")
    await session.until(lambda: bool(session.server.waiting))
    not_parts: Any = [object()]
    session.server.waiting[0].complete(not_parts)
    await session.expect_end()


@pytest.mark.parametrize(("kind", "of_a_turn"), [(b"now", TURN_REQUESTS), (b"slow", 1)])
async def test_h67_a_turn_of_a_connection_is_limited_in_requests_and_time(
    session: Session, kind: bytes, of_a_turn: int
) -> None:
    """However many requests arrive at once, a turn of the loop serves a limited number of them, for
    a limited time."""
    count = 3 * of_a_turn
    served = [0]
    session.writer.write((len(kind).to_bytes(4, "big") + kind) * count)
    while len(session.server.served) < count:
        await asyncio.sleep(0)
        served.append(len(session.server.served))
    assert max(after - before for before, after in pairwise(served)) == of_a_turn
    await session.expect((kind + b";") * count)


async def test_h67_completed_responses_lengthen_no_turn(session: Session) -> None:
    """Both responses would let the rest of the requests be served, in a turn of its own."""
    count = 4 * TURN_REQUESTS
    session.send(b"ordered", b"ordered")
    session.writer.write((len(b"none").to_bytes(4, "big") + b"none") * count)
    await session.until(lambda: len(session.server.served) > 2)
    for response in session.server.waiting:
        response.complete([b"done;"])
    served = [len(session.server.served)]
    while served[-1] < count:
        await asyncio.sleep(0)
        served.append(len(session.server.served))
    assert max(after - before for before, after in pairwise(served)) == TURN_REQUESTS
    await session.expect(b"done;done;")


async def test_n4_few_responses_wait_behind_a_pending_one(session: Session) -> None:
    """A client may send very many requests behind one with a pending response. Their responses
    must not pile up in memory."""
    count = 4 * MAX_UNANSWERED
    session.send(b"ordered", *[b"now"] * count)
    await session.until(lambda: len(session.server.served) >= MAX_UNANSWERED)
    await asyncio.sleep(0)
    assert len(session.server.served) == MAX_UNANSWERED
    session.server.waiting[0].complete([b"done;"])
    await session.expect(b"done;" + b"now;" * count)


async def test_drain_sends_the_responses_of_all_requests_then_closes(session: Session) -> None:
    session.send(b"later")
    await session.until(lambda: bool(session.server.waiting))
    session.server.opened[0].drain()
    session.server.waiting[0].complete([b"last;"])
    await session.expect(b"last;")
    await session.expect_end()


async def test_n4_a_client_that_does_not_read_is_not_served(session: Session) -> None:
    """Responses to a peer that never reads must not pile up in memory."""
    big = b"now " + b"x" * 200_000
    count = 200
    session.send(*[big] * count)
    await session.until(lambda: session.server.opened[0]._write_paused > 0)
    assert len(session.server.served) < count
    await session.expect((big + b";") * count)


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[File]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=loop.call_soon_threadsafe)
        file = files.open("segment", create=True)
        file.append(bytes(RANGE_BYTES))
        yield file
        files.close()


async def test_n4_responses_queued_behind_an_unread_sendfile_are_limited(
    session: Session, file: File
) -> None:
    """The transport's flow control does not count responses that wait for sendfile. The connection
    limits their number, and sends all of them in order once the client reads."""
    session.server.file = file
    small, count = b"now " + b"x" * 1000, 4000
    session.send(b"range", *[small] * count)
    await session.until(lambda: session.server.opened[0]._write_paused > 0)
    for _ in range(200):
        await asyncio.sleep(0)
    # The connection completes a turn that has begun, so it may exceed the limit.
    assert len(session.server.served) * len(small) < 2 * QUEUED_BYTES
    await session.expect(bytes(RANGE_BYTES) + (small + b";") * count)
    assert not session.server.opened[0]._write_paused


async def test_responses_behind_a_range_are_sent_before_a_drained_connection_closes(
    session: Session, file: File
) -> None:
    session.server.file = file
    session.send(b"range", b"now")
    await session.until(lambda: len(session.server.served) == 2)
    session.server.opened[0].drain()
    await session.expect(bytes(RANGE_BYTES) + b"now;")
    await session.expect_end()


async def test_has_hung_up_is_true_after_the_client_has_closed(session: Session) -> None:
    """POLLRDHUP shows that the client has closed the connection."""
    session.send(b"later")
    await session.until(lambda: bool(session.server.waiting))
    opened = session.server.opened[0].session
    assert opened is not None
    assert not opened.has_hung_up()
    session.writer.write_eof()
    await session.until(opened.has_hung_up)


async def test_a_muted_connection_gets_its_response_and_serves_nothing_until_its_time_is_over(
    session: Session,
) -> None:
    """KIP-219. The requests behind the throttled one are in the same read."""
    frames = [len(text).to_bytes(4, "big") + text for text in (b"mute", b"now 1", b"now 2")]
    session.writer.write(b"".join(frames))
    await session.expect(b"mute;")
    session.send(b"now 3")
    session.server.now_ms = MUTED_MS - 1
    await session.until(lambda: session.server.opened[0].held_bytes > 0)
    assert session.server.served == [b"mute"]
    session.server.now_ms = MUTED_MS
    await session.expect(b"now 1;now 2;now 3;")


async def test_a_request_without_a_response_mutes_too(session: Session) -> None:
    session.send(b"mute none", b"now")
    await session.until(lambda: len(session.server.mutes) == 1)
    assert session.server.served == [b"mute none"]
    session.server.now_ms = MUTED_MS
    await session.expect(b"now;")


async def test_a_request_from_the_backlog_mutes_and_reading_stays_paused(session: Session) -> None:
    session.send(b"later", b"mute")
    await session.until(lambda: len(session.server.waiting) == 1)
    session.server.waiting[0].complete([b"done;"])
    await session.expect(b"done;mute;")
    session.send(b"now")
    (connection,) = session.server.opened
    assert connection._is_held
    session.server.now_ms = MUTED_MS
    await session.expect(b"now;")


async def test_a_connection_that_is_muted_again_waits_for_the_later_time(session: Session) -> None:
    session.send(b"mute", b"now")
    await session.expect(b"mute;")
    client = session.server.opened[0].session
    assert client is not None
    session.server.now_ms = 10
    client.mute(MUTED_MS)
    client.mute(1)
    session.server.now_ms = MUTED_MS
    mutes = session.server.mutes
    await session.until(lambda: [until_ms for until_ms, _ in mutes._heap] == [MUTED_MS + 10])
    assert session.server.served == [b"mute"]
    session.server.now_ms = MUTED_MS + 10
    await session.expect(b"now;")


async def test_a_muted_connection_that_closes_is_forgotten(session: Session) -> None:
    session.send(b"mute")
    await session.expect(b"mute;")
    assert len(session.server.mutes) == 1
    session.server.opened[0].close("the test closes it")
    await session.until(session.server.closed.is_set)
    assert len(session.server.mutes) == 0


async def test_a_failure_of_tls_after_the_handshake_is_no_failed_authentication(
    session: Session,
) -> None:
    """A damaged record of an authenticated client is the end of its connection."""
    (connection,) = session.server.opened
    connection.tls_failed("a damaged record")
    assert session.server.closings == ["a damaged record"]


class Secured(PlaintextAdmission):
    """The admission of a listener with TLS. Its clients never complete the handshake here."""

    protocol = SecurityProtocol.SSL

    def __init__(self) -> None:
        super().__init__("SSL")
        self.reasons: list[str] = []

    def refused(self, session: ClientSession, reason: str) -> None:
        self.reasons.append(reason)


async def test_only_a_fault_of_the_client_is_a_failed_authentication() -> None:
    """A broker also closes connections without a handshake for reasons of its own, such as the rate
    of new connections (KIP-612)."""
    server, admission, loop = Scripted(), Secured(), asyncio.get_running_loop()
    listening = await loop.create_server(
        lambda: Connection(server, admission, loop), "127.0.0.1", 0
    )
    address = listening.sockets[0].getsockname()
    async with asyncio.timeout(DEADLINE_S):
        for end, reason in ((Connection.close, "too many"), (Connection.fail, "too late")):
            _, writer = await asyncio.open_connection(*address)
            while not server.opened:  # noqa: ASYNC110 - waits for turns of the loop
                await asyncio.sleep(0)
            end(server.opened.pop(), reason)
            await server.closed.wait()
            server.closed.clear()
            writer.close()
    listening.close()
    assert (server.closings, admission.reasons) == (["too many"], ["too late"])
