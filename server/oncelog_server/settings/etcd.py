"""Honored settings of the metadata store in etcd. They are oncelog's own."""

from __future__ import annotations

from oncelog_protocol.secret import Secret
from oncelog_server.settings.etcd_addresses import valid_addresses
from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, honoured, one_of

HIGH, LOW = Importance.HIGH, Importance.LOW


def _valid_prefix(prefix: str) -> str | None:
    if len(prefix) < 2 or not prefix.endswith("/"):
        return "a prefix has at least one character and ends with /"
    return None


class EtcdSettings(ImmutableSettings):
    """The settings of TLS have the meaning of those of listeners without `oncelog.etcd.`."""

    oncelog_etcd_endpoints: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "The client URLs of etcd's members, http://host:port or https://host:port. If set, the "
        "metadata is in etcd, and all brokers with this etcd and prefix are one cluster. If not "
        "set, the metadata is in the data directory, and this broker is a cluster by itself.",
        valid_addresses,
        importance=HIGH,
    )
    oncelog_etcd_prefix: str = honoured(
        Kind.STRING,
        "/oncelog/",
        "The beginning of the cluster's keys in etcd. Clusters that share an etcd need different "
        "prefixes, and none may begin with another.",
        _valid_prefix,
    )
    oncelog_etcd_username: str | None = honoured(
        Kind.STRING, None, "The user of etcd. If not set, etcd must allow access without a login."
    )
    oncelog_etcd_password: Secret | None = honoured(
        Kind.PASSWORD, None, "The password of the user of etcd."
    )
    oncelog_etcd_ssl_truststore_type: str = honoured(
        Kind.STRING, "PEM", "The type of the trust store for etcd: PEM, PKCS12 or JKS."
    )
    oncelog_etcd_ssl_truststore_location: str | None = honoured(
        Kind.STRING,
        None,
        "The file with the certificates that sign those of etcd; if not set, those of the system.",
    )
    oncelog_etcd_ssl_truststore_password: Secret | None = honoured(
        Kind.PASSWORD, None, "The password of the trust store for etcd; not for PEM."
    )
    oncelog_etcd_ssl_keystore_type: str = honoured(
        Kind.STRING, "PEM", "The type of the key store for etcd: PEM, PKCS12 or JKS."
    )
    oncelog_etcd_ssl_keystore_location: str | None = honoured(
        Kind.STRING,
        None,
        "The file with the private key and the certificate that the broker shows to etcd. With a "
        "login, the certificate must have no common name: etcd refuses one at its JSON gateway.",
    )
    oncelog_etcd_ssl_keystore_password: Secret | None = honoured(
        Kind.PASSWORD, None, "The password of the key store for etcd; not for PEM."
    )
    oncelog_etcd_ssl_key_password: Secret | None = honoured(
        Kind.PASSWORD, None, "The password of the private key for etcd, if the key is encrypted."
    )
    oncelog_etcd_ssl_endpoint_identification_algorithm: str = honoured(
        Kind.STRING,
        "https",
        "Whether the name in etcd's certificate must be the host of its URL: https, or empty.",
        one_of("https", ""),
        importance=LOW,
    )
