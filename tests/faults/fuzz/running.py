"""Runs the fuzzer on several connections, each with one frame in flight. Findings are collected,
not raised."""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass, field

from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.codecs import decode
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.headers import read_response_header
from tests.faults.fuzz.auditing import audit
from tests.faults.fuzz.frames import TOPICS, Drawing, Frame
from tests.faults.fuzz.neighbour import Neighbour
from tests.harness.broker import Oncelog

CONNECTIONS = 48
# A connection without a response for this time is closed. The broker has parked its request, which
# is correct.
ANSWER_S = 0.15
AUDIT_EVERY = 5_000
DEFECTS = ("request failed", "a defect", "Traceback", "exception in callback")


@dataclass
class Findings:
    """The findings of one run."""

    frames: int = 0
    answers: int = 0
    closed: int = 0
    waiting: int = 0
    audits: int = 0
    audited: int = 0
    seconds: float = 0.0
    rounds: int = 0
    apis: Counter[tuple[str, int]] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)


async def fuzz(broker: Oncelog, frames: int, seed: int, *, seconds: float = math.inf) -> Findings:
    """Send `frames` frames. Stop earlier after `seconds`, or after 20 errors. Meanwhile a
    well-behaved client works (`neighbour.py`), and the broker's state is checked
    (`auditing.py`)."""
    findings = Findings()
    drawing = Drawing(seed)
    neighbour = Neighbour(broker.address)
    neighbour.start()
    began = time.monotonic()
    loop = asyncio.get_running_loop()

    def goes_on() -> bool:
        is_early = time.monotonic() - began < seconds
        return findings.frames < frames and is_early and len(findings.errors) < 20

    async def send() -> None:
        line: _Line | None = None
        while goes_on():
            findings.frames += 1
            frame = drawing.frame()
            findings.apis[frame.api.name, frame.version] += 1
            if line is None:
                line = await _Line.open(broker.host, broker.port)
            if not await line.exchange(frame, drawing, findings):
                line.abort()
                line = None
        if line is not None:
            line.abort()

    async def audit_often() -> None:
        next_at = 0
        with Wire(broker.address, "auditor") as wire:
            while goes_on():
                if findings.frames < next_at:
                    await asyncio.sleep(0.05)
                    continue
                next_at = findings.frames + AUDIT_EVERY
                await _audit_once(loop, wire, findings)
            await _audit_once(loop, wire, findings)

    await asyncio.gather(audit_often(), *(send() for _ in range(CONNECTIONS)))
    findings.seconds = time.monotonic() - began
    await loop.run_in_executor(None, neighbour.finish)
    findings.rounds = neighbour.rounds
    findings.errors += [f"neighbour: {error}" for error in neighbour.errors]
    with broker.log.open(errors="replace") as log:
        findings.errors += [
            f"broker: {line[:400]}" for line in log if any(defect in line for defect in DEFECTS)
        ][:20]
    return findings


async def _audit_once(loop: asyncio.AbstractEventLoop, wire: Wire, findings: Findings) -> None:
    try:
        findings.audited += await loop.run_in_executor(None, audit, wire)
        findings.audits += 1
    except (Closed, OSError, ProtocolError) as error:
        findings.errors.append(f"auditor: {error!r} at frame {findings.frames}")


class _Line:
    """One connection of the fuzzer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # Requests that should get no response, but may get one.
        self._unanswered: set[int] = set()

    @classmethod
    async def open(cls, host: str, port: int) -> _Line:
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return cls(reader, writer)

    def abort(self) -> None:
        self._writer.transport.abort()

    async def _answer_to(self, frame: Frame) -> bytes:
        """Return the response. Skip responses to earlier Produce requests with acks=0, because a
        hostile field may have changed their acks."""
        while True:
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            body = await self._reader.readexactly(size)
            (correlation_id,) = struct.unpack_from(">i", body)
            if correlation_id == frame.correlation_id:
                return body
            if correlation_id not in self._unanswered:
                raise AssertionError(f"response to {correlation_id}, not to {frame.correlation_id}")

    async def exchange(self, frame: Frame, drawing: Drawing, findings: Findings) -> bool:
        """Send a frame and check the response. Return True if the connection can still be used."""
        self._writer.write(frame.data)
        if not frame.answered:
            self._unanswered.add(frame.correlation_id)
            return True
        try:
            async with asyncio.timeout(ANSWER_S):
                body = await self._answer_to(frame)
        except TimeoutError:
            findings.waiting += 1
            return False
        except (asyncio.IncompleteReadError, ConnectionError):
            findings.closed += 1
            return False
        except AssertionError as error:
            findings.errors.append(f"{frame.api.name} v{frame.version}: {error}")
            return False
        findings.answers += 1
        try:
            _, position = read_response_header(frame.api.key, frame.version, body)
            response = decode(frame.api.response, frame.version, body[position:])
        except ProtocolError as error:
            name = f"{frame.api.name} v{frame.version}"
            findings.errors.append(f"a response that cannot be read: {name}: {error}")
            return False
        if getattr(response, "error_code", 0) == ErrorCode.UNKNOWN_SERVER_ERROR:
            findings.errors.append(f"{frame.api.name} v{frame.version}: UNKNOWN_SERVER_ERROR")
        drawing.learned.take(response)
        return True


def prepare(broker: Oncelog) -> None:
    """Create the topics that the frames name, without the missing one."""
    from tests.harness.driving import create

    with Wire(broker.address) as wire:
        create(wire, *(topic for topic in TOPICS if "missing" not in topic), partitions=2)
