"""Codes of ACLs on the wire: Kafka's ResourceType, PatternType, AclOperation and
AclPermissionType."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.errors import ProtocolError

UNKNOWN: Final = 0


def check_known(*numbers: int) -> None:
    """Raise ProtocolError if a code of an ACL or of a filter of ACLs is UNKNOWN. Kafka cannot parse
    such a request either, and closes the connection."""
    if UNKNOWN in numbers:
        raise ProtocolError("an ACL with a type, an operation or a permission that is UNKNOWN")
