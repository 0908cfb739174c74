"""Random traces of limits and requests, for our quotas and for Kafka's quota managers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from oncelog_server.quotas.client_quota import MutationQuota, RateQuota
from oncelog_server.quotas.entities import CLIENT_ID, USER, Entity, Quota, entity_of
from oncelog_server.quotas.limits import ABSENT, DEFAULT, ClientLimits
from oncelog_server.quotas.windows import Windows
from oncelog_server.refusal import Refused

KINDS: Final = {
    "bytes": Quota.PRODUCE,
    "request": Quota.REQUEST,
    "mutation": Quota.MUTATION,
}
# A name with characters that Kafka encodes, and one that looks like the default.
USERS: Final = ("alice", "CN=bob,OU=a b*", "<default>")
CLIENT_IDS: Final = ("app", "other app", "<default>", "")
# Amounts and limits of each kind.
AMOUNTS: Final = {"bytes": (1, 1_000_000), "request": (0.001, 90.0), "mutation": (1, 40)}
LIMITS: Final = {"bytes": (100, 200_000), "request": (0.5, 120.0), "mutation": (0.1, 20.0)}


@dataclass
class Trace:
    """The steps of one quota."""

    kind: str
    samples: int
    seconds: int
    steps: list[tuple[Any, ...]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "samples": self.samples, "seconds": self.seconds, "steps": self.steps
        }  # fmt: skip

    def results(self) -> list[int]:
        """Return what our quota decides, in the form of the oracle."""
        return _Replay(self).results()


class _Replay:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._now_ms = 5_000
        self._limits: dict[Entity, dict[str, float]] = {}
        windows = Windows(trace.samples, trace.seconds * 1000)
        self._mutation = MutationQuota(self._current(), windows, lambda: self._now_ms)
        most = windows.length_ms if trace.kind == "request" else 2**31 - 1
        self._rate = RateQuota(self._current(), windows, most)

    def _current(self) -> ClientLimits:
        return ClientLimits(self._limits, KINDS[self._trace.kind])

    def results(self) -> list[int]:
        found = []
        for step in self._trace.steps:
            match step:
                case "wait", delay_ms:
                    self._now_ms += delay_ms
                case "limit", user, client_id, limit:
                    self._set(user, client_id, limit)
                case "record", user, client_id, value:
                    found.append(self._rate.record(user, client_id, value, self._now_ms))
                case "take back", user, client_id, value:
                    self._rate.record(user, client_id, -value, self._now_ms)
                    found.append(0)
                case "most", user, client_id:
                    found.append(self._rate.most_at_once(user, client_id))
                case kind, user, client_id, topics:
                    found.append(self._mutated(kind, user, client_id, topics))
        return found

    def _set(self, user: str | None, client_id: str | None, limit: float | None) -> None:
        parts = ((USER, user), (CLIENT_ID, client_id))
        entity = entity_of(part for part in parts if part[1] != ABSENT)
        if limit is None:
            self._limits.pop(entity, None)
        else:
            self._limits[entity] = {KINDS[self._trace.kind]: limit}
        self._rate.usage.limits = self._mutation.usage.limits = self._current()

    def _mutated(self, kind: str, user: str, client_id: str, topics: list[float]) -> int:
        permits = self._mutation.permits(user, client_id, is_strict=kind == "strict")
        if permits is None:
            return 0
        is_refused = False
        for number, partitions in enumerate(topics):
            try:
                permits.take(str(number), int(partitions))
            except Refused:
                is_refused = True
        throttle_ms = permits.throttle_ms()
        return -1 - throttle_ms if is_refused else throttle_ms


def trace(seed: int) -> Trace:
    """Return a trace of about forty requests. A client that has no limit never gets one later,
    because Kafka counts the requests of such a client as soon as another client has a limit."""
    chance = Random(seed)
    kind = chance.choice([*KINDS])
    made = Trace(kind, chance.choice([1, 2, 3, 11, 11]), chance.choice([1, 1, 2, 10]))
    pairs = [
        (user, client_id)
        for user in (*USERS[:2], DEFAULT, ABSENT)
        for client_id in (*CLIENT_IDS[:2], DEFAULT, ABSENT)
        if (user, client_id) != (ABSENT, ABSENT)
    ]
    defined = dict.fromkeys(chance.sample(pairs, chance.randrange(1, 6)))
    covers_all = chance.random() < 0.5
    if covers_all:
        defined[DEFAULT, ABSENT] = None
    for pair in defined:
        made.steps.append(("limit", *pair, _limit(chance, kind)))
    for _ in range(chance.randrange(20, 60)):
        made.steps.append(("wait", _delay(chance, made)))
        if chance.random() < 0.08:
            _change_limits(chance, made, defined, pairs if covers_all else [])
        made.steps += _requests(chance, kind)
    return made


def _change_limits(
    chance: Random,
    made: Trace,
    defined: dict[tuple[str | None, str | None], None],
    addable: list[tuple[str | None, str | None]],
) -> None:
    pair = chance.choice([*defined, *addable])
    is_last = pair == (DEFAULT, ABSENT) or len(defined) == 1
    if chance.random() < 0.3 and pair in defined and not is_last:
        del defined[pair]
        made.steps.append(("limit", *pair, None))
        return
    defined[pair] = None
    made.steps.append(("limit", *pair, _limit(chance, made.kind)))


def _requests(chance: Random, kind: str) -> list[tuple[Any, ...]]:
    client = (chance.choice(USERS), chance.choice(CLIENT_IDS))
    if kind == "mutation":
        topics = [_amount(chance, *AMOUNTS[kind]) for _ in range(chance.randrange(1, 4))]
        return [(chance.choice(["strict", "strict", "permissive"]), *client, topics)]
    value = _amount(chance, *AMOUNTS[kind])
    steps: list[tuple[Any, ...]] = [("record", *client, value)]
    if chance.random() < 0.2:
        steps.append(("take back", *client, value))
    if chance.random() < 0.1:
        steps.append(("most", *client))
    return steps


def _amount(chance: Random, least: float, most: float) -> float:
    return chance.randint(int(least), int(most)) if least >= 1 else chance.uniform(least, most)


def _limit(chance: Random, kind: str) -> float:
    return _amount(chance, *LIMITS[kind])


def _delay(chance: Random, made: Trace) -> int:
    """Return a delay in ms: often none, at times exactly a window, at times longer than all."""
    window_ms = made.seconds * 1000
    return chance.choice(
        [
            0,
            1,
            chance.randrange(window_ms),
            chance.randrange(window_ms),
            window_ms,
            chance.randrange(2 * window_ms),
            made.samples * window_ms,
            chance.randrange((made.samples + 3) * window_ms),
        ]
    )
