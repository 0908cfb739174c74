"""Why producers are refused: the fences of a transactional id, with their time and cause.

The wire has one code for all of it (PRODUCER_FENCED, KIP-588). In memory only: after a restart the
codes are the same, and the reason is in the log of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from oncelog_server.transaction.caller import Client, ClientRequest, client_of, is_admin_tool

# Fences kept of one transactional id.
REMEMBERED: Final = 4


class FenceCause(Enum):
    """As operators read it."""

    TIMED_OUT = "timed out"
    NEWER_INSTANCE = "newer instance"
    NEWER_GENERATION = "newer generation"
    CONCURRENT_COMMIT = "concurrent producer commit"
    OPERATOR = "operator"
    # Of a member of the group whose offsets it commits.
    LEFT_GROUP = "left the group"
    SESSION_TIMED_OUT = "session timed out"
    MISSED_REBALANCE = "missed the rebalance"
    GROUP_FULL = "group is full"
    UNKNOWN_TO_GROUP = "unknown to the group"


class Reason(NamedTuple):
    """Why a producer is fenced. `by`: the request that did it, None if no request did or it is not
    known. `at_ms`: wall clock, if that was before this moment."""

    cause: FenceCause
    by: ClientRequest | None = None
    at_ms: int | None = None


def taken_over_by(caller: ClientRequest | None, *, by_operator: bool = False) -> Reason:
    """Return the reason of a fence by another InitProducerId: a newer instance, or an operator that
    ends what is open (by the request, or by the admin client's name)."""
    by_operator = by_operator or (caller is not None and is_admin_tool(caller))
    return Reason(FenceCause.OPERATOR if by_operator else FenceCause.NEWER_INSTANCE, caller)


class Fence(msgspec.Struct, frozen=True):
    """The producer with this id and epoch, and all before it, are fenced. `owner`: the client that
    had the producer; `by`: the client whose request fenced it; `aborted`: whether a transaction was
    open; `refusals`: how many requests were refused since. `for_good` is false if only its group
    refuses it, until it has joined the newer generation. `refuses` is false if its transaction was
    aborted past the coordinator, which does not fence the producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    cause: FenceCause
    at_ms: int
    owner: Client | None
    by: Client | None
    aborted: bool
    for_good: bool = True
    refuses: bool = True
    refusals: int = 0

    @property
    def label(self) -> str:
        """The cause, as `oncelog transactions describe` shows it."""
        return self.cause.value if self.refuses else f"{self.cause.value}, past the coordinator"


FenceListener = Callable[[Fence], None]


def _ignore(fence: Fence) -> None:
    pass


class Fences:
    """Counters of one coordinator's fences. The fences themselves are kept with their ids.

    `on_aborted` gets every transaction that was aborted against its producer's will, `on_refused`
    every fence at its first refusal.
    """

    __slots__ = ("_on_aborted", "_on_refused", "aborted", "fenced", "refused", "refused_unknown")

    def __init__(
        self, on_aborted: FenceListener = _ignore, on_refused: FenceListener = _ignore
    ) -> None:
        self._on_aborted = on_aborted
        self._on_refused = on_refused
        # Counters by cause: producers fenced, transactions aborted by that, requests refused.
        self.fenced = dict.fromkeys(FenceCause, 0)
        self.aborted = dict.fromkeys(FenceCause, 0)
        self.refused = dict.fromkeys(FenceCause, 0)
        # Requests refused for an unknown reason, or a reason no longer kept.
        self.refused_unknown = 0

    def remember(self, known: tuple[Fence, ...], fence: Fence) -> tuple[Fence, ...]:
        """Count a fence. Return the fences that its id keeps from now on."""
        self.fenced[fence.cause] += 1
        if fence.aborted:
            self.log_abort(fence)
        return with_fence(known, fence)

    def remember_abort(self, known: tuple[Fence, ...], fence: Fence) -> tuple[Fence, ...]:
        """As `remember`, for an abort that fences no producer. All partitions of a transaction
        share one entry."""
        fence = replace(fence, refuses=False)
        self.log_abort(fence)
        others = [old for old in known if old.refuses or _producer_of(old) != _producer_of(fence)]
        return with_fence(others, fence)

    def log_abort(self, fence: Fence) -> None:
        """Count and log a transaction that was aborted against its producer's will."""
        self.aborted[fence.cause] += 1
        self._on_aborted(fence)

    def refuse_unremembered(self, cause: FenceCause) -> None:
        """Count a refused request for an id that does not exist, or is not here."""
        self.refused[cause] += 1

    def refuse(
        self, known: tuple[Fence, ...], producer_id: int, producer_epoch: int
    ) -> tuple[Fence, ...]:
        """Count a refused request. Return the fences of the id, with the count of its own."""
        fence = fence_of(known, producer_id, producer_epoch)
        if fence is None:
            self.refused_unknown += 1
            return known
        self.refused[fence.cause] += 1
        again = replace(fence, refusals=fence.refusals + 1)
        if again.refusals == 1:
            self._on_refused(again)
        return tuple(again if old is fence else old for old in known)


def with_fence(known: Iterable[Fence], fence: Fence) -> tuple[Fence, ...]:
    """Return the fences that an id keeps, `fence` the newest."""
    return (*known, fence)[-REMEMBERED:]


def fence_of(known: tuple[Fence, ...], producer_id: int, producer_epoch: int) -> Fence | None:
    """Return the fence that refuses this producer: the first that reaches its epoch."""
    reaching = [
        fence
        for fence in known
        if fence.refuses
        and fence.producer_id == producer_id
        and fence.producer_epoch >= producer_epoch
    ]
    # The causes of a group change: the last one counts.
    return next((fence for fence in reaching if fence.for_good), reaching[-1] if reaching else None)


def _producer_of(fence: Fence) -> tuple[int, int]:
    return fence.producer_id, fence.producer_epoch


def fence_for(
    transactional_id: str,
    producer: tuple[int, int],
    owner: Client | None,
    reason: Reason,
    *,
    aborted: bool,
    wall_ms: int,
    for_good: bool = True,
) -> Fence:
    """Return the fence of `producer`, the id and epoch that are refused from now on."""
    by = None if reason.by is None else client_of(reason.by)
    at_ms = wall_ms if reason.at_ms is None else reason.at_ms
    return Fence(transactional_id, *producer, reason.cause, at_ms, owner, by, aborted, for_good)


def describe(fence: Fence) -> str:
    """Return the fence as one line, for messages."""
    by = "" if fence.by is None else f" by {fence.by.client_id} at {fence.by.client_address}"
    return f"fenced{by}: {fence.cause.value}, at {fence.at_ms}"
