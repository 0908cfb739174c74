"""Named mutants of dynamic settings, of throttles and of features."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SERVER: Final = "server/oncelog_server"
_CHANGES: Final = ("tests/server/cluster/test_broker_alterations.py",)
_RUNNING: Final = ("tests/server/test_dynamic_settings.py",)
_THROTTLE: Final = ("tests/server/fetcher/test_throttle.py",)

BROKER_SETTINGS_MUTANTS: Final = (
    Mutant(
        "D1",
        "the settings of all brokers override those of one",
        f"{_SERVER}/settings/dynamic.py",
        "        for name, text in {**defaults, **own}.items()\n",
        "        for name, text in {**own, **defaults}.items()\n",
        _RUNNING,
    ),
    Mutant(
        "D2",
        "one broker gets its own min.insync.replicas",
        f"{_SERVER}/cluster/broker_alterations.py",
        "    if name != ALL_BROKERS and before.get(_MIN_ISR) != own.get(_MIN_ISR):\n",
        "    if False:\n",
        _CHANGES,
    ),
    Mutant(
        "D3",
        "open logs keep the settings of the start",
        f"{_SERVER}/hosting/replica_manager.py",
        "        self._opening.settings_changed()\n"
        "        for topic in self._image.topics.values():\n"
        "            self._due.add(topic)\n",
        "        self._opening.settings_changed()\n",
        _RUNNING,
    ),
    Mutant(
        "D8",
        "the controller does not look again after a change of a setting",
        f"{_SERVER}/metadata/controller_loop.py",
        " or new.configs is not old.configs:\n",
        ":\n",
        ("tests/server/metadata/test_controller_loop.py",),
    ),
    Mutant(
        "D4",
        "a follower of the ISR is throttled, and with it the producers",
        f"{_SERVER}/partition/follower_fetch.py",
        "            and self.broker_id not in partition.replicas.isr\n",
        "",
        _THROTTLE,
    ),
    Mutant(
        "D5",
        "a follower in sync is throttled by itself",
        f"{_SERVER}/fetcher/leader_fetcher.py",
        "Phase.FETCHING and followed.lag and throttle.concerns(name)",
        "Phase.FETCHING and throttle.concerns(name)",
        _THROTTLE,
    ),
    Mutant(
        "D6",
        "a throttle counts the bytes of all partitions",
        f"{_SERVER}/fetcher/leader_fetcher.py",
        "            if self._throttle is not None and self._throttle.concerns(\n"
        "                log.partition.topic_partition\n            ):\n",
        "            if self._throttle is not None:\n",
        _THROTTLE,
    ),
    Mutant(
        "D7",
        "a feature is downgraded by an upgrade",
        f"{_SERVER}/cluster/feature_changes.py",
        " and update.upgrade_type == UpgradeType.UPGRADE:\n",
        " and False:\n",
        ("tests/server/cluster/test_feature_changes.py",),
    ),
    Mutant(
        "D9",
        "settings that contradict those of the other layer are accepted",
        "server/oncelog_server/cluster/broker_alterations.py",
        "        return [(own, image.broker_config(ALL_BROKERS).settings)]\n",
        "        return [(own, {})]\n",
        _RUNNING,
    ),
    Mutant(
        "D10",
        "stored settings that contradict others come into force",
        "server/oncelog_server/settings/dynamic.py",
        "    if _fits(static, whole):\n",
        "    if True:\n",
        _RUNNING,
    ),
)
