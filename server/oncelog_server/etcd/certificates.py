"""The certificates of the connections to etcd."""

from __future__ import annotations

import ssl

import structlog

from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_protocol.tls.contexts import client_context
from oncelog_protocol.tls.reload import file_versions

log = structlog.get_logger("oncelog.etcd")


class EtcdCertificates:
    """The broker's own certificate and the trusted ones. Raises TlsSettingsError if a store cannot
    be used."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._files = file_versions(settings)
        self._context = client_context(settings)

    def context(self) -> ssl.SSLContext:
        """Return the context of a new connection. Read the stores again if a file has changed. If
        they cannot be used, the old certificates stay, and an event says why."""
        files = file_versions(self._settings)
        if files != self._files:
            self._files = files
            try:
                self._context = client_context(self._settings)
            except TlsSettingsError as error:
                log.error("certificates for etcd not reloaded", reason=str(error))
            else:
                log.info("certificates for etcd reloaded")
        return self._context
