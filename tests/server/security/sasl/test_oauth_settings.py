"""A broker does not start with settings of OAUTHBEARER that accept every token by accident."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_server.security.sasl.oauth_settings import (
    OAuthSettings,
    OAuthSettingsError,
    UnsecuredOptions,
    check,
    unsecured_options,
    warnings,
)

URL = "https://issuer.test/keys"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"jwks_endpoint_url": None}, "set sasl.oauthbearer.jwks.endpoint.url"),
        ({"jwks_endpoint_url": " "}, "set sasl.oauthbearer.jwks.endpoint.url"),
        ({"unsecured": True}, "oncelog.sasl.oauthbearer.unsecured=true contradicts"),
        ({"jwks_endpoint_refresh_ms": 0}, "sasl.oauthbearer.jwks.endpoint.refresh.ms=0"),
        ({"jwks_endpoint_retry_backoff_ms": -1}, "jwks.endpoint.retry.backoff.ms=-1"),
        ({"jwks_endpoint_retry_backoff_max_ms": 99}, "backoff.max.ms=99: must be at least 100"),
        ({"clock_skew_seconds": -1}, "sasl.oauthbearer.clock.skew.seconds=-1"),
        ({"sub_claim_name": " "}, "sasl.oauthbearer.sub.claim.name is empty"),
        ({"scope_claim_name": ""}, "sasl.oauthbearer.scope.claim.name is empty"),
    ],
)
def test_an_unsafe_setting_is_refused_by_its_name(changed: dict[str, Any], named: str) -> None:
    check(OAuthSettings(jwks_endpoint_url=URL))
    with pytest.raises(OAuthSettingsError, match=named):
        check(OAuthSettings(**{"jwks_endpoint_url": URL, **changed}))


def test_each_weak_setting_is_warned_about() -> None:
    strong = OAuthSettings(
        jwks_endpoint_url=URL, expected_issuer="https://issuer.test", expected_audience=("kafka",)
    )
    assert warnings(strong) == []
    audience, issuer = warnings(OAuthSettings(jwks_endpoint_url=URL))
    assert "sasl.oauthbearer.expected.audience is not set" in audience
    assert "sasl.oauthbearer.expected.issuer is not set" in issuer
    unsecured = OAuthSettings(unsecured=True)
    check(unsecured)
    (warning,) = warnings(unsecured)
    assert "every client may claim to be any user" in warning


def test_the_options_of_unsecured_tokens_are_those_of_kafka() -> None:
    assert unsecured_options({"user_alice": "x"}) == UnsecuredOptions()
    options = {
        "unsecuredValidatorPrincipalClaimName": " mail ",
        "unsecuredValidatorScopeClaimName": "scp",
        "unsecuredValidatorRequiredScope": " read  write ",
        "unsecuredValidatorAllowableClockSkewMs": "3000",
    }
    assert unsecured_options(options) == UnsecuredOptions("mail", "scp", ("read", "write"), 3_000)


@pytest.mark.parametrize("skew", ["-1", "1.5", "x", "²"])
def test_a_clock_skew_that_is_no_number_is_refused(skew: str) -> None:
    with pytest.raises(OAuthSettingsError, match="unsecuredValidatorAllowableClockSkewMs"):
        unsecured_options({"unsecuredValidatorAllowableClockSkewMs": skew})
