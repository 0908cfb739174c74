"""The two brokers with the same users and rules, and what each user gets from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any, Final

from oncelog.testing.ports import reserve_port
from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.apis import Api
from oncelog_protocol.codecs import decode, encoder
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.frames import FrameReader, frame
from oncelog_protocol.headers import read_response_header, write_request_header
from oncelog_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog_protocol.messages.describe_acls import DescribeAclsRequest
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.list_groups import ListGroupsRequest
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.conformance.rights.compared import View, view
from tests.conformance.rights.requests import TEMPLATES
from tests.conformance.rights.rules import (
    PASSWORD,
    SHARED,
    USERS,
    USERS_AT_ONCE,
    rules_of,
    user_name,
)
from tests.conformance.rights.templates import (
    CHANGING,
    GROUPS,
    MISSING,
    TOPICS,
    Template,
    User,
    deletable,
)
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create
from tests.harness.kafka.kafka import Kafka
from tests.harness.waiting import wait_until

LISTENER: Final = "SASL"
# In a filter of rules: any resource type, pattern type, operation and permission.
ANY: Final = 1
_USERS: Final = " ".join(f'user_{user_name(number)}="{PASSWORD}"' for number in range(USERS))
SETTINGS: Final = {
    **QUICK,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": (
        f"org.apache.kafka.common.security.plain.PlainLoginModule required {_USERS};"
    ),
    "transaction.two.phase.commit.enable": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class SecuredOncelog(Oncelog):
    """oncelog with a second listener, for users with a password."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, SETTINGS | {"node.id": "1"})
        self.port, self.sasl_port = reserve_port(self), reserve_port(self)

    def _address_arguments(self) -> list[str]:
        settings = _listeners(self.port, self.sasl_port)
        return [word for item in settings.items() for word in ("--set", "=".join(item))]


