"""The callbacks of the broker's parts that keep topics on disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from oncelog_server.refusal import Refused

WaitForTopics = Callable[[Collection[str]], Awaitable[None]]


class TopicCallbacks:
    """The callbacks. `ClusterMetadata.subscribe` says what each callback must do. `is_alone`
    returns True if only this process uses the metadata store."""

    def __init__(self, *, is_alone: Callable[[], bool]) -> None:
        self._is_alone = is_alone
        self._created: list[WaitForTopics] = []
        self._deleted: list[WaitForTopics] = []
        self._give_up: list[Callable[[str], bool]] = []

    def add(
        self,
        created: WaitForTopics | None,
        deleted: WaitForTopics | None,
        give_up: Callable[[str], bool] | None,
    ) -> None:
        if created is not None:
            self._created.append(created)
        if deleted is not None:
            self._deleted.append(deleted)
        if give_up is not None:
            self._give_up.append(give_up)

    async def created(self, names: Collection[str]) -> None:
        """Return when these topics can be used. Raises Refused if a topic cannot be kept on disk,
        and only this process uses the metadata store.

        With other brokers, a topic does not depend on the disk of this broker, as in Kafka
        (KIP-112): other brokers may lead its partitions already and have acknowledged records. The
        replicas of this broker are offline until its disk accepts them.
        """
        for wait in self._created:
            try:
                await wait(names)
            except Refused:
                if self._is_alone():
                    raise

    async def deleted(self, names: Collection[str]) -> None:
        """Return when no file is left that could conflict with new topics of these names. Raises
        Refused if such files may be left.
        """
        for wait in self._deleted:
            await wait(names)

    def give_up(self, name: str) -> bool:
        """Remove a new topic from this broker. Return False if the topic holds data and must
        stay."""
        return all(give_up(name) for give_up in self._give_up)
