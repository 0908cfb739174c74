"""The requests that change the records about users: access rules, SCRAM credentials and quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncelog_server.cluster.acl_changes import create_acls, delete_acls, existing_acls
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.quota_changes import QuotaAlteration, alter_quotas
from oncelog_server.cluster.scram_changes import (
    MAX_ALTERED_AT_ONCE,
    ScramAlteration,
    ScramDeletion,
    ScramUpsertion,
    alter_credentials,
    by_user,
)
from oncelog_server.cluster.store import Write
from oncelog_server.metadata.conditional_writer import ConditionalWriter
from oncelog_server.quotas.entities import Entity
from oncelog_server.refusal import Refused
from oncelog_server.security.acls import Acl, Pattern


class UserWrites:
    """Changes the records. The methods raise or return Refused, even if the store fails."""

    def __init__(self, writer: ConditionalWriter) -> None:
        self._writer = writer

    async def create_acls(self, created: Sequence[tuple[Pattern, Acl]]) -> None:
        """Add access rules. Raises Refused."""
        await self._writer.write(lambda image: create_acls(image, created))

    async def delete_acls(
        self, chosen: Sequence[Sequence[tuple[Pattern, Acl]]]
    ) -> list[list[tuple[Pattern, Acl]]]:
        """Delete the access rules that the filters of a request have chosen, in one transaction.
        Return the deleted rules of each filter, without the rules that another request has deleted
        meanwhile. Raises Refused."""
        deleted: list[list[tuple[Pattern, Acl]]] = []

        def decide(image: ClusterImage) -> list[Write]:
            deleted[:] = [existing_acls(image, rows) for rows in chosen]
            return delete_acls(image, [row for rows in deleted for row in rows])

        await self._writer.write(decide)
        return deleted

    async def alter_scram_credentials(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> dict[str, Refused | None]:
        """Remove, add and replace SCRAM credentials, many in one transaction of the store. Return
        one result for each user."""
        altered = by_user(deletions, upsertions)
        users = list(altered)
        results: dict[str, Refused | None] = {}
        for start in range(0, len(users), MAX_ALTERED_AT_ONCE):
            part = {user: altered[user] for user in users[start : start + MAX_ALTERED_AT_ONCE]}
            results |= await self._alter_scram(part)
        return results

    async def _alter_scram(
        self, altered: Mapping[str, Sequence[ScramAlteration]]
    ) -> dict[str, Refused | None]:
        refusals: dict[str, Refused] = {}

        def decide(image: ClusterImage) -> list[Write]:
            writes, refused = alter_credentials(image, altered)
            refusals.clear()
            refusals.update(refused)
            return writes

        failed: Refused | None = None
        try:
            await self._writer.write(decide)
        except Refused as refused:
            failed = refused
        return {user: refusals.get(user, failed) for user in altered}

    async def alter_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> dict[Entity, Refused | None]:
        """Change the quotas of clients. Return the outcome of each entity. Raises Refused."""
        outcomes: dict[Entity, Refused | None] = {}

        def decide(image: ClusterImage) -> list[Write]:
            nonlocal outcomes
            outcomes, writes = alter_quotas(image, alterations)
            return writes

        await self._writer.write(decide, validate_only=validate_only)
        return outcomes
