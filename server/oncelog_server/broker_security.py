"""The parts of a broker that decide which clients and brokers it admits, and their rights."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from oncelog_server.clock import Clock
from oncelog_server.environment import Environment
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.network.admission import Admission, PlaintextAdmission
from oncelog_server.security.authorizer import AllowAll, Authorizer
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.settings.listeners import (
    ListenerAddress,
    inter_broker_listener,
    listeners_of,
)
from oncelog_server.settings.model import Settings
from oncelog_server.settings.security import split_principals
from oncelog_server.timers import Timers

if TYPE_CHECKING:
    # A broker with PLAINTEXT listeners alone imports none of these.
    from oncelog_protocol.security.scram_credential import ScramCredential, ScramMechanism
    from oncelog_server.links.link_security import LinkSecurity
    from oncelog_server.network.admissions import Admissions
    from oncelog_server.startup.first_users import FirstUser

SECRET_BYTES: Final = 32
# The environment variable that first_users.py reads. Most starts do not import that module.
FIRST_USERS: Final = "ONCELOG_BOOTSTRAP_USER_FILE"

log = structlog.get_logger("oncelog.broker")


class BrokerSecurity:
    """The security of one broker, by its settings and the metadata."""

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        timers: Timers,
        metadata: ClusterMetadata,
    ) -> None:
        self._settings = settings
        self._clock: Clock = environment.clock
        self._random_bytes = environment.token_bytes
        self._timers = timers
        self._metadata = metadata
        self._admissions: Admissions | None = None
        self._first_users: tuple[FirstUser, ...] = ()

    def check_users(self) -> None:
        """Read the file of first users. Raise ValueError if every request would be denied: an
        authorizer is configured, no super user could ever log in, no access rule allows anything,
        and `allow.everyone.if.no.acl.found` is false. Also raise ValueError for an invalid file.

        Raises OSError if the file cannot be read.
        """
        image = self._metadata.image
        if FIRST_USERS in os.environ:
            from oncelog_server.startup.first_users import read_first_users

            self._first_users = read_first_users(image)
        if not self._settings.authorizer_class_name:
            return
        from oncelog_server.security.acls import allows_anything
        from oncelog_server.settings.super_users import unreachable_super_users, ways_out

        users = {(user.mechanism, user.name) for user in self._first_users}
        users |= image.scram_credentials.keys()
        reason = unreachable_super_users(self._settings, users)
        if not reason:
            return
        if self._settings.allow_everyone_if_no_acl_found or allows_anything(image.acls):
            if self._settings.super_users:
                log.warning("no super user can log in", reason=reason)
            return
        raise ValueError(
            f"{reason}. No access rule allows anything either, so every request would be denied. "
            f"{ways_out(self._settings, users)}"
        )

    async def create_first_users(self, wait: StoreWait) -> None:
        """Create the users of the file that `check_users` has read. Raises OSError if they cannot
        be written. `wait` is that of the start."""
        if self._first_users:
            from oncelog_server.startup.first_users import create_first_users

            await create_first_users(self._metadata, self._first_users, wait)

    def new_authorizer(self) -> Authorizer:
        """Return the authorizer of the settings."""
        if not self._settings.authorizer_class_name:
            return AllowAll()
        from oncelog_server.observe.audit_log import logged_denials
        from oncelog_server.security.standard_authorizer import StandardAuthorizer

        follower = self._metadata.follower
        return StandardAuthorizer(
            lambda: follower.image.acls,
            split_principals(self._settings.super_users),
            allow_if_no_acl=self._settings.allow_everyone_if_no_acl_found,
            denials=logged_denials(self._clock.monotonic_ms),
        )

    async def admission(self, listener: ListenerAddress, wait: StoreWait) -> Admission:
        """Return the demands of a listener on its clients. Raises ValueError or OSError if its
        certificates cannot be used. Raises the errors of `StoreWait.step`."""
        if listener.protocol is SecurityProtocol.PLAINTEXT:
            return PlaintextAdmission(listener.name)
        if self._admissions is None:
            from oncelog_server.metadata.server_secret import server_secret
            from oncelog_server.network.admissions import Admissions
            from oncelog_server.security.sasl.scram_iterations import ScramIterations

            iterations = ScramIterations(lambda: self._metadata.follower.image.scram_credentials)
            secret = partial(server_secret, self._metadata.store, self._random_bytes(SECRET_BYTES))
            self._admissions = Admissions(
                self._settings,
                self._clock,
                self._timers,
                scram=self._scram_credential,
                scram_iterations=iterations.of,
                random_bytes=self._random_bytes,
                server_secret=await wait.step("the secret of the cluster", secret),
            )
        return await self._admissions.open(listener)

    def _scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self._metadata.follower.image.scram_credentials.get((mechanism, user))

    def of_links(self) -> Callable[[], LinkSecurity] | None:
        """Return a function that makes the security of links to other brokers. Return None if the
        inter-broker listener is PLAINTEXT."""
        name = inter_broker_listener(self._settings)
        (listener,) = (found for found in listeners_of(self._settings) if found.name == name)
        if listener.protocol is SecurityProtocol.PLAINTEXT:
            return None

        def security() -> LinkSecurity:
            # A broker without other brokers does not need this module.
            from oncelog_server.links.link_security import link_security

            return link_security(self._settings, listener, self._random_bytes)

        return security

    @property
    def has_certificates(self) -> bool:
        """Return True if a listener has TLS."""
        return self._admissions is not None and self._admissions.has_tls

    def reload_certificates(self) -> None:
        """Read the certificates of all listeners again. A log event reports the result."""
        if self._admissions is not None:
            self._admissions.reload()

    async def close(self) -> None:
        if self._admissions is not None:
            await self._admissions.close()
