"""The families of inputs: the parsers, their good inputs, and the outcomes that are right."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from oncelog_protocol.apis import api_of
from oncelog_protocol.codecs import decode, encoder
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.headers import write_request_header
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.create_acls import CreateAclsRequest
from oncelog_protocol.messages.delete_acls import DeleteAclsRequest
from oncelog_protocol.messages.describe_acls import DescribeAclsRequest
from oncelog_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.jaas import jaas_contexts, jaas_module, server_modules
from oncelog_protocol.security.jaas_syntax import JaasError
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import (
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from oncelog_protocol.security.stores import StoreError, key_pair, trusted
from oncelog_protocol.tls.contexts import client_context, server_context
from oncelog_protocol.tls.engine import TlsEngine, TlsFailed
from oncelog_server.cluster.acl_changes import create_acls, delete_acls, matching_acls
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.requests.authentication import Authentication, SaslRules
from oncelog_server.requests.response import EncodedResponse, Serve
from oncelog_server.requests.session import Session
from oncelog_server.security.acls import (
    Acl,
    AclFilter,
    Pattern,
    PatternType,
    Permission,
    check_known,
    is_specific,
    new_acl,
)
from oncelog_server.security.resources import (
    ANONYMOUS,
    Operation,
    Principal,
    ResourceType,
)
from oncelog_server.security.sasl.claims import Claims, InvalidToken
from oncelog_server.security.sasl.mechanisms import SaslSources, new_exchange
from oncelog_server.security.sasl.oauth_settings import OAuthSettings
from oncelog_server.security.sasl.oauthbearer import OAuthBearerExchange
from oncelog_server.security.sasl.plain import PlainUsers
from oncelog_server.security.sasl.signed_tokens import UnknownKey, judge
from oncelog_server.security.sasl.verification_keys import JwksError, read_jwks
from oncelog_server.slices import Steps
from tests.fuzz.fuzzing import Family
from tests.harness.bearer_tokens import AUDIENCE, ISSUER, NOW_MS, Issuer, claims, sign
from tests.harness.certificates import PASSWORD, Certificates
from tests.protocol.drawing import sample
from tests.protocol.security.store_files import jks, jks_key, jks_trusted, pkcs12_of

SESSION: Final = Session(ANONYMOUS, "10.0.0.1", "EXTERNAL", lambda: False)
REFUSED, ACCEPTED, PENDING = "refused", "accepted", "pending"


def refused(reason: str, secret: str = "") -> str:
    """Return the outcome of an input that is refused for a reason. The reason has no secret."""
    assert reason, "no reason"
    assert not secret or secret not in reason, "the reason shows a secret"
    return REFUSED


def certificates() -> Certificates:
    return Certificates(Path(tempfile.mkdtemp(prefix="oncelog-fuzz-")))


# --- frames before authentication


class SaslClient:
    """A connection that authenticates. It knows no password."""

    def __init__(self, sources: SaslSources) -> None:
        self.principal: Principal | None = None
        self.failed = False
        self._due: list[Callable[[], None]] = []
        rules = SaslRules(
            exchanges={
                mechanism: partial(_exchange, mechanism, sources) for mechanism in SaslMechanism
            },
            max_reauth_ms={},
            failure_delay_ms=0,
            wall_ms=lambda: NOW_MS,
            monotonic_ms=lambda: 0,
            timers=self,
        )
        self.serve: Serve = Authentication(rules, self, self._dispatch).serve

    def _dispatch(self, frame: memoryview, session: Session) -> EncodedResponse:
        return [bytes(12)]

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._due.append(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> SaslClient:
        self._due.append(callback)
        return self

    def cancel(self) -> None:
        pass

    def served_by(self, serve: Serve) -> None:
        self.serve = serve

    def authenticated(self, principal: Principal, serve: Serve) -> None:
        self.principal = principal

    def refused(self, reason: str) -> None:
        assert reason

    def drain(self) -> None:
        self.failed = True

    def session_expired(self) -> None:
        raise AssertionError("no session expires")

    def send(self, frame: bytes) -> None:
        response = self.serve(memoryview(frame), SESSION)
        due, self._due = self._due, []
        for callback in due:
            callback()
        assert not isinstance(response, Deferred) or response.done


def _exchange(mechanism: SaslMechanism, sources: SaslSources, again: bool) -> Any:
    return new_exchange(mechanism, sources, reauthentication=again)


def _sasl_frames() -> Family:
    """An input is a list of frames, each after its length in two bytes, so that a change may add a
    frame."""
    issuer = Issuer()
    tokens = _Tokens(issuer)
    scram = ScramMechanism.SCRAM_SHA_512
    credential = credential_of(
        scram, b"salt", salted_password(scram, "hidden", b"salt", 4096), 4096
    )

    def lookup(_: ScramMechanism, name: str) -> ScramCredential | None:
        return credential if name == "alice" else None

    sources = SaslSources(
        lookup,
        bytes,
        b"secret",
        PlainUsers({"alice": Secret("hidden")}, b"secret"),
        oauthbearer=lambda again: OAuthBearerExchange(tokens, lambda: NOW_MS, again=again),
    )

    def check(data: bytes) -> str:
        client = SaslClient(sources)
        try:
            for frame in _frames(data):
                client.send(frame)
                if client.failed:
                    break
        except ProtocolError:
            return REFUSED
        assert client.principal is None, "authenticated without a password"
        return REFUSED if client.failed else PENDING

    first = b"n,,n=alice,r=rOprNGfwEbeRWgbNEkqO"
    last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO" + b"A" * 20 + b",p=" + b"A" * 86 + b"=="
    bearer = b"n,,\x01auth=Bearer a.b.c\x01\x01"
    return Family(
        [
            _framed(ApiVersionsRequest(), SaslHandshakeRequest(mechanism), *tokens_of_mechanism)
            for mechanism, *tokens_of_mechanism in (
                ("SCRAM-SHA-512", first, last),
                ("SCRAM-SHA-256", first, last),
                ("PLAIN", b"\0alice\0wrong"),
                ("OAUTHBEARER", bearer, b"\x01"),
                ("GSSAPI", b""),
            )
        ],
        check,
    )


class _Tokens:
    """The validator of a broker. It knows the keys of an issuer."""

    def __init__(self, issuer: Issuer) -> None:
        self._keys = read_jwks(issuer.jwks("p256"))

    def validate(self, token: str, now_ms: int) -> Claims | InvalidToken:
        verdict = judge(token, self._keys, OAuthSettings(), now_ms)
        return verdict.refused() if isinstance(verdict, UnknownKey) else verdict


def _framed(*steps: Any) -> bytes:
    frames = []
    for step in steps:
        request = SaslAuthenticateRequest(step) if isinstance(step, bytes) else step
        parts: list[Any] = [write_request_header(api_of(type(request)).key, 1, 7, "fuzz")]
        encoder(type(request), 1)(request, parts.append)
        frames.append(b"".join(parts))
    return b"".join(len(frame).to_bytes(2) + frame for frame in frames)


def _frames(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2])
        yield data[at + 2 : end]
        at = end


# --- TLS


def _tls_records() -> Family:
    made = certificates()
    context = server_context(made.server_settings())
    client = TlsEngine(client_context(made.client_settings()), "localhost")
    client.handshake()

    def check(data: bytes) -> str:
        engine = TlsEngine(context)
        half = len(data) // 2
        try:
            for part in (data[:half], data[half:]):
                engine.received(part)
                assert not engine.handshake(), "a handshake without its end"
        except TlsFailed as failed:
            return refused(failed.reason)
        return PENDING

    alert, plain = b"\x15\x03\x03\x00\x02\x02\x28", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    return Family([client.outgoing(), alert, plain, b"\0\0\0\x10\0\x12\0\0"], check)


# --- stores, JAAS


def _key_stores() -> Family:
    made = certificates()
    server = made.server
    password = Secret(PASSWORD)

    def check(data: bytes) -> str:
        outcome = REFUSED
        # A store of PEM has no password.
        own = None if data.startswith(b"-----") else password
        for read in (partial(key_pair, data, own, None), partial(trusted, data, own)):
            try:
                read()
                outcome = ACCEPTED
            except StoreError as error:
                refused(str(error), PASSWORD)
        return outcome

    return Family(
        [
            jks(jks_trusted(server.der), jks_key(server)),
            pkcs12_of(server.key, server.chain, []),
            server.pem.encode(),
            made.authority_pem.encode(),
        ],
        check,
    )


_MODULE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password=\'hunter\\"2\' user_bob="bobs" debug=true;'
)


def _jaas() -> Family:
    def check(data: bytes) -> str:
        text = data.decode(errors="replace")
        outcome = REFUSED
        for read in (partial(jaas_module, "setting", text), partial(_jaas_file, text)):
            try:
                read()
                outcome = ACCEPTED
            except JaasError as error:
                refused(str(error), "hunter")
        return outcome

    # In a JAAS file, Java expects double quotes in place of the single ones.
    module = _MODULE.replace("'", '"')
    file = f"KafkaServer {{ // comment\n {module}\n}};\n/* x */ sasl_ssl.KafkaServer {{{module}}};"
    return Family([_MODULE.encode(), file.encode()], check)


def _jaas_file(text: str) -> None:
    server_modules("file", jaas_contexts("file", text), "sasl_ssl")


# --- tokens


def _jwt() -> Family:
    issuer = Issuer()
    keys = read_jwks(issuer.jwks("p256", "ed25519"))
    settings = OAuthSettings(expected_issuer=ISSUER, expected_audience=(AUDIENCE,))
    header = {"alg": "ES256", "kid": "p256", "typ": "JWT"}
    good = claims(scope="produce consume", nbf=1)
    tokens = [
        sign(issuer.keys["p256"], header, good),
        sign(issuer.keys["ed25519"], {"alg": "EdDSA", "kid": "ed25519"}, good),
        sign(issuer.keys["p384"], {"alg": "ES384", "kid": "p384"}, good),
    ]
    expected = [judge(token, keys, settings, NOW_MS) for token in tokens]

    def check(data: bytes) -> str:
        verdict = judge(data.decode(errors="replace"), keys, settings, NOW_MS)
        if isinstance(verdict, Claims):
            assert verdict in expected, "a token that the issuer has not signed"
            return ACCEPTED
        assert isinstance(verdict, InvalidToken | UnknownKey)
        return REFUSED

    return Family([token.encode() for token in tokens], check)


def _jwks() -> Family:
    issuer = Issuer()

    def check(data: bytes) -> str:
        try:
            read_jwks(data)
        except JwksError as error:
            return refused(str(error))
        return ACCEPTED

    return Family([issuer.jwks("p256"), issuer.jwks("rsa", "ed25519")], check)


# --- requests about access rules

_ACL_REQUESTS: Final = (DescribeAclsRequest, CreateAclsRequest, DeleteAclsRequest)
_VERSIONS: Final = (1, 2, 3)


def _acl_filters() -> Family:
    """The first byte of an input is the request and its version."""
    cases = [(request, version) for request in _ACL_REQUESTS for version in _VERSIONS]
    acl = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
    image = ClusterImage(
        acls={
            Pattern(ResourceType.TOPIC, "orders", PatternType.LITERAL): (acl,),
            Pattern(ResourceType.GROUP, "or", PatternType.PREFIXED): (acl,),
        }
    )

    def check(data: bytes) -> str:
        request_type, version = cases[data[0] % len(cases)] if data else cases[0]
        try:
            request: Any = decode(request_type, version, data[1:])
            _apply(image, request)
        except (ProtocolError, Refused) as error:
            return refused(str(error))
        return ACCEPTED

    examples = []
    for number, (request_type, version) in enumerate(cases):
        body: list[Any] = [bytes([number])]
        encoder(request_type, version)(sample(request_type, version), body.append)
        examples.append(b"".join(body))
    return Family(examples, check)


def _apply(image: ClusterImage, request: Any) -> None:
    """Do what the handler of the request does before it writes."""
    if isinstance(request, CreateAclsRequest):
        for row in request.creations:
            kind = (row.resource_type, row.resource_pattern_type)
            permission = (row.operation, row.permission_type)
            check_known(*kind, *permission)
            if is_specific(*kind, *permission):
                name, pattern = row.resource_name, row.resource_pattern_type
                created = new_acl(
                    row.resource_type, name, pattern, row.principal, row.host, *permission
                )
                create_acls(image, [created])
        return
    rows = request.filters if isinstance(request, DeleteAclsRequest) else [request]
    for asked in rows:
        chosen = AclFilter(
            asked.resource_type_filter, asked.resource_name_filter, asked.pattern_type_filter,
            asked.principal_filter, asked.host_filter, asked.operation, asked.permission_type,
        )  # fmt: skip
        chosen.check()
        delete_acls(image, _result(matching_acls(image, chosen)))


def _result(steps: Steps[list[tuple[Pattern, Acl]]]) -> list[tuple[Pattern, Acl]]:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: list[tuple[Pattern, Acl]] = done.value
            return found


FAMILIES: Final[dict[str, Callable[[], Family]]] = {
    "sasl": _sasl_frames,
    "tls": _tls_records,
    "stores": _key_stores,
    "jaas": _jaas,
    "jwt": _jwt,
    "jwks": _jwks,
    "acls": _acl_filters,
}
