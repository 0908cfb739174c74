"""The identity of a prepared transaction of a two-phase commit (KIP-939)."""

from __future__ import annotations

from typing import NamedTuple, Self

from oncelog_client.errors import ConfigError


class PreparedTxnState(NamedTuple):
    """The producer id and epoch of the transaction. Both are -1 without a transaction. The text
    form is `id:epoch`, as in Kafka's clients. The application stores this state in the same
    database transaction as its own data."""

    producer_id: int = -1
    producer_epoch: int = -1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text. An empty text means no transaction. Raises ConfigError."""
        if not text:
            return cls()
        producer_id, colon, producer_epoch = text.partition(":")
        try:
            parsed = cls(int(producer_id), int(producer_epoch))
        except ValueError:
            raise ConfigError(f"{text!r} is no prepared transaction: use id:epoch") from None
        if not colon or min(parsed.producer_id, parsed.producer_epoch) < 0:
            raise ConfigError(f"{text!r} is no prepared transaction: use id:epoch")
        return parsed

    @property
    def is_empty(self) -> bool:
        """Return True for the state of no transaction."""
        return self.producer_id < 0

    def __str__(self) -> str:
        return "" if self.is_empty else f"{self.producer_id}:{self.producer_epoch}"
