"""The start of a broker with access rules: refused if every request would be denied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_protocol.security.scram_messages import parse_server_first
from oncelog_server.broker import Broker
from oncelog_server.cluster.scram_changes import ScramUpsertion
from oncelog_server.config import Settings
from oncelog_server.environment import OsEnvironment
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.network.secured_admission import SecuredAdmission
from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.security.sasl.exchange import Challenge
from oncelog_server.settings.listeners import listeners_of
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from oncelog_server.startup.first_users import VARIABLE

WITH_RULES = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:admin",
}
SCRAM = {
    "listeners": ("EXTERNAL://127.0.0.1:0",),
    "listener_security_protocol_map": "EXTERNAL:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": ("SCRAM-SHA-512",),
}


@contextmanager
def broker_of(path: Path, **own: object) -> Iterator[Broker]:
    given: dict[str, Any] = {"listeners": ("PLAINTEXT://127.0.0.1:0",), **own}
    settings = Settings(log_dirs=(str(path),), **given)
    environment = OsEnvironment(settings.data_directory)
    try:
        yield Broker(settings, environment)
    finally:
        environment.close()


async def starts(path: Path, *rules: tuple[Pattern, Acl], **own: object) -> bool:
    """Start and stop a broker. Add rules before the stop. Return True if it served."""
    with broker_of(path, **own) as broker:
        await broker.start()
        serves = 1 in broker.metadata.image.brokers
        await broker.metadata.users.create_acls(list(rules))
        await broker.stop()
    return serves


async def is_refused(path: Path, **own: object) -> str:
    """Return the reason why the broker does not start."""
    with broker_of(path, **own) as broker, pytest.raises(ValueError, match=r"super\.users") as why:
        await broker.start()
    return str(why.value)


def rule(permission: Permission) -> tuple[Pattern, Acl]:
    pattern = Pattern(CLUSTER.type, CLUSTER.name, PatternType.LITERAL)
    return pattern, Acl("User:ANONYMOUS", "*", Operation.ALTER, permission)


async def test_a_first_start_that_is_refused_leaves_no_directory(tmp_path: Path) -> None:
    path = tmp_path / "data"
    reason = await is_refused(path, **WITH_RULES)
    assert "every request would be denied. Set super.users to" in reason
    assert not path.exists()
    await starts(path, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")


async def test_without_an_authorizer_or_with_everything_allowed_no_super_user_is_needed(
    tmp_path: Path,
) -> None:
    assert await starts(tmp_path, super_users="User:admin")
    assert await starts(tmp_path, **WITH_RULES, allow_everyone_if_no_acl_found=True)


async def test_only_a_rule_that_allows_replaces_a_super_user(tmp_path: Path) -> None:
    await starts(tmp_path, rule(Permission.DENY))
    await is_refused(tmp_path, **WITH_RULES)
    await starts(tmp_path, rule(Permission.ALLOW))
    with structlog.testing.capture_logs() as events:
        await starts(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER)
        assert "no super user can log in" not in [event["event"] for event in events]
        await starts(tmp_path, **WITH_RULES)
    (warning,) = [event for event in events if event["event"] == "no super user can log in"]
    assert "the clients of PLAINTEXT are User:ANONYMOUS" in warning["reason"]


async def test_an_unknown_user_has_iterations_that_another_user_has(tmp_path: Path) -> None:
    sha_512 = ScramMechanism.SCRAM_SHA_512
    bob = ScramUpsertion("bob", sha_512, 8192, b"salt", bytes(64))
    with broker_of(tmp_path, **SCRAM) as broker:
        await broker.start()
        (listener,) = listeners_of(broker.settings)
        admission = await broker.security.admission(listener, StoreWait(broker.settings))
        assert isinstance(admission, SecuredAdmission)
        assert admission._sasl is not None
        new_exchange = admission._sasl.exchanges[sha_512.sasl]

        def iterations() -> int:
            challenge = new_exchange(False).evaluate(b"n,,n=alice,r=abc")
            assert isinstance(challenge, Challenge)
            return parse_server_first(challenge.token).iterations

        assert iterations() == 4096
        await broker.metadata.users.alter_scram_credentials([], [bob])
        assert iterations() == 8192
        await broker.stop()


async def test_a_super_user_can_be_a_first_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At this start the file names the super user, and at the next start the stored credential
    does."""
    users = tmp_path / "first-users"
    users.write_text("bob:SCRAM-SHA-512:x\n")
    users.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(users))
    path = tmp_path / "data"
    assert VARIABLE not in await is_refused(path, **SCRAM, **WITH_RULES)
    users.write_text("bob:SCRAM-SHA-512:x\nadmin:SCRAM-SHA-512:x\n")
    await starts(path, **SCRAM, **WITH_RULES)
    monkeypatch.delenv(VARIABLE)
    await starts(path, **SCRAM, **WITH_RULES)
    reason = await is_refused(path, **SCRAM, **(WITH_RULES | {"super_users": "User:carol"}))
    assert "no client can be one of these" in reason
