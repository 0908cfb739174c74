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


# Maximum number of different hosts, listeners, APIs and rules of a denied resource with counts of
# their own in a minute.
MOST_VARIANTS: Final = 5


class Denials:
    """Calls `log(count, **fields)` for the first denial of a principal, operation and resource at
    once, then at most once a minute. Denials by another rule, from another host or by another API
    are events of their own.

    A client may name very many resources in a minute. Then the denials of a principal that cannot
    be remembered by resource are counted together.
    """

    def __init__(self, log: Callable[..., None], monotonic_ms: Callable[[], int]) -> None:
        self._events = GroupedEvents(log, monotonic_ms, most_variants=MOST_VARIANTS)

    def add(
        self, subject: Subject, operation: Operation, resource: Resource, api_key: int, rule: str
    ) -> None:
        """Log a denial if it is due. `rule` is the rule that decided, as text."""
        # A long name must not stay in memory either.
        name = resource.name[:LOGGED_NAME]
        principal = str(subject.principal)
        self._events.add(
            (principal, operation, resource.type, name),
            principal,
            principal=principal,
            host=subject.host,
            listener=subject.listener,
            operation=operation.name,
            resource_type=resource.type.name,
            resource=name,
            api=APIS[api_key].name,
            rule=rule,
        )

    def flush(self) -> None:
        """Log the denials that were counted and not logged, because the broker stops."""
        self._events.flush()
