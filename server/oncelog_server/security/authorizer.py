"""The authorizer decides whether the principal of a session may do an operation on a resource
(KIP-11). Only `access` calls it."""

from __future__ import annotations

from typing import Protocol

from oncelog_server.security.resources import Operation, Principal, Resource, ResourceType


class Subject(Protocol):
    """The session of a request, as the authorizer sees it: ACLs are about a principal and a
    host."""

    @property
    def principal(self) -> Principal: ...

    @property
    def host(self) -> str:
        """The client's address, as text: `127.0.0.1`."""
        ...

    @property
    def listener(self) -> str: ...


class Authorizer(Protocol):
    @property
    def denied_total(self) -> int:
        """Return the number of denied checks since the start."""
        ...

    @property
    def rule_count(self) -> int:
        """Return the number of rules."""
        ...

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool: ...

    def authorize_any(self, subject: Subject, operation: Operation, type: ResourceType) -> bool:
        """Return True if the operation is allowed on at least one resource of the type, even one
        that does not exist yet (Kafka's authorizeByResourceType)."""
        ...

    def denied(
        self,
        subject: Subject,
        operation: Operation,
        resource: Resource,
        api_key: int,
        *,
        logged: bool,
    ) -> None:
        """Count a request that `authorize` denied, and log it unless `logged` is False."""
        ...

    def flush(self) -> None:
        """Log the denied requests that were counted and not logged, because the broker stops."""
        ...


class AllowAll:
    """Allows every request: the authorizer if none is configured."""

    denied_total = rule_count = 0

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        return True

    def authorize_any(self, subject: Subject, operation: Operation, type: ResourceType) -> bool:
        return True

    def denied(
        self,
        subject: Subject,
        operation: Operation,
        resource: Resource,
        api_key: int,
        *,
        logged: bool,
    ) -> None:
        pass

    def flush(self) -> None:
        pass
