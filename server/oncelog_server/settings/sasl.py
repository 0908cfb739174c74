"""Honored settings of SASL. Most can be set for a listener, or for a mechanism of a listener:
`listener.name.<listener>.<mechanism>.…`."""

from __future__ import annotations

from typing import Final

from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, at_least, honoured, one_of

LOW, HIGH = Importance.LOW, Importance.HIGH
_OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer"
VALIDATOR: Final = f"{_OAUTHBEARER}.OAuthBearerValidatorCallbackHandler"
# The name before Kafka 4.
_OLD_VALIDATOR: Final = f"{_OAUTHBEARER}.secured.OAuthBearerValidatorCallbackHandler"


class SaslSettings(ImmutableSettings):
    """Names, defaults and ranges are Kafka 4.3's, unless the text of a setting says otherwise."""

    sasl_enabled_mechanisms: tuple[str, ...] = honoured(
        Kind.LIST,
        ("GSSAPI",),
        "The SASL mechanisms of the listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. "
        "GSSAPI, which is Kafka's default, is not built: a listener with SASL needs this setting.",
    )
    sasl_mechanism_inter_broker_protocol: str = honoured(
        Kind.STRING,
        "GSSAPI",
        "The SASL mechanism of connections to other brokers: PLAIN or SCRAM. The user and the "
        "password are in the JAAS configuration of this mechanism of the inter-broker listener.",
    )
    sasl_server_callback_handler_class: str | None = honoured(
        Kind.CLASS,
        None,
        "For OAUTHBEARER, the class of Kafka that checks tokens by their signatures; the broker "
        f"does so in any case. Only `{VALIDATOR}` is accepted.",
        one_of(VALIDATOR, _OLD_VALIDATOR),
    )
    sasl_server_max_receive_size: int = honoured(
        Kind.INT,
        65_536,
        "Maximum size of a request before authentication, in bytes. Kafka's default is 524288.",
        at_least(1_024),
    )
    connections_max_reauth_ms: int = honoured(
        Kind.LONG,
        0,
        "Time after which a client must authenticate again, in ms; 0 means never (KIP-368).",
        at_least(0),
    )
    connection_failed_authentication_delay_ms: int = honoured(
        Kind.INT,
        100,
        "Delay of the response to a failed authentication, in ms (KIP-306).",
        at_least(0),
        importance=LOW,
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = honoured(
        Kind.STRING,
        None,
        "Where the keys are that sign the tokens: an https URL, http of this computer, or file.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = honoured(
        Kind.LONG,
        3_600_000,
        "Time between two requests for the keys, in ms.",
        at_least(1),
        importance=LOW,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = honoured(
        Kind.LONG,
        100,
        "Time until the first further request for the keys after a failure, in ms.",
        at_least(1),
        importance=LOW,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = honoured(
        Kind.LONG,
        10_000,
        "Longest time between two requests for the keys after failures, in ms.",
        at_least(1),
        importance=LOW,
    )
    sasl_oauthbearer_expected_issuer: str | None = honoured(
        Kind.STRING,
        None,
        "The issuer (`iss`) that a token must have; if not set, any.",
        importance=HIGH,
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "A token must have at least one of these audiences (`aud`); if empty, any.",
        importance=HIGH,
    )
    sasl_oauthbearer_clock_skew_seconds: int = honoured(
        Kind.INT,
        30,
        "Difference of clocks that is tolerated in a token's times, in seconds.",
        at_least(0),
        importance=LOW,
    )
    sasl_oauthbearer_sub_claim_name: str = honoured(
        Kind.STRING, "sub", "The claim with the name of the user.", importance=LOW
    )
    sasl_oauthbearer_scope_claim_name: str = honoured(
        Kind.STRING, "scope", "The claim with the scopes.", importance=LOW
    )
    oncelog_sasl_oauthbearer_unsecured: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Whether tokens without a signature are accepted. Only for development: any client can "
        "make them.",
        importance=LOW,
    )
    oncelog_sasl_plain_without_tls: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Whether PLAIN may be a mechanism of a SASL_PLAINTEXT listener that is not bound to a "
        "loopback address. Passwords then cross the network unencrypted.",
        importance=LOW,
    )
