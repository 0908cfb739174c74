"""The arguments of `--add-scram`. `tests/conformance/scram` compares them with Kafka's parser."""

from __future__ import annotations

import re

import pytest

from oncelog_protocol.security.scram_credential import (
    ScramMechanism,
    credential_of,
    salted_password,
)
from oncelog_server.security.scram_arguments import parse_scram

SHA_256, SHA_512 = ScramMechanism


def test_an_argument_with_a_password() -> None:
    argument = parse_scram(" SCRAM-SHA-512=[name=alice,password=pass=word]\n")
    assert (argument.mechanism, argument.user) == (SHA_512, "alice")
    salted = salted_password(SHA_512, "pass=word", b"random", 4096)
    assert argument.credential(b"random") == credential_of(SHA_512, b"random", salted, 4096)


def test_an_argument_with_a_salted_password_and_quotes() -> None:
    """The example of Kafka's tool."""
    text = 'SCRAM-SHA-256=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]'
    credential = parse_scram(text).credential(b"unused")
    assert credential == credential_of(SHA_256, b"7q", b"`!", 8192)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument"),
        ("PLAIN=[name=a,password=S3]", "The add-scram mechanism PLAIN is not supported."),
        ("SCRAM-SHA-256=name=a,password=S3]", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=S3", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[name=a,password=x,S3]", "No equals sign found in SCRAM component"),
        ("SCRAM-SHA-256=[password=S3]", "You must supply 'name' to add-scram"),
        (
            "SCRAM-SHA-256=[name=a]",
            "You must supply one of 'password' or 'saltedpassword' to add-scram",
        ),
        (
            "SCRAM-SHA-256=[name=a,saltedpassword=S3S3]",
            "You must supply 'salt' with 'saltedpassword' to add-scram",
        ),
        ("SCRAM-SHA-256=[name=a,password=S3,salt=*]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,password=S3,pass=S3]", "Unknown SCRAM configurations: pass"),
        (
            "SCRAM-SHA-256=[name=a,password=S3,iterations=few]",
            "Failed to parse iterations count: few",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=S3,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
        ("SCRAM-SHA-256=[name=a,password=]", "Password must not be empty"),
        ("SCRAM-SHA-256=[name=,password=S3]", "Username must not be empty"),
    ],
)
def test_an_invalid_argument_has_a_message_without_the_password(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$") as caught:
        parse_scram(text)
    assert "S3" not in str(caught.value)


def test_the_text_of_an_argument_has_no_password() -> None:
    argument = parse_scram("SCRAM-SHA-512=[name=alice,password=S3cret]")
    assert "S3cret" not in f"{argument!r} {argument} {argument._asdict()}"
