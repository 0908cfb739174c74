"""The TLS settings of one listener or one client, by Kafka's names without `ssl.` and with
underscores."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_protocol.secret import Secret


class TlsSettings(NamedTuple):
    """Values as a user has written them; None where Kafka's default is null. The settings with keys
    and certificates in PEM are of kind PASSWORD in Kafka, therefore Secret here."""

    keystore_type: str = "JKS"
    keystore_location: str | None = None
    keystore_password: Secret | None = None
    keystore_key: Secret | None = None
    keystore_certificate_chain: Secret | None = None
    key_password: Secret | None = None
    truststore_type: str = "JKS"
    truststore_location: str | None = None
    truststore_password: Secret | None = None
    truststore_certificates: Secret | None = None
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    endpoint_identification_algorithm: str = "https"


class TlsSettingsError(ValueError):
    """A setting of TLS is wrong, or the file that it names. `setting` has Kafka's full name
    (`ssl.keystore.location`); `reason` is the rest of the sentence, and holds no secret."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(setting, reason)
        self.setting = setting
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.setting}: {self.reason}"
