"""The part of the admin client for brokers, and for the place of replicas on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog_client.core.needed_rights import needs
from oncelog_client.io.cluster import Cluster

# Each method imports its own modules, so that a command line with one or two calls starts fast.
if TYPE_CHECKING:
    from oncelog_client.admin.broker_descriptions import (
        BrokerCondition,
        ClusterDescription,
        EligibleReplicas,
        LogDirDescription,
    )
    from oncelog_client.admin.elections import ElectionType
    from oncelog_client.admin.reassignment_descriptions import PartitionReassignment
    from oncelog_client.errors import KafkaError
    from oncelog_client.values import TopicPartition


class BrokerAdmin:
    """The methods of `Admin` for brokers and replicas."""

    _cluster: Cluster
    _timeout_ms: int

    @property
    def features(self) -> Mapping[str, int]:
        """Return the cluster's features with their levels, as announced by the broker of the newest
        connection."""
        return self._cluster.features

    async def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """Return the cluster's id, its brokers and its controller."""
        from oncelog_client.admin import brokers

        return await brokers.describe_cluster(
            self._cluster, self._timeout_ms, include_fenced_brokers=include_fenced_brokers
        )

    async def describe_conditions(self, broker_ids: Iterable[int]) -> dict[int, BrokerCondition]:
        """Return the condition that each of these brokers reports: its features, and whether the
        metadata store responds to it."""
        from oncelog_client.admin import brokers

        return await brokers.describe_conditions(self._cluster, broker_ids, self._timeout_ms)

    @needs("DESCRIBE")
    async def describe_eligible_replicas(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, EligibleReplicas]:
        """Return the replicas outside of the ISR that can lead each of these partitions
        (KIP-966)."""
        from oncelog_client.admin import brokers

        return await brokers.describe_eligible_replicas(self._cluster, partitions, self._timeout_ms)

    @needs("ALTER")
    async def elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders. Return None for each elected partition, else its error. Without
        `partitions`, elect the leaders of all partitions, and leave out the partitions that need no
        election."""
        from oncelog_client.admin.elections import elect_leaders

        return await elect_leaders(self._cluster, election_type, partitions, self._timeout_ms)

    @needs("ALTER")
    async def unregister_broker(self, broker_id: int) -> None:
        """Remove the registration of a stopped broker that will not come back (KIP-500)."""
        from oncelog_client.admin import brokers

        await brokers.unregister_broker(self._cluster, broker_id, self._timeout_ms)

    @needs("DESCRIBE")
    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None
    ) -> dict[int, list[LogDirDescription]]:
        """Return the data directories of the brokers with these ids, or of all brokers, and the
        directories' replicas."""
        from oncelog_client.admin import brokers

        return await brokers.describe_log_dirs(self._cluster, broker_ids, self._timeout_ms)

    @needs("ALTER")
    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Move partitions to these brokers: the new replicas fetch all records before the others
        are removed. None cancels the move of a partition (KIP-455).

        The call returns when the moves have begun. `list_partition_reassignments` shows whether
        they are complete. Without `allow_replication_factor_change`, a partition keeps its number
        of replicas (KIP-860).
        """
        from oncelog_client.admin.reassignments import alter_reassignments

        await alter_reassignments(
            self._cluster,
            reassignments,
            self._timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    @needs("DESCRIBE")
    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the moves in progress, of these partitions or of all."""
        from oncelog_client.admin.reassignments import list_reassignments

        return await list_reassignments(self._cluster, partitions, self._timeout_ms)
