"""Settings of single listeners, and the security that they make."""

from __future__ import annotations

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_server.config import SettingsError, load_settings
from oncelog_server.settings.listener_security import tls_settings, users_of_plain
from oncelog_server.settings.listener_settings import listener_setting
from oncelog_server.settings.listeners import listeners_of


def problems_of(*assignments: str) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load_settings(assignments=assignments)
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    "name",
    ["listener.name.a_b.ssl.client.auth", "listener.name.a_b.scram-sha-256.sasl.jaas.config"],
)
def test_a_name_has_its_listener_and_its_mechanism_and_is_made_again(name: str) -> None:
    setting = listener_setting(name)
    assert setting is not None
    assert setting.listener == "A_B"
    assert setting.full_name == name
    assert setting.row is not None
    assert listener_setting("ssl.client.auth") is None


SECURED = (
    "listeners=EXTERNAL://:9094,PLAINTEXT://:9092",
    "ssl.keystore.location=/server.p12",
    "ssl.keystore.password=canary-store",
    "ssl.truststore.location=/trust.p12",
    "ssl.truststore.password=canary-store",
)
PROTOCOLS = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTERNAL:"
PLAIN = (
    "listener.name.external.plain.sasl.jaas.config="
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hunter2";'
)


def test_a_setting_of_a_listener_overrides_that_of_the_broker_for_this_listener_alone() -> None:
    settings = load_settings(
        assignments=[
            *SECURED,
            PROTOCOLS + "SASL_SSL",
            "sasl.enabled.mechanisms=SCRAM-SHA-512",
            "ssl.client.auth=required",
            "connections.max.reauth.ms=1000",
            "listener.name.external.ssl.client.auth=requested",
            "listener.name.external.connections.max.reauth.ms=2000",
            "listener.name.external.scram-sha-512.connections.max.reauth.ms=3000",
            "listener.name.external.max.connections=7",
        ]
    ).settings
    assert settings.of_listener("PLAINTEXT").ssl_client_auth == "required"
    external = settings.of_listener("EXTERNAL")
    assert external.ssl_client_auth == "requested"
    assert external.connections_max_reauth_ms == 2000
    scram = settings.of_listener("EXTERNAL", SaslMechanism.SCRAM_SHA_512)
    assert scram.connections_max_reauth_ms == 3000
    plain = settings.of_listener("EXTERNAL", SaslMechanism.PLAIN)
    assert plain.connections_max_reauth_ms == 2000
    assert settings.max_connections_of_listeners == {"EXTERNAL": 7}


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ("listener.name.other.ssl.client.auth=none", "there is no listener OTHER"),
        ("listener.name.external.num.partitions=3", "is not a setting that a single listener"),
        ("listener.name.external.ssl.client.auth=maybe", "must be one of"),
        ("listener.name.external.scram-sha-256.ssl.client.auth=none", "is not a setting that"),
        ("listener.name.external.sasl.kerberos.service.name=kafka", "GSSAPI"),
    ],
)
def test_a_setting_that_a_listener_cannot_have_is_a_problem(assignment: str, reason: str) -> None:
    (problem,) = problems_of(*SECURED, PROTOCOLS + "PLAINTEXT", assignment)
    assert problem.startswith(assignment.partition("=")[0])
    assert reason in problem


def test_a_jaas_configuration_without_its_mechanism_has_no_effect_and_a_warning() -> None:
    loaded = load_settings(
        assignments=[
            *SECURED,
            PROTOCOLS + "PLAINTEXT",
            "listener.name.external.sasl.jaas.config=hunter2",
        ]
    )
    (warning,) = loaded.warnings
    assert "listener.name.external.sasl.jaas.config (--set): no effect" in warning
    assert "hunter2" not in warning


