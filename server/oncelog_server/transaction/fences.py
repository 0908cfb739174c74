"""Why a producer was refused: who was cut off from a transactional id, when, and by whom.

The wire has one code for all of it (PRODUCER_FENCED, KIP-588). In memory only: after a restart the
codes are the same, and the reason is in the log of events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from oncelog_server.transaction.caller import Caller, Client, client_of, is_admin_tool

# So many are remembered of one transactional id.
REMEMBERED: Final = 4


class FenceCause(Enum):
    """As operators read it."""

    TIMED_OUT = "timed out"
    NEWER_INSTANCE = "newer instance"
    NEWER_GENERATION = "newer generation"
    CONCURRENT_COMMIT = "concurrent producer commit"
    OPERATOR = "operator"
    # Of who has been a member of the group whose offsets it commits.
    LEFT_GROUP = "left the group"
    SESSION_TIMED_OUT = "session timed out"
    MISSED_REBALANCE = "missed the rebalance"
    GROUP_FULL = "group is full"
    UNKNOWN_TO_GROUP = "unknown to the group"


class Reason(NamedTuple):
    """Why somebody is cut off, and whose request did it: None where it was nobody's, or that is not
    known. `at_ms`: wall clock, where it was before this moment."""

    cause: FenceCause
    by: Caller | None = None
    at_ms: int | None = None


def taken_over_by(caller: Caller | None, *, by_operator: bool = False) -> Reason:
    """Of who asks for the producer id of somebody else: to write, or (an operator, whether it says
    so or calls itself like one) to end what is open."""
    by_operator = by_operator or (caller is not None and is_admin_tool(caller))
    return Reason(FenceCause.OPERATOR if by_operator else FenceCause.NEWER_INSTANCE, caller)


@dataclass(slots=True)
class Fence:
    """The producer with this id and epoch, and all before it, were cut off. `owner` is the client
    that had it, `by` the one that did it; `aborted`: whether a transaction was open. `refusals`
    counts how often it came back. `for_good` is false where only its group refuses it, until it has
    joined the newer generation. `refuses` is false where its transaction was aborted past the
    coordinator, and it was not cut off at all."""

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


Told = Callable[[Fence], None]


def _ignore(fence: Fence) -> None:
    pass


class Fences:
    """All of one coordinator: counts, and tells of what is an event.

    `on_aborted` hears of every transaction that was aborted against its producer's will,
    `on_refused` of every fence at which somebody is turned away, the first time only.
    """

    __slots__ = ("_on_aborted", "_on_refused", "aborted", "fenced", "refused", "refused_unknown")

    def __init__(self, on_aborted: Told = _ignore, on_refused: Told = _ignore) -> None:
        self._on_aborted = on_aborted
        self._on_refused = on_refused
        # Counters by cause: producers cut off, transactions aborted by that, requests refused.
        self.fenced = dict.fromkeys(FenceCause, 0)
        self.aborted = dict.fromkeys(FenceCause, 0)
        self.refused = dict.fromkeys(FenceCause, 0)
        # Requests refused for a reason that is not remembered (any more), or was none of ours.
        self.refused_unknown = 0

    def remember(self, known: tuple[Fence, ...], fence: Fence) -> tuple[Fence, ...]:
        """What is known of an id from now on."""
        self.fenced[fence.cause] += 1
        if fence.aborted:
            self.tell(fence)
        return (*known, fence)[-REMEMBERED:]

    def remember_abort(self, known: tuple[Fence, ...], fence: Fence) -> tuple[Fence, ...]:
        """As `remember`, where nobody is cut off. One for all partitions of a transaction."""
        fence.refuses = False
        self.tell(fence)
        others = [one for one in known if one.refuses or _producer_of(one) != _producer_of(fence)]
        return (*others, fence)[-REMEMBERED:]

    def tell(self, fence: Fence) -> None:
        """A transaction was aborted against its producer's will."""
        self.aborted[fence.cause] += 1
        self._on_aborted(fence)

    def refuse_unremembered(self, cause: FenceCause) -> None:
        """Of an id that does not exist (any more), or is not here."""
        self.refused[cause] += 1

    def refuse(self, known: tuple[Fence, ...], producer_id: int, producer_epoch: int) -> str:
        """Somebody who was cut off came back: why, for a person, or the empty string."""
        fence = fence_of(known, producer_id, producer_epoch)
        if fence is None:
            self.refused_unknown += 1
            return ""
        self.refused[fence.cause] += 1
        fence.refusals += 1
        if fence.refusals == 1:
            self._on_refused(fence)
        return describe(fence)


def fence_of(known: tuple[Fence, ...], producer_id: int, producer_epoch: int) -> Fence | None:
    """The one that cut this producer off: the first that reaches its epoch."""
    reaching = [
        fence
        for fence in known
        if fence.refuses
        and fence.producer_id == producer_id
        and fence.producer_epoch >= producer_epoch
    ]
    # Its group refuses it now for this, now for that: the last is the one that counts.
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
) -> Fence:
    """`producer`: the id and epoch that are refused from now on."""
    by = None if reason.by is None else client_of(reason.by)
    at_ms = wall_ms if reason.at_ms is None else reason.at_ms
    return Fence(transactional_id, *producer, reason.cause, at_ms, owner, by, aborted)


def describe(fence: Fence) -> str:
    """One line, for messages."""
    by = "" if fence.by is None else f" by {fence.by.client_id} at {fence.by.client_address}"
    return f"fenced{by}: {fence.cause.value}, at {fence.at_ms}"
