"""Limits the number of recent producer ids of each client (scenarios H60, H61). Every id costs a
client only a single request, but it uses memory of the broker until `producer.id.expiration.ms` has
passed. An authenticated client is a principal, any other client an address."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused

# Number of steps in which the window moves. Between two steps, the count may be too high, but never
# too low.
STEPS: Final = 16

PER_ADDRESS: Final = "oncelog.max.producer.ids.per.address"
PER_PARTITION: Final = "oncelog.max.producer.ids.per.partition"
# Time until a limit is logged again. A client may exceed a limit with every request.
REPEAT_MS: Final = 60_000


class Refusal(NamedTuple):
    """A refused request for a producer id. `setting` is the name of the setting that limits the
    ids, and `limit` is its value. `refused` counts the requests that were refused since the last
    log event. `where` has the fields of the log event that name the client or the partition."""

    setting: str
    limit: int
    refused: int
    where: Mapping[str, str]


def _ignore(refusal: Refusal) -> None:
    pass


class RefusedProducerIds:
    """Counts the refusals of each limit since the start. `on_refusal` is called at most once a
    minute for each limit."""

    def __init__(
        self,
        monotonic_ms: Callable[[], int] = lambda: 0,
        on_refusal: Callable[[Refusal], None] = _ignore,
    ) -> None:
        self._monotonic_ms = monotonic_ms
        self._on_refusal = on_refusal
        self.counts = {PER_ADDRESS: 0, PER_PARTITION: 0}
        # By setting: the time of the last `on_refusal`, and the count at that time.
        self._logged: dict[str, tuple[int, int]] = {}

    def add(self, setting: str, limit: int, **where: str) -> None:
        count = self.counts[setting] = self.counts[setting] + 1
        now_ms = self._monotonic_ms()
        logged_ms, logged = self._logged.get(setting, (now_ms - REPEAT_MS, 0))
        if now_ms - logged_ms >= REPEAT_MS:
            self._logged[setting] = now_ms, count
            self._on_refusal(Refusal(setting, limit, count - logged, where))


class _Given:
    """The ids of one client as pairs (step of the window, number of ids), the oldest first."""

    __slots__ = ("steps", "total")

    def __init__(self) -> None:
        self.steps: deque[list[int]] = deque()
        self.total = 0


class ProducerIdQuota:
    """Allows each client `limit` ids within `window_ms` of monotonic time. A client is a principal
    (`User:alice`) or an address in Kafka's form (`/127.0.0.1`)."""

    def __init__(
        self,
        limit: int = 2**63,
        window_ms: int = 86_400_000,
        refused: RefusedProducerIds | None = None,
    ) -> None:
        self._limit = limit
        self._step_ms = _step_ms(window_ms)
        self._given: dict[str, _Given] = {}
        self._swept = 0
        self.refused = RefusedProducerIds() if refused is None else refused

    def __len__(self) -> int:
        """Return the number of remembered clients."""
        return len(self._given)

    def follow(self, window_ms: int, now_ms: int) -> None:
        """Use another window from now on. The ids of the former window count as if they were
        assigned now, because their steps have another length."""
        if _step_ms(window_ms) == self._step_ms:
            return
        self._sweep(now_ms // self._step_ms)
        self._step_ms = _step_ms(window_ms)
        self._swept = now_ms // self._step_ms
        for given in self._given.values():
            given.steps = deque([[self._swept, given.total]])

    def charge(self, client: str, now_ms: int) -> None:
        """Count one more id of this client. Raises Refused (POLICY_VIOLATION) at the limit."""
        step = now_ms // self._step_ms
        if step != self._swept:
            self._sweep(step)
        key = _key(client)
        given = self._given.get(key)
        if given is None:
            given = self._given[key] = _Given()
        if given.total >= self._limit:
            kind = "client_address" if _is_address(client) else "principal"
            self.refused.add(PER_ADDRESS, self._limit, **{kind: client})
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"{client} got {given.total} producer ids lately ({PER_ADDRESS})",
            )
        if given.steps and given.steps[-1][0] == step:
            given.steps[-1][1] += 1
        else:
            given.steps.append([step, 1])
        given.total += 1

    def give_back(self, client: str) -> None:
        """Undo the last `charge` of this client, because the id was not assigned."""
        key = _key(client)
        given = self._given.get(key)
        if given is None:
            return  # expired meanwhile
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


def _step_ms(window_ms: int) -> int:
    return max(window_ms // STEPS, 1)


def _is_address(client: str) -> bool:
    return client.startswith("/")


def _key(client: str) -> str:
    """Return the key of a client: a principal, a host, or the /64 network of an IPv6 address."""
    if not _is_address(client):
        return client
    bare = client.lstrip("/")
    if ":" not in bare:
        return bare
    head, gap, tail = bare.partition("::")
    groups = head.split(":") if head else []
    if gap:
        after = tail.split(":") if tail else []
        groups += ["0"] * (8 - len(groups) - len(after)) + after
    return ":".join(groups[:4])
