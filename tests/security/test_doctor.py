"""`oncelog doctor` at listeners with TLS and SASL: certificates, and advice for each failure."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog_client.cli import oncelog
from tests.harness.certificates import Certificates
from tests.security.secured_broker import SecuredOncelog

DAY = datetime.timedelta(days=1)
TRUSTING = "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={}\n"


def until(certificates: Certificates, lifetime: datetime.timedelta) -> dict[str, str]:
    """Return the settings of a broker with a certificate that expires then."""
    now = datetime.datetime.now(datetime.UTC)
    identity = certificates.broker("limited", not_after=now + lifetime)
    return {"ssl.keystore.location": str(identity.pem_path)}


def findings(
    broker: SecuredOncelog, listener: str, folder: Path, properties: str
) -> dict[str, dict[str, Any]]:
    path = folder / "client.properties"
    path.write_text(properties)
    where = ("--bootstrap-server", broker.address_of(listener), "--command-config", str(path))
    result = CliRunner().invoke(oncelog, ["doctor", "--json", *where])
    return {finding["check"]: finding for finding in json.loads(result.stdout)}


@pytest.mark.parametrize(("lifetime", "state"), [(29 * DAY, "notice"), (32 * DAY, "ok")])
def test_a_certificate_that_soon_expires_is_a_notice(
    tmp_path: Path, certificates: Certificates, lifetime: datetime.timedelta, state: str
) -> None:
    with SecuredOncelog(tmp_path / "broker", certificates, until(certificates, lifetime)) as broker:
        trusting = TRUSTING.format(certificates.authority_path)
        found = findings(broker, "SSL", tmp_path, trusting)
    finding = found["certificate of broker 1"]
    assert finding["state"] == state
    assert finding["found"].startswith("expires at ")
    assert ("ssl.keystore.location" in (finding["to_do"] or "")) is (state == "notice")


def test_an_expired_certificate_needs_another_certificate(
    tmp_path: Path, certificates: Certificates
) -> None:
    """The broker warns of it, and a client does not ask for another trust store."""
    expired = until(certificates, -DAY / 24)
    with SecuredOncelog(tmp_path / "broker", certificates, expired) as broker:
        trusting = TRUSTING.format(certificates.authority_path)
        found = findings(broker, "SSL", tmp_path, trusting)
        log = Path(broker.log).read_text()
    problem = found["connection"]
    assert "has a certificate that is not valid now (certificate has expired)" in problem["found"]
    assert problem["to_do"].startswith("renew the certificate of the broker")
    assert "truststore" not in str(problem)
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    warned = [event for event in events if event["event"] == "certificate not valid"]
    assert {event["listener"] for event in warned} == {"SSL", "MUTUAL", "SASL_SSL"}


@pytest.mark.parametrize(
    ("listener", "properties", "to_do"),
    [
        ("SSL", "", "set security.protocol to SSL"),
        ("SASL_PLAINTEXT", "", "set security.protocol to SASL_SSL or SASL_PLAINTEXT"),
        ("SSL", "security.protocol=SSL", "name the certificates to trust"),
        ("PLAINTEXT", "security.protocol=SSL", "see that"),
    ],
)
def test_the_advice_is_that_of_the_failure(
    secured: SecuredOncelog, tmp_path: Path, listener: str, properties: str, to_do: str
) -> None:
    problem = findings(secured, listener, tmp_path, properties)["connection"]
    assert problem["state"] == "problem"
    assert problem["to_do"].startswith(to_do), problem
