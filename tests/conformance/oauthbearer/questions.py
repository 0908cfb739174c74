"""Random questions about OAUTHBEARER, for our code and for Kafka's. Few values are drawn often, so
that many questions are near the edge of a rule."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

from joserfc.jws import JWSRegistry

from tests.harness.bearer_tokens import AUDIENCE, ISSUER, Issuer, encoded, part

# The clock skew of the drawn settings. The JVM judges some seconds later, which must not matter.
SKEW_S = 300
OTHER_CLAIM = "mail"
SETTINGS: list[dict[str, Any]] = [
    {"issuer": ISSUER, "audience": [AUDIENCE, "other"], "sub": "sub", "scope": "scope"},
    {"issuer": None, "audience": [AUDIENCE], "sub": "sub", "scope": "scp"},
    {"issuer": ISSUER, "audience": [], "sub": OTHER_CLAIM, "scope": "scope"},
    {"issuer": None, "audience": [], "sub": "sub", "scope": "scope"},
]
ALGORITHMS = {
    "rsa": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
    "p256": ["ES256"],
    "p384": ["ES384"],
    "p521": ["ES512"],
    "ed25519": ["EdDSA"],
    "ed448": ["EdDSA"],
}


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def message(randomness: Random) -> bytes:
    """Return a client's first message, mostly with a mistake."""
    draw = randomness.choice
    header = draw([b"n,,"] * 12 + [b"n,a=al=2Cice,", b"n,a=a=b,", b"y,,", b"n,", b"n,a=,"])
    good = [b"auth=Bearer a.b-c==", b"auth=bearer  t"]
    pairs = [draw([*good * 3, b"auth=Basic x", b"auth=Bearer a=b"])]
    for _ in range(randomness.randrange(3)):
        mistakes = [b"k1=v", b"k=", b"=v", b"k", b"k=\xc3\xa9", b"auth=Bearer t2", b"k=\x7f"]
        more = [b"host=h", b"k=v=w", b"port=\t 9", b"host=other"]
        pairs.insert(randomness.randrange(2), draw([*mistakes, *more * 4]))
    whole = header + b"\x01" + b"\x01".join(pairs) + draw([b"\x01\x01"] * 8 + [b"\x01"])
    if randomness.random() < 0.2:
        place = randomness.randrange(len(whole))
        whole = (
            whole[:place] + draw([b"", b"\x00", b"\x01", b",", b"=", b"\n"]) + whole[place + 1 :]
        )
    return whole


def extensions(randomness: Random) -> dict[str, str]:
    names = ["a", "Ab", "auth", "Auth", "a1", "", "é"]
    values = ["v", "", " ", "a=b", "\t\r\n", "é", "\x01", "~!"]
    weights = [4, 4, 1, 1, 1, 1, 1], [4, 1, 1, 4, 1, 1, 1, 4]
    # A message with several extensions has them in the order of Java's hashes.
    name = randomness.choices(names, weights[0])[0]
    return {name: randomness.choices(values, weights[1])[0]} if randomness.random() < 0.9 else {}


def unsecured(randomness: Random, now_ms: int) -> str:
    """Return a token without a signature, mostly with a mistake."""
    draw, now_s = randomness.choice, now_ms // 1000
    claims: dict[str, Any] = {"sub": "alice", "exp": now_s + 600}
    changes: dict[str, list[Any]] = {
        "sub": ["bob", " alice ", "", " ", "\u3000", 7, ["a"], {}],
        "mail": ["m", " "],
        "exp": [now_s, now_s + 1, now_s - 2, now_s + 0.0005, "1", True, now_s + 2.5, 10**12],
        "iat": [now_s, now_s + 1, now_s + 2, now_s - 9, now_s + 600, "1", False, 0.5],
        "nbf": [now_s + 900],
        "scope": ["read", " read ", "", ["read", "write"], ["read", " "], [], [7], 7],
    }
    for name in randomness.sample(sorted(changes), randomness.randrange(4)):
        claims[name] = draw(changes[name])
    if randomness.random() < 0.1:
        del claims[draw(["sub", "exp"])]
    header = part({"alg": draw(["none"] * 8 + ["None", "HS256"])})
    signature = draw([""] * 8 + ["AAAA"])
    return f"{header}.{part(claims)}.{signature}" + draw([""] * 12 + [".", ".x"])


def unsecured_options(randomness: Random) -> dict[str, str]:
    options = {}
    if randomness.random() < 0.3:
        options["unsecuredValidatorAllowableClockSkewMs"] = randomness.choice(["0", "2000", " 1 "])
    if randomness.random() < 0.3:
        options["unsecuredValidatorRequiredScope"] = randomness.choice(["read", "read write", " "])
    if randomness.random() < 0.2:
        options["unsecuredValidatorPrincipalClaimName"] = randomness.choice(["mail", " "])
    return options


