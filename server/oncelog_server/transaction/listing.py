"""The filter of ListTransactions (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_protocol.pattern import Pattern
from oncelog_server.transaction.states import State
from oncelog_server.views.transactions import TransactionView

STATES_BY_NAME = {state.kafka_name: state for state in State}


class TransactionFilter(NamedTuple):
    """The filter of one request. `states`: the requested states that exist, None if the request
    names no state. An empty set of states matches no id. An empty set of producer ids matches every
    id, and so does a duration below 0."""

    states: frozenset[State] | None = None
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    pattern: Pattern | None = None

    def has(self, view: TransactionView, *, wall_ms: int) -> bool:
        """Return True if the id matches. Raises PatternError if the pattern costs too much."""
        return (
            (self.states is None or view.state in self.states)
            and (not self.producer_ids or view.producer_id in self.producer_ids)
            and (self.longer_than_ms < 0 or wall_ms - view.start_ms > self.longer_than_ms)
            and (self.pattern is None or self.pattern.matches(view.transactional_id))
        )
