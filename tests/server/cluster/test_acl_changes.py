"""Creation and deletion of access rules: the writes, and the image that they lead to."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.acl_changes import (
    create_acls,
    delete_acls,
    existing_acls,
    matching_acls,
)
from oncelog_server.cluster.store import MAX_OPERATIONS, Put, Written
from oncelog_server.refusal import Refused
from oncelog_server.security.acls import Acl, AclFilter, Pattern, PatternType, Permission
from oncelog_server.security.resources import Operation, ResourceType
from oncelog_server.slices import at_its_end
from tests.server.cluster.clusters import Cluster

ANY = 1
SLASHES = Pattern(ResourceType.TRANSACTIONAL_ID, "a/b/", PatternType.PREFIXED)
READ = Acl("User:a", "*", Operation.READ, Permission.ALLOW)
DENY = Acl("User:b", "10.0.0.1", Operation.ALL, Permission.DENY)
ALL = AclFilter(ANY, None, ANY, None, None, ANY, ANY)


def topic(name: str) -> Pattern:
    return Pattern(ResourceType.TOPIC, name, PatternType.LITERAL)


def test_created_rules_are_in_the_image_and_a_rule_exists_once() -> None:
    cluster = Cluster()
    created = [(topic("t"), READ), (topic("t"), DENY), (SLASHES, READ), (topic("t"), READ)]
    cluster.apply(create_acls(cluster.image, created))
    assert cluster.image.acls == {topic("t"): (READ, DENY), SLASHES: (READ,)}
    assert create_acls(cluster.image, created) == []


def test_a_change_of_rules_gives_another_mapping_and_other_changes_do_not() -> None:
    """The authorizer indexes the rules again only if the mapping is another object."""
    cluster = Cluster()
    cluster.apply(create_acls(cluster.image, [(topic("t"), READ)]))
    before = cluster.image.acls
    cluster.apply([])
    assert cluster.image.acls is before
    cluster.apply(create_acls(cluster.image, [(topic("u"), READ)]))
    assert cluster.image.acls is not before


def test_deleted_rules_are_gone_and_the_last_one_deletes_the_record() -> None:
    cluster = Cluster()
    cluster.apply(create_acls(cluster.image, [(topic("t"), READ), (topic("t"), DENY)]))
    cluster.apply(delete_acls(cluster.image, [(topic("t"), READ)]))
    assert cluster.image.acls == {topic("t"): (DENY,)}
    found = at_its_end(matching_acls(cluster.image, ALL))
    assert found == [(topic("t"), DENY)]
    cluster.apply(delete_acls(cluster.image, [*found, *found]))
    assert cluster.image.acls == {}
    assert cluster.image.acls_revision(topic("t")) == 0


def test_a_filter_is_compared_with_one_rule_a_step() -> None:
    """A pattern may have thousands of rules, and the event loop serves others between steps."""
    cluster = Cluster()
    rules = [Acl(f"User:{number}", "*", Operation.READ, Permission.ALLOW) for number in range(500)]
    cluster.apply(create_acls(cluster.image, [(topic("t"), rule) for rule in rules]))
    assert sum(1 for _ in matching_acls(cluster.image, ALL)) > len(rules)


def test_a_rule_that_another_request_has_deleted_exists_no_more() -> None:
    cluster = Cluster()
    cluster.apply(create_acls(cluster.image, [(topic("t"), READ), (topic("t"), DENY)]))
    chosen = [(topic("t"), READ), (topic("t"), DENY), (topic("gone"), READ)]
    cluster.apply(delete_acls(cluster.image, [(topic("t"), READ)]))
    assert existing_acls(cluster.image, chosen) == [(topic("t"), DENY)]


def test_a_write_holds_only_for_the_rules_that_it_was_decided_on() -> None:
    cluster = Cluster()
    (first,) = create_acls(cluster.image, [(topic("t"), READ)])
    assert first.compare == (Written("acls/2/3/t", 0),)
    cluster.apply([first])
    (second,) = create_acls(cluster.image, [(topic("t"), DENY)])
    assert second.compare == (Written("acls/2/3/t", cluster.image.acls_revision(topic("t"))),)


def test_many_patterns_take_several_writes_and_denials_come_first() -> None:
    cluster = Cluster()
    created = [(topic(f"t{number}"), READ) for number in range(MAX_OPERATIONS + 5)]
    created.append((topic("last"), DENY))
    writes = create_acls(cluster.image, created)
    assert [len(write.operations) for write in writes] == [MAX_OPERATIONS, 6]
    (put, *_) = writes[0].operations
    assert isinstance(put, Put)
    assert put.key == "acls/2/3/last"
    cluster.apply(writes)
    assert len(cluster.image.acls) == MAX_OPERATIONS + 6


def test_a_deletion_of_too_many_patterns_deletes_nothing() -> None:
    cluster = Cluster()
    created = [(topic(f"t{number}"), READ) for number in range(MAX_OPERATIONS + 1)]
    cluster.apply(create_acls(cluster.image, created))
    with pytest.raises(Refused) as caught:
        delete_acls(cluster.image, created)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert len(delete_acls(cluster.image, created[1:])) == 1
