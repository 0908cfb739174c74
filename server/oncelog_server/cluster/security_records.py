"""The access rules and SCRAM credentials that records of the metadata store hold. A broker without
such records does not import this module."""

from __future__ import annotations

from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import ScramCredential, ScramMechanism
from oncelog_server.cluster import records
from oncelog_server.cluster.records import AclsRecord, ScramCredentialRecord
from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import Operation, ResourceType

ScramUser = tuple[ScramMechanism, str]


def pattern_of(key: str) -> Pattern:
    """Return the pattern in the key of its rules. Raises ValueError."""
    resource_type, pattern_type, name = records.acls_pattern(key)
    return Pattern(ResourceType(resource_type), name, PatternType(pattern_type))


def rules_of(value: bytes) -> tuple[Acl, ...]:
    """Return the rules of a pattern from its record. Raises ValueError."""
    record = records.decode(AclsRecord, value)
    return tuple(
        Acl(principal, host, Operation(operation), Permission(permission))
        for principal, host, operation, permission in record.rules
    )


def scram_user(key: str) -> ScramUser:
    """Return the mechanism and the user in the key of a credential. Raises ValueError."""
    mechanism, _, user = key.removeprefix(records.SCRAM).partition("/")
    return ScramMechanism.of_sasl(SaslMechanism(mechanism)), user


def credential_of(value: bytes) -> ScramCredential:
    """Return the credential in a record. Raises ValueError."""
    record = records.decode(ScramCredentialRecord, value)
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
