"""The log events about the certificate of a listener, and the time at which it expires."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from oncelog_client.io.clock import wall_ms
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_server.network.listener_tls import ListenerTls
from oncelog_server.security.sasl.exchange import AuthenticationRefused
from tests.harness.certificates import LIFETIME, Certificates

LIFETIME_MS = int(LIFETIME.total_seconds() * 1_000)
OWN = "listener.name.external."


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def opened(settings: TlsSettings, now_ms: Callable[[], int]) -> ListenerTls:
    return ListenerTls(
        "EXTERNAL", settings, "DEFAULT", now_ms,
        allow_dn_changes=False, allow_san_changes=False, name_as_set=OWN.__add__,
    )  # fmt: skip


def start_events(
    settings: TlsSettings, now_ms: Callable[[], int]
) -> list[MutableMapping[str, Any]]:
    with capture_logs() as events:
        opened(settings, now_ms)
    return events


@pytest.mark.parametrize(
    ("later_ms", "reason"), [(2 * LIFETIME_MS, "expired at"), (-LIFETIME_MS, "is not valid before")]
)
def test_a_start_warns_of_a_certificate_that_clients_refuse(
    certificates: Certificates, later_ms: int, reason: str
) -> None:
    settings = certificates.server_settings()
    now_ms = wall_ms()
    assert start_events(settings, lambda: now_ms) == []
    (event,) = start_events(settings, lambda: now_ms + later_ms)
    assert event["event"] == "certificate not valid"
    assert event["log_level"] == "warning"
    assert (event["listener"], event["setting"]) == ("EXTERNAL", f"{OWN}ssl.keystore.location")
    assert event["file"] == settings.keystore_location
    assert reason in event["reason"]


def test_the_time_of_expiry_is_that_of_the_loaded_certificate(certificates: Certificates) -> None:
    now_ms = wall_ms()
    expiry_ms = opened(certificates.server_settings(), lambda: now_ms).expiry_ms()
    assert expiry_ms is not None
    assert abs(expiry_ms - now_ms - LIFETIME_MS) < 24 * 3_600_000


def test_the_end_of_a_clients_certificate_is_checked_without_openssl(
    certificates: Certificates,
) -> None:
    """OpenSSL does not check it if a client resumes its session of TLS 1.2."""
    now_ms = [wall_ms()]
    tls = opened(certificates.server_settings("required"), lambda: now_ms[0])
    der = certificates.client("carol").der
    tls.check_certificate(der)
    now_ms[0] += 2 * LIFETIME_MS
    with pytest.raises(AuthenticationRefused) as caught:
        tls.check_certificate(der)
    assert caught.value.reason.endswith("certificate has expired")


def test_a_refused_reload_names_the_setting_and_the_file(certificates: Certificates) -> None:
    settings = certificates.server_settings()
    now_ms = [wall_ms()]
    tls = opened(settings, lambda: now_ms[0])
    now_ms[0] += 2 * LIFETIME_MS
    with capture_logs() as events:
        tls.reload()
    (event,) = events
    assert event["event"] == "certificates not reloaded"
    assert event["setting"] == f"{OWN}ssl.keystore.location"
    assert event["file"] == settings.keystore_location


def test_a_file_that_cannot_be_read_is_one_of_the_setting_that_names_it(
    certificates: Certificates, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.pem")
    settings = certificates.server_settings()._replace(keystore_location=missing)
    with pytest.raises(TlsSettingsError, match=f"^{OWN}ssl.keystore.location: {missing} "):
        opened(settings, partial(int, 0))
