"""Creation and deletion of access rules, decided on a metadata image and returned as conditional
writes.

All rules of a pattern are one record, so nearly every request is one transaction of the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import AclsRecord
from oncelog_server.cluster.store import MAX_OPERATIONS, Delete, Put, Write, WriteOperation, Written
from oncelog_server.refusal import Refused
from oncelog_server.security.acls import Acl, AclFilter, Pattern, Permission
from oncelog_server.slices import Steps

# The rules of a pattern after a request.
_Rules = Mapping[Pattern, Collection[Acl]]

_TOO_MANY: Final = (
    f"Cannot remove the acls of more than {MAX_OPERATIONS} resource patterns in a single delete "
    "operation."
)


def create_acls(image: ClusterImage, created: Iterable[tuple[Pattern, Acl]]) -> list[Write]:
    """Return the writes that add these rules. A rule that exists needs none.

    The rules of more than MAX_OPERATIONS patterns take several transactions. The patterns with a
    rule that denies come first, so that an interrupted request allows too little rather than too
    much.
    """
    after: dict[Pattern, dict[Acl, None]] = {}
    for pattern, acl in created:
        if pattern not in after:
            after[pattern] = dict.fromkeys(image.acls.get(pattern, ()))
        after[pattern][acl] = None
    changed = {
        pattern: acls
        for pattern, acls in after.items()
        if len(acls) > len(image.acls.get(pattern, ()))
    }
    return _writes(image, dict(sorted(changed.items(), key=lambda item: not _denies(item[1]))))


def matching_acls(image: ClusterImage, chosen: AclFilter) -> Steps[list[tuple[Pattern, Acl]]]:
    """Return the rules that a filter chooses. Each step checks one rule."""
    found = []
    for pattern, acls in image.acls.items():
        yield
        if not chosen.matches_pattern(pattern):
            continue
        for acl in acls:
            yield
            if chosen.matches(acl):
                found.append((pattern, acl))
    return found


def existing_acls(
    image: ClusterImage, rows: Iterable[tuple[Pattern, Acl]]
) -> list[tuple[Pattern, Acl]]:
    """Return those of the rules that are in the image."""
    rules: dict[Pattern, frozenset[Acl]] = {}
    existing = []
    for pattern, acl in rows:
        if pattern not in rules:
            rules[pattern] = frozenset(image.acls.get(pattern, ()))
        if acl in rules[pattern]:
            existing.append((pattern, acl))
    return existing


def delete_acls(image: ClusterImage, deleted: Iterable[tuple[Pattern, Acl]]) -> list[Write]:
    """Return the write that removes these rules of the image.

    Raises Refused with INVALID_REQUEST for the rules of more than MAX_OPERATIONS patterns, because
    an interrupted request would have deleted a part of them.
    """
    gone = set(deleted)
    after = {
        pattern: [acl for acl in image.acls[pattern] if (pattern, acl) not in gone]
        for pattern in dict.fromkeys(pattern for pattern, _ in gone)
    }
    if len(after) > MAX_OPERATIONS:
        raise Refused(ErrorCode.INVALID_REQUEST, _TOO_MANY)
    return _writes(image, after)


def _denies(acls: Iterable[Acl]) -> bool:
    return any(acl.permission is Permission.DENY for acl in acls)


def _writes(image: ClusterImage, changed: _Rules) -> list[Write]:
    patterns = list(changed)
    return [
        _write(image, {pattern: changed[pattern] for pattern in patterns[start:][:MAX_OPERATIONS]})
        for start in range(0, len(patterns), MAX_OPERATIONS)
    ]


def _write(image: ClusterImage, changed: _Rules) -> Write:
    conditions: list[Written] = []
    operations: list[WriteOperation] = []
    for pattern, acls in changed.items():
        key = records.acls_key(pattern.type, pattern.pattern_type, pattern.name)
        conditions.append(Written(key, image.acls_revision(pattern)))
        rules = tuple((acl.principal, acl.host, acl.operation, acl.permission) for acl in acls)
        operations.append(Put(key, records.encode(AclsRecord(rules))) if rules else Delete(key))
    return Write(tuple(conditions), tuple(operations))
