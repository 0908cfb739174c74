"""Named mutants of the access rules: the security brief's list, section 6.5."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_AUTHORIZER: Final = "server/oncelog_server/security/standard_authorizer.py"
_TESTS: Final = (
    "tests/server/security/test_standard_authorizer.py",
    "tests/conformance/authorizer/test_authorizer.py",
)
_RIGHTS: Final = (
    "tests/server/handlers/rights/test_rights.py",
    "tests/simulation/test_rights.py",
)

ACCESS_MUTANTS: Final = (
    Mutant(
        "M29",
        "a rule that denies loses to a rule that allows",
        _AUTHORIZER,
        "Permission.DENY:\n                return Decision(False, (pattern, acl))\n",
        "Permission.DENY:\n                continue\n",
        _TESTS,
    ),
    Mutant(
        "A1",
        "a prefix is compared the wrong way round",
        _AUTHORIZER,
        "                yield from self._prefixed.get((type, name[:length]), ())\n",
        "                yield from self._prefixed.get((type, name[-length:]), ())\n",
        _TESTS,
    ),
    Mutant(
        "A2",
        "the host of a rule is ignored",
        _AUTHORIZER,
        "(principal, ANY_PRINCIPAL) or acl.host not in (host, WILDCARD):\n",
        "(principal, ANY_PRINCIPAL):\n",
        _TESTS,
    ),
    Mutant(
        "A3",
        "a denied right also denies DESCRIBE",
        _AUTHORIZER,
        "    return acl.permission is Permission.ALLOW and acl.operation in",
        "    return acl.operation in",
        _TESTS,
    ),
    Mutant(
        "A4",
        "a denied prefix does not dominate in the question about a type",
        _AUTHORIZER,
        "        for length in range(1, len(allowed.name) + 1)\n",
        "        for length in range(0)\n",
        _TESTS,
    ),
    Mutant(
        "A5",
        "a rule that denies overrides a super user",
        _AUTHORIZER,
        "        if principal in self._super_users:\n            return Decision(True)\n",
        "",
        _TESTS,
    ),
    Mutant(
        "A6",
        "decisions are kept after a rule has changed",
        _AUTHORIZER,
        "RuleIndex(rules)\n        self._decisions.clear()\n",
        "RuleIndex(rules)\n",
        _TESTS,
    ),
    Mutant(
        "A7",
        "a client that may only describe a transactional id ends its transaction",
        "server/oncelog_server/handlers/end_txn.py",
        "        context.require(Operation.WRITE, transactional_id=request.transactional_id)\n",
        "        context.require(Operation.DESCRIBE, transactional_id=request.transactional_id)\n",
        _RIGHTS,
    ),
    Mutant(
        "A8",
        "a record is written without the right to its topic",
        "server/oncelog_server/handlers/produce.py",
        "    if not context.may(_WRITE, topic=name):\n",
        "    if not context.may(_WRITE, topic=name) and not name:\n",
        _RIGHTS,
    ),
)
