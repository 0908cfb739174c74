"""The subject of a certificate as text, which access rules name as a principal."""

from __future__ import annotations

from oncelog_protocol.security.certificate import subject_of
from oncelog_protocol.security.x500_name import x500_name


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER, as Java's X500Principal.getName() writes it; the
    empty text for an empty subject. Raises DerError."""
    return x500_name(subject_of(certificate))
