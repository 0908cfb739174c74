"""Checks of the brokers: all are registered, the metadata store responds to all, and all have one
version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oncelog_client.cli.brokers import conditions_of
from oncelog_client.cli.cluster_state import ClusterState
from oncelog_client.cli.etcd_members import endpoints_of
from oncelog_client.cli.findings import NOTICE, PROBLEM, Row, row_of
from oncelog_client.cli.quantities import count_text, duration_text
from oncelog_client.errors import KafkaError

if TYPE_CHECKING:
    from oncelog_client.admin import Admin


async def metadata_store(admin: Admin, state: ClusterState) -> list[Row]:
    """Brokers that get no response from the metadata store. Each broker reports this itself."""
    found = []
    for broker, condition in (await conditions_of(admin, sorted(state.alive))).items():
        if isinstance(condition, KafkaError):
            found.append(f"broker {broker} does not respond: {condition}")
            continue
        silence_ms = condition.store_silence_ms
        silence = f"has no response for {duration_text(silence_ms)}" if silence_ms else ""
        if condition.is_suspended:
            cause = silence or "is not registered any more"
            found.append(f"broker {broker} leads nothing, because it {cause}")
        elif silence:
            found.append(f"broker {broker} {silence}")
    to_do = await _store_advice(admin, state) if found else ""
    return [row_of("metadata store", PROBLEM, found, to_do)]


async def _store_advice(admin: Admin, state: ClusterState) -> str:
    """Return the advice, with the addresses of etcd if the brokers use etcd."""
    try:
        urls = ", ".join(await endpoints_of(admin, state))
    except KafkaError:
        urls = ""
    if urls:
        return (
            f"start etcd ({urls}), or mend the network to it. The brokers continue by themselves."
            " If the metadata of the cluster is lost: oncelog cluster recover"
        )
    return "see the log of the broker. Brokers of `serve --brokers` need the first one of them"


async def fenced_brokers(admin: Admin, state: ClusterState) -> list[Row]:
    """A fenced broker with replicas is a problem. One without replicas can be unregistered."""
    replicas = Counter(broker for info in state.partitions.values() for broker in info.replicas)
    holding = [
        f"broker {broker} with {count_text(replicas[broker], 'replica')}"
        for broker in sorted(state.fenced)
        if replicas[broker]
    ]
    empty = [f"broker {broker}" for broker in sorted(state.fenced) if not replicas[broker]]
    return [
        row_of(
            "fenced brokers",
            PROBLEM,
            holding,
            "start the broker. If it will not come back: oncelog cluster drain ID, then oncelog"
            " cluster unregister ID",
        ),
        row_of("fenced brokers without replicas", NOTICE, empty, "oncelog cluster unregister ID"),
    ]


async def unfinalized_features(admin: Admin, state: ClusterState) -> list[Row]:
    """Features that all brokers support at a higher level than the finalized level."""
    conditions = [
        condition
        for condition in (await conditions_of(admin, sorted(state.alive))).values()
        if not isinstance(condition, KafkaError)
    ]
    found = []
    names = {name for condition in conditions for name in condition.supported_features}
    for name in sorted(names):
        supported = min(condition.supported_features.get(name, 0) for condition in conditions)
        finalized = min(condition.features.get(name, 0) for condition in conditions)
        if finalized < supported:
            found.append(f"{name} is {finalized}, all brokers support {supported}")
    to_do = (
        "Apache Kafka's own kafka-features.sh upgrade --feature NAME=LEVEL, when no broker will be"
        " downgraded"
    )
    return [row_of("features not finalized", NOTICE, found, to_do)]


async def software_versions(admin: Admin, state: ClusterState) -> list[Row]:
    """Brokers of several versions, as during a rolling upgrade."""
    found = several_versions((await admin.describe_cluster()).versions)
    to_do = "complete the upgrade: restart the brokers of the older version with the newer one"
    return [row_of("mixed versions", NOTICE, found, to_do)]


def several_versions(versions: Mapping[int, str]) -> list[str]:
    """Return each version with its brokers, or nothing if all brokers have the same version."""
    by_version: dict[str, list[int]] = {}
    for broker, version in sorted(versions.items()):
        by_version.setdefault(version, []).append(broker)
    if len(by_version) < 2:
        return []
    return [
        f"{version} on broker {', '.join(map(str, brokers))}"
        for version, brokers in by_version.items()
    ]
