"""Check new certificates of a listener before they replace the current ones."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from oncelog_protocol.security.certificate import Certificate, parsed
from oncelog_protocol.security.der import DerError
from oncelog_protocol.security.tls_settings import TlsSettings
from oncelog_protocol.security.x500_name import x500_name
from oncelog_protocol.tls.contexts import LoadedTls
from oncelog_protocol.tls.failures import reason_of

# A handshake has fewer flights.
_MOST_FLIGHTS: Final = 8

FileVersion = tuple[int, int, int] | None


def file_versions(settings: TlsSettings) -> tuple[FileVersion, ...]:
    """Return the version of each file of a store: its time in ns, its size and its inode number.
    A missing file has None."""
    locations = (settings.keystore_location, settings.truststore_location)
    return tuple(_version(location) for location in locations if location is not None)


def refused_reload(
    current: LoadedTls,
    new: LoadedTls,
    *,
    now_ms: int,
    allow_dn_changes: bool = False,
    allow_san_changes: bool = False,
) -> str | None:
    """Return the reason for which `new` must not replace the current certificates of a listener,
    None if it may. `now_ms` is in ms since the epoch.

    A new certificate has the subject of the current one, and at least its alternative names, unless
    `ssl.allow.dn.changes` or `ssl.allow.san.changes` allow a change (SslFactory.ensureCompatible).
    `new` was loaded before, with a check that its key fits.
    """
    try:
        chain = [parsed(der) for der in new.chain]
        old, own = parsed(current.chain[0]), chain[0]
        if not allow_dn_changes and (reason := _changed_subject(old, own)) is not None:
            return reason
    except DerError as error:
        return f"a certificate has {error}"
    if not allow_san_changes and not own.names >= old.names:
        return (
            "the new certificate lacks alternative names of the current one: "
            "ssl.allow.san.changes=true allows a change"
        )
    return wrong_date(new.chain, now_ms) or _invalid_chain(new)


def wrong_date(chain: Sequence[bytes], now_ms: int) -> str | None:
    """Return the reason for which clients refuse a chain in DER at this time, in ms since the
    epoch. Return None if all its certificates are valid. Raises DerError."""
    for position, certificate in enumerate(map(parsed, chain), 1):
        which = f"certificate {position} of {len(chain)} in the chain"
        if now_ms < certificate.not_before_ms:
            return f"{which} is not valid before {_time_text(certificate.not_before_ms)}"
        if now_ms > certificate.not_after_ms:
            return f"{which} expired at {_time_text(certificate.not_after_ms)}"
    return None


def _time_text(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _changed_subject(old: Certificate, new: Certificate) -> str | None:
    before, after = x500_name(old.subject), x500_name(new.subject)
    if " ".join(before.lower().split()) == " ".join(after.lower().split()):
        return None
    return (
        f"the subject of the new certificate is {after!r}, and that of the current is {before!r}: "
        "ssl.allow.dn.changes=true allows a change"
    )


def _invalid_chain(new: LoadedTls) -> str | None:
    """Return the reason for which a client in memory refuses the chain, None if there is none. The
    client trusts the last certificate of the chain."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.load_verify_locations(cadata=new.chain[-1])
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = new.context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(_MOST_FLIGHTS):
            with suppress(ssl.SSLWantReadError):
                client.do_handshake()
                return None
            # A listener that requires a certificate refuses this client, after its own certificate
            # has been verified.
            with suppress(ssl.SSLError):
                server.do_handshake()
    except ssl.SSLCertVerificationError as error:
        return reason_of(error, is_server=False)
    except ssl.SSLError:
        return None
    return None


def _version(location: str) -> FileVersion:
    try:
        found = os.stat(location)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
