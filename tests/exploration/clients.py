"""Producers that send any request that the protocol allows, and their responses."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tests.exploration.partition_model import Ghost


class Init(NamedTuple):
    """InitProducerId of a new instance."""


class Add(NamedTuple):
    """AddPartitionsToTxn (before KIP-890)."""

    producer: tuple[int, int]
    partition: int


class Produce(NamedTuple):
    """One record. From KIP-890 on, the request adds its partition to the transaction."""

    producer: tuple[int, int]
    partition: int
    sequence: int
    ghost: Ghost


class End(NamedTuple):
    """EndTxn."""

    producer: tuple[int, int]
    committed: bool
    ghost: Ghost


Request: TypeAlias = Init | Add | Produce | End


class ClientModel(NamedTuple):
    """A producer. `version`: the transaction version, 2 with KIP-890. `outstanding`: the request
    without a response. `sequences`: the next sequence number of each partition. `added` and `sent`:
    the partitions in the current transaction. `number`: the number of transactions so far.
    `is_fenced`: the client knows that it is fenced."""

    transactional_id: str
    version: int
    producer: tuple[int, int] | None = None
    outstanding: Request | None = None
    sequences: tuple[int, int] = (0, 0)
    added: frozenset[int] = frozenset()
    sent: frozenset[int] = frozenset()
    number: int = 0
    is_fenced: bool = False

    def choices(self, index: int, most_transactions: int) -> list[Request]:
        """Return the requests that the client may send next. While a request has no response, the
        client can only repeat it."""
        if self.is_fenced:
            return []
        if self.outstanding is not None:
            return [self.outstanding]
        if self.producer is None:
            return [Init()]
        if self.number >= most_transactions:
            return []
        ghost = Ghost(index, self.number)
        found: list[Request] = []
        for partition in (0, 1):
            if partition in self.sent:
                continue
            if self.version == 1 and partition not in self.added:
                found.append(Add(self.producer, partition))
            else:
                sequence = self.sequences[partition]
                found.append(Produce(self.producer, partition, sequence, ghost))
        if self.sent:
            found += [End(self.producer, committed, ghost) for committed in (True, False)]
        return found

    def answered(self, request: Request, producer: tuple[int, int] | None) -> ClientModel:
        """Return the client after the successful response to a request. `producer`: the id and
        epoch in the response."""
        if isinstance(request, Init):
            return self._replace(producer=producer, outstanding=None)
        if isinstance(request, Add):
            return self._replace(added=self.added | {request.partition}, outstanding=None)
        if isinstance(request, Produce):
            first, second = self.sequences
            sequences = (first + (request.partition == 0), second + (request.partition == 1))
            sent = self.sent | {request.partition}
            return self._replace(sequences=sequences, sent=sent, outstanding=None)
        bumps = self.version == 2
        return self._replace(
            producer=producer if bumps else self.producer,
            sequences=(0, 0) if bumps else self.sequences,
            added=frozenset(),
            sent=frozenset(),
            number=self.number + 1,
            outstanding=None,
        )
