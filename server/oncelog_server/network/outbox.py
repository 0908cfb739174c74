"""The pending writes of a connection, in order: buffers through the transport, large file ranges by
sendfile.

sendfile uses a duplicate of the transport's descriptor, which is made at the first use. sendfile
runs only while the transport itself has nothing to write. While sendfile runs, all other parts wait
in the queue. Without sendfile, ranges are read and written in slices, while the transport takes
them. There is no sendfile with TLS, on macOS (its sendfile differs), and in a simulated network (it
has no descriptors).

Bytes of ranges that are not in the page cache are first read outside of the event loop. All parts
behind them wait.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from contextlib import suppress
from typing import Final, Protocol, cast

from oncelog_server.log.results import FileRange
from oncelog_server.network.disk_wait import DiskWait
from oncelog_server.network.turn import Turn
from oncelog_server.network.writables import Writables
from oncelog_server.requests.response import Part
from oncelog_server.storage.files import Buffer, File, StorageError

# A smaller range is read, and written in one call together with the parts around it. That is
# cheaper than a separate call of sendfile.
SENDFILE_BYTES: Final = 64 << 10
HAS_SENDFILE: Final = sys.platform == "linux" and Writables.is_possible()
# A larger response is written at once, not held until the end of the turn.
HELD_BYTES: Final = 4 << 10
# A larger response of several parts is not joined, because the copy would block the loop.
JOINED_BYTES: Final = 1 << 20
# A range that is not sent by sendfile is read in slices of this size: seven full records of TLS. A
# kernel sends them, encrypted, in two segments of at most 64 KiB. A slice of 128 KiB needs a third
# segment with its last 300 bytes, and each segment costs as much as a wake-up of the client: such
# slices take 1.4 times the processor time.
SLICE_BYTES: Final = 7 * (16 << 10)
# Maximum number of bytes that are read and written before other connections get their turn.
PUMPED_BYTES: Final = 1 << 20
# Poll interval until the transport has written its bytes. The transport gives no event for this.
LOOK_AGAIN_S: Final = 0.001
# Bytes that may queue behind a file range before the connection stops serving requests (scenario
# N4), and the overhead of a part in bytes. The bytes of ranges stay in their files and do not
# count.
QUEUED_BYTES: Final = 128 << 10
PART_BYTES: Final = 128


class Flow(Protocol):
    """The producer of responses."""

    def hold_requests(self) -> None:
        """Serve no further requests, because too many bytes are queued."""
        ...

    def release_requests(self) -> None:
        """Serve requests again."""
        ...


class Outbox:
    """The queue of one connection. `flow` is held when more than QUEUED_BYTES are queued here, and
    released when the queue is empty. The transport's own flow control does not count these
    bytes."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        turn: Turn,
        writables: Writables,
        flow: Flow,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._flow = flow
        self._turn = turn
        self._writables = writables
        # Responses that leave at the end of the turn.
        self._held: list[bytes] = []
        self._queue: deque[Part] = deque()
        # Bytes added since the queue was last empty, an upper bound of its size.
        self._queued_bytes = 0
        self._paused = False
        self._finishing = False
        # True while the transport wants no more bytes.
        self._blocked = False
        self._descriptor = -1
        self._sending: _Sending | None = None
        self._disk_wait = DiskWait()
        self._closed = False
        sock = transport.get_extra_info("socket")
        is_plain = (
            sock is not None
            and sock.family in (socket.AF_INET, socket.AF_INET6)
            and transport.get_extra_info("sslcontext") is None
        )
        # The transport's own descriptor, valid until the transport is closing.
        self._own = sock.fileno() if is_plain else -1

    def send(self, parts: list[Part]) -> None:
        if self._closed:
            return
        if not self._queue and self._sending is None:
            first = parts[0]
            if len(parts) == 1 and type(first) is bytes:
                self._write_in_turn(first)
                return
            if not any(map(_is_range, parts)):
                buffers = cast("list[Buffer]", parts)
                if sum(map(len, buffers)) <= JOINED_BYTES:
                    self._write_in_turn(b"".join(buffers))
                    return
                self.flush()
                self._transport.writelines(buffers)
                return
            self.flush()
            is_small = sum(map(len, parts)) < SENDFILE_BYTES
            if is_small and not self._blocked and self._write_joined_now(parts):
                return
        if not self._queue:
            self._queued_bytes = 0
        self._queue.extend(parts)
        if self._sending is None:
            self._pump()
        if self._queue or self._paused:
            self._control_flow(parts)

    def _write_joined_now(self, parts: list[Part]) -> bool:
        """Write a small response with file ranges, which is the most frequent response of Fetch.
        Return False if a range has to come from the disk."""
        buffers: list[Buffer] = []
        try:
            for part in parts:
                if not isinstance(part, FileRange):
                    buffers.append(part)
                elif part.is_cached():
                    buffers.append(part.read())
                else:
                    return False
        except (StorageError, OSError):
            self._transport.abort()
            return True
        self._write(b"".join(buffers))
        return True

    def _control_flow(self, added: list[Part]) -> None:
        """Hold `flow` when too much is queued; release it when the queue is empty."""
        if not self._queue:
            if self._paused:
                # `flow` is released later, not inside the code that makes the responses.
                self._loop.call_soon(self._resume_flow)
            if self._finishing and self._sending is None:
                self._transport.close()
        elif not self._paused:
            self._queued_bytes += sum(map(_memory_of, added))
            if self._queued_bytes > QUEUED_BYTES:
                self._paused = True
                self._flow.hold_requests()

    def _resume_flow(self) -> None:
        if self._paused and not self._queue and not self._closed:
            self._paused = False
            self._flow.release_requests()

    def _write_in_turn(self, data: bytes) -> None:
        held = self._held
        if held:
            held.append(data)
        elif len(data) > HELD_BYTES or self._turn.may_write():
            self._write(data)
        else:
            held.append(data)
            self._turn.hold(self)

    @property
    def unsent_bytes(self) -> int:
        """Return the number of bytes of responses that the system has not taken yet."""
        sending = 0 if self._sending is None else self._sending.left
        return self._transport.get_write_buffer_size() + sending + sum(map(len, self._queue))

    def flush(self) -> None:
        """Write the responses that are held until the end of the turn."""
        if self._held and not self._closed:
            held, self._held = self._held, []
            try:
                self._write(held[0] if len(held) == 1 else b"".join(held))
            except Exception:
                # The peer would take later responses for the lost responses.
                self._transport.abort()
                raise

    def _write(self, data: bytes) -> None:
        """Write now if the socket has room. uvloop before 0.23 would wait for the end of the loop's
        turn."""
        transport = self._transport
        if self._own >= 0 and not transport.get_write_buffer_size() and not transport.is_closing():
            try:
                written = os.write(self._own, data)
            except BlockingIOError:
                written = 0
            except OSError:
                transport.abort()
                return
            if written == len(data):
                return
            transport.write(memoryview(data)[written:])
        else:
            transport.write(data)

    def finish(self) -> None:
        """Close the transport when all parts have been handed to it, or to the system."""
        self.flush()
        if self._queue or self._sending is not None:
            self._finishing = True
        else:
            self._transport.close()

    def close(self) -> None:
        """Drop the queue and close the duplicated descriptor."""
        self._closed = True
        self._held.clear()
        self._queue.clear()
        self._sending = None
        if self._descriptor >= 0:
            self._writables.forget(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _has_descriptor(self) -> bool:
        """Return True if sendfile can be used. The second descriptor is made here, so that an idle
        connection has only one."""
        if self._descriptor < 0 and HAS_SENDFILE and self._own >= 0:
            with suppress(OSError):  # no descriptor is left: read and write instead
                descriptor = os.dup(self._own)
                try:
                    self._writables.watch(descriptor, self._on_writable)
                except OSError:
                    os.close(descriptor)
                    raise
                self._descriptor = descriptor
        return self._descriptor >= 0

    def block(self) -> None:
        """Give the transport no more parts of the queue, because its buffer is full."""
        self._blocked = True

    def unblock(self) -> None:
        """Give the transport parts of the queue again."""
        self._blocked = False
        self._look_again()

    def _pump(self) -> None:
        queue = self._queue
        ready: list[Buffer] = []
        size = pumped = 0
        try:
            while queue and not self._blocked:
                part = queue[0]
                if isinstance(part, FileRange):
                    if len(part) >= SENDFILE_BYTES and self._has_descriptor():
                        if ready and not self._write_now(ready):
                            return
                        ready, size = [], 0
                        if not self._send_file():
                            return
                        continue
                    ready_bytes = self._ready_bytes(part.file, part.position, len(part))
                    slice_bytes = min(ready_bytes, SLICE_BYTES)
                    if not slice_bytes:
                        break
                    if slice_bytes < len(part):
                        part, queue[0] = part.split(slice_bytes)
                    else:
                        queue.popleft()
                    data: Buffer = part.read()
                else:
                    data = part
                    queue.popleft()
                ready.append(data)
                size += len(data)
                if size >= SLICE_BYTES:
                    pumped += size
                    self._write_joined(ready)
                    ready, size = [], 0
                    if pumped >= PUMPED_BYTES and queue:
                        self._loop.call_soon(self._look_again)
                        return
        except (StorageError, OSError):
            # Half a response is written, so the connection cannot be used any more.
            self._transport.abort()
            return
        if ready:
            self._write_joined(ready)

    def _write_joined(self, parts: list[Buffer]) -> None:
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif sum(map(len, parts)) <= JOINED_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    def _write_now(self, ready: list[Buffer]) -> bool:
        """Write the parts before a file range directly to the socket. Return False if they have to
        wait."""
        data = b"".join(ready)
        if self._transport.get_write_buffer_size():
            self._queue.appendleft(data)
            self._loop.call_later(LOOK_AGAIN_S, self._look_again)
            return False
        try:
            written = os.write(self._descriptor, data)
        except BlockingIOError:
            written = 0
        if written < len(data):
            self._queue.appendleft(data[written:])
            return False
        return True

    def _look_again(self) -> None:
        if not self._closed and self._sending is None:
            self._pump()
            self._control_flow([])

    def _send_file(self) -> bool:
        """Begin to send the file range at the head of the queue. Return False if a part of it is
        still to be sent."""
        if self._transport.get_write_buffer_size():
            self._loop.call_later(LOOK_AGAIN_S, self._look_again)
            return False
        part = self._queue.popleft()
        assert isinstance(part, FileRange)
        self._sending = _Sending(part)
        return self._continue_file()

    def _continue_file(self) -> bool:
        sending = self._sending
        assert sending is not None
        try:
            while sending.left:
                ready = self._ready_bytes(sending.file, sending.position, sending.left)
                if not ready:
                    return False
                sending.step(self._descriptor, ready)
        except BlockingIOError:
            return False
        self._sending = None
        return True

    def _ready_bytes(self, file: File, position: int, size: int) -> int:
        """Return the number of bytes of a range that are not only on the disk. If it is 0, sending
        continues when there are some."""
        return self._disk_wait.ready_bytes(file, position, size, self._resume_ranges)

    def _resume_ranges(self) -> None:
        if not self._closed:
            self._on_writable()

    def _on_writable(self) -> None:
        try:
            if self._sending is not None and not self._continue_file():
                return
            if self._queue:
                self._pump()
            self._control_flow([])
        except (StorageError, OSError):
            self._transport.abort()
        except Exception:
            self._transport.abort()
            raise


def _is_range(part: Part) -> bool:
    return type(part) is FileRange


def _memory_of(part: Part) -> int:
    return PART_BYTES if type(part) is FileRange else PART_BYTES + len(part)


class _Sending:
    """A file range that is being sent. `left`: the number of bytes that are not sent yet."""

    __slots__ = ("file", "left", "position")

    def __init__(self, file_range: FileRange) -> None:
        self.file = file_range.file
        self.position = file_range.position
        self.left = len(file_range)

    def step(self, descriptor: int, size: int) -> None:
        """Send `size` bytes. Raises BlockingIOError if the socket is full."""
        source = self.file.fileno()
        while size:
            sent = os.sendfile(descriptor, source, self.position, size)
            if sent == 0:
                raise StorageError("sendfile", self.file.path, "the file ended early")
            self.position += sent
            self.left -= sent
            size -= sent
