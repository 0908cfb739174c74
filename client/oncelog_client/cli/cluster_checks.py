"""The checks of a cluster. `cluster health` runs the checks in HEALTH. `cluster doctor` and
`doctor` run all checks and show what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from oncelog_client.cli.broker_checks import (
    fenced_brokers,
    metadata_store,
    software_versions,
    unfinalized_features,
)
from oncelog_client.cli.cluster_state import ClusterState, cluster_state
from oncelog_client.cli.disks import disks
from oncelog_client.cli.etcd_members import etcd_members
from oncelog_client.cli.findings import PROBLEM, Row, row_of
from oncelog_client.cli.missing_rights import text_of
from oncelog_client.cli.move_checks import leaders_elsewhere, leftover_throttles, stalled_moves
from oncelog_client.cli.offline_partitions import offline_partitions
from oncelog_client.cli.partition_checks import below_min_isr, under_replicated
from oncelog_client.cli.replication_checks import fewer_than_min_isr, single_replicas
from oncelog_client.cli.timed_checks import run_checks
from oncelog_client.cli.transaction_checks import transactions
from oncelog_client.io.clock import monotonic_ms

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

# A check yields its first rows early if the others may take long.
Check = Callable[["Admin", ClusterState], Awaitable[list[Row]] | AsyncIterator[Row]]
NamedCheck = tuple[str, Check]

# What to do if a check itself fails.
NOT_CHECKED: Final = "see that the brokers respond, and that this user may describe the cluster"


async def full_disks(admin: Admin, state: ClusterState) -> list[Row]:
    full = [f"broker {disk.broker} {disk.found}" for disk in await disks(admin) if disk.is_full]
    to_do = "free space, or lower log.retention.bytes or log.retention.ms"
    return [row_of("full disks", PROBLEM, full, to_do)]


FULL_DISKS: Final[NamedCheck] = ("full disks", full_disks)
# Problems that stop clients, or will soon.
HEALTH: Final[tuple[NamedCheck, ...]] = (
    ("metadata store", metadata_store),
    FULL_DISKS,
    ("offline partitions", offline_partitions),
    ("partitions below min ISR", below_min_isr),
    ("under-replicated partitions", under_replicated),
    ("transactions", transactions),
)
# Further problems and notices for an operator.
UPKEEP: Final[tuple[NamedCheck, ...]] = (
    ("etcd members", etcd_members),
    ("fenced brokers", fenced_brokers),
    ("topics with one replica", single_replicas),
    ("topics with fewer replicas than min ISR", fewer_than_min_isr),
    ("leaders not preferred", leaders_elsewhere),
    ("stalled moves", stalled_moves),
    ("throttles left over", leftover_throttles),
    ("features not finalized", unfinalized_features),
    ("mixed versions", software_versions),
)
ALL: Final = (*HEALTH, *UPKEEP)


async def rows_of(admin: Admin, checks: tuple[NamedCheck, ...]) -> AsyncIterator[Row]:
    """Yield the rows of the checks. An error of a check becomes a row, and the other checks still
    run.
    Raises KafkaError or Failed if the state of the cluster cannot be read."""
    limit_s = admin.config.default_api_timeout_ms / 1000
    began_ms = monotonic_ms()
    (state,) = await run_checks({"state of the cluster": _state(admin)}, limit_s, _raise)

    async def rows(check: Check) -> AsyncIterator[Row]:
        result = check(admin, state)
        if isinstance(result, AsyncIterator):
            async for row in result:
                yield row
        else:
            for row in await result:
                yield row

    def failed(name: str, error: Exception) -> Row:
        return Row(name, PROBLEM, 1, [text_of(error, admin.config)], NOT_CHECKED)

    work = {name: rows(check) for name, check in checks}
    for row in await run_checks(work, limit_s, failed, began_ms=began_ms):
        yield row


async def _state(admin: Admin) -> AsyncIterator[ClusterState]:
    yield await cluster_state(admin)


def _raise(_: str, error: Exception) -> ClusterState:
    raise error
