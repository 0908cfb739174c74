"""The changes of access rules, credentials and quotas as log events, with the principal that made
them. The events contain no passwords, salts or keys."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import TYPE_CHECKING, Final

from oncelog_server.security.authorizer import Subject

if TYPE_CHECKING:
    # A start does not import this module.
    from oncelog_server.security.acls import Acl, Pattern

    Rules = Collection[tuple[Pattern, Acl]]

# Maximum number of changed rules, users or quotas in one event, and the length of each. A request
# may have thousands.
LOGGED: Final = 20
LOGGED_TEXT: Final = 500


def _ignore(event: str, **fields: object) -> None:
    pass


class AuditTrail:
    """Calls `log(event, **fields)` once for each request that changed something."""

    def __init__(self, log: Callable[..., None] = _ignore) -> None:
        self._log = log

    def acls_added(self, by: Subject, rules: Rules) -> None:
        self._add("access rules added", by, _texts(rules), len(rules))

    def acls_removed(self, by: Subject, rules: Rules) -> None:
        self._add("access rules removed", by, _texts(rules), len(rules))

    def credentials_altered(self, by: Subject, users: Collection[str]) -> None:
        """Log that SCRAM credentials of these users were set or removed."""
        self._add("credentials changed", by, users, len(users))

    def quotas_altered(self, by: Subject, quotas: Collection[str]) -> None:
        """Log changed quotas, each as text: the entity, the key and the new value."""
        self._add("quotas changed", by, quotas, len(quotas))

    def _add(self, event: str, by: Subject, changes: Collection[str], count: int) -> None:
        if not count:
            return
        self._log(
            event,
            principal=str(by.principal),
            host=by.host,
            listener=by.listener,
            count=count,
            changes=[change[:LOGGED_TEXT] for change in islice(changes, LOGGED)],
        )


def _texts(rules: Rules) -> list[str]:
    from oncelog_server.security.acls import rule_text

    return [rule_text(*rule) for rule in islice(rules, LOGGED)]
