"""A short run with security: exactly once holds, the broker drops no connection without need, and
the copiers have no more rights than they need. `make torture SECURED=1` runs longer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.certificates import Certificates
from tests.harness.waiting import wait_until
from tests.torture.access import Role
from tests.torture.copier import INPUT
from tests.torture.faults import KINDS, POWER_LOSS
from tests.torture.rounds import Round, SecuredPhotographed
from tests.torture.run import BROKER_SETTINGS, begin_group, create_topics
from tests.torture.secured_access import RIGHTS, SECURED, TIMEOUT_S, SecuredAccess
from tests.torture.workload import PARTITIONS, Copiers

RECORDS = 2_000
FAULTS = 6
SEED = 20_261_128
EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
    AclOperation.ANY, AclPermissionType.ANY,
)  # fmt: skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_a_secured_copy_loop_neither_loses_nor_doubles_a_record_under_faults(
    tmp_path: Path, certificates: Certificates
) -> None:
    """Clients connect by SASL_SSL and authenticate again every three seconds."""
    said: list[str] = []
    round_ = Round(tmp_path, {}, False, SEED, FAULTS, certificates=certificates)
    verdict = round_.run(RECORDS, said.append)
    assert verdict.is_clean, (verdict, said)
    assert verdict.records >= RECORDS
    assert set(verdict.kinds) == {*KINDS} - {POWER_LOSS}


@pytest.fixture(scope="module")
def access(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecuredAccess]:
    """The access to a broker with a filled input topic. The users have no rights."""
    directory = tmp_path_factory.mktemp("rights")
    settings = {**SECURED, **BROKER_SETTINGS}
    with SecuredPhotographed(directory, certificates, settings) as broker:
        access = SecuredAccess(broker, certificates)
        access.create_users()
        auditor = access.settings(Role.AUDITOR)
        create_topics(auditor)
        begin_group(auditor)
        producer = Producer(auditor)
        for partition in range(PARTITIONS):
            producer.produce(INPUT, "value", partition=partition)
        assert producer.flush(TIMEOUT_S) == 0
        yield access


def _name(right: AclBinding) -> str:
    return f"{right.operation.name}-{right.name}"


@pytest.mark.parametrize(
    "right", [right for right in RIGHTS if right.principal == f"User:{Role.COPIER}"], ids=_name
)
def test_a_copier_needs_each_of_its_rights(
    access: SecuredAccess, right: AclBinding, tmp_path: Path
) -> None:
    """If one right is missing, the broker denies a copier the resource, and a run would report
    this."""
    access.grant([other for other in RIGHTS if other is not right])
    denied = f" on {right.name}"
    assert not [violation for violation in access.violations() if denied in violation]
    with Copiers(access, 1, random.Random(0), tmp_path):
        wait_until(
            lambda: [violation for violation in access.violations() if denied in violation],
            f"the broker denies {_name(right)}",
        )
    auditor = AdminClient(access.settings(Role.AUDITOR))
    for removed in auditor.delete_acls([EVERY_RULE]).values():
        assert len(removed.result(TIMEOUT_S)) == len(RIGHTS) - 1
