"""Bounds the log events of refused clients. A client can cause such an event with every connection,
or with every request."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from typing import Final

import msgspec

# Time until a further event of the same kind and client is logged.
REPEAT_MS: Final = 60_000
# Maximum number of different kinds and clients that are remembered. Clients choose their addresses.
MOST_KEYS: Final = 1_000
# Ends the common reason of events with several names or numbers.
SEVERAL: Final = "(several)"


# Characters of a reason that count for its variant. The pattern tries each quote of a text against
# all of its rest, and a client may choose the text.
_COUNTED_OF_REASON: Final = 300
# What a reason says, without its numbers: one with other numbers is no event of its own. Names are
# in quotes.
_NAME_OR_NUMBER: Final = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|[0-9]+""")


class _Counted(msgspec.Struct):
    """A number of events that were not logged, and the fields that are equal in all of them."""

    count: int = 0
    fields: Mapping[str, object] = {}

    def add(self, fields: Mapping[str, object]) -> None:
        self.fields = _equal_fields(self.fields, fields) if self.count else fields
        self.count += 1


class _Seen(msgspec.Struct):
    """The events of one key. The last ones were logged at `logged_ms`. `variants` has those of the
    first different fields, and `others` all further ones."""

    logged_ms: int
    variants: dict[Hashable, _Counted]
    others: _Counted = msgspec.field(default_factory=_Counted)


class BoundedEvents:
    """Calls `log(count, **fields)` for the first event of a key at once. The further ones of a
    minute are counted, and logged with the first event of the key after it.

    `count` is the number of events with these fields since the last call. The first `most_variants`
    different fields of a key in a minute have calls of their own, the first of each at once. All
    other events of the key have one call, without the fields that are not equal in all of them.
    The fields must be hashable. They stay in memory for a minute or longer, so they must refer to
    no connection.
    """

    def __init__(
        self,
        log: Callable[..., None],
        monotonic_ms: Callable[[], int],
        *,
        most_variants: int = 1,
    ) -> None:
        self._log = log
        self._monotonic_ms = monotonic_ms
        self._most_variants = most_variants
        # The least recently logged key first.
        self._seen: dict[Hashable, _Seen] = {}

    def add(self, key: Hashable, **fields: object) -> bool:
        """Count an event, and log it if it is due. Return False if more different keys occur in a
        minute than are remembered; the event is then never logged."""
        now_ms = self._monotonic_ms()
        variant = _variant_of(fields)
        seen = self._seen.get(key)
        known: list[Hashable] = []
        if seen is None:
            if len(self._seen) >= MOST_KEYS:
                oldest = next(iter(self._seen))
                if now_ms - self._seen[oldest].logged_ms < REPEAT_MS:
                    return False
                self._log_rest(self._seen.pop(oldest))
        elif now_ms - seen.logged_ms < REPEAT_MS:
            self._count(seen, variant, fields)
            return True
        else:
            del self._seen[key]
            if variant in seen.variants:
                seen.variants[variant].add(fields)
            known = self._log_rest(seen)
        if variant not in known:
            self._log(count=1, **fields)
        remembered = [variant, *known][: self._most_variants]
        self._seen[key] = _Seen(now_ms, {variant: _Counted() for variant in remembered})
        return True

    def flush(self) -> None:
        """Log the events that were counted and not logged, because the broker stops."""
        for seen in self._seen.values():
            self._log_rest(seen)

    def _count(self, seen: _Seen, variant: Hashable, fields: Mapping[str, object]) -> None:
        """Count a further event of a minute. Log it if its fields are among the first different
        fields."""
        if variant in seen.variants:
            seen.variants[variant].add(fields)
        elif len(seen.variants) < self._most_variants:
            seen.variants[variant] = _Counted()
            self._log(count=1, **fields)
        else:
            seen.others.add(fields)

    def _log_rest(self, seen: _Seen) -> list[Hashable]:
        """Log the events that were counted and not logged. Return their variants."""
        logged = [variant for variant, counted in seen.variants.items() if counted.count]
        for counted in (*(seen.variants[variant] for variant in logged), seen.others):
            if counted.count:
                self._log(count=counted.count, **counted.fields)
                counted.count = 0
        return logged


class GroupedEvents:
    """Bounded events with a second key. If more different keys occur in a minute than are
    remembered, the further events are counted together by their group."""

    def __init__(
        self,
        log: Callable[..., None],
        monotonic_ms: Callable[[], int],
        *,
        most_variants: int = 1,
    ) -> None:
        self._single = BoundedEvents(log, monotonic_ms, most_variants=most_variants)
        self._grouped = BoundedEvents(log, monotonic_ms)

    def add(self, key: Hashable, group: Hashable, **fields: object) -> None:
        """Count an event, and log it if it is due."""
        if not self._single.add(key, **fields):
            self._grouped.add(group, **fields)

    def flush(self) -> None:
        """Log the events that were counted and not logged, because the broker stops."""
        self._single.flush()
        self._grouped.flush()


def _variant_of(fields: Mapping[str, object]) -> Hashable:
    """Return the part of the fields that makes an event of its own."""
    if isinstance(reason := fields.get("reason"), str):
        fields = {**fields, "reason": _NAME_OR_NUMBER.sub(r"\1", reason[:_COUNTED_OF_REASON])}
    return tuple(fields.items())


def _equal_fields(known: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that are equal in both. Of two reasons of one kind, the kind stays."""
    equal = {name: value for name, value in known.items() if fields.get(name) == value}
    if "reason" in known and "reason" not in equal:
        kinds = [kind_of(str(each.get("reason"))).rstrip() for each in (known, fields)]
        if kinds[0] == kinds[1]:
            equal["reason"] = f"{kinds[0]} {SEVERAL}"
    return equal


def kind_of(reason: str) -> str:
    """Return the part of a reason that is the same in all events of its kind: the text before the
    first name or number. A client chooses these, and each would be an event of its own."""
    return re.split("[^A-Za-z ,-]", reason, maxsplit=1)[0]
