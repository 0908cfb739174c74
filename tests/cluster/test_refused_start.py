"""etcd refuses the login or the certificate of a broker that starts, or the broker refuses etcd's
certificate. No later attempt would succeed, so the start ends at once and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.secured import ETCD_PASSWORD, PASSWORDS, SecuredBroker, secured_etcd
from tests.harness.certificates import Certificates
from tests.harness.cluster import QUICK
from tests.harness.etcd import Etcd

WRONG_PASSWORD = "canary-of-a-wrong-password"
# A start that waits for etcd takes this long. One that ends at once takes a tenth.
WAIT_MS = 120_000
END_S = 30.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("foreign"))


@pytest.fixture(scope="module")
def etcd(
    etcd_program: str, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Etcd]:
    with secured_etcd(tmp_path_factory.mktemp("etcd"), certificates) as etcd:
        yield etcd


def wrong_password(_: Certificates) -> dict[str, str]:
    return {"oncelog.etcd.password": WRONG_PASSWORD}


def unknown_user(_: Certificates) -> dict[str, str]:
    return {"oncelog.etcd.username": "nosuch"}


def foreign_certificate(foreign: Certificates) -> dict[str, str]:
    return {"oncelog.etcd.ssl.keystore.location": str(foreign.server.pem_path)}


def foreign_authority(foreign: Certificates) -> dict[str, str]:
    return {"oncelog.etcd.ssl.truststore.location": str(foreign.authority_path)}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (wrong_password, "authentication failed, invalid user ID or password"),
        (unknown_user, "authentication failed, invalid user ID or password"),
        (foreign_certificate, "the peer refuses our certificate as invalid"),
        (foreign_authority, "the certificate of the peer is not valid"),
    ],
)
def test_a_refused_start_ends_at_once_and_changes_nothing(
    tmp_path: Path,
    etcd: Etcd,
    certificates: Certificates,
    foreign: Certificates,
    wrong: Callable[[Certificates], dict[str, str]],
    reason: str,
) -> None:
    settings = {
        **QUICK,
        "node.id": "1",
        "oncelog.etcd.endpoints": ",".join(etcd.urls),
        "initial.broker.registration.timeout.ms": str(WAIT_MS),
        **wrong(foreign),
    }
    broker = SecuredBroker(tmp_path / "broker", settings, certificates)
    broker.spawn()
    try:
        assert broker.wait_for_death(END_S) == 1
    finally:
        broker.kill()
    said = broker.log.read_text()
    (last,) = (line for line in said.splitlines() if "cannot start" in line)
    assert reason in last
    shown = said + broker.output.read_text()
    assert not [of for of in (*PASSWORDS.values(), ETCD_PASSWORD, WRONG_PASSWORD) if of in shown]
    assert {path.name for path in broker.data.glob("*")} <= {".lock"}
