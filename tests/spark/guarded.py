"""A broker that users of Spark reach by SASL_SSL only, each with exactly the rights that a test
gives. The test itself uses the listener without security, as a super user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from oncelog_client import Admin
from oncelog_client.admin import (
    AccessControlEntry,
    AclBinding,
    AclPermissionType,
    ResourcePattern,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from oncelog_client.spark.settings.rights import Right
from oncelog_protocol.secret import Secret
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.harness.certificates import Certificates
from tests.security.secured_broker import SecuredOncelog

LISTENER: Final = "SASL_SSL"
SETTINGS: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "transaction.two.phase.commit.enable": "true",
}
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


class GuardedOncelog(SecuredOncelog):
    """`address` is that of the super user."""

    def __init__(
        self,
        directory: Path,
        certificates: Certificates,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, certificates, SETTINGS | dict(settings or {}))
        self.certificates = certificates

    def user(self, name: str, rights: Iterable[Right]) -> dict[str, str]:
        """Make a user with exactly these rights, and return the options of Spark for this user. The
        certificates are in the options, so that no file is needed."""
        password = password_of(name)
        asyncio.run(self._make(name, password, rights))
        return {
            "kafka.bootstrap.servers": self.address_of(LISTENER),
            "kafka.security.protocol": LISTENER,
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": f'{_MODULE} required username="{name}" '
            f'password="{password}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.certificates": self.certificates.authority_pem,
        }

    async def _make(self, name: str, password: str, rights: Iterable[Right]) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        async with Admin(self.address) as admin:
            await admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(name, Secret(password), info)]
            )
            await admin.create_acls([_rule(name, right) for right in rights])


def password_of(name: str) -> str:
    """Return the password of a user."""
    return f"password-of-{name}"


def _rule(user: str, right: Right) -> AclBinding:
    return AclBinding(
        ResourcePattern(right.resource_type, right.name, right.pattern_type),
        AccessControlEntry(f"User:{user}", "*", right.operation, AclPermissionType.ALLOW),
    )
