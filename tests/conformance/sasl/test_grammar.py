"""The grammar of the SCRAM messages is that of Kafka's ScramMessages, on generated messages."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest

from oncelog_protocol.security.scram_messages import (
    InvalidScramMessage,
    parse_client_final,
    parse_client_first,
    parse_server_final,
    parse_server_first,
)
from tests.conformance.sasl.oracle import OracleError, SaslOracle
from tests.examples import drawn

MESSAGES: Final = drawn(10_000)
# Messages that are right, and pieces that are put into them. Kafka allows `m=` and refuses names
# outside ASCII. RFC 5802 refuses `m=` and allows such names. So no piece makes either.
RIGHT: Final = {
    "client first": (
        "n,,n=alice,r=abc", "n,a=al=2Cice,n=al=2C=3D,r=a=c", "n,,n=a,r=b,x=y,tokenauth=true,x=z=",
    ),
    "server first": ("r=abc,s=YWJj,i=4096", "r=a=c,s=,i=1,x=y", "r=a,s=ab==,i=0012,Abc=d"),
    "client final": ("c=biws,r=abc,p=YWJj", "c=,r=a=c,x=y,p=", "c=ab==,r=a,x=y,z=1,p=YWI="),
    "server final": ("v=YWJj", "e=other-error", "v=YWI=,x=y", "v=", "v=+/==,x=,y"),
}  # fmt: skip
PIECES: Final = (
    ",", "=", "=2C", "=3D", "=2c", "=2D", "n,", "y,", "p=x,", "a=", "n=", "r=", "s=", "i=", "c=",
    "p=", "v=", "e=", "x=y", ",x=y", "1=2", "0", "-1", "+", "/", " ", "\t", "\n", "\x7f", "\0",
    "YWJj", "YW==", "YWI=", "=Y", "Z",
)  # fmt: skip
OURS: Final[dict[str, Callable[[bytes], list[Any]]]] = {
    "client first": lambda message: [
        (first := parse_client_first(message)).authorization_id,
        first.name,
        first.nonce,
        first.extensions,
    ],
    "server first": lambda message: list(parse_server_first(message)),
    "client final": lambda message: list(parse_client_final(message)[:3]),
    "server final": lambda message: list(parse_server_final(message)),
}
# The fields of Java that are base64 in JSON, and those that are still escaped.
BYTES: Final = {"server first": (1,), "client final": (0, 2), "server final": (1,)}
ESCAPED: Final = {"client first": (0, 1)}


def changed(chance: Random, message: str) -> str:
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        start = chance.randrange(len(message) + 1)
        end = min(len(message), start + chance.choice((0, 0, 0, 1, 2, 5)))
        message = message[:start] + chance.choice((*PIECES, "")) + message[end:]
    return message


def theirs(oracle: SaslOracle, kind: str, message: bytes) -> list[Any] | None:
    try:
        fields = oracle.call("message", kind=kind, token=b64encode(message).decode())["fields"]
    except OracleError:
        return None
    for number in BYTES.get(kind, ()):
        fields[number] = b64decode(fields[number] or "")
    for number in ESCAPED.get(kind, ()):
        fields[number] = fields[number].replace("=2C", ",").replace("=3D", "=")
    return list(fields)


@pytest.mark.parametrize("kind", RIGHT)
def test_every_message_is_read_as_by_kafka(kind: str, oracle: SaslOracle) -> None:
    accepted = 0
    for seed in range(MESSAGES):
        chance = Random(seed)
        message = changed(chance, chance.choice(RIGHT[kind])).encode()
        try:
            ours = OURS[kind](message)
        except InvalidScramMessage:
            ours = None
        if kind == "server first" and ours is not None and not 0 < ours[2] < 1 << 31:
            # The client checks the number of iterations. The grammar does not.
            ours = None
        if message.startswith(b"e=") and b"," in message:
            # In the RFC, extensions may follow an error too. Either way, the client is refused.
            continue
        assert ours == theirs(oracle, kind, message), (seed, message)
        accepted += ours is not None
    assert MESSAGES * 0.2 < accepted < MESSAGES * 0.9, accepted
