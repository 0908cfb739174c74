"""The APIs, their versions, and the header of each version.

`APIS` is the only place that names the versions of an API. The messages of the API, the broker's
dispatch and the ApiVersions response read the versions here. The versions are not in the messages'
modules, because a broker needs the versions of all APIs at its start. It imports a message's module
only at the first use of the API, because importing all modules takes 20 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from oncelog_protocol.features import COORDINATOR_CALL_KEY
from oncelog_protocol.schema import message
from oncelog_protocol.types import NEVER

T = TypeVar("T")


class ApiKey(IntEnum):
    """The number of an API on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    COORDINATOR_CALL = COORDINATOR_CALL_KEY


class _ApiRow(NamedTuple):
    key: ApiKey
    oldest: int
    latest: int
    flexible_since: int


class Api(_ApiRow):
    """One API: its versions, inclusive, and the first version with compact types.

    The key gives the names of its messages: for END_TXN, `messages/end_txn.py` holds EndTxnRequest
    and EndTxnResponse.
    """

    @cached_property
    def name(self) -> str:
        """The name in Kafka's form: EndTxn."""
        return "".join(map(str.capitalize, self.key.name.split("_")))

    @cached_property
    def request(self) -> type[Any]:
        return self._message("Request")

    @cached_property
    def response(self) -> type[Any]:
        return self._message("Response")

    def _message(self, kind: str) -> type[Any]:
        module = import_module(f"oncelog_protocol.messages.{self.key.name.lower()}")
        message: type[Any] = getattr(module, self.name + kind)
        return message

    @property
    def versions(self) -> range:
        """The versions that oncelog supports."""
        return range(self.oldest, self.latest + 1)

    def common_version(self, oldest: int, latest: int) -> int | None:
        """Return the highest version that a peer with the versions `oldest` to `latest` shares.
        Return None if there is none."""
        version = min(self.latest, latest)
        return version if version >= max(self.oldest, oldest) else None


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        # key, oldest, latest, flexible since
        Api(ApiKey.PRODUCE, 3, 13, 9),
        Api(ApiKey.FETCH, 4, 18, 12),
        Api(ApiKey.LIST_OFFSETS, 1, 11, 6),
        Api(ApiKey.METADATA, 0, 13, 9),
        Api(ApiKey.OFFSET_COMMIT, 2, 10, 8),
        Api(ApiKey.OFFSET_FETCH, 1, 10, 6),
        Api(ApiKey.FIND_COORDINATOR, 0, 6, 3),
        Api(ApiKey.JOIN_GROUP, 0, 9, 6),
        Api(ApiKey.HEARTBEAT, 0, 4, 4),
        Api(ApiKey.LEAVE_GROUP, 0, 5, 4),
        Api(ApiKey.SYNC_GROUP, 0, 5, 4),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6, 5),
        Api(ApiKey.LIST_GROUPS, 0, 5, 3),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1, NEVER),
        Api(ApiKey.API_VERSIONS, 0, 5, 3),
        Api(ApiKey.CREATE_TOPICS, 2, 7, 5),
        Api(ApiKey.DELETE_TOPICS, 1, 6, 4),
        Api(ApiKey.DELETE_RECORDS, 0, 2, 2),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 6, 2),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3),
        Api(ApiKey.END_TXN, 0, 5, 3),
        Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, 1),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 6, 3),
        Api(ApiKey.DESCRIBE_ACLS, 1, 3, 2),
        Api(ApiKey.CREATE_ACLS, 1, 3, 2),
        Api(ApiKey.DELETE_ACLS, 1, 3, 2),
        Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, 4),
        Api(ApiKey.ALTER_CONFIGS, 0, 2, 2),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, 2),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, 2),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2, 2),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3, 2),
        Api(ApiKey.DELETE_GROUPS, 0, 3, 2),
        Api(ApiKey.ELECT_LEADERS, 0, 2, 2),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, 0),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
        Api(ApiKey.OFFSET_DELETE, 0, 0, NEVER),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0),
        Api(ApiKey.UPDATE_FEATURES, 0, 2, 0),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, 0),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
        Api(ApiKey.UNREGISTER_BROKER, 0, 0, 0),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 2, 0),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0),
        Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, 0),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0),
        Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, 0),
        Api(ApiKey.COORDINATOR_CALL, 0, 0, 0),
    )
}

# The APIs that only brokers use. ApiVersions does not list them.
BETWEEN_BROKERS: frozenset[ApiKey] = frozenset({ApiKey.COORDINATOR_CALL})
# APIs with responses that leave as soon as they are complete. All other responses leave in the
# order of their requests.
UNORDERED: frozenset[ApiKey] = frozenset({ApiKey.COORDINATOR_CALL})


@dataclass_transform()
def api_message(key: ApiKey) -> Callable[[type[T]], type[T]]:
    """Return a decorator that turns a class of field declarations into a request or response of an
    API. The message has the API's versions."""
    api = APIS[key]
    return message(api.versions, flexible_since=api.flexible_since)


_BY_REQUEST = {f"{api.name}Request": api for api in APIS.values()}


def api_named(name: str) -> ApiKey:
    """Return the API of a name such as `EndTxn`, `END_TXN` or `end-txn`. Raises ValueError, which
    names up to three similar APIs."""
    names = {_plain(api.name): api for api in ApiKey}
    found = names.get(_plain(name))
    if found is None:
        from difflib import get_close_matches

        served = [plain for plain, key in names.items() if key in APIS]
        near = get_close_matches(_plain(name), served, 3, cutoff=0.4)
        similar = " or ".join(APIS[names[plain]].name for plain in near)
        hint = f"did you mean {similar}?" if near else "use Kafka's names, for example EndTxn"
        raise ValueError(f"API {name!r} is not known; {hint}")
    return found


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def api_of(request: type) -> Api:
    """Return the API of a request class. Raises KeyError for any other class."""
    return _BY_REQUEST[request.__name__]


def request_header_version(key: int, version: int) -> int:
    """Return 2 (with tagged fields) if the request is flexible, else 1. Raises KeyError."""
    return 2 if version >= APIS[key].flexible_since else 1


def response_header_version(key: int, version: int) -> int:
    """Return 1 (with tagged fields) if the response is flexible, else 0. Raises KeyError.

    The result is always 0 for ApiVersions, because the client does not know the broker's versions
    yet (KIP-511).
    """
    if key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= APIS[key].flexible_since else 0
