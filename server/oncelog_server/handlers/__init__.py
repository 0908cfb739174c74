"""One module for each API: its handler.

A module and its messages are imported at the first request of the API. An import of all modules
would make the start 50 % longer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from oncelog_protocol.apis import APIS, ApiKey

# Every API that this broker serves, in all versions of `APIS`.
NAMES: Final = (
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "sasl_handshake",
    "sasl_authenticate",
    "api_versions",
    "create_topics",
    "delete_topics",
    "delete_records",
    "init_producer_id",
    "offset_for_leader_epoch",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "write_txn_markers",
    "txn_offset_commit",
    "describe_configs",
    "alter_configs",
    "describe_log_dirs",
    "alter_replica_log_dirs",
    "create_partitions",
    "delete_groups",
    "incremental_alter_configs",
    "offset_delete",
    "describe_cluster",
    "describe_producers",
    "describe_transactions",
    "list_transactions",
    "describe_topic_partitions",
    "describe_acls",
    "create_acls",
    "delete_acls",
    "describe_client_quotas",
    "alter_client_quotas",
    "describe_user_scram_credentials",
    "alter_user_scram_credentials",
    "elect_leaders",
    "alter_partition_reassignments",
    "unregister_broker",
    "list_partition_reassignments",
    "list_config_resources",
    "update_features",
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "share_group_heartbeat",
    "coordinator_call",
)


class LateHandler:
    """A handler. Its module is imported at the first use of `handle`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.API: ApiKey = ApiKey[name.upper()]
        self.versions: range = APIS[self.API].versions

    @cached_property
    def module(self) -> ModuleType:
        return import_module(f"{__name__}.{self.name}")

    @property
    def handle(self) -> Callable[..., Any]:
        handle: Callable[..., Any] = self.module.handle
        return handle


def all_handlers() -> list[LateHandler]:
    return [LateHandler(name) for name in NAMES]
