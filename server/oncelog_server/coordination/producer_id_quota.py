"""How many producer ids one address has been given lately (H60, H61): state that lasts for
`producer.id.expiration.ms` costs a client nothing but a request."""

from __future__ import annotations

from collections import deque
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused

# What was given is forgotten in so many steps; in between too much is counted, never too little.
STEPS: Final = 16


class _Given:
    """What one address was given: (step, how many), the oldest first."""

    __slots__ = ("steps", "total")

    def __init__(self) -> None:
        self.steps: deque[list[int]] = deque()
        self.total = 0


class ProducerIdQuota:
    """`limit` ids within `window_ms` of monotonic time."""

    def __init__(self, limit: int = 2**63, window_ms: int = 86_400_000) -> None:
        self._limit = limit
        self._step_ms = max(window_ms // STEPS, 1)
        self._given: dict[str, _Given] = {}
        self._swept = 0
        # How many were refused since the start.
        self.refused = 0

    def __len__(self) -> int:
        """Addresses that are remembered."""
        return len(self._given)

    def charge(self, address: str, now_ms: int) -> None:
        """One id more for this address. Raises Refused (POLICY_VIOLATION)."""
        step = now_ms // self._step_ms
        if step != self._swept:
            self._sweep(step)
        key = _client(address)
        given = self._given.get(key)
        if given is None:
            given = self._given[key] = _Given()
        if given.total >= self._limit:
            self.refused += 1
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"{address} has been given {given.total} producer ids lately"
                " (oncelog.max.producer.ids.per.address)",
            )
        if given.steps and given.steps[-1][0] == step:
            given.steps[-1][1] += 1
        else:
            given.steps.append([step, 1])
        given.total += 1

    def give_back(self, address: str) -> None:
        """The last one charged to this address was not given."""
        key = _client(address)
        given = self._given.get(key)
        if given is None:
            return  # forgotten meanwhile
        given.total -= 1
        given.steps[-1][1] -= 1
        if not given.steps[-1][1]:
            given.steps.pop()
        if not given.steps:
            del self._given[key]

    def _sweep(self, step: int) -> None:
        self._swept = step
        for key, given in list(self._given.items()):
            while given.steps and given.steps[0][0] <= step - STEPS - 1:
                given.total -= given.steps.popleft()[1]
            if not given.steps:
                del self._given[key]


def _client(address: str) -> str:
    """Whom an address stands for: one host, or whoever has a /64 of IPv6, where that is one."""
    bare = address.lstrip("/")
    if ":" not in bare:
        return bare
    head, gap, tail = bare.partition("::")
    groups = head.split(":") if head else []
    if gap:
        after = tail.split(":") if tail else []
        groups += ["0"] * (8 - len(groups) - len(after)) + after
    return ":".join(groups[:4])
