"""The EtcdStore that the settings describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_server.etcd.session import Login
from oncelog_server.etcd.store import EtcdStore
from oncelog_server.settings.etcd_addresses import parse_addresses
from oncelog_server.settings.model import Settings

if TYPE_CHECKING:
    from oncelog_server.etcd.certificates import EtcdCertificates


def open_etcd(settings: Settings) -> EtcdStore:
    """Return the store. Nothing is sent yet.

    Raises ValueError, which names the setting, if the certificates cannot be used.
    """
    addresses = parse_addresses(settings.oncelog_etcd_endpoints)
    context = None
    if any(address.has_tls for address in addresses):
        context = _certificates(settings).context
    login = None
    if settings.oncelog_etcd_username is not None:
        assert settings.oncelog_etcd_password is not None, "a contradiction of the settings"
        login = Login(settings.oncelog_etcd_username, settings.oncelog_etcd_password)
    return EtcdStore(addresses, settings.oncelog_etcd_prefix, context=context, login=login)


def _certificates(settings: Settings) -> EtcdCertificates:
    from oncelog_server.etcd.certificates import EtcdCertificates

    try:
        return EtcdCertificates(tls_settings(settings))
    except TlsSettingsError as error:
        raise ValueError(f"oncelog.etcd.{error.setting}: {error.reason}") from error


def tls_settings(settings: Settings) -> TlsSettings:
    """Return the settings of TLS."""
    algorithm = settings.oncelog_etcd_ssl_endpoint_identification_algorithm
    return TlsSettings(
        keystore_type=settings.oncelog_etcd_ssl_keystore_type,
        keystore_location=settings.oncelog_etcd_ssl_keystore_location,
        keystore_password=settings.oncelog_etcd_ssl_keystore_password,
        key_password=settings.oncelog_etcd_ssl_key_password,
        truststore_type=settings.oncelog_etcd_ssl_truststore_type,
        truststore_location=settings.oncelog_etcd_ssl_truststore_location,
        truststore_password=settings.oncelog_etcd_ssl_truststore_password,
        endpoint_identification_algorithm=algorithm,
    )
