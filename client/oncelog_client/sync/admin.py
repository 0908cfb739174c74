"""The synchronous admin client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

from oncelog_client import admin
from oncelog_client.connect_failures import ConnectFailure
from oncelog_client.core.client_config import AdminSettings
from oncelog_client.errors import RetriableError

from .loop import Facade, blocking


class Admin(Facade):
    """The methods of `oncelog_client.Admin`. Use as `with Admin(servers) as admin`.

    `state_log` is missing: it belongs to the processes of one streaming query.
    """

    client: admin.Admin

    def __init__(
        self, bootstrap_servers: str | Iterable[str], **settings: Unpack[AdminSettings]
    ) -> None:
        super().__init__(admin.Admin(bootstrap_servers, **settings))

    close = blocking(admin.Admin.close)
    create_topics = blocking(admin.Admin.create_topics)
    delete_topics = blocking(admin.Admin.delete_topics)
    list_topics = blocking(admin.Admin.list_topics)
    describe_topics = blocking(admin.Admin.describe_topics)
    describe_topics_by_id = blocking(admin.Admin.describe_topics_by_id)
    hidden_topics = blocking(admin.Admin.hidden_topics)
    create_partitions = blocking(admin.Admin.create_partitions)
    delete_records = blocking(admin.Admin.delete_records)
    create_acls = blocking(admin.Admin.create_acls)
    describe_acls = blocking(admin.Admin.describe_acls)
    delete_acls = blocking(admin.Admin.delete_acls)
    describe_user_scram_credentials = blocking(admin.Admin.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(admin.Admin.alter_user_scram_credentials)
    describe_client_quotas = blocking(admin.Admin.describe_client_quotas)
    alter_client_quotas = blocking(admin.Admin.alter_client_quotas)
    describe_configs = blocking(admin.Admin.describe_configs)
    alter_configs = blocking(admin.Admin.alter_configs)
    list_groups = blocking(admin.Admin.list_groups)
    describe_groups = blocking(admin.Admin.describe_groups)
    delete_groups = blocking(admin.Admin.delete_groups)
    list_group_offsets = blocking(admin.Admin.list_group_offsets)
    describe_group_lag = blocking(admin.Admin.describe_group_lag)
    alter_group_offsets = blocking(admin.Admin.alter_group_offsets)
    delete_group_offsets = blocking(admin.Admin.delete_group_offsets)
    describe_producers = blocking(admin.Admin.describe_producers)
    list_transactions = blocking(admin.Admin.list_transactions)
    describe_transactions = blocking(admin.Admin.describe_transactions)
    abort_transaction = blocking(admin.Admin.abort_transaction)
    fence_producers = blocking(admin.Admin.fence_producers)
    force_terminate_transaction = blocking(admin.Admin.force_terminate_transaction)
    init_producer = blocking(admin.Admin.init_producer)
    end_transaction = blocking(admin.Admin.end_transaction)
    stage_group_offsets = blocking(admin.Admin.stage_group_offsets)
    commit_group = blocking(admin.Admin.commit_group)
    list_offsets = blocking(admin.Admin.list_offsets)
    describe_cluster = blocking(admin.Admin.describe_cluster)
    may_write_markers = blocking(admin.Admin.may_write_markers)
    describe_conditions = blocking(admin.Admin.describe_conditions)
    describe_eligible_replicas = blocking(admin.Admin.describe_eligible_replicas)
    elect_leaders = blocking(admin.Admin.elect_leaders)
    unregister_broker = blocking(admin.Admin.unregister_broker)
    describe_log_dirs = blocking(admin.Admin.describe_log_dirs)
    alter_partition_reassignments = blocking(admin.Admin.alter_partition_reassignments)
    list_partition_reassignments = blocking(admin.Admin.list_partition_reassignments)

    @property
    def outage(self) -> tuple[ConnectFailure, ...]:
        """Return the reason why each broker cannot be reached. The result is empty while a broker
        is connected."""
        return self.client.outage

    @property
    def retried(self) -> RetriableError | None:
        """Return the error for which a call is repeated now, None if no call is repeated."""
        return self.client.retried

    @property
    def features(self) -> Mapping[str, int]:
        """Return the cluster's features with their levels, as announced by the broker of the newest
        connection."""
        return self.client.features
