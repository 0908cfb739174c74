"""A run's clients on a listener with TLS, users and access rules."""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.plain_client import PlainClient
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.harness.certificates import Certificates
from tests.security.logins import Login
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog
from tests.security.secured_wire import SecuredWire, context_of
from tests.torture.access import Role
from tests.torture.copier import GROUP, INPUT, OUTPUT, TRANSACTIONAL_IDS
from tests.torture.workload import READERS

LISTENER: Final = "SASL_SSL"
MECHANISM: Final = "SCRAM-SHA-512"
ITERATIONS: Final = 4096
TIMEOUT_S: Final = 30.0

# The sessions of all clients end after three seconds. The auditor is the only super user, and has a
# password in the settings, because the users of SCRAM do not exist before the first start.
SECURED: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:{USER}",
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    "connections.max.reauth.ms": "3000",
}


def _rule(
    role: Role,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    principal = f"User:{role}"
    return AclBinding(kind, name, pattern, principal, "*", operation, AclPermissionType.ALLOW)


# Exactly the rights that the clients need. READ and WRITE imply DESCRIBE.
RIGHTS: Final = (
    _rule(Role.FEEDER, AclOperation.WRITE, ResourceType.TOPIC, INPUT),
    _rule(Role.COPIER, AclOperation.READ, ResourceType.TOPIC, INPUT),
    _rule(Role.COPIER, AclOperation.READ, ResourceType.GROUP, GROUP),
    _rule(Role.COPIER, AclOperation.WRITE, ResourceType.TOPIC, OUTPUT),
    _rule(
        Role.COPIER,
        AclOperation.WRITE,
        ResourceType.TRANSACTIONAL_ID,
        TRANSACTIONAL_IDS,
        ResourcePatternType.PREFIXED,
    ),
    _rule(Role.READER, AclOperation.READ, ResourceType.TOPIC, OUTPUT),
    # The reader commits nothing, but librdkafka looks for the coordinator of its group.
    _rule(Role.READER, AclOperation.DESCRIBE, ResourceType.GROUP, READERS),
)

# The reasons for which the broker may close a connection: a client or the broker stood still for
# too long (SIGSTOP), or a client was killed.
NEEDED: Final = frozenset(
    {
        "the session has expired, and the client did not renew it",
        "the peer has closed the connection during the handshake",
    }
)


class SecuredAccess:
    """The access over SASL_SSL. Each role is a user with a password of its own."""

    def __init__(self, broker: SecuredOncelog, certificates: Certificates) -> None:
        self._broker = broker
        self._certificates = certificates
        self._passwords = {role: secrets.token_hex(16) for role in Role}
        self._passwords[Role.AUDITOR] = PASSWORD

    def settings(self, role: Role) -> dict[str, Any]:
        is_auditor = role is Role.AUDITOR
        login = Login(
            LISTENER,
            self._broker.directory,
            authority=self._certificates.authority_path,
            mechanism="PLAIN" if is_auditor else MECHANISM,
            user=USER if is_auditor else role.value,
            secret=self._passwords[role],
        )
        return {**login.librdkafka, "bootstrap.servers": self._broker.address_of(LISTENER)}

    def connect(self) -> SecuredWire:
        wire = SecuredWire(self._broker.address_of(LISTENER), context_of(self._certificates))
        try:
            wire.authenticate(PlainClient(USER, Secret(PASSWORD)))
        except BaseException:
            wire.socket.close()
            raise
        return wire

    def create_users(self) -> None:
        admin = AdminClient(self.settings(Role.AUDITOR))
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
        users = [
            UserScramCredentialUpsertion(role.value, info, password.encode())
            for role, password in self._passwords.items()
            if role is not Role.AUDITOR
        ]
        for user in admin.alter_user_scram_credentials(users).values():
            user.result(TIMEOUT_S)

    def grant(self, rights: Iterable[AclBinding] = RIGHTS) -> None:
        """Give the users their rights."""
        admin = AdminClient(self.settings(Role.AUDITOR))
        for right in admin.create_acls([*rights]).values():
            right.result(TIMEOUT_S)

    def violations(self) -> list[str]:
        events = self._events()
        refused = [
            f"{event['event']}: {event['reason']}"
            for event in events
            if event["event"] in ("authentication failed", "connection closed")
            and event["reason"] not in NEEDED
        ]
        denied = [
            f"access denied: {event['operation']} on {event['resource']} for {event['principal']}"
            for event in events
            if event["event"] == "access denied"
        ]
        return sorted({*refused, *denied})

    def figures(self) -> list[str]:
        """Return the number of closed connections for each reason. The broker counts repetitions
        within a minute, and may have been killed before it wrote the count."""
        reasons: Counter[str] = Counter()
        for event in self._events():
            if event.get("reason") in NEEDED:
                reasons[event["reason"]] += event["count"]
        return [f"  closed, {reason}: at least {count}" for reason, count in reasons.items()]

    def _events(self) -> list[dict[str, Any]]:
        lines = Path(self._broker.log).read_text().splitlines()
        return [json.loads(line) for line in lines if re.match(r"\{.*\}$", line)]
