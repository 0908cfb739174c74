"""Denied requests as bounded log events. Kafka logs them to `kafka.authorizer.logger`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_protocol.apis import APIS
from oncelog_server.security.audit import GroupedEvents
from oncelog_server.security.authorizer import Subject
from oncelog_server.security.resources import Operation, Resource

# Length of a resource's name in an event. Topics have shorter names; other names may be long.
LOGGED_NAME: Final = 249


class Denials:
    """Calls `log(count, **fields)` for the first denial of a principal, operation and resource at
    once, then at most once a minute.

    A client may name very many resources in a minute. Then the denials of a principal that cannot
    be remembered by resource are counted together.
    """

    def __init__(self, log: Callable[..., None], monotonic_ms: Callable[[], int]) -> None:
        self._log = log
        self._events = GroupedEvents(self._logged, monotonic_ms)

    def add(
        self,
        subject: Subject,
        operation: Operation,
        resource: Resource,
        api_key: int,
        rule: Callable[[], str],
    ) -> None:
        """Log a denial if it is due. `rule` returns the rule that decided, as text. `subject` and
        `rule` stay in memory, so they must refer to no connection."""
        if len(resource.name) > LOGGED_NAME:
            # A long name must not stay in memory either.
            text = rule()
            resource, rule = Resource(resource.type, resource.name[:LOGGED_NAME]), lambda: text
        principal = str(subject.principal)
        key = principal, operation, resource.type, resource.name
        denial = (subject, operation, resource, api_key, rule)
        self._events.add(key, principal, denial=denial)

    def flush(self) -> None:
        """Log the denials that were counted and not logged, because the broker stops."""
        self._events.flush()

    def _logged(
        self,
        count: int,
        denial: tuple[Subject, Operation, Resource, int, Callable[[], str]],
    ) -> None:
        subject, operation, resource, api_key, rule = denial
        self._log(
            count=count,
            principal=str(subject.principal),
            host=subject.host,
            listener=subject.listener,
            operation=operation.name,
            resource_type=resource.type.name,
            resource=resource.name,
            api=APIS[api_key].name,
            rule=rule(),
        )
