"""The settings of OAUTHBEARER. A field has the name of Kafka's setting without the prefix
`sasl.oauthbearer.`. A broker with settings that `check` refuses does not start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

PREFIX: Final = "sasl.oauthbearer."
JWKS_URL: Final = f"{PREFIX}jwks.endpoint.url"
JAAS: Final = "sasl.jaas.config"
UNSECURED: Final = f"oncelog.{PREFIX}unsecured"

# Kafka's option names, in the JAAS configuration of the login module.
_PRINCIPAL_CLAIM: Final = "unsecuredValidatorPrincipalClaimName"
_SCOPE_CLAIM: Final = "unsecuredValidatorScopeClaimName"
_REQUIRED_SCOPE: Final = "unsecuredValidatorRequiredScope"
_CLOCK_SKEW: Final = "unsecuredValidatorAllowableClockSkewMs"


class OAuthSettingsError(ValueError):
    """Settings with which OAUTHBEARER cannot start. `setting` is the name of the wrong setting. The
    message names it too."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.setting = setting


class UnsecuredOptions(msgspec.Struct, frozen=True):
    """The options of Kafka's OAuthBearerUnsecuredValidatorCallbackHandler. `clock_skew_ms` is its
    `unsecuredValidatorAllowableClockSkewMs`."""

    principal_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings by which a broker judges the tokens of its clients.

    `jwks_endpoint_url` is the only source of keys: a URL in a token is never followed. With
    `unsecured` instead, tokens without a signature are accepted by the rules of
    `unsecured_options`.
    """

    jwks_endpoint_url: str | None = None
    jwks_endpoint_refresh_ms: int = 3_600_000
    jwks_endpoint_retry_backoff_ms: int = 100
    jwks_endpoint_retry_backoff_max_ms: int = 10_000
    expected_issuer: str | None = None
    expected_audience: tuple[str, ...] = ()
    clock_skew_seconds: int = 30
    sub_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    unsecured: bool = False
    unsecured_options: UnsecuredOptions = UnsecuredOptions()


def unsecured_options(options: Mapping[str, str]) -> UnsecuredOptions:
    """Return the options for unsecured tokens in a JAAS configuration; others are ignored. Raises
    OAuthSettingsError for a clock skew that is not a number."""
    skew = options.get(_CLOCK_SKEW, "").strip() or "0"
    if not (skew.isascii() and skew.isdecimal()):
        raise OAuthSettingsError(JAAS, f"{_CLOCK_SKEW}={skew}: must be a number of ms, 0 or more")
    return UnsecuredOptions(
        options.get(_PRINCIPAL_CLAIM, "").strip() or "sub",
        options.get(_SCOPE_CLAIM, "").strip() or "scope",
        tuple(options.get(_REQUIRED_SCOPE, "").split()),
        int(skew),
    )


def check(settings: OAuthSettings) -> None:
    """Raise OAuthSettingsError if the settings are unsafe or contradict each other.

    Kafka's default accepts unsecured tokens if no keys are configured. oncelog refuses to start.
    """
    has_url = bool(settings.jwks_endpoint_url and settings.jwks_endpoint_url.strip())
    if not has_url and not settings.unsecured:
        raise OAuthSettingsError(
            JWKS_URL,
            f"OAUTHBEARER has no keys, so no token can be verified: set {JWKS_URL}"
            f" (tests may set {UNSECURED}=true, which accepts tokens without a signature)",
        )
    if has_url and settings.unsecured:
        raise OAuthSettingsError(
            UNSECURED,
            f"{UNSECURED}=true contradicts {JWKS_URL}: keys do not verify tokens without a"
            " signature. Remove one of the settings",
        )
    for name, value, least in (
        ("jwks.endpoint.refresh.ms", settings.jwks_endpoint_refresh_ms, 1),
        ("jwks.endpoint.retry.backoff.ms", settings.jwks_endpoint_retry_backoff_ms, 0),
        (
            "jwks.endpoint.retry.backoff.max.ms",
            settings.jwks_endpoint_retry_backoff_max_ms,
            settings.jwks_endpoint_retry_backoff_ms,
        ),
        ("clock.skew.seconds", settings.clock_skew_seconds, 0),
    ):
        if value < least:
            setting = f"{PREFIX}{name}"
            raise OAuthSettingsError(setting, f"{setting}={value}: must be at least {least}")
    for name, claim in (
        ("sub.claim.name", settings.sub_claim_name),
        ("scope.claim.name", settings.scope_claim_name),
    ):
        if not claim.strip():
            setting = f"{PREFIX}{name}"
            raise OAuthSettingsError(
                setting, f"{setting} is empty: name a claim, or remove the line"
            )


def warnings(settings: OAuthSettings) -> list[str]:
    """Return the warnings that a broker logs at every start with these settings."""
    if settings.unsecured:
        return [
            f"{UNSECURED}=true: every client may claim to be any user, because OAUTHBEARER accepts"
            f" tokens without a signature. Set {JWKS_URL} instead"
        ]
    found = []
    if not settings.expected_audience:
        found.append(
            f"{PREFIX}expected.audience is not set: a token without the claim `aud` is accepted."
            " Set it to the audience of this cluster"
        )
    if not settings.expected_issuer:
        found.append(
            f"{PREFIX}expected.issuer is not set: a token with any issuer is accepted."
            " Set it to the issuer's URL"
        )
    return found
