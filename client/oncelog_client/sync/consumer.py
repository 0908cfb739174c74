"""The synchronous consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, Unpack

from oncelog_client import consumer
from oncelog_client.connect_failures import ConnectFailure
from oncelog_client.core.consumer_config import ConsumerSettings
from oncelog_client.errors import ClosedError
from oncelog_client.payloads import FromBytes
from oncelog_client.values import ConsumerRecord, K, V

from .loop import Facade, blocking, on_loop

# How long an iteration waits in one call of the loop, so that Ctrl-C and `close` end it soon.
_POLL_MS = 500.0


class Consumer(Facade, Generic[K, V]):
    """The methods of `oncelog_client.Consumer`. Use as `with Consumer(servers) as consumer`.

    The callbacks of a RebalanceListener run on the loop, and are async there too.
    """

    client: consumer.Consumer[K, V]

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        key_deserializer: FromBytes[K] | None = None,
        value_deserializer: FromBytes[V] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        super().__init__(
            consumer.Consumer(
                bootstrap_servers,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                **settings,
            )
        )

    def poll(
        self, timeout_ms: float = 0, *, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """Return the next records, or an empty list if there are none within `timeout_ms`."""
        # Ctrl-C may come after the poll and before its result. The records are then not lost.
        return self._run(
            self.client.poll(timeout_ms, max_records=max_records), lost=self.client.put_back
        )

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Yield each record, and wait for the next, until the consumer is closed. The position
        moves with each record."""
        while not self.client.is_closed:
            try:
                records = self.poll(_POLL_MS, max_records=1)
            except ClosedError:
                if not self.client.is_closed:
                    raise
                return
            yield from records

    @property
    def outage(self) -> tuple[ConnectFailure, ...]:
        """Return the reason why each broker cannot be reached. The result is empty while a broker
        is connected."""
        return self.client.outage

    @property
    def is_closed(self) -> bool:
        """Return True after `close`."""
        return self.client.is_closed

    close = blocking(consumer.Consumer.close)
    subscribe = blocking(consumer.Consumer.subscribe)
    assign = blocking(consumer.Consumer.assign)
    unsubscribe = blocking(consumer.Consumer.unsubscribe)
    subscription = on_loop(consumer.Consumer.subscription)
    assignment = on_loop(consumer.Consumer.assignment)
    group_metadata = on_loop(consumer.Consumer.group_metadata)
    seek = on_loop(consumer.Consumer.seek)
    seek_to_beginning = blocking(consumer.Consumer.seek_to_beginning)
    seek_to_end = blocking(consumer.Consumer.seek_to_end)
    reset_to_last_committed = blocking(consumer.Consumer.reset_to_last_committed)
    position = blocking(consumer.Consumer.position)
    count_uncommitted = on_loop(consumer.Consumer.count_uncommitted)
    put_back = on_loop(consumer.Consumer.put_back)
    pause = on_loop(consumer.Consumer.pause)
    resume = on_loop(consumer.Consumer.resume)
    paused = on_loop(consumer.Consumer.paused)
    commit = blocking(consumer.Consumer.commit)
    committed = blocking(consumer.Consumer.committed)
    beginning_offsets = blocking(consumer.Consumer.beginning_offsets)
    end_offsets = blocking(consumer.Consumer.end_offsets)
    offsets_for_times = blocking(consumer.Consumer.offsets_for_times)
    current_lag = on_loop(consumer.Consumer.current_lag)
    lag = blocking(consumer.Consumer.lag)
    partitions_for = blocking(consumer.Consumer.partitions_for)
