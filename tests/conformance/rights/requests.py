"""All requests that every user sends. The import of a module adds its requests."""

from __future__ import annotations

from tests.conformance.rights import (
    admin_requests,
    group_requests,
    record_requests,
    transaction_requests,
)
from tests.conformance.rights.templates import TEMPLATES as _ADDED

MODULES = (admin_requests, group_requests, record_requests, transaction_requests)
# Requests that create or delete a topic come last, because Kafka's later responses show the change
# only after a moment.
CHANGES = ("create_a_topic", "delete_a_topic")
TEMPLATES = tuple(sorted(_ADDED, key=lambda template: template.name in CHANGES))
