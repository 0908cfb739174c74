"""The admin client, with one method for each task of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, Unpack

from oncelog_client.admin.broker_admin import BrokerAdmin
from oncelog_client.admin.transaction_admin import TransactionAdmin
from oncelog_client.connect_failures import ConnectFailure
from oncelog_client.core.client_config import (
    AdminConfig,
    AdminSettings,
    IsolationLevel,
    admin_config,
)
from oncelog_client.core.needed_rights import needs
from oncelog_client.io.cluster import Cluster
from oncelog_client.transaction.parent_epochs import ParentEpochs

# Each method imports its own modules, so that a command line with one or two calls starts fast.
if TYPE_CHECKING:
    from oncelog_client.admin.config_descriptions import AlterConfigOp, ConfigEntry, ConfigResource
    from oncelog_client.admin.group_descriptions import GroupDescription, GroupListing
    from oncelog_client.admin.group_lag import PartitionLag
    from oncelog_client.admin.quota_descriptions import (
        ClientQuotaEntity,
        ClientQuotaFilter,
        Quotas,
    )
    from oncelog_client.admin.scram_credentials import (
        ScramCredentialInfo,
        UserScramCredentialAlteration,
    )
    from oncelog_client.admin.topic_descriptions import NewTopic, TopicDescription, TopicListing
    from oncelog_client.core.acl_bindings import AclBinding, AclBindingFilter
    from oncelog_client.errors import KafkaError, RetriableError
    from oncelog_client.values import (
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
    )

OffsetSpec = int | Literal["earliest", "latest", "max_timestamp"]

# Timestamps of ListOffsets (KIP-79, KIP-734).
_SPECS: Final = {"latest": -1, "earliest": -2, "max_timestamp": -3}


class Admin(BrokerAdmin, TransactionAdmin):
    """Changes and describes a cluster. Use as `async with Admin(bootstrap_servers) as admin`.

    A method for several topics, groups or ids raises the first error as a KafkaError. The changes
    to the other topics, groups or ids may have taken effect. After a retriable error, a method
    retries its requests for `default_api_timeout_ms`, and then raises RetriableError.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], **settings: Unpack[AdminSettings]
    ) -> None:
        self.config: AdminConfig = admin_config(bootstrap_servers, settings)
        self._cluster = Cluster(self.config, auto_create=False)
        self._timeout_ms = self.config.default_api_timeout_ms
        self._parents = ParentEpochs()

    async def start(self, *, timeout_ms: float | None = None, fail_fast: bool = False) -> None:
        """Connect. Raises RetriableError if no bootstrap server is reached in `timeout_ms` (by
        default twice `request_timeout_ms`). The error's `failures` have the reason for each
        address.

        With `fail_fast` the call raises ConnectError as soon as every bootstrap server has refused,
        instead of waiting for a broker that is starting.
        """
        await self._cluster.start(timeout_ms=timeout_ms, fail_fast=fail_fast)

    async def close(self) -> None:
        """Disconnect. A cancelled call disconnects too."""
        await self._cluster.close()

    @property
    def outage(self) -> tuple[ConnectFailure, ...]:
        """Return the reason why each broker cannot be reached. The result is empty while a broker
        is connected."""
        return self._cluster.outage

    @property
    def retried(self) -> RetriableError | None:
        """Return the error for which a call is repeated now, None if no call is repeated."""
        return self._cluster.retried

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # -- topics

    @needs("CREATE")
    async def create_topics(
        self, new_topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> None:
        """Create topics. A topic given as a plain name gets the broker's defaults. With
        `validate_only` the broker checks the request and creates nothing."""
        from oncelog_client.admin import topic_changes
        from oncelog_client.admin.topic_descriptions import NewTopic

        if isinstance(new_topics, str | NewTopic):
            raise TypeError(f"new_topics is a single topic: pass a list, [{new_topics!r}]")
        rows = [NewTopic(topic) if isinstance(topic, str) else topic for topic in new_topics]
        await topic_changes.create_topics(
            self._cluster, rows, self._timeout_ms, validate_only=validate_only
        )

    @needs("DELETE")
    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all their records."""
        from oncelog_client.admin import topic_changes

        await topic_changes.delete_topics(self._cluster, names, self._timeout_ms)

    async def list_topics(self, *, list_internal: bool = False) -> dict[str, TopicListing]:
        """Return the topics by name. Internal topics are left out unless `list_internal` is
        true."""
        from oncelog_client.admin import topics

        return await topics.list_topics(
            self._cluster, self._timeout_ms, list_internal=list_internal
        )

    @needs("DESCRIBE")
    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Return topics with their partitions. Raises KafkaError for a topic that does not
        exist."""
        from oncelog_client.admin import topics

        return await topics.describe_topics(self._cluster, names, self._timeout_ms)

    @needs("DESCRIBE")
    async def describe_topics_by_id(
        self, topic_ids: Iterable[bytes]
    ) -> dict[bytes, TopicDescription | KafkaError]:
        """Return each topic with its partitions, or the error of its id: UNKNOWN_TOPIC_ID if the
        cluster has no such topic (KIP-516)."""
        from oncelog_client.admin import topics

        return await topics.describe_topics_by_id(self._cluster, topic_ids, self._timeout_ms)

    async def hidden_topics(self, names: Iterable[str]) -> set[str]:
        """Return the topics out of `names` that the user may not describe. They need not exist."""
        from oncelog_client.admin import topics

        return await topics.hidden_topics(self._cluster, names, self._timeout_ms)

    @needs("ALTER")
    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> None:
        """Add partitions to topics. `counts` maps a topic to its new number of partitions. With
        `validate_only` the broker checks the request and changes nothing."""
        from oncelog_client.admin import topic_changes

        await topic_changes.create_partitions(
            self._cluster, counts, self._timeout_ms, validate_only=validate_only
        )

    @needs("DELETE")
    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete all records before an offset (-1: before the high watermark). Return the new start
        offset of each partition."""
        from oncelog_client.admin import records
        from oncelog_client.core.arguments import by_partition

        chosen = by_partition("before", before)
        return await records.delete_records(self._cluster, chosen, self._timeout_ms)

    # -- access rules

    @needs("ALTER")
    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Add access rules. A rule that exists is no error. A rule that the broker refuses raises
        its error, and the other rules are added. Without an authorizer, the broker's error is
        SECURITY_DISABLED."""
        from oncelog_client.admin import acls

        await acls.create_acls(self._cluster, bindings, self._timeout_ms)

    @needs("DESCRIBE")
    async def describe_acls(self, chosen: AclBindingFilter | None = None) -> list[AclBinding]:
        """Return the access rules that a filter chooses. Without a filter, return all."""
        from oncelog_client.admin import acls
        from oncelog_client.core.acl_bindings import AclBindingFilter

        return await acls.describe_acls(
            self._cluster, chosen or AclBindingFilter(), self._timeout_ms
        )

    @needs("ALTER")
    async def delete_acls(self, filters: Iterable[AclBindingFilter]) -> list[AclBinding]:
        """Delete the access rules that any of the filters chooses, and return them."""
        from oncelog_client.admin import acls

        return await acls.delete_acls(self._cluster, filters, self._timeout_ms)

    # -- users

    @needs("DESCRIBE")
    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredentialInfo]]:
        """Return the SCRAM credentials of users, without their secrets. Without `users`, return
        those of all users. Raises KafkaError for a user that has none."""
        from oncelog_client.admin.users import describe_credentials

        return await describe_credentials(self._cluster, users, self._timeout_ms)

    @needs("ALTER")
    async def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialAlteration]
    ) -> None:
        """Add, replace and remove SCRAM credentials. A request may alter only one credential of a
        user. If the broker refuses an alteration, its error is raised, and the alterations of other
        users are made."""
        from oncelog_client.admin.users import alter_credentials

        await alter_credentials(self._cluster, alterations, self._timeout_ms)

    # -- quotas

    @needs("DESCRIBE_CONFIGS")
    async def describe_client_quotas(
        self, chosen: ClientQuotaFilter | None = None
    ) -> dict[ClientQuotaEntity, Quotas]:
        """Return the quotas of the entities that a filter matches. Without a filter, return
        all."""
        from oncelog_client.admin import quotas
        from oncelog_client.admin.quota_descriptions import ClientQuotaFilter

        return await quotas.describe_client_quotas(
            self._cluster, chosen or ClientQuotaFilter(), self._timeout_ms
        )

    @needs("ALTER_CONFIGS")
    async def alter_client_quotas(
        self,
        changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of clients. The value None removes a quota. With `validate_only` the broker
        checks the request and changes nothing."""
        from oncelog_client.admin import quotas

        await quotas.alter_client_quotas(
            self._cluster, changes, self._timeout_ms, validate_only=validate_only
        )

    # -- settings

    @needs("DESCRIBE_CONFIGS")
    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Iterable[str] | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return all settings of topics, brokers or groups, by name. With `names`, return only
        these, without their documentation."""
        from oncelog_client.admin import configs

        chosen = None if names is None else list(names)
        return await configs.describe_configs(self._cluster, resources, chosen, self._timeout_ms)

    @needs("ALTER_CONFIGS")
    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change some settings. Other settings stay as they are (KIP-339). With `validate_only` the
        broker checks the request and changes nothing."""
        from oncelog_client.admin import configs

        await configs.alter_configs(
            self._cluster, changes, self._timeout_ms, validate_only=validate_only
        )

    # -- groups

    async def list_groups(self, *, states: Iterable[str] = ()) -> list[GroupListing]:
        """Return all groups, or the groups in one of the states (`Stable`, `Empty` ...)."""
        from oncelog_client.admin import groups

        return await groups.list_groups(self._cluster, states, self._timeout_ms)

    @needs("DESCRIBE")
    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Return groups with their members. A group that does not exist has the state `Dead`."""
        from oncelog_client.admin import groups

        return await groups.describe_groups(self._cluster, group_ids, self._timeout_ms)

    @needs("DELETE")
    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, with their offsets."""
        from oncelog_client.admin import groups

        await groups.delete_groups(self._cluster, group_ids, self._timeout_ms)

    @needs("DESCRIBE")
    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, in all partitions or in the given partitions. A
        partition without an offset is left out. With `require_stable` the call waits for offsets
        that are pending in a transaction (KIP-447)."""
        from oncelog_client.core.arguments import text, topic_partitions
        from oncelog_client.io.group_offsets import fetch_offsets

        if partitions is not None:
            partitions = topic_partitions("partitions", partitions)
        return await fetch_offsets(
            self._cluster,
            text("group_id", group_id),
            partitions,
            self._timeout_ms,
            require_stable=require_stable,
        )

    @needs("DESCRIBE")
    async def describe_group_lag(self, group_id: str) -> dict[TopicPartition, PartitionLag]:
        """Return the group's lag in each partition with a committed offset, and the records that
        open transactions hold back. Both are None for a partition without a leader."""
        from oncelog_client.admin.group_lag import group_lag

        committed = await self.list_group_offsets(group_id)
        offsets = {partition: found.offset for partition, found in committed.items()}
        return await group_lag(self._cluster, offsets, self._timeout_ms)

    @needs("READ")
    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Set committed offsets. Raises CommitFailedError while the group has members."""
        from oncelog_client.core.arguments import offsets_to_commit, text
        from oncelog_client.io.group_offsets import commit_offsets
        from oncelog_client.values import ConsumerGroupMetadata

        await commit_offsets(
            self._cluster,
            ConsumerGroupMetadata(text("group_id", group_id)),
            offsets_to_commit(offsets),
            self._timeout_ms,
        )

    @needs("DELETE", on_topics="READ")
    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> None:
        """Delete committed offsets. The broker refuses while members subscribe to the topic."""
        from oncelog_client.admin import groups
        from oncelog_client.core.arguments import text, topic_partitions

        await groups.delete_group_offsets(
            self._cluster,
            text("group_id", group_id),
            topic_partitions("partitions", partitions),
            self._timeout_ms,
        )

    # -- logs

    @needs("DESCRIBE")
    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return an offset of each partition: the start, the end, the record with the largest
        timestamp, or the first record at or after a time (ms since 1970). A partition without such
        a record is left out. Under read_committed, "latest" is the last stable offset."""
        from oncelog_client.core.arguments import by_partition
        from oncelog_client.io.log_offsets import list_offsets

        return await list_offsets(
            self._cluster,
            {
                tp: spec if isinstance(spec, int) else _SPECS[spec]
                for tp, spec in by_partition("specs", specs).items()
            },
            self._timeout_ms,
            read_committed=isolation_level == "read_committed",
        )