def signed(randomness: Random, issuer: Issuer, now_s: int) -> str:
    """Return a token with a signature, with up to three mistakes."""
    draw = randomness.choice
    claims: dict[str, Any] = {
        "sub": "alice",
        "mail": "mail",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now_s,
        "exp": now_s + 900,
    }
    changes: dict[str, list[Any]] = {
        "sub": ["bob", " alice\t", "", " ", "\u3000", 7, None, ["a"]],
        "mail": ["m", " ", 7, None],
        "iss": ["https://evil.test", f"{ISSUER}/", None, 7, ISSUER],
        "aud": [None, "other", "evil", [AUDIENCE, "x"], ["x"], [], "", 7, [7], {}],
        "exp": [now_s - 100, now_s - 600, now_s + 900.9, "1", True, None, -1, 0, 2**60, 10**12],
        "iat": [now_s + 800, now_s + 901, None, -1, "1", True, 0.5, now_s - 10**6],
        "nbf": [now_s + 200, now_s + 800, now_s + 901, now_s - 5, "1", -1, None],
        "scope": ["read", " ", "", ["a", "b"], ["a", " a"], ["a", ""], [None], [], 7, {}, None],
        "scp": ["s", ["s", "s"], ""],
        "jti": ["id", 7],
        "nested": [{"a": [1]}],
    }
    for name in randomness.sample(sorted(changes), randomness.choice([0, 1, 1, 2, 3])):
        claims[name] = draw(changes[name])
    kid = draw(sorted(issuer.keys))
    used = alg = draw(ALGORITHMS[kid])
    header: dict[str, Any] = {"alg": alg, "kid": kid}
    if randomness.random() < 0.25:
        header.update(draw([
            {"kid": draw(sorted(issuer.keys))}, {"kid": "new"}, {"kid": ""}, {"crit": ["exp"]},
            {"jku": "https://evil.test"}, {"x5u": "https://evil.test"}, {"typ": "at+jwt"},
            {"alg": draw(["none", "None", "HS256", "RS256", "ES256", "PS256", "XX"])}, {"x": {}},
            {"cty": "JWT"},
        ]))  # fmt: skip
    if randomness.random() < 0.1:
        del header["kid"]
    text = f"{part(header)}.{part(claims)}"
    signature = JWSRegistry.algorithms[used].sign(text.encode(), issuer.keys[kid])
    if randomness.random() < 0.05:
        # Java ignores further bytes after a signature of EdDSA.
        longer = signature + b"\0" if used != "EdDSA" else b"x"
        signature = draw([bytes(len(signature)), signature[:-1], longer, b"", b"\x30"])
    token = f"{text}.{encoded(signature)}"
    return (
        token if randomness.random() < 0.97 else draw([token[:-20], f"{token}.", "x", "..", text])
    )


def lifetime(randomness: Random, now_ms: int) -> dict[str, Any]:
    """Return the times of a token with the settings of its refresh."""
    expires = now_ms + randomness.choice([1, 1_000, 60_000, 360_000, 400_000, 3_600_000, 10**8])
    expires += randomness.randrange(1_000)
    issued = randomness.choice([None, now_ms, now_ms - randomness.randrange(10**7), now_ms + 500])
    return {
        "kind": "refresh",
        "now": now_ms,
        "expires": expires,
        "issued": issued,
        "factor": randomness.choice([0.5, 0.8, 0.9, 1.0]),
        "least": randomness.choice([0, 1, 60, 900]),
        "buffer": randomness.choice([0, 1, 300, 3_600]),
    }


def credentials(randomness: Random) -> dict[str, Any]:
    letters = "ab Z09.-*_~+/=&%:é😀\t"

    def text() -> str:
        return "".join(randomness.choices(letters, k=randomness.randrange(1, 9)))

    return {
        "kind": "request",
        "id": f"i{text()}",
        "secret": f"{text()}s",
        "scope": randomness.choice([text(), "", " "]),
        # Kafka encodes the scope only if it also encodes the header.
        "encode": True,
    }


def token_response(randomness: Random) -> dict[str, Any]:
    values: list[Any] = ["t", " t ", "t", "t2", "", " ", 7, None, ["t"]]
    body: dict[str, Any] = {"expires_in": 5}
    for name in ("access_token", "id_token", "token"):
        if randomness.random() < 0.6:
            body[name] = randomness.choice(values)
    whole = json.dumps(body)
    return {"kind": "response", "body": randomness.choice([*[whole] * 9, "[]", '"t"', "{"])}
