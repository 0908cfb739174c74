"""The part of a broker that belongs to one test: its topics, transactional ids and groups."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from oncelog import Admin, KafkaError, NewTopic
from oncelog.testing.broker import Broker, setting_text
from oncelog.testing.client_thread import CALL_TIMEOUT_S, ClientThread
from oncelog.testing.clock import Clock
from oncelog.testing.faults import Faults
from oncelog.testing.topic import Topic
from oncelog_client.core.arguments import mapping, text, whole_number

_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Namespace:
    """Names that no other test has, on a broker that tests share. `close` deletes the topics and
    groups with these names.

    `broker` is None if the tests run against a broker of `--oncelog-broker`, which has no faults
    and may have other users. Otherwise all open transactions and members that were not on the
    broker before count as this test's, because the tests on the broker run one after another.
    """

    def __init__(self, thread: ClientThread, broker: Broker | None = None) -> None:
        self.bootstrap_servers = thread.bootstrap_servers
        self.broker = broker
        self._suffix = secrets.token_hex(4)
        self._thread = thread
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, str] = {}
        # Open transactions and members that other tests have left, by their ids.
        self._earlier = frozenset(thread.run(self._all_opened()))
        self._earlier_members = frozenset(thread.run(self._all_members()))

    @property
    def faults(self) -> Faults:
        """Return the faults of the broker. Raises NoFaults with `--oncelog-broker`."""
        return self._own_broker().faults

    @property
    def clock(self) -> Clock:
        """Return the clock of the broker. Raises NoFaults with `--oncelog-broker`."""
        return self._own_broker().clock

    def topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Topic:
        """Create a topic. Its `name` begins with the given name. `configs` are settings of the
        topic. The same name gives the same topic. Raises KafkaError, ValueError if the topic exists
        with another number of partitions, TimeoutError, and BrokerFailed if no broker runs."""
        if name in self._topics:
            found = self._topics[name]
            if len(found.partitions) != partitions:
                raise ValueError(f"{found!r} exists, so it cannot have {partitions} partitions")
            return found
        topic = Topic(self._thread, self._unique(name), whole_number("partitions", partitions))
        given = mapping("configs", configs or {})
        settings = {key: setting_text(value) for key, value in given.items()}

        async def create() -> None:
            admin = await self._thread.admin()
            await admin.create_topics([NewTopic(topic.name, partitions, configs=settings)])

        self._thread.run(create(), timeout_s)
        self._topics[name] = topic
        return topic

    def id(self, name: str) -> str:
        """Return a transactional id that begins with `name`. The same name gives the same id."""
        return self._unique(name)

    def group(self, name: str) -> str:
        """Return a group id that begins with `name`. The same name gives the same group id."""
        return self._groups.setdefault(name, self._unique(name))

    def open_transactions(self, timeout_s: float = CALL_TIMEOUT_S) -> list[str]:
        """Return the transactional ids of this test with a transaction that is not complete."""
        return self._thread.run(self._opened(), timeout_s)

    def members(self) -> list[str]:
        """Return the client ids of the members that this test has in groups."""
        members = self._thread.run(self._all_members())
        return [
            client_id
            for member_id, client_id in members.items()
            if member_id not in self._earlier_members
        ]

    def fence(self, transactional_id: str, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Fence the producer of this transactional id, as a new producer with the same id does. An
        open transaction is aborted."""

        async def fence() -> None:
            await (await self._thread.admin()).init_producer(transactional_id)

        self._thread.run(fence(), timeout_s)

    def hang(
        self,
        transactional_id: str,
        topic: Topic | str,
        value: bytes = b"hanging",
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        """Leave a transaction open, with a record in partition 0 of the topic, as a killed producer
        does. Readers wait behind it until it times out, or until `fence`."""

        async def hang() -> None:
            async with self._thread.producer(transactional_id) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                delivery = await producer.send(str(topic), value, partition=0)
                await asyncio.gather(producer.flush(), delivery)
                await producer.hand_over_transaction()

        self._thread.run(hang(), timeout_s)

    def leftovers(self) -> list[str]:
        """Return a sentence for each open transaction and each member that the test has left."""
        return [f"transaction of {found} is open" for found in self.open_transactions()] + [
            f"member {member} is still in its group" for member in self.members()
        ]

    def close(self) -> None:
        """Delete the topics and groups, and end open transactions."""
        self._thread.run(self._delete())

    async def _delete(self) -> None:
        admin = await self._thread.admin()
        try:
            if opened := await self._opened():
                await admin.fence_producers(opened)
        finally:
            await self._delete_names(admin)

    async def _delete_names(self, admin: Admin) -> None:
        for group in self._groups.values():
            with suppress(KafkaError):  # no member has ever joined the group, or a member is left
                await admin.delete_groups([group])
        if self._topics:
            with suppress(KafkaError):  # the test has deleted some itself
                await admin.delete_topics([topic.name for topic in self._topics.values()])

    async def _opened(self) -> list[str]:
        return sorted(set(await self._all_opened()) - self._earlier)

    async def _all_opened(self) -> list[str]:
        admin = await self._thread.admin()
        listings = await admin.list_transactions(states=_OPEN)
        return [
            listing.transactional_id
            for listing in listings
            if self._may_be_of_this_test(listing.transactional_id)
        ]

    async def _all_members(self) -> dict[str, str]:
        """Return the client id of each member of a group, by the id of the member."""
        admin = await self._thread.admin()
        known = [listing.group_id for listing in await admin.list_groups()]
        groups = await admin.describe_groups(filter(self._may_be_of_this_test, known))
        return {
            member.member_id: member.client_id
            for group in groups.values()
            for member in group.members
        }

    def _may_be_of_this_test(self, name: str) -> bool:
        """Return True for a transactional id or a group that this test may use."""
        return self.broker is not None or name.endswith(self._suffix)

    def _unique(self, name: str) -> str:
        if not text("name", name):
            raise ValueError("name is empty")
        return f"{name}-{self._suffix}"

    def _own_broker(self) -> Broker:
        if self.broker is None:
            raise NoFaults("the broker of --oncelog-broker has no faults and no clock for tests")
        return self.broker


class NoFaults(Exception):
    """The tests run against a broker that the plugin has not started."""
