"""The errors of invalid record data."""

from __future__ import annotations


class CorruptRecords(ValueError):
    """Record data that no Kafka producer writes. `reason` says what is wrong with it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DecompressedTooLarge(CorruptRecords):
    """Data that is larger than the reader's limit (bytes) when decompressed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the batch holds more than {limit} bytes when decompressed")
        self.limit = limit


class UnsupportedMagic(CorruptRecords):
    """A batch of another message format than v2: `magic` 0 and 1 are Kafka's old formats."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"message format v{magic} is not supported")
        self.magic = magic
