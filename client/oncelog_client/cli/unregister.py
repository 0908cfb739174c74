"""`oncelog cluster unregister`: unregisters a broker that will not come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from oncelog_client.cli.cluster_state import ClusterState, cluster_state, sees_all_topics
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.offline_partitions import last_sources
from oncelog_client.cli.options import connection_options
from oncelog_client.cli.output import note
from oncelog_client.cli.quantities import count_text
from oncelog_client.cli.some_names import some
from oncelog_client.values import TopicPartition

if TYPE_CHECKING:
    from oncelog_client.admin import Admin


@click.command(cls=Tool, examples=["cluster unregister 3"])
@click.argument("broker_id", metavar="ID", type=int)
@click.option(
    "--force", is_flag=True, help="Unregister it even if it may have the last copy of records."
)
@connection_options
def unregister(*, broker_id: int, force: bool, **_: object) -> None:
    """Unregister a stopped broker that will not come back.

    Its partitions keep it as a replica; `cluster drain` moves them first. If it does come back, its
    replicas count as empty. With access rules, a user that may not see all rules and topics needs
    --force. A super user does not.
    """

    async def call(admin: Admin) -> ClusterState:
        state = await cluster_state(admin)
        lost = await only_on(admin, state, broker_id)
        if lost:
            text = (
                f"broker {broker_id} has the only replica with all records of"
                f" {count_text(len(lost), 'partition')}: {some([str(place) for place in lost])}"
            )
            if not force:
                raise Failed(
                    f"{text}. Without it, acknowledged records are lost. Start the broker, or"
                    " unregister the broker nevertheless by --force"
                )
            note(text)
        elif not (force or await sees_all_topics(admin)):
            raise Failed(
                "only the topics that this user may describe were examined, and none has its last"
                f" copy on broker {broker_id}. Repeat this command as a user that may see all"
                " access rules and topics, such as a super user. Or, if there are no other topics,"
                " unregister the broker by --force"
            )
        await admin.unregister_broker(broker_id)
        return state

    state = ask(call)
    note(f"broker {broker_id} is no longer registered")
    left = [place for place, info in state.partitions.items() if broker_id in info.replicas]
    if left:
        note(
            f"it is still a replica of {count_text(len(left), 'partition')}. To move them:"
            f" oncelog cluster drain {broker_id}"
        )


async def only_on(admin: Admin, state: ClusterState, broker: int) -> list[TopicPartition]:
    """Return the partitions without a leader, if the broker alone has all their committed
    records."""
    offline = [
        place
        for place, info in state.partitions.items()
        if info.leader is None and broker in info.replicas
    ]
    sources = await last_sources(admin, state, offline)
    return [place for place in offline if sources[place].brokers == {broker}]
