"""One module for each API: its versions, and what it does with a request."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

# Every API this broker serves. What is advertised is derived from the modules' own VERSIONS.
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
    "create_partitions",
    "delete_groups",
    "incremental_alter_configs",
    "offset_delete",
    "describe_cluster",
    "describe_topic_partitions",
)


def all_handlers() -> list[ModuleType]:
    return [import_module(f"{__name__}.{name}") for name in NAMES]
