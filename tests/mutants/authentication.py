"""Named mutants of authentication and TLS: the security brief's list, section 6.5.

The list also has a proof of SCRAM that is compared with `==`. That mutant gives the same results as
the code, so no test can find it.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STATES: Final = "server/oncelog_server/requests/authentication.py"
_SCRAM: Final = "server/oncelog_server/security/sasl/scram.py"
_OF_STATES: Final = ("tests/server/requests/test_authentication.py",)
_OF_SCRAM: Final = ("tests/server/security/sasl/test_scram.py",)

AUTHENTICATION_MUTANTS: Final = (
    Mutant(
        "U1",
        "a request is served before its client is authenticated",
        _STATES,
        "            return self._illegal(header)\n",
        "            return self._dispatch(frame, session)\n",
        _OF_STATES,
    ),
    Mutant(
        "U2",
        "a re-authentication changes the principal",
        _STATES,
        "        if self._principal is not None and principal != self._principal:\n",
        "        if False:\n",
        _OF_STATES,
    ),
    Mutant(
        "U3",
        "an expired session is served",
        _STATES,
        "        elif self._expires_ms is not None and now_ms >= self._expires_ms:\n",
        "        elif False:\n",
        _OF_STATES,
    ),
    Mutant(
        "U4",
        "a session outlives its token",
        _STATES,
        "            limits.append(max(expires_ms - self._rules.wall_ms(), 0))\n",
        "            pass\n",
        _OF_STATES,
    ),
    Mutant(
        "U5",
        "a refusal is not delayed",
        _STATES,
        "call_later(self._rules.failure_delay_ms, end)\n",
        "call_later(0, end)\n",
        _OF_STATES,
    ),
    Mutant(
        "U6",
        "a prefix of the nonce is enough",
        _SCRAM,
        "        if not hmac.compare_digest(final.nonce.encode(), begun.nonce.encode()):\n",
        "        if not begun.nonce.startswith(final.nonce):\n",
        _OF_SCRAM,
    ),
    Mutant(
        "U7",
        "an unknown user is refused at the first message",
        _SCRAM,
        '            refusal = f"unknown user: {first.name[:SHOWN]!r}"\n',
        '            raise self._refused("unknown user")\n',
        _OF_SCRAM,
    ),
    Mutant(
        "U8",
        "a rule for User:* holds only for principals of the type User",
        "server/oncelog_server/security/standard_authorizer.py",
        "    if acl.principal not in (principal, ANY_PRINCIPAL) or acl.host not in",
        "    any_of_type = ANY_PRINCIPAL if principal[:5] == ANY_PRINCIPAL[:5] else principal\n"
        "    if acl.principal not in (principal, any_of_type) or acl.host not in",
        (
            "tests/server/security/test_standard_authorizer.py",
            "tests/conformance/authorizer/test_authorizer.py",
        ),
    ),
    Mutant(
        "U9",
        "a secret is shown by repr",
        "protocol/oncelog_protocol/secret.py",
        "    def __repr__(self) -> str:\n        return HIDDEN\n",
        "    def __repr__(self) -> str:\n        return self._text\n",
        ("tests/protocol/test_secret.py",),
    ),
    Mutant(
        "U10",
        "a certificate that is only requested need not be trusted",
        "protocol/oncelog_protocol/tls/contexts.py",
        '    "requested": ssl.CERT_OPTIONAL,\n',
        '    "requested": ssl.CERT_NONE,\n',
        ("tests/protocol/tls/test_contexts.py", "tests/protocol/tls/test_engine.py"),
    ),
    Mutant(
        "U11",
        "a certificate is anonymous if no rule matches its name",
        "server/oncelog_server/security/principal_rules.py",
        '        raise NoRuleApplies(f"no rule of {SETTING} matches {name!r}")\n',
        '        return "ANONYMOUS"\n',
        ("tests/server/security/test_principal_rules.py",),
    ),
)
