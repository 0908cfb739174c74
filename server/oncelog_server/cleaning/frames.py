"""The frames of the pipe between broker and cleaner process: a length, then a pickle.

Pickles are safe here, because both ends are the same program and no other process writes to the
pipe.
"""

from __future__ import annotations

import pickle
from struct import Struct
from typing import Final

_LENGTH: Final = Struct(">I")


def frame(message: object) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


class FrameBuffer:
    """Splits received bytes into messages."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    def next(self) -> object | None:
        """Return the next complete message, or None if no message is complete."""
        data = self._data
        if len(data) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        if len(data) < end:
            return None
        message: object = pickle.loads(memoryview(data)[_LENGTH.size : end])
        del data[:end]
        return message
