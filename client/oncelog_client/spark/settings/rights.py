"""Access rights (ACLs) that a source or a sink needs, and the message for a missing right. The
rights are listed in `source/plan/source_rights.py` and `sink/protocol/sink_rights.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from oncelog_client.core.acl_bindings import AclOperation, AclResourceType, PatternType
from oncelog_client.errors import KafkaError
from oncelog_protocol.errors import ErrorCode

# The type of the resource that a broker refuses with a code.
_REFUSED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AclResourceType.TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AclResourceType.GROUP,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AclResourceType.TRANSACTIONAL_ID,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AclResourceType.CLUSTER,
}
_LETTER: Final = r"[\w./-]"


class Right(NamedTuple):
    """An operation on a resource. With the pattern type PREFIXED, `name` is the beginning of the
    resources' names; an empty name stands for all. `purpose`: what does not work without this
    right, empty for a right that every query needs."""

    operation: AclOperation
    resource_type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL
    purpose: str = ""

    @property
    def is_optional(self) -> bool:
        return bool(self.purpose)

    def __str__(self) -> str:
        kind = self.resource_type.name.lower().replace("_", " ")
        if self.resource_type is AclResourceType.CLUSTER or not self.name:
            return f"{self.operation.name} on the {kind}"
        beginning = "s that begin with" if self.pattern_type is PatternType.PREFIXED else ""
        return f"{self.operation.name} on {kind}{beginning} {self.name}"


def explain_refusal(error: KafkaError, needed: Iterable[Right]) -> None:
    """Add to the message of `error` the rights among `needed` that are about the refused resource,
    because brokers refuse a resource and do not say for which operation. An error of another kind
    stays as it is."""
    kind = _REFUSED.get(error.code)
    of_kind = [right for right in needed if right.resource_type is kind]
    rights = [right for right in of_kind if _is_named(right, error.message)] or of_kind
    rights = [right for right in rights if not right.is_optional] or rights
    text = f"the principal needs {', '.join(map(str, rights))}"
    if rights and text not in error.message:
        error.reword(f"{error.message}: {text}" if error.message else text)


def _is_named(right: Right, message: str) -> bool:
    """Return True if the message has the name of a resource that the right is about. The number of
    a partition may follow the name of its topic: `words-0`."""
    end = "" if right.pattern_type is PatternType.PREFIXED else rf"(-\d+)?(?!{_LETTER})"
    name = rf"(?<!{_LETTER}){re.escape(right.name)}{end}"
    return bool(right.name) and re.search(name, message) is not None
