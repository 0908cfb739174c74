"""Log events of security: denied requests, requests with another principal's producer id, and
changes of access rules, credentials and quotas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import structlog

from oncelog_server.cluster.producer_id_owners import ProducerIdOwners
from oncelog_server.security.audit_trail import AuditTrail

if TYPE_CHECKING:
    # A broker without an authorizer does not import this module.
    from oncelog_server.security.denials import Denials

log = structlog.get_logger("oncelog.security")


def logged_denials(monotonic_ms: Callable[[], int]) -> Denials:
    """Return `Denials` that log denied requests."""
    from oncelog_server.security.denials import Denials

    return Denials(partial(log.warning, "access denied"), monotonic_ms)


def logged_owners(monotonic_ms: Callable[[], int]) -> ProducerIdOwners:
    """Return `ProducerIdOwners` that log requests with another principal's producer id."""
    return ProducerIdOwners(partial(log.warning, "producer id of another principal"), monotonic_ms)


def logged_changes() -> AuditTrail:
    """Return an `AuditTrail` that logs each change."""
    return AuditTrail(log.info)
