"""Named mutants of the buffers of frames, and of the marks of sockets."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_REQUESTS: Final = "server/oncelog_server/requests"
_READER: Final = f"{_REQUESTS}/frame_reader.py"
_TESTS: Final = (
    "tests/server/requests/test_spare_buffers.py",
    "tests/server/requests/test_frame_reader.py",
)

_MARK: Final = "server/oncelog_server/network/receive_mark.py"
_MARK_TESTS: Final = ("tests/server/network/test_receive_mark.py",)

FRAME_MUTANTS: Final = (
    Mutant(
        "FB1",
        "the bytes of a request are overwritten while it is still in use",
        f"{_REQUESTS}/spare_buffers.py",
        "    except BufferError:\n        return True\n",
        "    except BufferError:\n        return False\n",
        _TESTS,
    ),
    Mutant(
        "FB2",
        "the last bytes of a frame do not complete it",
        _READER,
        "        if self._frame is None or self._received + count == self._frame_size:\n",
        "        if self._frame is None:\n",
        _TESTS,
    ),
    Mutant(
        "FB3",
        "a frame in a larger buffer takes the bytes of the next frame",
        _READER,
        "            return memoryview(frame)[self._received : self._frame_size]\n",
        "            return memoryview(frame)[self._received :]\n",
        _TESTS,
    ),
    Mutant(
        "FB4",
        "a frame takes a buffer that is too small for it",
        f"{_REQUESTS}/spare_buffers.py",
        "if least <= len(spare) <= most and",
        "if len(spare) <= most and",
        _TESTS,
    ),
    Mutant(
        "FB5",
        "clients that send only a length hold the buffers of earlier frames",
        f"{_REQUESTS}/spare_buffers.py",
        "if least <= len(spare) <= most and",
        "if least <= len(spare) and",
        _TESTS,
    ),
    Mutant(
        "FB6",
        "the end of a request over TLS stays below the mark of its socket",
        _MARK,
        "        raised = missing_bytes >= MARK_BYTES + RECORD_BYTES\n",
        "        raised = missing_bytes >= MARK_BYTES\n",
        _MARK_TESTS,
    ),
    Mutant(
        "FB7",
        "a connection that closes sets the mark of another socket",
        _MARK,
        "        if self._transport.is_closing():\n",
        "        if not self._transport:\n",
        _MARK_TESTS,
    ),
    Mutant(
        "FB8",
        "a slow client over TLS counts as silent",
        "server/oncelog_server/network/reading.py",
        "            self._mark.lower()\n",
        "            self._mark.follow(self._frames.missing_bytes)\n",
        _MARK_TESTS,
    ),
)