@pytest.mark.parametrize(
    ("protocol", "assignments", "reason"),
    [
        ("SASL_SSL", [], "the mechanism GSSAPI is not built"),
        ("SASL_SSL", ["sasl.enabled.mechanisms="], "has no SASL mechanism"),
        ("SASL_SSL", ["sasl.enabled.mechanisms=PLAIN"], "are the users"),
        ("SASL_PLAINTEXT", ["sasl.enabled.mechanisms=PLAIN", PLAIN], "without encryption"),
        ("SASL_SSL", ["sasl.enabled.mechanisms=OAUTHBEARER"], "jwks.endpoint.url"),
        (
            "SASL_SSL",
            ["sasl.enabled.mechanisms=PLAIN", PLAIN.replace("PlainLogin", "ScramLogin")],
            "PLAIN needs the login module PlainLoginModule",
        ),
        (
            "SASL_SSL",
            ["sasl.enabled.mechanisms=PLAIN", PLAIN.removesuffix(";")],
            "sasl.jaas.config=[hidden]",
        ),
    ],
)
def test_a_listener_with_sasl_that_could_admit_no_client_is_a_problem(
    protocol: str, assignments: list[str], reason: str
) -> None:
    (problem,) = problems_of(*SECURED, PROTOCOLS + protocol, *assignments)
    assert reason in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    ("assignments", "problem"),
    [
        (
            ["listener.name.external.ssl.client.auth=required"],
            "listener.name.external.ssl.client.auth=required (--set): required needs ",
        ),
        (
            ["listener.name.external.ssl.keystore.type=JKZ"],
            "listener.name.external.ssl.keystore.type=JKZ (--set): is not one of JKS, ",
        ),
        (
            ["listener.name.external.sasl.enabled.mechanisms=SCRAM"],
            "listener.name.external.sasl.enabled.mechanisms=SCRAM (--set): listener EXTERNAL: ",
        ),
        (
            [
                "sasl.enabled.mechanisms=OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url=https://issuer.test/keys",
                "listener.name.external.oauthbearer.sasl.oauthbearer.sub.claim.name= ",
            ],
            "listener.name.external.oauthbearer.sasl.oauthbearer.sub.claim.name=",
        ),
    ],
)
def test_a_problem_names_the_setting_that_the_user_has_set(
    assignments: list[str], problem: str
) -> None:
    """A listener may have a setting of its own beside that of all listeners."""
    found = problems_of(
        *SECURED[:3],
        PROTOCOLS + "SASL_SSL",
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        *assignments,
    )
    assert [text[: len(problem)] for text in found] == [problem]


def test_a_missing_setting_is_named_missing_once() -> None:
    (problem,) = problems_of(SECURED[0], PROTOCOLS + "SSL")
    assert problem.startswith("ssl.keystore.location (not set): a listener with TLS needs ")


@pytest.mark.parametrize(
    ("assignment", "setting"),
    [
        ("broker.rack=a", "sasl.oauthbearer.jwks.endpoint.url"),
        ("sasl.oauthbearer.sub.claim.name= ", "sasl.oauthbearer.sub.claim.name"),
        ("oncelog.sasl.oauthbearer.unsecured=true", "oncelog.sasl.oauthbearer.unsecured"),
        (
            "listener.name.external.oauthbearer.sasl.jaas.config="
            "a.OAuthBearerLoginModule required unsecuredValidatorAllowableClockSkewMs=x;",
            "listener.name.external.oauthbearer.sasl.jaas.config",
        ),
    ],
)
def test_a_problem_of_oauthbearer_names_the_wrong_setting(assignment: str, setting: str) -> None:
    url = "sasl.oauthbearer.jwks.endpoint.url=https://issuer.test/keys"
    (problem,) = problems_of(
        *SECURED,
        PROTOCOLS + "SASL_SSL",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        *([] if setting in url else [url]),
        assignment,
    )
    assert problem.startswith((f"{setting}=", f"{setting} (not set): "))


@pytest.mark.parametrize(
    "assignments",
    [
        [SECURED[0].replace("EXTERNAL://:", "EXTERNAL://127.0.0.1:"), *SECURED[1:]],
        [*SECURED, "oncelog.sasl.plain.without.tls=true"],
    ],
)
def test_plain_without_tls_is_allowed_on_this_computer_and_on_request(
    assignments: list[str],
) -> None:
    mechanisms = "sasl.enabled.mechanisms=PLAIN"
    loaded = load_settings(
        assignments=[*assignments, PROTOCOLS + "SASL_PLAINTEXT", mechanisms, PLAIN]
    )
    external = listeners_of(loaded.settings)[0]
    assert users_of_plain(loaded.settings, external) == {"alice": Secret("hunter2")}


def test_with_sasl_only_the_listeners_own_setting_asks_for_certificates() -> None:
    """Kafka ignores `ssl.client.auth` for SASL_SSL, unless it has the prefix of the listener."""
    given = [*SECURED, PROTOCOLS + "SASL_SSL", "sasl.enabled.mechanisms=SCRAM-SHA-256"]
    asked = "ssl.client.auth=required"
    for assignments, client_auth in (
        ([asked], "none"),
        ([f"listener.name.external.{asked}"], "required"),
    ):
        settings = load_settings(assignments=[*given, *assignments]).settings
        assert tls_settings(settings, listeners_of(settings)[0]).client_auth == client_auth
