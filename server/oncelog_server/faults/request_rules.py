"""The rules by which a test makes requests fail or wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.faults.fault_register import FaultRegister

UNLIMITED: Final = -1


class Scope:
    """The requests for which a rule is made. None matches every topic or client."""

    __slots__ = ("api", "client_id", "topic")

    def __init__(self, api: ApiKey, topic: str | None, client_id: str | None) -> None:
        self.api = api
        self.topic = topic
        self.client_id = client_id

    def includes(self, client_id: str | None, topics: Collection[str]) -> bool:
        return (self.topic is None or self.topic in topics) and (
            self.client_id is None or self.client_id == client_id
        )


class Failing:
    """A rule: the next `left` requests get the error code and have no other effect."""

    __slots__ = ("code", "is_met", "left", "scope")

    def __init__(self, scope: Scope, code: ErrorCode, left: int) -> None:
        self.scope = scope
        self.code = code
        self.left = left
        # True if the rule has applied to a request.
        self.is_met = False

    def count(self) -> bool:
        """Count a request. Return True if the rule applies to no further request."""
        self.is_met = True
        if self.left != UNLIMITED:
            self.left -= 1
        return not self.left


class Holding:
    """A rule: the next request waits for `release`.

    `arrived` is set when the request has arrived. If `holds_response` is True, the request is
    served at once, and its response is held.
    """

    __slots__ = ("_go", "arrived", "holds_response", "scope")

    def __init__(self, scope: Scope, *, holds_response: bool) -> None:
        self.scope = scope
        self.holds_response = holds_response
        self.arrived = asyncio.Event()
        # The argument is True if the response is to be lost.
        self._go: Deferred[bool] = Deferred()

    @property
    def is_met(self) -> bool:
        return self.arrived.is_set()

    def arrive(self, go_on: Callable[[bool], None]) -> None:
        """Note the request, and call `go_on(lost)` at the release."""
        self.arrived.set()
        self._go.on_complete(go_on)

    def release(self, *, lost: bool) -> None:
        """Let the request continue. A request that arrives later is not held. With `lost`, the
        request takes effect, and the connection breaks before the response."""
        if not self._go.done:
            self._go.complete(lost)


Rule = Failing | Holding


class RequestRules:
    """The rules in effect, in the order in which they were made. The first rule that matches a
    request decides. `register` gives the ids, and notes the rules that have applied to a request.
    """

    def __init__(self, register: FaultRegister) -> None:
        self._register = register
        self._rules: dict[str, Rule] = {}
        # The APIs with rules. All other requests pass without a look into their bytes.
        self.apis: frozenset[int] = frozenset()

    def add(self, rule: Rule) -> str:
        """Return the id of the new rule."""
        rule_id = self._register.new_id()
        self._rules[rule_id] = rule
        self._update()
        return rule_id

    def __len__(self) -> int:
        """Return the number of rules in effect."""
        return len(self._rules)

    def __getitem__(self, rule_id: str) -> Rule:
        """Return the rule. Raises KeyError if it is removed."""
        return self._rules[rule_id]

    def remove(self, rule_id: str) -> None:
        """Remove the rule, if it is still there. A held request continues."""
        rule = self._rules.pop(rule_id, None)
        if isinstance(rule, Holding):
            rule.release(lost=False)
        self._update()

    def clear(self) -> None:
        """Remove all rules. Held requests continue."""
        for rule_id in list(self._rules):
            self.remove(rule_id)

    def apply_to(
        self, api: int, client_id: str | None, topics: Callable[[], Collection[str]]
    ) -> Rule | None:
        """Return the rule for this request, and count the request. `topics` is called only if a
        rule names a topic."""
        for rule_id, rule in self._rules.items():
            scope = rule.scope
            if scope.api != api:
                continue
            if not scope.includes(client_id, topics() if scope.topic is not None else ()):
                continue
            if isinstance(rule, Holding) and rule.is_met:
                continue
            if not rule.is_met:
                self._register.note_met(rule_id)
            if isinstance(rule, Failing) and rule.count():
                self.remove(rule_id)
            return rule
        return None

    def _update(self) -> None:
        self.apis = frozenset(rule.scope.api for rule in self._rules.values())
