"""OpenSSL contexts of listeners and clients, from settings."""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, TypeVar

from oncelog_protocol.secret import Secret
from oncelog_protocol.security import stores
from oncelog_protocol.security.cipher_suites import offer_of
from oncelog_protocol.security.pem import ENCRYPTED_KEY
from oncelog_protocol.security.store_rules import check_listener, check_stores
from oncelog_protocol.security.stores import KeyPair, StoreError
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_protocol.tls.failures import reason_of

_T = TypeVar("_T")

_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_VERIFY_MODES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# The only curve that Python before 3.15 can choose and that every client has. OpenSSL's own list
# includes X448 and P-521, which Mozilla's "intermediate" list excludes.
_CURVE: Final = "prime256v1"
_NO_IDENTIFICATION: Final = ""
_HTTPS: Final = "https"
# A store of a few certificates has some KiB. The limit keeps a wrong path from filling the memory.
_MOST_STORE_BYTES: Final = 16 << 20


class LoadedTls(NamedTuple):
    """A context, with the certificates in DER that it presents: its own certificate, then those of
    the issuers. A client without a key store has none."""

    context: ssl.SSLContext
    chain: tuple[bytes, ...]


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raises TlsSettingsError."""
    return load_server(settings).context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client, which trusts the authorities of the system if the settings
    have no trust store. Raises TlsSettingsError."""
    return load_client(settings).context


def load_server(settings: TlsSettings) -> LoadedTls:
    """Read the stores of a listener. Raises TlsSettingsError."""
    check_stores(settings)
    check_listener(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    context.options |= ssl.OP_NO_RENEGOTIATION
    asks = context.verify_mode != ssl.CERT_NONE
    # A resumed session would not verify the client's certificate again. Python cannot switch off
    # the sessions of TLS 1.2, so the caller checks the dates of each certificate. Each context has
    # other ticket keys, so a reload of the certificates ends the sessions too.
    context.num_tickets = 0 if asks else 1
    context.set_ecdh_curve(_CURVE)
    _choose_suites(context, settings, is_server=True)
    # In each handshake OpenSSL would complete the listener's chain from the trust store, which
    # takes a quarter of the time of a handshake. Java does not. So a context that asks for no
    # certificate gets no trust store. The trust store is then only checked.
    _load_trust(context if asks else ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings)
    return LoadedTls(context, _load_key(context, settings))


def load_client(settings: TlsSettings) -> LoadedTls:
    """Read the stores of a client. Raises TlsSettingsError."""
    check_stores(settings)
    algorithm = settings.endpoint_identification_algorithm.lower()
    if algorithm not in (_HTTPS, _NO_IDENTIFICATION):
        raise TlsSettingsError(
            "ssl.endpoint.identification.algorithm", "is neither https nor empty"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = algorithm == _HTTPS
    _choose_suites(context, settings, is_server=False)
    if not _load_trust(context, settings):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return LoadedTls(context, _load_key(context, settings))


def _choose_suites(context: ssl.SSLContext, settings: TlsSettings, *, is_server: bool) -> None:
    offer = offer_of(settings, is_server=is_server)
    context.minimum_version = _VERSIONS[offer.minimum]
    context.maximum_version = _VERSIONS[offer.maximum]
    context.set_ciphers(offer.ciphers)


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> bool:
    """Load the trust store of the settings. Return False if there is none."""
    if settings.truststore_certificates is not None:
        setting, name = "ssl.truststore.certificates", "the value"
        text = settings.truststore_certificates.reveal()
        certificates = _from_store(setting, name, lambda: stores.trusted_pem(text))
    elif settings.truststore_location is not None:
        setting, name = "ssl.truststore.location", settings.truststore_location
        data = _read(setting, name)
        password = settings.truststore_password
        certificates = _from_store(setting, name, lambda: stores.trusted(data, password))
    else:
        return False
    try:
        context.load_verify_locations(cadata=b"".join(dict.fromkeys(certificates)))
    except ssl.SSLError as error:
        raise TlsSettingsError(
            setting, f"{name} has a certificate with {reason_of(error)}"
        ) from None
    # Java trusts each certificate of the store, even if another authority has issued it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return True


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> tuple[bytes, ...]:
    key_password = settings.key_password
    if settings.keystore_key is not None and settings.keystore_certificate_chain is not None:
        setting, name = "ssl.keystore.key", "the value"
        key, chain = settings.keystore_key.reveal(), settings.keystore_certificate_chain.reveal()
        pair = _from_store(setting, name, lambda: stores.pem_pair(key, chain, key_password))
    elif settings.keystore_location is not None:
        setting, name = "ssl.keystore.location", settings.keystore_location
        data, password = _read(setting, name), settings.keystore_password
        pair = _from_store(setting, name, lambda: stores.key_pair(data, password, key_password))
    else:
        return ()
    try:
        _load_pair(context, pair, key_password)
    except (ssl.SSLError, ValueError) as error:
        raise TlsSettingsError(setting, f"{name} has {_reason_of_pair(pair, error)}") from None
    return pair.chain


def _load_pair(context: ssl.SSLContext, pair: KeyPair, key_password: Secret | None) -> None:
    password = ""
    if pair.key.label == ENCRYPTED_KEY and key_password is not None:
        password = key_password.reveal()
    with _file_with(pair.text().encode()) as path:
        # Without a function, OpenSSL would ask for a password on the terminal.
        context.load_cert_chain(path, password=lambda: password)


def _reason_of_pair(pair: KeyPair, error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return reason_of(error)
    # Python hides OpenSSL's reason where a block of PEM cannot be read.
    if pair.key.label == ENCRYPTED_KEY:
        return "a private key with another password than ssl.key.password, or a damaged one"
    return "a damaged key or certificate"


def _from_store(setting: str, name: str, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except StoreError as error:
        raise TlsSettingsError(setting, f"{name} {error}") from None


def _read(setting: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_STORE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TlsSettingsError(setting, f"{path} cannot be read: {reason}") from None
    if len(data) > _MOST_STORE_BYTES:
        raise TlsSettingsError(setting, f"{path} is too large for a store")
    return data


@contextmanager
def _file_with(data: bytes) -> Iterator[str]:
    """Give OpenSSL a path to secret bytes: of a file in memory on Linux, elsewhere of a temporary
    file that only the user can read. Python loads a key only from a path."""
    if sys.platform == "linux" and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("key")
        path, is_temporary = f"/proc/self/fd/{descriptor}", False
    else:
        descriptor, path = tempfile.mkstemp()
        is_temporary = True
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield path
    finally:
        os.close(descriptor)
        if is_temporary:
            with suppress(OSError):
                os.unlink(path)
