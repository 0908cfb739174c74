"""OAUTHBEARER decides exactly as Kafka's classes, which run in the same test."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oncelog_client.core.client_credentials import (
    ClientCredentials,
    read_response,
    request_body,
    request_headers,
)
from oncelog_client.core.oauth_token import AccessToken, OAuthTokenError, RefreshWindow
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.oauthbearer import (
    OAuthBearerError,
    read_initial_response,
    write_initial_response,
)
from oncelog_server.security.sasl.claims import Claims
from oncelog_server.security.sasl.exchange import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
)
from oncelog_server.security.sasl.oauth_settings import OAuthSettings, unsecured_options
from oncelog_server.security.sasl.oauthbearer import OAuthBearerExchange
from oncelog_server.security.sasl.signed_tokens import judge
from oncelog_server.security.sasl.unsecured_tokens import UnsecuredTokens
from oncelog_server.security.sasl.verification_keys import VerificationKeys, read_jwks
from tests.conformance.oauthbearer import questions
from tests.examples import drawn
from tests.harness.bearer_tokens import NOW_MS, Issuer
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

MESSAGES, TOKENS, SIGNED, OTHERS = map(drawn, (20_000, 20_000, 4_000, 2_000))
TIMEOUT_S = 120.0
REFUSED = {"refused": True}


def kafkas_answers(asked: list[dict[str, Any]], folder: Path) -> list[Any]:
    try:
        jars = classpath()
        classes = compiled(Path(__file__).with_name("Oracle.java"), jars)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    (folder / "questions").write_text("".join(json.dumps(each) + "\n" for each in asked))
    options = [*TEST_JVM_OPTIONS, *class_archive().options, "-Dorg.apache.logging.log4j.level=OFF"]
    command = [java(), *options, "-cp", f"{jars}:{classes}", "Oracle"]
    subprocess.run(
        [*command, str(folder / "questions"), str(folder / "answers")],
        check=True, timeout=TIMEOUT_S, capture_output=True,
    )  # fmt: skip
    return [json.loads(line) for line in (folder / "answers").read_text().splitlines()]


def compare(
    asked: list[dict[str, Any]], ours: list[Any], theirs: list[Any], least: float, most: float
) -> None:
    """Compare all answers. A share of them between `least` and `most` must be refusals, because a
    test in which nearly every answer is the same would find little."""
    assert len(theirs) == len(asked)
    different = [
        (question, mine, kafkas)
        for question, mine, kafkas in zip(asked, ours, theirs, strict=True)
        if mine != kafkas
    ]
    assert not different, (len(different), different[0])
    refused = sum(_is_refused(answer) for answer in theirs)
    assert least < refused / len(theirs) < most, refused


def _is_refused(answer: Any) -> bool:
    last = answer[-1] if isinstance(answer, list) else answer
    return last == REFUSED or (isinstance(last, dict) and "error" in last)


def test_a_broker_reads_the_first_message_as_kafka(tmp_path: Path) -> None:
    drawn = [questions.message(Random(seed)) for seed in range(MESSAGES)]
    asked = [{"kind": "read", "message": questions.base64_of(message)} for message in drawn]
    compare(asked, [read(message) for message in drawn], kafkas_answers(asked, tmp_path), 0.3, 0.9)


def read(message: bytes) -> dict[str, Any]:
    try:
        response = read_initial_response(message)
    except OAuthBearerError:
        return REFUSED
    return {
        "token": response.token.reveal(),
        "name": response.authorization_id,
        "extensions": dict(response.extensions),
    }


def test_a_client_writes_the_first_message_as_kafka(tmp_path: Path) -> None:
    drawn = [questions.extensions(Random(seed)) for seed in range(OTHERS)]
    asked = [{"kind": "write", "token": "a.b", "extensions": each} for each in drawn]
    compare(asked, [write(each) for each in drawn], kafkas_answers(asked, tmp_path), 0.2, 0.9)


def write(extensions: dict[str, str]) -> dict[str, Any]:
    try:
        message = write_initial_response(Secret("a.b"), extensions)
    except OAuthBearerError:
        return REFUSED
    return {"message": questions.base64_of(message)}


def test_an_exchange_with_unsecured_tokens_has_the_steps_of_kafka(tmp_path: Path) -> None:
    asked = []
    for seed in range(TOKENS):
        randomness = Random(seed)
        token = questions.unsecured(randomness, NOW_MS)
        name = randomness.choice([b""] * 8 + [b"a=alice", b"a=bob"])
        first = b"n," + name + b",\x01auth=Bearer " + token.encode() + b"\x01\x01"
        if randomness.random() < 0.05:
            first = questions.message(randomness)
        asked.append(
            {
                "kind": "exchange",
                "now": NOW_MS,
                "options": questions.unsecured_options(randomness),
                "messages": [questions.base64_of(first), questions.base64_of(b"\x01")],
            }
        )
    ours = [exchange(question) for question in asked]
    compare(asked, ours, kafkas_answers(asked, tmp_path), 0.2, 0.9)


def exchange(question: dict[str, Any]) -> list[dict[str, Any]]:
    tokens = UnsecuredTokens(unsecured_options(question["options"]))
    begun = OAuthBearerExchange(tokens, lambda: question["now"])
    steps: list[dict[str, Any]] = []
    for message in question["messages"]:
        try:
            step = begun.evaluate(base64.b64decode(message))
        except AuthenticationRefused as refused:
            text = str(refused)
            general = text.startswith("Authentication failed during authentication due to")
            steps.append({"error": "general" if general else text})
            break
        assert isinstance(step, Challenge | Authenticated)
        steps.append({"challenge": questions.base64_of(step.token)})
        if isinstance(step, Authenticated):
            steps[-1].update(principal=step.principal.name, expires=step.expires_ms)
            break
    return steps


def test_every_verdict_on_a_signed_token_is_kafkas(tmp_path: Path) -> None:
    issuer, now_ms = Issuer(), time.time_ns() // 1_000_000
    (tmp_path / "jwks").write_bytes(issuer.jwks())
    keys = read_jwks(issuer.jwks())
    asked = []
    for seed in range(SIGNED):
        randomness = Random(seed)
        settings = {
            **randomness.choice(questions.SETTINGS),
            "url": f"file:{tmp_path}/jwks",
            "skew": questions.SKEW_S,
        }
        token = questions.signed(randomness, issuer, now_ms // 1000)
        asked.append({"kind": "signed", "token": token, "settings": settings})
    theirs = kafkas_answers(asked, tmp_path)
    reasons = [answer.pop("why", None) for answer in theirs]
    ours = [signed(question, keys, now_ms) for question in asked]
    shown = [{**question, "why": why} for question, why in zip(asked, reasons, strict=True)]
    compare(shown, ours, theirs, 0.3, 0.9)


def signed(question: dict[str, Any], keys: VerificationKeys, now_ms: int) -> dict[str, Any]:
    given = question["settings"]
    settings = OAuthSettings(
        expected_issuer=given["issuer"],
        expected_audience=tuple(given["audience"]),
        clock_skew_seconds=given["skew"],
        sub_claim_name=given["sub"],
        scope_claim_name=given["scope"],
    )
    verdict = judge(question["token"], keys, settings, now_ms)
    if not isinstance(verdict, Claims):
        return REFUSED
    return {
        "subject": verdict.subject,
        "expires": verdict.expires_ms,
        "scopes": sorted(verdict.scopes),
    }


def test_a_token_is_replaced_at_the_time_of_kafka(tmp_path: Path) -> None:
    asked = [questions.lifetime(Random(seed), NOW_MS) for seed in range(OTHERS)]
    theirs = kafkas_answers(asked, tmp_path)
    assert len(set(theirs)) > OTHERS / 10
    assert [refresh(question) for question in asked] == theirs


def refresh(question: dict[str, Any]) -> int | None:
    window = RefreshWindow(question["factor"], 0.0, question["least"], question["buffer"])
    token = AccessToken(Secret("t"), question["expires"], question["issued"])
    return window.refresh_ms(token, question["now"], 0.5)


def test_the_request_of_a_token_is_kafkas(tmp_path: Path) -> None:
    asked = [questions.credentials(Random(seed)) for seed in range(OTHERS)]
    theirs = kafkas_answers(asked, tmp_path)
    for question, kafkas in zip(asked, theirs, strict=True):
        ours = ClientCredentials(
            question["id"], Secret(question["secret"]), question["scope"], question["encode"]
        )
        assert request_headers(ours) == kafkas["headers"]
        assert request_body(ours) == kafkas["body"].encode()


def test_the_token_in_a_response_is_kafkas(tmp_path: Path) -> None:
    asked = [questions.token_response(Random(seed)) for seed in range(OTHERS)]
    ours = [token_in(question["body"].encode()) for question in asked]
    compare(asked, ours, kafkas_answers(asked, tmp_path), 0.2, 0.9)


def token_in(body: bytes) -> dict[str, Any]:
    try:
        return {"token": read_response(200, body, NOW_MS).token.reveal()}
    except OAuthTokenError:
        return REFUSED
