"""The SASL mechanisms, by the names of SaslHandshake and `sasl.enabled.mechanisms`."""

from __future__ import annotations

from enum import StrEnum


class SaslMechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
