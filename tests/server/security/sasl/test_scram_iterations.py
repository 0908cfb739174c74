"""The numbers of iterations that the credentials of SCRAM have."""

from __future__ import annotations

from oncelog_protocol.security.scram_credential import ScramCredential, ScramMechanism
from oncelog_server.security.sasl.scram_iterations import MOST_NUMBERS, ScramIterations

SHA_256, SHA_512 = ScramMechanism


def credential(iterations: int) -> ScramCredential:
    return ScramCredential(b"", b"", b"", iterations)


def test_each_mechanism_has_the_numbers_of_its_credentials() -> None:
    credentials = {
        (SHA_256, "alice"): credential(8192),
        (SHA_256, "bob"): credential(4096),
        (SHA_256, "carol"): credential(8192),
        (SHA_256, "too weak"): credential(1),
    }
    iterations = ScramIterations(lambda: credentials)
    assert iterations.of(SHA_256) == (4096, 8192)
    assert iterations.of(SHA_512) == (4096,)
    credentials = {(SHA_512, "alice"): credential(16384)}
    assert iterations.of(SHA_256) == (4096,)
    assert iterations.of(SHA_512) == (16384,)


def test_unchanged_credentials_are_collected_once() -> None:
    credentials = {(SHA_256, "alice"): credential(8192)}
    iterations = ScramIterations(lambda: credentials)
    assert iterations.of(SHA_256) == (8192,)
    credentials[SHA_256, "bob"] = credential(4096)
    assert iterations.of(SHA_256) == (8192,)


def test_the_numbers_are_limited() -> None:
    credentials = {(SHA_256, str(number)): credential(5_000 + number) for number in range(100)}
    assert len(ScramIterations(lambda: credentials).of(SHA_256)) == MOST_NUMBERS
