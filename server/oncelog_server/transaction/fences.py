"""The reasons for refusing producers. A transactional id has fences, each with its time and cause.

The protocol has one code for all reasons (PRODUCER_FENCED, KIP-588). The reasons are in memory
only. After a restart, only the log events have the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from oncelog_server.transaction.caller import Client, ClientRequest, client_of, is_admin_tool

# Maximum number of fences of one transactional id.
REMEMBERED: Final = 4


class FenceCause(Enum):
    """The causes, in words for operators."""

    TIMED_OUT = "timed out"
    NEWER_INSTANCE = "newer instance"
    NEWER_GENERATION = "newer generation"
    CONCURRENT_COMMIT = "concurrent producer commit"
    OPERATOR = "operator"
    # The next causes are for a member of the consumer group that the offsets belong to.
    LEFT_GROUP = "left the group"
    SESSION_TIMED_OUT = "session timed out"
    MISSED_REBALANCE = "missed the rebalance"
    GROUP_FULL = "group is full"
    UNKNOWN_TO_GROUP = "unknown to the group"


class Reason(NamedTuple):
    """The reason of a producer's fence. `by`: the client of the request that fenced the producer.
    None without a request, or if the client is unknown. `at_ms`: wall-clock time of the cause, set
    if the cause is older than the fence, for example a rebalance."""

    cause: FenceCause
    by: ClientRequest | None = None
    at_ms: int | None = None


def taken_over_by(caller: ClientRequest | None, *, by_operator: bool = False) -> Reason:
    """Return the reason of a fence by another InitProducerId. The caller is an operator if the
    request says so, or if the client id is that of the admin client. Otherwise the caller is a
    newer instance."""
    by_operator = by_operator or (caller is not None and is_admin_tool(caller))
    return Reason(FenceCause.OPERATOR if by_operator else FenceCause.NEWER_INSTANCE, caller)


class Fence(msgspec.Struct, frozen=True):
    """The fence of a producer with this id and epoch, and of all lower epochs of the id.

    `owner`: the fenced producer's client. `by`: the client that fenced the producer. `aborted`:
    True if the producer's open transaction was aborted. `refusals`: number of requests that the
    fence has refused. `for_good`: False if only the group refuses the producer, until the producer
    joins the newer generation. `refuses`: False if an operator aborted the transaction without the
    coordinator, because such an abort does not fence the producer.
    """

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
        """The text of the cause in `oncelog transactions describe`."""
        return self.cause.value if self.refuses else f"{self.cause.value}, past the coordinator"


FenceListener = Callable[[Fence], None]


def _ignore(fence: Fence) -> None:
    pass


class Fences:
    """Counters of one coordinator's fences. The fences themselves belong to their ids.

    `on_aborted` gets every abort that the producer did not request. `on_refused` gets every fence
    at its first refused request.
    """

    __slots__ = ("_on_aborted", "_on_refused", "aborted", "fenced", "refused", "refused_unknown")

    def __init__(
        self, on_aborted: FenceListener = _ignore, on_refused: FenceListener = _ignore
    ) -> None:
        self._on_aborted = on_aborted
        self._on_refused = on_refused
        # Counters by cause: fenced producers, transactions that a fence aborted, refused requests.
        self.fenced = dict.fromkeys(FenceCause, 0)
        self.aborted = dict.fromkeys(FenceCause, 0)
        self.refused = dict.fromkeys(FenceCause, 0)
        # Number of requests that were refused for an unknown or forgotten reason.
        self.refused_unknown = 0

    def remember(self, known: tuple[Fence, ...], fence: Fence) -> tuple[Fence, ...]:
        """Count a fence. Return the id's fences with the new fence."""
        self.fenced[fence.cause] += 1
        if fence.aborted:
            self.log_abort(fence)
        return with_fence(known, fence)

    def remember_abort(self, known: tuple[Fence, ...], fence: Fence) -> tuple[Fence, ...]:
        """Count an abort that fences no producer. Return the id's fences with one entry for the
        abort. All partitions of the transaction share this entry."""
        fence = replace(fence, refuses=False)
        self.log_abort(fence)
        others = [old for old in known if old.refuses or _producer_of(old) != _producer_of(fence)]
        return with_fence(others, fence)

    def log_abort(self, fence: Fence) -> None:
        """Count and log an abort that the producer did not request."""
        self.aborted[fence.cause] += 1
        self._on_aborted(fence)

    def refuse_unremembered(self, cause: FenceCause) -> None:
        """Count a refused request with an id that this coordinator does not have."""
        self.refused[cause] += 1

    def refuse(
        self, known: tuple[Fence, ...], producer_id: int, producer_epoch: int
    ) -> tuple[Fence, ...]:
        """Count a refused request. Return the id's fences with the new count."""
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
    """Return the fences that an id keeps, with `fence` as the newest."""
    return (*known, fence)[-REMEMBERED:]


def fence_of(known: tuple[Fence, ...], producer_id: int, producer_epoch: int) -> Fence | None:
    """Return the fence that refuses this producer. The candidates are the fences with the
    producer's epoch or a higher epoch. The result is the first candidate that is for good (see
    `Fence`), or else the last candidate."""
    reaching = [
        fence
        for fence in known
        if fence.refuses
        and fence.producer_id == producer_id
        and fence.producer_epoch >= producer_epoch
    ]
    # A fence that is not for good comes from a change of the group. The last change is the reason.
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
    """Return the fence of `producer`, which is a producer id and an epoch."""
    by = None if reason.by is None else client_of(reason.by)
    at_ms = wall_ms if reason.at_ms is None else reason.at_ms
    return Fence(transactional_id, *producer, reason.cause, at_ms, owner, by, aborted, for_good)


def describe(fence: Fence) -> str:
    """Return the fence as one line, for messages."""
    by = ""
    if fence.by is not None:
        name = " ".join(filter(None, (fence.by.principal, fence.by.client_id)))
        by = f" by {name} at {fence.by.client_address}"
    return f"fenced{by}: {fence.cause.value}, at {fence.at_ms}"