def secured_kafka(directory: Path) -> tuple[Kafka, int]:
    """Return Apache Kafka, not started, and the port of its second listener."""
    # Without this setting, Kafka serves no InitProducerId v6.
    settings = SETTINGS | {"unstable.api.versions.enable": "true"}
    # At INFO, Kafka would log 50,000 denials.
    kafka = Kafka(directory, settings, log_level="FATAL")
    sasl_port = reserve_port(kafka)
    listeners = _listeners(kafka.port, sasl_port)
    listeners["listeners"] += f",CONTROLLER://127.0.0.1:{kafka._controller_port}"
    listeners["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    kafka._settings |= listeners
    return kafka, sasl_port


def _listeners(port: int, sasl_port: int) -> dict[str, str]:
    addresses = f"PLAINTEXT://127.0.0.1:{port},{LISTENER}://127.0.0.1:{sasl_port}"
    return {
        "listeners": addresses,
        "advertised.listeners": addresses,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
    }


class Judged:
    """A running broker with the topics and groups, and the rules of the users that ask."""

    def __init__(self, wire: Wire, sasl_port: int) -> None:
        """`wire`: a connection of the super user."""
        self._address = f"127.0.0.1:{sasl_port}"
        self._wire = wire
        self._frames: dict[tuple[str, int], bytes] = {}
        self._views: dict[tuple[int, int, bytes], View] = {}
        changed = [deletable(number) for number in range(0, USERS, CHANGING)]
        create(self._wire, *TOPICS, *changed, retention_ms=-1)
        self._create_rules(SHARED)
        wait_until(lambda: self._has_coordinator(0), "a coordinator of groups")
        wait_until(lambda: self._has_coordinator(1), "a coordinator of transactions")
        # The first producer id needs a block of ids, which a broker allocates in the background.
        wait_until(self._has_producer_ids, "producer ids")
        wait_until(lambda: self._leads({*TOPICS, *changed}), "the topics have leaders")
        self._topic_ids = self._ids()

    def ask_all(self) -> list[list[View]]:
        """Return the views of all users. One user asks after another, so that the effects are the
        same on every broker."""
        views: list[list[View]] = []
        for start in range(0, USERS, USERS_AT_ONCE):
            users = range(start, min(start + USERS_AT_ONCE, USERS))
            self._create_rules(rules_of(users))
            views += map(self._ask, users)
            self._delete_rules(users)
        return views

    def _create_rules(self, rules: Sequence[AclCreation]) -> None:
        before = self._count_rules()
        results = self._wire.call(CreateAclsRequest([*rules]), 3).results
        assert {result.error_code for result in results} == {ErrorCode.NONE}
        wait_until(lambda: self._count_rules() == before + len(rules), "all rules")

    def _delete_rules(self, users: range) -> None:
        """Delete the rules of these users. The shared rules stay."""
        filters = [
            DeleteAclsFilter(
                resource_type_filter=ANY,
                pattern_type_filter=ANY,
                principal_filter=f"User:{user_name(number)}",
                operation=ANY,
                permission_type=ANY,
            )
            for number in users
        ]
        results = self._wire.call(DeleteAclsRequest(filters), 3).filter_results
        assert {result.error_code for result in results} == {ErrorCode.NONE}
        wait_until(lambda: self._count_rules() == len(SHARED), "no rule of a user")

    def _count_rules(self) -> int:
        every = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
        return sum(len(found.acls) for found in self._wire.call(every, 3).resources)

    def _has_coordinator(self, key_type: int) -> bool:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["pay"])
        (found,) = self._wire.call(request, 4).coordinators
        return bool(found.error_code == ErrorCode.NONE)

    def _has_producer_ids(self) -> bool:
        response = self._wire.call(InitProducerIdRequest(None, 60_000), 5)
        return bool(response.error_code == ErrorCode.NONE)

    def _topics(self) -> list[Any]:
        topics: list[Any] = self._wire.call(MetadataRequest(None), 12).topics
        return topics

    def _leads(self, names: set[str]) -> bool:
        led = {
            topic.name
            for topic in self._topics()
            if all(partition.leader_id >= 0 for partition in topic.partitions)
        }
        return names <= led

    def _ids(self) -> Mapping[str, bytes]:
        return {topic.name: topic.topic_id for topic in self._topics()} | {MISSING: bytes(16)}

    def _ask(self, number: int) -> list[View]:
        """Return the views of the responses to all requests of a user, in one connection."""
        user = User(number, self._topic_ids)
        versions = drawn_versions(number)
        with Wire(self._address) as wire:
            wire.call(SaslHandshakeRequest("PLAIN"), 1)
            token = f"\0{user_name(number)}\0{PASSWORD}".encode()
            authenticated = wire.call(SaslAuthenticateRequest(token), 2)
            assert authenticated.error_code == ErrorCode.NONE, authenticated
            wire.socket.sendall(b"".join(map(self._frame, TEMPLATES, versions, repeat(user))))
            frames = FrameReader()
            bodies: list[bytes] = []
            while len(bodies) < len(TEMPLATES):
                received = wire.socket.recv(1 << 16)
                if not received:
                    raise Closed(f"after {TEMPLATES[len(bodies) - 1].name}")
                bodies += map(bytes, frames.receive_data(received))
        views = [
            self._view(template.api, version, body)
            for template, version, body in zip(TEMPLATES, versions, bodies, strict=True)
        ]
        if user.changes_topics:
            self._wait_for_changes(*views[-2:])
        return views

    def _wait_for_changes(self, created: View, deleted: View) -> None:
        """Wait until the broker shows the topics that a user has created and deleted."""
        expected = {
            topic["name"]: exists
            for topics, exists in ((created["topics"], True), (deleted["responses"], False))
            for topic in topics
            if topic["error_code"] == ErrorCode.NONE
        }

        def are_shown() -> bool:
            names = {topic.name for topic in self._topics()}
            return all((name in names) == exists for name, exists in expected.items())

        wait_until(are_shown, "the changed topics")

    def _frame(self, template: Template, version: int, user: User) -> bytes:
        """Return the bytes of a request. A request that is the same for all users is encoded
        once."""
        key = template.name, version
        found = self._frames.get(key)
        if found is None:
            request = template.make(user)
            parts: list[Any] = [write_request_header(template.api.key, version, 0, "client")]
            encoder(type(request), version)(request, parts.append)
            found = b"".join(map(bytes, frame(parts)))
            if template.is_constant:
                self._frames[key] = found
        return found

    def _view(self, api: Api, version: int, body: bytes) -> View:
        """Return the view of a response. Many users get equal responses, which are decoded once."""
        _, position = read_response_header(api.key, version, body)
        content = body[position:]
        key = api.key, version, content
        if key not in self._views:
            self._views[key] = view(decode(api.response, version, content))
        return self._views[key]

    def effects(self) -> dict[str, View]:
        """Return what all requests together have left: topics, offsets, log ends, groups and
        transactions."""
        topics = [topic for topic in self._topics() if not topic.is_internal]
        asked = [
            (topic.name, partition.partition_index)
            for topic in topics
            for partition in topic.partitions
        ]

        def offsets(timestamp: int) -> ListOffsetsRequest:
            return ListOffsetsRequest(
                -1,
                topics=[
                    ListOffsetsTopic(name, [ListOffsetsPartition(index, timestamp=timestamp)])
                    for name, index in asked
                ],
            )

        groups = [OffsetFetchRequestGroup(group, topics=None) for group in GROUPS]
        requests = {
            "topics": (MetadataRequest(None), 12),
            "log starts": (offsets(-2), 7),
            "log ends": (offsets(-1), 7),
            "group offsets": (OffsetFetchRequest(groups=groups), 8),
            "groups": (ListGroupsRequest(), 4),
            "transactions": (ListTransactionsRequest(), 0),
        }
        return {name: view(self._wire.call(*call)) for name, call in requests.items()}


def drawn_versions(number: int) -> list[int]:
    """Return the version of each template in which a user sends its request."""
    rng = Random(f"versions of {number}")
    return [rng.choice(template.versions) for template in TEMPLATES]
